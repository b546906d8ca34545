import Foundation
import TestSupport
import Testing

extension RealMounts {
    /// What a mount tells those who watch it, and what it lets itself be told while it is mounted.
    @Suite struct Figures {
        /// The value of a metric's line, with its labels as they are written.
        private func value(_ line: String, in text: String) -> Double? {
            text.split(separator: "\n").first { $0.hasPrefix(line + " ") }.flatMap {
                Double($0.dropFirst(line.count + 1))
            }
        }

        /// As logrotate(8) does; nobody tells the mount.
        @Test(.timeLimit(.minutes(5))) func aLogThatWasRenamedIsBegunAnew() async throws {
            try await withMount("timeout=1", "retries=0") { world, store in
                world.expectsErrorsInLog = true
                try await world.sh("printf x >file")
                try await world.unmount()
                try await world.mount(["timeout=1", "retries=0"], cache: "another")
                try await store.setFaults("op=GetObject,kind=status:403")
                try await world.sh("mv $T/pailfs.log $T/pailfs.log.1; sleep 2; cat file || true")
                try await world.sh(
                    "grep -q 'operation failed' $T/pailfs.log; ! grep -q 'operation failed' $T/pailfs.log.1")
                try await world.sh(
                    "rm $T/pailfs.log; sleep 2; cat file || true; grep -q 'operation failed' $T/pailfs.log")
                try await store.setFaults()
            }
        }

        @Test(.rule("xattr.state"), .timeLimit(.minutes(5)))
        func figuresAreServedToCollectorsAndAsAnAttributeWhateverOthersSend() async throws {
            try await withStore { world, store in
                world.expectsErrorsInLog = true
                try await world.mount(["metrics=\(world.scratch.path("figures"))", "retries=0", "ttl=0"])
                try await world.sh("head -c 100000 /dev/urandom >file; cp file $T/copy")
                let prune = try await world.pailfs(["cache", "prune", world.mountpoint])
                #expect(prune.succeeded, "\(prune)")
                try await world.outside("put", "other", world.scratch.path("copy"))
                try await store.setFaults("op=GetObject,key=other,kind=status:403")
                try await world.sh("cat other >/dev/null && cat other >/dev/null || true")
                try await store.setFaults()
                try await world.sh("cmp other $T/copy")
                // Rubbish, a head without end, a method that is none of ours, and more who say nothing than are served.
                try await world.python(
                    """
                    import os, socket, sys
                    sys.path.insert(0, "\(Programs.helper(""))")
                    from talk import talk_to
                    path = os.environ["T"] + "/figures"
                    def talk(message): return talk_to(path, message, whole=True)
                    assert talk(b"\\xff\\x00\\r\\n\\r\\n") == b""
                    assert talk(b"x" * 100000) == b""
                    assert talk(b"GET / HTTP/1.1\\r\\n" + b"A: b\\r\\n" * 100000) == b""
                    assert talk(b"POST / HTTP/1.1\\r\\n\\r\\n").startswith(b"HTTP/1.0 405 ")
                    silent = [socket.socket(socket.AF_UNIX) for _ in range(12)]
                    for peer in silent: peer.connect(path)
                    answer = talk(b"GET /metrics HTTP/1.1\\r\\nHost: here\\r\\n\\r\\n")
                    head, body = answer.split(b"\\r\\n\\r\\n", 1)
                    assert b"\\r\\nContent-Length: %d\\r\\n" % len(body) in head, head
                    many = [socket.socket(socket.AF_UNIX) for _ in range(40)]
                    for peer in many: peer.connect(path)
                    open("still-served", "w").close()
                    for peer in silent + many: peer.close()
                    """)
                let text = try await world.sh(
                    "curl -sS --fail --retry 20 --retry-all-errors --unix-socket $T/figures http://here/metrics")
                for line in text.split(separator: "\n") where !line.hasPrefix("#") {
                    #expect(
                        line.wholeMatch(of: /pailfs_[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [0-9.e+-]+/) != nil
                    )
                }
                #expect(value(#"pailfs_requests_total{operation="get",status="403"}"#, in: text) ?? 0 >= 1, "\(text)")
                #expect(value(#"pailfs_requests_total{operation="get",status="ok"}"#, in: text) == 1)
                #expect(
                    value(#"pailfs_failed_operations_total{operation="read",error="accessDenied"}"#, in: text) != nil)
                #expect(value("pailfs_sent_bytes_total", in: text) == 100_000)
                #expect(value("pailfs_fetched_bytes_total", in: text) == 100_000)
                #expect(value(#"pailfs_cache_reads_total{result="miss"}"#, in: text) ?? 0 >= 1)
                #expect(value("pailfs_cache_limit_bytes", in: text) == Double(10 << 30))
                #expect(value("pailfs_dirty_files", in: text) == 0 && value("pailfs_uploads_in_flight", in: text) == 0)
                let attribute = try await world.python(
                    "import os; print(os.getxattr('.', 'user.pailfs.stats').decode())")
                #expect(value("pailfs_sent_bytes_total", in: attribute) == 100_000)
                #expect(value("pailfs_open_files", in: attribute) == 0)
                try await world.unmount()
                #expect(!world.scratch.has("figures"), "the socket goes with the mount")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func figuresForOtherMachinesAreServedOnEveryAddress() async throws {
            try await withStore { world, _ in
                let port = unusedPorts(1)[0]
                try await world.mount(["metrics=all:\(port)"])
                for address in ["127.0.0.1", "127.0.0.2"] {
                    try await world.sh(
                        "curl -sS --fail http://\(address):\(port)/ >$T/figures; grep -q '^pailfs_open_files 0$' $T/figures"
                    )
                }
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aLogOfJSONGoesToStandardOutput() async throws {
            try await withStore { world, _ in
                let options = world.options(["log-format=json"]).replacingOccurrences(
                    of: "log=\(world.logPath)", with: "log=/dev/stdout")
                try await world.sh(
                    """
                    cd $T; "\(Programs.pailfs)" mount \(world.bucket.url) $M -f -o \(options) >$T/lines & served=$!
                    until mountpoint -q $M; do sleep 0.01; done
                    umount $M; wait $served
                    "$PYTHON" -c 'import json; lines = [json.loads(line) for line in open("lines")]; print(lines)
                    assert [line["message"] for line in lines] == ["mounted", "unmounted"]'
                    """)
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func optionsChangeWhileMountedAndStayChangedForTheNextProcess() async throws {
            try await withMount("ttl=1h") { world, _ in
                nonisolated(nonsending) func set(_ options: String...) async throws -> Outcome {
                    try await world.pailfs(["set", world.mountpoint] + options)
                }
                func requestsInLog() throws -> Int {
                    try String(contentsOfFile: world.logPath, encoding: .utf8).split(separator: "\n").count {
                        $0.contains(" debug request ")
                    }
                }
                try await world.sh("printf 1 >$T/one; test -z \"$(ls)\"")
                try await world.outside("put", "one", world.scratch.path("one"))
                try await world.sh("test -z \"$(ls)\"")
                #expect(try await set("ttl=0", "cache-size=64M,uploads=2").succeeded)
                try await world.sh("test $(ls) = one")
                #expect(try requestsInLog() == 0)
                #expect(try await set("log-level=debug").succeeded)
                try await world.sh("ls")
                #expect(try requestsInLog() > 0)
                // A line for each request of the kernel, with how it ended.
                #expect(try await set("log-level=trace").succeeded)
                try await world.sh("cat one; if cat none; then exit 1; fi")
                let log = try String(contentsOfFile: world.logPath, encoding: .utf8).split(separator: "\n")
                func has(_ words: String...) -> Bool {
                    log.contains { line in line.contains(" trace request answered ") && words.allSatisfy(line.contains)
                    }
                }
                #expect(has("op=open", "errno=0", "microseconds=") && has("op=lookup", "errno=\(ENOENT)"))
                #expect(try await set("log-level=debug").succeeded)

                let refusals = [
                    ("region=here", "region cannot change while mounted"), ("ttl=soon", "ttl cannot be \"soon\""),
                    ("colour=blue", "no option colour"), ("uploads=200", "mount again with more"),
                    ("ttl=5,allow_other", "allow_other cannot change while mounted"),
                ]
                for (option, words) in refusals {
                    let refused = try await set(option)
                    #expect(refused.status == 1 && refused.errors.contains(words), "\(option): \(refused)")
                    #expect(refused.errors.split(separator: "\n").count == 1, "\(refused)")
                }

                try await world.killWorker()
                try await world.outside("put", "two", world.scratch.path("one"))
                try await world.sh("ls >$T/names; grep -q two $T/names")
                let changed = try await world.pailfs(["status", world.mountpoint])
                #expect(
                    changed.output.contains("changed     ttl=0, cache-size=64M, uploads=2, log-level=debug\n"),
                    "\(changed)")
                #expect(changed.output.contains("of 64MiB on disk"))
                try await world.unmount()
                try await world.mount(["ttl=1h"])
                let fresh = try await world.pailfs(["status", world.mountpoint])
                #expect(!fresh.output.contains("changed") && fresh.output.contains("of 10GiB on disk"), "\(fresh)")
            }
        }
    }
}
