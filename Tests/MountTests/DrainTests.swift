import Foundation
import Glibc
import TestSupport
import Testing

extension RealMountsAlone {
    /// Between the unmount and the end of the last process: a worker that dies is replaced, and a silent store holds nothing.
    @Suite struct Drains {
        private func startUnmount(_ world: World) async throws -> Child {
            let command = try world.start("cd $T; exec \(Programs.pailfs) unmount $M")
            let isGone = await poll(for: .seconds(20)) { [mountpoint = world.mountpoint] in
                World.isMounted(mountpoint) ? nil : true
            }
            try #require(isGone == true)
            return command
        }

        @Test(.rule("away.end"), .timeLimit(.minutes(5)), arguments: ["unmount", "SIGTERM"])
        func aWorkerThatDiesWhileItStoresIsReplaced(_ way: String) async throws {
            try await withMount("durable=local") { world, store in
                try await store.setFaults("op=PutObject,kind=latency:4s")
                try await world.sh("for n in 1 2 3; do printf $n >file$n; done; exec 3>&-")
                let daemon = try #require(world.daemon)
                var command: Child?
                if way == "unmount" {
                    command = try await startUnmount(world)
                } else {
                    kill(daemon, SIGTERM)
                    let isGone = await poll(for: .seconds(20)) { [mountpoint = world.mountpoint] in
                        World.isMounted(mountpoint) ? nil : true
                    }
                    try #require(isGone == true)
                }
                try await Task.sleep(for: .milliseconds(500))
                try await world.killWorker()
                try await store.setFaults()
                if let outcome = await command?.wait(deadline: .seconds(60)) {
                    #expect(outcome.succeeded, "\(outcome)")
                }
                try await world.daemonEnds(within: .seconds(60))
                #expect(try await world.outside("keys") == "file1\nfile2\nfile3\n")
                let log = try String(contentsOfFile: world.logPath, encoding: .utf8)
                #expect(log.contains("the worker before this one died reason=\"signal 9\""), "\(log)")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func whatIsLeftIsNamedWhenEveryWorkerDies() async throws {
            try await withMount("durable=local") { world, store in
                try await store.setFaults("op=PutObject,kind=hang")
                try await world.sh("printf x >file")
                let daemon = try #require(world.daemon)
                let command = try await startUnmount(world)
                let hasEnded = await poll(for: .seconds(120)) { [program = Programs.pailfs, scratch = world.scratch] in
                    guard World.isRunning(daemon) else { return true }
                    for pid in scratch.processes(running: program) where pid != daemon && pid != command.pid {
                        kill(pid, SIGKILL)
                    }
                    return nil
                }
                #expect(hasEnded == true)
                let outcome = await command.wait(deadline: .seconds(10))
                #expect(outcome.status == 1 && outcome.errors.contains("pailfs: not stored: file ("), "\(outcome)")
                try await world.daemonEnds(within: .seconds(5))
                try await store.setFaults()
                try await world.mount()
                try await world.unmount()
                #expect(try await world.outside("get", "file") == "x")
            }
        }

        @Test(.rule("away.end"), .timeLimit(.minutes(5)), arguments: ["frozen", "kind=hang", "op=PutObject,kind=hang"])
        func aSilentStoreEndsTheMountWithinTwoTimeouts(_ fault: String) async throws {
            try await withMount("durable=local", "timeout=5") { world, store in
                world.expectsErrorsInLog = true
                try await world.sh("ls")
                if fault == "frozen" { store.send(SIGSTOP) } else { try await store.setFaults(fault) }
                try await world.sh("for n in $(seq 20); do printf $n >file$n; done")
                let daemon = try #require(world.daemon)
                let start = ContinuousClock.now
                kill(daemon, SIGTERM)
                do { try await world.daemonEnds(within: .seconds(30)) } catch {
                    store.send(SIGCONT)
                    throw error
                }
                let duration = ContinuousClock.now - start
                store.send(SIGCONT)
                #expect(duration < .seconds(10))
                let log = try String(contentsOfFile: world.logPath, encoding: .utf8)
                let named = log.split(separator: "\n").count { $0.contains("not stored key=file") }
                #expect(named == 20, "\(log)")
                try await store.setFaults()
                try await world.mount()
                try await world.unmount()
                #expect(try await world.outside("keys").split(separator: "\n").count == 20)
            }
        }

        @Test(.rule("space.descriptors"), .timeLimit(.minutes(5)))
        func filesThatLackedDescriptorsAreTriedAgain() async throws {
            try await withMount("durable=local") { world, store in
                try await store.setFaults("op=PutObject,kind=status:503")
                try await world.sh("for n in $(seq 40); do printf $n >file$n; done")
                let worker = try #require(world.worker)
                let daemon = try #require(world.daemon)
                try await Task.sleep(for: .seconds(2))
                let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(worker)/fd").compactMap {
                    Int($0)
                }
                // Room for three more, whatever is free below the highest.
                try await world.sh("prlimit --pid \(worker) --nofile=\(open.count + 3):\(open.count + 3)")
                try await store.setFaults()
                kill(daemon, SIGTERM)
                try await world.daemonEnds(within: .seconds(60))
                #expect(try await world.outside("keys").split(separator: "\n").count == 40)
            }
        }
    }
}
