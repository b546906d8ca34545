import Foundation
import Glibc
import TestSupport
import Testing

extension RealMountsAlone {
    /// However a mount is asked to end, what was written is in the bucket before its process is gone.
    @Suite struct Endings {
        @Test(.rule("away.end"), .timeLimit(.minutes(5)))
        func unmountingRightAfterAWriteLosesNothing() async throws {
            try await withMount { world, store in
                try await store.setFaults("op=PutObject,kind=latency:500ms", "op=CopyObject,kind=latency:500ms")
                try await world.sh(
                    "for n in 1 2 3; do printf $n >file$n & done; wait; touch -d 2001-01-01 file1; mv file3 moved")
                try await world.unmount()
                try await store.setFaults()
                #expect(try await world.outside("keys") == "file1\nfile2\nmoved\n")
                #expect(try await world.outside("get", "moved") == "3")
                try await world.mount(["attrs=exact"], cache: "another")
                try await world.sh("test \"$(stat -c %Y file1)\" = \"$(date -d 2001-01-01 +%s)\"")
            }
        }

        @Test(.rule("away.end"), .timeLimit(.minutes(5)))
        func terminatingCommitsAFileThatIsStillOpen() async throws {
            try await withMount("term-wait=0") { world, store in
                try await store.setFaults("op=PutObject,kind=latency:500ms")
                let writer = try world.start("exec 3>file; printf 'still open' >&3; : >$T/written; exec sleep 60")
                let written = await poll(for: .seconds(20)) { [scratch = world.scratch] in
                    scratch.has("written") ? true : nil
                }
                try #require(written == true)
                let daemon = try #require(world.daemon)
                kill(daemon, SIGTERM)
                try await world.daemonEnds(within: .seconds(30))
                writer.send(SIGKILL)
                _ = await writer.wait(deadline: .seconds(10))
                #expect(try await world.outside("get", "file") == "still open")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func terminatingWhileAWorkerStartsCommitsWhatIsOpen() async throws {
            try await withMount("term-wait=0") { world, _ in
                let writer = try world.start("exec 3>file; printf 'still open' >&3; : >$T/written; exec sleep 60")
                let written = await poll(for: .seconds(20)) { [scratch = world.scratch] in
                    scratch.has("written") ? true : nil
                }
                try #require(written == true)
                let daemon = try #require(world.daemon)
                // The next one is there, and on its way to serve.
                try await world.killWorker()
                kill(daemon, SIGTERM)
                // Workers that are ended on their way, one after the other, take longer until the mount is given up.
                try await world.daemonEnds(within: .seconds(12))
                writer.send(SIGKILL)
                _ = await writer.wait(deadline: .seconds(10))
                #expect(try await world.outside("get", "file") == "still open")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func terminatingFinishesAnUploadOfManyParts() async throws {
            try await withMount("term-wait=0") { world, store in
                try await store.setFaults("op=UploadPart,kind=latency:300ms")
                try await world.sh("head -c 40000000 /dev/urandom >$T/file")
                let writer = try world.start("exec 3>file; cat $T/file >&3; : >$T/written; exec sleep 60")
                let written = await poll(for: .seconds(30)) { [scratch = world.scratch] in
                    scratch.has("written") ? true : nil
                }
                try #require(written == true)
                let daemon = try #require(world.daemon)
                kill(daemon, SIGTERM)
                try await world.daemonEnds(within: .seconds(30))
                writer.send(SIGKILL)
                _ = await writer.wait(deadline: .seconds(10))
                try await store.setFaults()
                try await world.mount(cache: "another")
                try await world.sh("cmp $T/file file")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aMountIsEndedByItsOwnCommandToo() async throws {
            try await withMount { world, _ in
                try await world.sh("printf x >file")
                let outcome = try await world.pailfs(["unmount", world.mountpoint])
                #expect(outcome.succeeded, "\(outcome)")
                try await world.daemonEnds(within: .seconds(1))
                #expect(try await world.outside("get", "file") == "x")
            }
        }

        /// The time does not grow with the number of files, and the first ten are named.
        @Test(.rule("away.end"), .timeLimit(.minutes(5)), arguments: ["hang", "status:503"])
        func unmountingWhileTheStoreIsDeadTakesTwoTimeoutsAndLosesNothing(kind: String) async throws {
            try await withMount("durable=local", "timeout=3") { world, store in
                world.expectsErrorsInLog = true
                try await world.sh("ls")
                try await store.setFaults("kind=\(kind)")
                try await world.sh("for n in $(seq 100 139); do printf $n >file$n; done")
                let clock = ContinuousClock()
                let began = clock.now
                let outcome = try await world.pailfs(["unmount", world.mountpoint])
                let took = clock.now - began
                #expect(took < .seconds(9), "\(took)")
                #expect(outcome.status == 1, "\(outcome)")
                let named = outcome.errors.split(separator: "\n").filter { $0.contains("not stored: file") }
                #expect(named.count == 10 && outcome.errors.contains("30 more files"), "\(outcome)")
                #expect(outcome.errors.contains("40 files not stored yet, "), "\(outcome)")
                try await store.setFaults()
                try await world.mount()
                try await world.sh("test $(cat file* | wc -c) = 120")
                try await world.unmount()
                #expect(try await world.outside("get", "file139") == "139")
            }
        }

        /// fusermount3(1) returns when the mount is gone.
        @Test(.timeLimit(.minutes(5)))
        func whoWantsToKnowWaitsAfterwards() async throws {
            try await withMount("durable=local") { world, store in
                try await store.setFaults("op=PutObject,kind=latency:1500ms")
                try await world.sh("printf x >file; cd /; fusermount3 -u \(world.mountpoint)")
                let outcome = try await world.pailfs(["unmount", world.mountpoint])
                #expect(outcome.succeeded, "\(outcome)")
                try await world.daemonEnds(within: .seconds(1))
                #expect(try await world.outside("get", "file") == "x")
                let again = try await world.pailfs(["unmount", world.mountpoint])
                #expect(again.status == 1 && again.errors.contains("nothing is mounted"), "\(again)")
            }
        }

        /// A container or a sandbox that was started meanwhile has the mount too, and keeps it.
        @Test(.timeLimit(.minutes(5)))
        func aCopyOfTheMountInAnotherNamespaceKeepsNothingFromEnding() async throws {
            try await withMount { world, _ in
                try await world.sh("printf x >file")
                let other = try world.start("exec unshare -m sh -c ': >$T/copied; exec sleep 60'")
                let isCopied = await poll(for: .seconds(20)) { [scratch = world.scratch] in
                    scratch.has("copied") ? true : nil
                }
                try #require(isCopied == true, "\(other.errors)")
                let outcome = try await world.pailfs(["unmount", world.mountpoint])
                #expect(outcome.succeeded, "\(outcome)")
                try await world.daemonEnds(within: .seconds(1))
                #expect(try await world.outside("get", "file") == "x")
                other.send(SIGKILL)
                _ = await other.wait(deadline: .seconds(10))
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func whatKilledMountsOfOtherPlacesLeftIsTakenAway() async throws {
            try await withStore { world, _ in
                try await world.mount()
                world.killMount()
                let daemon = try #require(world.daemon)
                let isGone = await poll(for: .seconds(20)) { World.isRunning(daemon) ? nil : true }
                try #require(isGone == true)
                let runtime = ProcessInfo.processInfo.environment["XDG_RUNTIME_DIR"].map { $0 + "/pailfs" }
                func left() -> [String] {
                    ["/run/pailfs", "/tmp/pailfs-\(geteuid())", runtime].compactMap(\.self).flatMap { place in
                        ((try? FileManager.default.contentsOfDirectory(atPath: place)) ?? [])
                            .filter { $0.hasSuffix(".\(daemon)") || $0.hasSuffix(".\(daemon).control") }
                    }
                }
                #expect(left().count == 2, "its record and its socket")
                let elsewhere = try world.scratch.makeDirectory("elsewhere")
                let outcome = try await world.pailfs(
                    ["mount", world.bucket.url, elsewhere, "-o", world.options([], cache: "other")])
                #expect(outcome.succeeded, "\(outcome)")
                #expect(left().isEmpty)
                #expect(try await world.pailfs(["unmount", elsewhere]).succeeded)
                try await world.mount()
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func inTheForegroundTheProcessIsTheMount() async throws {
            try await withStore { world, _ in
                let child = try world.start(
                    "cd $T; exec \(Programs.pailfs) mount \(world.bucket.url) $M -f -o \(world.options([]))")
                let mounted = await poll(for: .seconds(20)) { [mountpoint = world.mountpoint] in
                    World.isMounted(mountpoint) ? true : nil
                }
                #expect(mounted == true)
                try await world.sh("printf x >file")
                child.send(SIGTERM)
                let outcome = await child.wait(deadline: .seconds(30))
                #expect(outcome.succeeded, "\(outcome)")
                #expect(!world.isMounted)
                #expect(try await world.outside("get", "file") == "x")
            }
        }
    }
}
