import Foundation
import TestSupport
import Testing

extension RealMounts {
    /// Local space is bounded: by cache-size, and by what others leave of the disk.
    @Suite struct Quota {
        private static let limit = 64 << 20

        /// Bytes that differ from file to file and are the same each time.
        private static let generate = """
            generate() { openssl enc -aes-128-ctr -nosalt -K 000102030405060708090a0b0c0d0e0f \
                -iv 0000000000000000000000000000000$1 -in /dev/zero 2>/dev/null | head -c $2 || true; }

            """

        /// Runs `act` and answers the most disk space that the cache directory took meanwhile, in bytes.
        private static func peak(in world: World, during act: () async throws -> Void) async throws -> Int {
            let sampler = try world.start(
                "\"$PYTHON\" '\(Programs.helper("peak.py"))' $T/cache $T/stop")
            do { try await act() } catch {
                try Data().write(to: URL(fileURLWithPath: world.scratch.path("stop")))
                _ = await sampler.wait(deadline: .seconds(20))
                throw error
            }
            try Data().write(to: URL(fileURLWithPath: world.scratch.path("stop")))
            let outcome = await sampler.wait(deadline: .seconds(20))
            return try #require(Int(outcome.output.trimmingCharacters(in: .whitespacesAndNewlines)), "\(outcome)")
        }

        @Test(.rule("space.bound", "space.large"), .timeLimit(.minutes(20)), arguments: ["remote", "local"])
        func aFileLargerThanTheCacheIsWrittenAndReadWithinIt(_ durable: String) async throws {
            try await withMount("cache-size=64MiB", "free-space=0", "durable=\(durable)") { world, _ in
                let peak = try await Self.peak(in: world) {
                    try await world.sh(
                        Self.generate + "generate 1 150994944 | dd of=big bs=1M iflag=fullblock status=none",
                        deadline: .seconds(400))
                    try await world.sh(Self.generate + "cmp <(generate 1 150994944) big", deadline: .seconds(400))
                }
                #expect(peak <= Self.limit, "bytes of disk")
                #expect(peak > Self.limit / 2, "the cache was used")
                try await world.unmount()
                try await world.mount(["cache-size=64MiB"], cache: "another")
                try await world.sh(Self.generate + "cmp <(generate 1 150994944) big", deadline: .seconds(400))
            }
        }

        @Test(.timeLimit(.minutes(20)))
        func manyWritersShareTheCacheAndAllComeToAnEnd() async throws {
            try await withMount("cache-size=64MiB", "free-space=0", "durable=local") { world, _ in
                let peak = try await Self.peak(in: world) {
                    // All stay open, so that none is stored by a close, and none is long enough for parts.
                    try await world.sh(
                        Self.generate + """
                            for i in 1 2 3 4 5 6 7 8 9; do
                                { generate $i 8000000; sleep 0.2; generate $i 4000000; } >f$i &
                            done
                            wait
                            """, deadline: .seconds(400))
                    try await world.sh(
                        Self.generate + """
                            for i in 1 2 3 4 5 6 7 8 9; do cmp <(generate $i 8000000; generate $i 4000000) f$i; done
                            """, deadline: .seconds(400))
                }
                #expect(peak <= Self.limit, "bytes of disk")
                try await world.unmount()
                let names = try await world.outside("keys")
                #expect((1...9).allSatisfy { names.contains("f\($0)") }, "\(names)")
            }
        }

        @Test(.rule("space.wait"), .timeLimit(.minutes(10)))
        func aStoreThatIsAwayEndsTheWriterWithENOSPCAndNobodyElse() async throws {
            try await withMount("cache-size=64MiB", "free-space=0", "durable=local", "timeout=2", "retries=1") {
                world, store in
                world.expectsErrorsInLog = true
                try await world.sh("printf before >before; head -c 70000000 /dev/urandom >$T/big")
                try await store.setFaults(
                    "op=PutObject,kind=status:503", "op=CreateMultipartUpload,kind=status:503",
                    "op=UploadPart,kind=status:503", "op=CompleteMultipartUpload,kind=status:503")
                let outcome = try await world.attempt("cp $T/big big", deadline: .seconds(400))
                #expect(outcome.errors.contains("No space left on device"), "\(outcome)")
                try await world.sh("test \"$(cat before)\" = before")
                // What was promised is still there, and once the store answers everything goes on.
                try await store.setFaults()
                try await world.sh("cp $T/big again; cmp $T/big again", deadline: .seconds(400))
                try await world.unmount()
                try await world.mount(cache: "another")
                try await world.sh("test \"$(cat before)\" = before; cmp $T/big again", deadline: .seconds(400))
            }
        }

        @Test(.timeLimit(.minutes(10)), .enabled(if: Machine.isRoot, "mounting a small tmpfs takes root"))
        func aDiskThatOthersHaveFilledFailsTheWriterAndWorksAgainAfterwards() async throws {
            try await withStore { world, _ in
                world.expectsErrorsInLog = true
                _ = try world.scratch.makeDirectory("small")
                try await world.sh("mount -t tmpfs -o size=64m tmpfs $T/small")
                do {
                    try await world.mount(["free-space=0", "timeout=3", "durable=local"], cache: "small")
                    try await world.sh("head -c 20000000 /dev/urandom >$T/file; printf x >before")
                    // Little that could be evicted: all the rest is others'.
                    try await world.sh("head -c 100000 $T/file >first")
                    try await world.sh("cat /dev/zero >$T/small/filler || true")
                    let outcome = try await world.attempt("cat $T/file >second", deadline: .seconds(90))
                    #expect(outcome.errors.contains("No space left on device"), "\(outcome)")
                    try await world.sh("test \"$(cat before)\" = x; cmp -n 100000 $T/file first; rm $T/small/filler")
                    try await world.sh("cat $T/file >second; cmp $T/file second; rm before", deadline: .seconds(60))
                    try await world.unmount()
                    try await world.mount(cache: "another")
                    try await world.sh("cmp -n 100000 $T/file first; cmp $T/file second; test ! -e before")
                    try await world.unmount()
                } catch {
                    await world.finish()
                    _ = try await world.attempt("cd /; umount $T/small")
                    throw error
                }
                try await world.sh("cd /; umount $T/small")
            }
        }

        @Test(
            .timeLimit(.minutes(30)),
            .enabled(if: ProcessInfo.processInfo.environment["PAILFS_TEST_LONG"] == "1", "8 GiB take minutes"))
        func eightGibibytesGoThroughOne() async throws {
            try await withMount("cache-size=1GiB", "free-space=0") { world, _ in
                let peak = try await Self.peak(in: world) {
                    try await world.sh(
                        Self.generate + "generate 1 8589934592 | dd of=big bs=1M iflag=fullblock status=none",
                        deadline: .seconds(900))
                    try await world.sh(
                        Self.generate + "cmp <(generate 1 8589934592) big; rm big", deadline: .seconds(900))
                }
                #expect(peak <= 1 << 30, "bytes of disk")
            }
        }

        @Test(.timeLimit(.minutes(2)), .rule("space.descriptors"))
        func programsWriteToMoreFilesThanTheWorkerHasDescriptors() async throws {
            try await withMount { world, _ in
                let worker = try #require(world.worker)
                try await world.sh("prlimit --pid \(worker) --nofile=256:256")
                try await world.python(
                    """
                    import os
                    files = [os.open(str(number), os.O_RDWR | os.O_CREAT) for number in range(600)]
                    for number, file in enumerate(files): os.write(file, b"%d" % number)
                    # With a gap each takes a second descriptor for its map.
                    for number, file in enumerate(files): os.pwrite(file, b"%d" % number, 10_000)
                    for number, file in enumerate(files):
                        expected = b"%d" % number
                        assert os.pread(file, 20_000, 0) == expected.ljust(10_000, b"\\0") + expected, number
                    for file in files: os.close(file)
                    for number in range(600):
                        assert os.path.getsize(str(number)) == 10_000 + len(str(number)), number
                    """)
                try await world.sh("printf x >after")
            }
        }
    }
}
