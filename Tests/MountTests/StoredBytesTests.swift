import Glibc
import TestSupport
import Testing

extension RealMounts {
    /// What a call that has returned 0 says is stored is: looked for before anything else could store it.
    @Suite struct StoredBytes {
        @Test(
            .rule("close.remote", "fsync.file", "fsync.directory", "truncate", "mmap", "create.new"),
            .timeLimit(.minutes(1)),
            arguments: [
                "os.write(f, b'bytes'); os.fsync(f)",
                "os.write(f, b'bytes'); os.fdatasync(f)",
                "os.write(f, b'bytes'); os.fsync(os.open('d/file', os.O_RDONLY))",
                "os.write(f, b'bytes'); os.fsync(os.open('d', os.O_RDONLY))",
                "os.write(f, b'bytes'); subprocess.run(['sync', 'd/file'], check=True)",
                "os.write(os.open('d/file', os.O_WRONLY | os.O_SYNC), b'bytes')",
                "os.write(os.open('d/file', os.O_WRONLY | os.O_DSYNC), b'bytes')",
                "os.ftruncate(f, 5); m = mmap.mmap(f, 5); m[:] = b'bytes'; m.flush()",
                "os.write(f, b'bytes'); os.close(f)",
                "os.write(f, b'bytes and more'); os.close(f); os.truncate('d/file', 5)",
                "os.write(os.open('other', os.O_WRONLY | os.O_CREAT), b'?'); os.write(f, b'bytes'); os.close(f)",
            ])
        func areInTheBucket(_ act: String) async throws {
            try await withMount { world, _ in
                try await world.python(
                    """
                    import mmap, os, subprocess, sys
                    os.mkdir("d")
                    f = os.open("d/file", os.O_RDWR | os.O_CREAT)
                    \(act)
                    ask = [sys.executable, "\(Programs.helper("bucket.py"))", "get", "d/file"]
                    stored = subprocess.run(ask, check=True, stdout=subprocess.PIPE).stdout
                    assert stored == b"bytes", stored
                    """)
            }
        }

        /// The kernel writes them back when the mapping goes.
        @Test(.rule("mmap"), .timeLimit(.minutes(1)))
        func pagesWrittenThroughAMappingArriveAfterTheLastClose() async throws {
            try await withMount { world, _ in
                try await world.python(
                    """
                    import mmap, os
                    f = os.open("file", os.O_RDWR | os.O_CREAT)
                    os.ftruncate(f, 100_000)
                    m = mmap.mmap(f, 100_000)
                    os.close(f)
                    m[50_000:50_006] = b"mapped"
                    m.close()
                    """)
                let end = ContinuousClock.now + .seconds(30)
                var stored = ""
                while ContinuousClock.now < end, !stored.contains("mapped") {
                    stored = (try? await world.outside("get", "file")) ?? ""
                }
                #expect(stored.contains("mapped"))
            }
        }

        /// With `durable=local` the promise is on this disk. The file is still open.
        @Test(.rule("fsync.file", "crash.acknowledged"), .timeLimit(.minutes(1)), arguments: ["remote", "local"])
        func outliveBothProcessesOnceTheyAreSynced(_ durable: String) async throws {
            try await withMount("durable=\(durable)") { world, store in
                world.expectsErrorsInLog = true
                if durable == "local" { try await store.setFaults("op=PutObject,kind=status:503") }
                let writer = try world.start(
                    """
                    exec python3 -c '
                    import os, time
                    f = os.open("file", os.O_RDWR | os.O_CREAT)
                    os.write(f, b"bytes")
                    os.fsync(f)
                    print("synced", flush=True)
                    time.sleep(600)'
                    """)
                let isSynced = await poll(for: .seconds(30)) { writer.output.contains("synced") ? true : nil }
                try #require(isSynced == true, "\(writer.errors)")
                world.killMount()
                writer.send(SIGKILL)
                _ = await writer.wait(deadline: .seconds(10))
                try await world.unmount()
                try await store.setFaults()
                try await world.mount()
                #expect(try await world.sh("cat file") == "bytes")
                try await world.unmount()
                #expect(try await world.outside("get", "file") == "bytes")
            }
        }
    }
}
