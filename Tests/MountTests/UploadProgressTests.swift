import Foundation
import TestSupport
import Testing

extension RealMounts {
    /// How far uploads are, in bytes, compared with what a relay between mount and store has passed on.
    @Suite struct UploadProgress {
        /// Passes connections on to the store, and writes the number of bytes that came from the mount into a file.
        private static let relay = """
            import os, socket, sys, threading
            port, work = int(sys.argv[1]), sys.argv[2]
            count, lock, seen = 0, threading.Lock(), open(work + "/relayed", "wb", buffering=0)
            def pass_on(source, target, counts):
                global count
                while data := source.recv(65536):
                    if counts:
                        with lock:
                            count += len(data)
                            os.pwrite(seen.fileno(), b"%012d" % count, 0)
                    target.sendall(data)
                target.shutdown(socket.SHUT_WR)
            listener = socket.socket()
            # Bytes in the relay's own queue would have been received, and not be counted.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            listener.bind(("127.0.0.1", 0))
            listener.listen(64)
            with open(work + "/port.new", "w") as told: told.write(str(listener.getsockname()[1]))
            os.rename(work + "/port.new", work + "/port")
            while True:
                here, there = listener.accept()[0], socket.create_connection(("127.0.0.1", port))
                for ends in ((here, there, True), (there, here, False)):
                    threading.Thread(target=pass_on, args=ends, daemon=True).start()
            """

        /// Watches the upload of `file`; prints the size, and pairs of what the mount says and what the relay has seen.
        private static let watch = """
            import os, time
            size = os.stat("file").st_size
            pairs = []
            def sent():
                try: return int(os.getxattr("file", "user.pailfs.sent"))
                except OSError: return None
            def relayed(): return int(open(os.environ["T"] + "/relayed").read())
            while os.getxattr("file", "user.pailfs.dirty") == b"1":
                before, told, after = relayed(), sent(), relayed()
                if told is not None: pairs.append((told, before, after))
                time.sleep(0.05)
            assert sent() is None
            told = [pair[0] for pair in pairs]
            assert told == sorted(told), told
            # Not whole parts alone.
            assert len(set(told)) > 10, told
            for pair in pairs:
                assert pair[1] - size * 0.1 <= pair[0] <= pair[2] + size * 0.1, (pair, size)
            """

        @Test(.timeLimit(.minutes(5)), .rule("xattr.state"), arguments: ["16MiB", "5MiB"])
        func progressIsWhatTheStoreHasReceived(partSize: String) async throws {
            try await withStore { world, store in
                let port = try #require(store.endpoint.split(separator: ":").last)
                try await world.sh("cat >$T/relay.py <<'end'\n\(Self.relay)\nend")
                let relay = try world.start("cd /; exec \(Programs.python) $T/relay.py \(port) $T")
                defer { relay.send(SIGKILL) }
                _ = await poll(for: .seconds(20)) { [scratch = world.scratch] in scratch.has("port") ? true : nil }
                let relayed = try await world.sh("cat $T/port").trimmingCharacters(in: .whitespacesAndNewlines)
                try await world.mount([
                    "endpoint=http://127.0.0.1:\(relayed)", "durable=local", "part-size=\(partSize)",
                    "upload-limit=4MiB",
                ])
                // Acknowledged at once; the upload takes some four seconds.
                try await world.sh("head -c 16000000 /dev/urandom >file")
                try await world.python(Self.watch)
                // An unmount that has to wait says for how much.
                world.expectsErrorsInLog = true
                try await store.setFaults(
                    ["PutObject", "CreateMultipartUpload", "UploadPart"].map { "op=\($0),kind=status:503" })
                try await world.sh("head -c 12000000 /dev/urandom >other")
                let unmount = try world.start("cd /; exec \(Programs.pailfs) unmount $M")
                let isTold = await poll(for: .seconds(30)) {
                    unmount.errors.contains("1 file not stored yet, ") ? true : nil
                }
                #expect(isTold == true, "\(unmount.errors)")
                try await store.setFaults()
                let ended = await unmount.wait(deadline: .seconds(60))
                try await world.daemonEnds(within: .seconds(10))
                #expect(ended.succeeded, "\(ended)")
                let first = ended.errors.split(separator: "\n").first { $0.contains("1 file not stored yet, ") }
                #expect(first?.contains("MiB to send; waiting") == true, "\(ended)")
            }
        }
    }
}
