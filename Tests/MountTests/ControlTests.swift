import Foundation
import Glibc
import TestSupport
import Testing

/// What `pailfs status --json` prints, as far as the tests look.
struct StatusDocument: Decodable, Sendable {
    struct Mount: Decodable, Sendable {
        struct File: Decodable, Sendable {
            let path: String
            let state: String
            let size: Int64
            let sentBytes: Int64
            let parts: Int
            let lastError: String?
        }
        struct Activity: Decodable, Sendable {
            let files: [File]
            let dirtyFiles: Int
            let openFiles: Int
        }
        struct Requests: Decodable, Sendable {
            let requests: Int
            let failures: Int
            let retries: Int
        }
        struct Traffic: Decodable, Sendable {
            let sentBytes: Int64
            let receivedBytes: Int64
        }
        struct Memory: Decodable, Sendable {
            let usedBytes: Int64
            let limitBytes: Int64
        }
        struct Queue: Decodable, Sendable {
            let uploadingFiles: Int
            let waitingFiles: Int
        }
        struct Cost: Decodable, Sendable {
            let amount: Double
            let currency: String
            let writeRequests: Int
            let readRequests: Int
            let freeRequests: Int
        }
        let url: String
        let mountpoint: String
        let state: String
        let pid: Int32?
        let activity: Activity?
        let requests: [String: Requests]?
        let traffic: Traffic?
        let memory: Memory?
        let queue: Queue?
        let cost: Cost?
    }
    let version: Int
    let mounts: [Mount]
}

extension World {
    /// The one mount of this world as `pailfs status` shows it.
    func status() async throws -> StatusDocument.Mount {
        let outcome = try await pailfs(["status", mountpoint, "--json"])
        guard outcome.succeeded else { throw ChildFailed(command: "pailfs status", outcome: outcome) }
        let document = try JSONDecoder().decode(StatusDocument.self, from: Data(outcome.output.utf8))
        return try #require(document.mounts.first)
    }
}

extension RealMounts {
    /// Commands that ask the process of a mount: status, flush, and what they do when it is gone or somebody else talks.
    @Suite struct Control {
        @Test(.timeLimit(.minutes(5)))
        func moreFilesWaitForTheStoreThanTheProcessMayHaveDescriptors() async throws {
            try await withMount("durable=local", "timeout=2", "retries=1") { world, store in
                world.expectsErrorsInLog = true
                let worker = try #require(world.worker)
                try await world.sh("prlimit --pid \(worker) --nofile=512:512")
                try await store.setFaults("op=PutObject,kind=status:503")
                try await world.sh("for i in $(seq 700); do echo $i >f$i; done; cat f1 f700 >/dev/null")
                #expect(try await world.status().activity?.dirtyFiles == 700)
                try await store.setFaults()
                let flush = try await world.pailfs(["flush", "--wait", world.mountpoint])
                #expect(flush.succeeded, "\(flush)")
                #expect(try await world.outside("keys").split(separator: "\n").count == 700)
                #expect(try await world.outside("get", "f700") == "700\n")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func statusNamesWhatIsNotStoredAndWhy() async throws {
            try await withMount("durable=local", "timeout=2", "retries=1") { world, store in
                world.expectsErrorsInLog = true
                try await world.sh("mkdir dir")
                try await store.setFaults("op=PutObject,kind=status:503")
                try await world.sh("printf 12345 >dir/file")
                let failed = try await self.poll(world) { $0.activity?.files.first?.lastError != nil }
                #expect(failed.url == "s3://pail" && failed.pid == world.daemon)
                #expect(failed.activity?.dirtyFiles == 1)
                let file = try #require(failed.activity?.files.first)
                #expect(file.path == "dir/file" && file.size == 5)
                #expect(file.lastError?.contains("503") == true, "\(file)")
                let puts = try #require(failed.requests?["put"])
                #expect(puts.failures >= 2 && puts.retries >= 1, "\(puts)")
                let text = try await world.pailfs(["status", world.mountpoint])
                for part in ["s3://pail on \(world.mountpoint)", "1 not stored", "dir/file: 5B", "503"] {
                    #expect(text.output.contains(part), "\(text)")
                }
                try await store.setFaults()
                let flush = try await world.pailfs(["flush", "--wait", world.mountpoint])
                #expect(flush.succeeded, "\(flush)")
                #expect(try await world.outside("get", "dir/file") == "12345")
                #expect(try await world.status().activity?.dirtyFiles == 0)
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func statusShowsHowFarAnUploadIs() async throws {
            try await withMount("durable=local", "uploads=1", "timeout=2", "retries=1") { world, store in
                world.expectsErrorsInLog = true
                // Some parts arrive, and no more: so it stays until somebody has looked.
                try await store.setFaults("op=UploadPart,kind=status:503,after=3")
                try await world.sh("head -c 60000000 /dev/urandom >file")
                let half = try await self.poll(world) {
                    $0.activity?.files.first.map { $0.sentBytes > 0 && $0.parts == 8 } ?? false
                }
                #expect(half.activity?.files.first?.size == 60_000_000)
                try await store.setFaults()
                let flush = try await world.pailfs(["flush", "--wait", world.mountpoint + "/file"])
                #expect(flush.succeeded, "\(flush)")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func statusWithoutAPathShowsEveryMountAndGoesOnWhenAsked() async throws {
            try await withMount { world, _ in
                let all = try await world.pailfs(["status", "--json"])
                let document = try JSONDecoder().decode(StatusDocument.self, from: Data(all.output.utf8))
                #expect(document.version == 1)
                #expect(document.mounts.contains { $0.mountpoint == world.mountpoint && $0.state == "serving" })
                let watching = try world.start("cd /; exec \(Programs.pailfs) status $M --json --watch")
                let lines = await MountTests.poll(for: .seconds(30)) {
                    watching.output.split(separator: "\n").count >= 2 ? true : nil
                }
                watching.send(SIGTERM)
                _ = await watching.wait(deadline: .seconds(10))
                #expect(lines == true, "two reports, a line each")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func flushWaitsForEverythingBelowADirectoryAndForNothingElse() async throws {
            try await withMount("durable=local", "uploads=2", "timeout=2", "retries=1") { world, store in
                world.expectsErrorsInLog = true
                try await store.setFaults(
                    "op=PutObject,key=in/*,kind=latency:300ms", "op=PutObject,key=out,kind=status:503")
                try await world.sh(
                    "mkdir -p in/deep; printf o >out; for n in 1 2 3 4; do printf $n >in/$n; printf $n >in/deep/$n; done"
                )
                let flush = try await world.pailfs(["flush", "--wait", world.mountpoint + "/in"])
                #expect(flush.succeeded, "\(flush)")
                let keys = try await world.outside("keys").split(separator: "\n")
                #expect(keys.filter { !$0.hasSuffix("/") }.count == 8, "\(keys)")
                try await store.setFaults()
            }
        }

        @Test(.rule("visible.other"), .timeLimit(.minutes(5)))
        func flushStoresWhatAnOpenFileHasSoFar() async throws {
            try await withMount { world, _ in
                let writer = try world.start("exec 3>file; printf 'so far' >&3; : >$T/written; exec sleep 60")
                let written = await MountTests.poll(for: .seconds(20)) { [scratch = world.scratch] in
                    scratch.has("written") ? true : nil
                }
                try #require(written == true)
                let flush = try await world.pailfs(["flush", "--wait", world.mountpoint + "/file"])
                #expect(flush.succeeded, "\(flush)")
                #expect(try await world.outside("get", "file") == "so far")
                writer.send(SIGKILL)
                _ = await writer.wait(deadline: .seconds(10))
            }
        }

        /// A shell would close duplicates of its descriptors, which stores the file.
        @Test(.timeLimit(.minutes(5)), .rule("sync.kernel", "visible.other"))
        func flushStoresWhatSyncfsDoesNot() async throws {
            try await withMount { world, _ in
                let source = """
                    import os, time
                    file = os.open("file", os.O_WRONLY | os.O_CREAT)
                    os.write(file, b"so far")
                    open(os.environ["T"] + "/written", "w").close()
                    time.sleep(60)
                    """
                try source.write(toFile: world.scratch.path("writer.py"), atomically: true, encoding: .utf8)
                let writer = try world.start("exec $PYTHON $T/writer.py")
                let written = await MountTests.poll(for: .seconds(20)) { [scratch = world.scratch] in
                    scratch.has("written") ? true : nil
                }
                try #require(written == true)
                try await world.python(
                    """
                    import ctypes, os
                    assert ctypes.CDLL(None).syncfs(os.open(".", os.O_RDONLY)) == 0
                    """)
                #expect(try await world.outside("keys") == "")
                let flush = try await world.pailfs(["flush", "--wait", world.mountpoint])
                #expect(flush.succeeded, "\(flush)")
                #expect(try await world.outside("get", "file") == "so far")
                writer.send(SIGKILL)
                _ = await writer.wait(deadline: .seconds(10))
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func flushNamesWhatTheStoreRefuses() async throws {
            try await withMount("durable=local", "timeout=2", "retries=1") { world, store in
                world.expectsErrorsInLog = true
                try await store.setFaults("op=PutObject,key=refused,kind=status:403")
                try await world.sh("printf 1 >refused; printf 2 >taken")
                let flush = try await world.pailfs(["flush", "--wait", world.mountpoint])
                #expect(flush.status == 1)
                #expect(flush.errors.contains("not stored: refused (") && flush.errors.contains("403"), "\(flush)")
                #expect(!flush.errors.contains("taken"))
                #expect(try await world.outside("keys") == "taken\n")
                try await store.setFaults()
                let again = try await world.pailfs(["flush", "--wait", world.mountpoint])
                #expect(again.succeeded, "\(again)")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aPathOutsideIsNamedAndSoIsAMountWhoseProcessIsGone() async throws {
            try await withMount { world, _ in
                let outside = try await world.pailfs(["flush", world.scratch.directory])
                #expect(outside.status == 1)
                #expect(outside.errors.contains("\(world.scratch.directory) is not in a mount of pailfs"), "\(outside)")
                let missing = try await world.pailfs(["flush", world.mountpoint + "/missing"])
                #expect(missing.errors.contains("missing does not exist"), "\(missing)")
                let daemon = try #require(world.daemon)
                for pid in world.scratch.processes(running: Programs.pailfs) { kill(pid, SIGKILL) }
                let gone = await MountTests.poll(for: .seconds(20)) { World.isRunning(daemon) ? nil : true }
                try #require(gone == true)
                for command in [["status", world.mountpoint], ["flush", "--wait", world.mountpoint]] {
                    let outcome = try await world.pailfs(command)
                    #expect(outcome.status == 1)
                    #expect(outcome.errors.contains("is gone"), "\(outcome)")
                }
                try await world.unmount()
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func nobodyWhoTalksNonsenseToAMountDisturbsIt() async throws {
            try await withMount { world, _ in
                let daemon = try #require(world.daemon)
                // Rubbish, a line without end, a nest, a request cut short, another version, and more who say nothing
                // than are served at a time.
                try await world.python(
                    """
                    import glob, os, socket, stat, sys
                    sys.path.insert(0, "\(Programs.helper(""))")
                    from talk import talk_to
                    places = ["/run/pailfs", os.environ.get("XDG_RUNTIME_DIR", "/nowhere") + "/pailfs",
                              f"/tmp/pailfs-{os.geteuid()}"]
                    path = [p for d in places for p in glob.glob(f"{d}/*.\(daemon).control")][0]
                    assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
                    assert stat.S_IMODE(os.lstat(os.path.dirname(path)).st_mode) == 0o700
                    def talk(message): return talk_to(path, message)
                    for message in [b"\\xff\\x00\\n", b"{}\\n", b"[" * 60000 + b"\\n", b"x" * (8 << 20),
                                    b'{"version":9,"content":{"status":{}}}\\n',
                                    b'{"version":1,"content":{"flush":{"path":"%zz","waits":true}}}\\n']:
                        assert b"failed" in talk(message) or len(message) > 1 << 20, message[:80]
                    assert b"failed" in talk(b'{"version":1,"content":{"flush":{"path":"../..","waits":true}}}\\n')
                    silent = [socket.socket(socket.AF_UNIX) for _ in range(40)]
                    for peer in silent:
                        peer.connect(path)
                        try: peer.send(b'{"version":1')
                        except BrokenPipeError: pass  # one of those too many
                    open("file", "w").write("served")
                    for peer in silent: peer.close()
                    """)
                _ = try await self.poll(world) { $0.state == "serving" }
                #expect(try await world.outside("get", "file") == "served")
            }
        }

        /// Asks for the status until it is as wanted; a mount that is busy may refuse once.
        private func poll(
            _ world: World, until isWanted: (StatusDocument.Mount) -> Bool
        ) async throws -> StatusDocument.Mount {
            let end = ContinuousClock.now + .seconds(45)
            while true {
                do {
                    let status = try await world.status()
                    if isWanted(status) || ContinuousClock.now > end {
                        try #require(isWanted(status), "\(status)")
                        return status
                    }
                } catch let error as ChildFailed where ContinuousClock.now < end { _ = error }
            }
        }
    }
}
