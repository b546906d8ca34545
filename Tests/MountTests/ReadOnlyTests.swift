import Foundation
import Glibc
import TestSupport
import Testing

extension RealMounts {
    /// A mount that nobody writes to: a file that is whole in the cache is read by the kernel itself.
    @Suite struct ReadOnlyMounts {
        /// Linux 6.9 and later let root do it, on a disk that is no layer over another; elsewhere the same is read through
        /// pailfs.
        private func isBacked(_ world: World) async throws -> Bool {
            var system = utsname()
            uname(&system)
            let release = withUnsafeBytes(of: system.release) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            let numbers = release.split { !$0.isNumber }.prefix(2).compactMap { Int($0) }
            let disk = try await world.sh("stat -f -c %T $T")
            return geteuid() == 0 && numbers.count == 2 && (numbers[0], numbers[1]) >= (6, 9)
                && !disk.hasPrefix("overlay")
        }

        private static let figures = "getfattr --only-values -n user.pailfs.stats ."

        private func figure(_ name: String, _ world: World) async throws -> Int {
            let text = try await world.sh("\(Self.figures) | grep '^pailfs_\(name) '")
            return try #require(text.split(whereSeparator: \.isWhitespace).last.flatMap { Int($0) })
        }

        private func prune(_ world: World) async throws {
            let outcome = try await world.pailfs(["cache", "prune", world.mountpoint])
            #expect(outcome.succeeded, "\(outcome)")
        }

        /// Puts `big` and reads it until all of it is on the disk.
        private func prepare(_ world: World) async throws {
            try Data((0..<20_000_003).map { UInt8(truncatingIfNeeded: $0 &* $0 >> 7) })
                .write(to: URL(fileURLWithPath: world.scratch.path("big")))
            try await world.outside("put", "big", world.scratch.path("big"))
            try await world.mount(["ro"])
        }

        /// Until a program of the test has made the file `name`.
        private func wait(for name: String, in world: World) async throws {
            let isThere = await poll(for: .seconds(60)) { [scratch = world.scratch] in
                scratch.has(name) ? true : nil
            }
            try #require(isThere == true)
        }

        private func readWhole(_ world: World) async throws {
            try await world.sh("cmp big $T/big")
            // What has arrived is on the disk a little later.
            guard try await isBacked(world) else { return }
            for _ in 0..<200 {
                let open = try await world.sh("exec 3<big; \(Self.figures) | sed -n 's/^pailfs_backed_files //p'")
                if open.hasPrefix("1") { return }
                try await Task.sleep(for: .milliseconds(50))
            }
            Issue.record("the kernel does not read the file by itself")
        }

        @Test(.rule("space.kernel", "open.direct"), .timeLimit(.minutes(5)))
        func aFileThatIsWholeInTheCacheIsReadWithoutAskingPailfs() async throws {
            try await withStore { world, store in
                try await prepare(world)
                try await readWhole(world)
                let before = try await figure("read_bytes_total", world)
                // As a program that opens it in several ways at once.
                try await world.python(
                    """
                    import mmap, os
                    want = open(os.environ["T"] + "/big", "rb").read()
                    one, two = os.open("big", os.O_RDONLY), os.open("big", os.O_RDONLY)
                    assert os.pread(one, len(want) + 1, 0) == want
                    assert os.pread(two, 100, len(want) - 50) == want[-50:]
                    assert mmap.mmap(two, 0, prot=mmap.PROT_READ)[:] == want
                    assert os.fstat(one).st_size == len(want)
                    """)
                let after = try await figure("read_bytes_total", world)
                if try await isBacked(world) { #expect(after == before) }
                // Around the kernel's pages nothing asks for alignment, whatever the cache's disk does.
                try await world.python(
                    """
                    import os
                    want = open(os.environ["T"] + "/big", "rb").read()
                    one, direct = os.open("big", os.O_RDONLY), os.open("big", os.O_RDONLY | os.O_DIRECT)
                    assert os.pread(direct, 1001, 12345) == want[12345:13346]
                    assert os.pread(one, 1001, 12345) == want[12345:13346]
                    """)
                #expect(try await figure("backed_files", world) == 0, "nobody has it open any more")
            }
        }

        @Test(.rule("open.version", "space.kernel"), .timeLimit(.minutes(5)))
        func whoHasAFileOpenReadsItsBytesWhateverBecomesOfThem() async throws {
            try await withStore { world, store in
                try await prepare(world)
                try await readWhole(world)
                let program = try world.start(
                    """
                    exec 3<big
                    head -c 1000000 <&3 >$T/front
                    : >$T/ready
                    until test -e $T/go; do sleep 0.02; done
                    cat <&3 >$T/rest
                    exec 4<big
                    cat <&4 >$T/again
                    : >$T/half
                    until test -e $T/replaced; do sleep 0.02; done
                    $PYTHON -c 'import os; os.lseek(3, 0, 0); out = open(os.environ["T"] + "/last", "wb")
                    while piece := os.read(3, 1 << 20): out.write(piece)'
                    """)
                try await wait(for: "ready", in: world)
                if try await isBacked(world) { #expect(try await figure("backed_files", world) == 1) }
                try await prune(world)
                try await world.killWorker()
                try await prune(world)
                _ = FileManager.default.createFile(atPath: world.scratch.path("go"), contents: nil)
                try await wait(for: "half", in: world)
                // Another object takes the name.
                try await world.sh("head -c 3000000 /dev/zero >$T/other")
                try await world.outside("put", "big", world.scratch.path("other"))
                #expect(try await world.pailfs(["refresh", world.mountpoint]).succeeded)
                try await world.sh("cmp big $T/other; cmp big $T/other")
                try await prune(world)
                _ = FileManager.default.createFile(atPath: world.scratch.path("replaced"), contents: nil)
                let outcome = await program.wait(deadline: .seconds(60))
                #expect(outcome.succeeded, "\(outcome)")
                try await world.sh(
                    """
                    cat $T/front $T/rest | cmp - $T/big
                    cmp $T/again $T/big
                    cmp big $T/other
                    """)
                if try await isBacked(world) { try await world.sh("cmp $T/last $T/big") }
                try await prune(world)
                #expect(try await figure("backed_files", world) == 0)
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aMappingKeepsItsBytesWhenItsDescriptorIsClosed() async throws {
            try await withStore { world, store in
                try await prepare(world)
                try await readWhole(world)
                let program = try world.start(
                    """
                    exec $PYTHON -c '
                    import mmap, os, time
                    there = lambda name: os.path.exists(os.environ["T"] + "/" + name)
                    want = open(os.environ["T"] + "/big", "rb").read()
                    fd = os.open("big", os.O_RDONLY)
                    size = os.fstat(fd).st_size
                    # Python would keep a descriptor of its own.
                    import ctypes
                    libc = ctypes.CDLL(None, use_errno=True)
                    libc.mmap.restype = ctypes.c_void_p
                    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
                    at = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
                    os.close(fd)
                    for round in "12":
                        open(os.environ["T"] + "/mapped" + round, "w").close()
                        while not there("pruned" + round): time.sleep(0.02)
                        assert ctypes.string_at(at, size) == want, round
                    '
                    """)
                for round in ["1", "2"] {
                    let isMapped = await poll(for: .seconds(60)) { [scratch = world.scratch] in
                        scratch.has("mapped" + round) ? true : nil
                    }
                    guard isMapped == true else {
                        Issue.record("\(await program.wait(deadline: .seconds(1)))")
                        return
                    }
                    // Also by a process that has not lent the file itself.
                    if round == "2" { try await world.killWorker() }
                    #expect(try await figure("backed_files", world) == 0)
                    try await prune(world)
                    _ = FileManager.default.createFile(atPath: world.scratch.path("pruned" + round), contents: nil)
                }
                let outcome = await program.wait(deadline: .seconds(60))
                #expect(outcome.succeeded, "\(outcome)")
                try await world.sh("cmp big $T/big")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func whatIsOpenedBeforeItIsWholeIsReadToo() async throws {
            try await withStore { world, store in
                try await prepare(world)
                try await world.python(
                    """
                    import os, threading
                    want = open(os.environ["T"] + "/big", "rb").read()
                    early = os.open("big", os.O_RDONLY)
                    assert os.pread(early, 10, 5_000_000) == want[5_000_000:5_000_010]
                    def read():
                        for _ in range(20):
                            with open("big", "rb") as file: assert file.read() == want
                    readers = [threading.Thread(target=read) for _ in range(4)]
                    for reader in readers: reader.start()
                    for reader in readers: reader.join()
                    assert os.pread(early, len(want), 0) == want
                    os.close(early)
                    readers = [threading.Thread(target=read) for _ in range(4)]
                    for reader in readers: reader.start()
                    for reader in readers: reader.join()
                    """)
                #expect(try await figure("backed_files", world) == 0)
            }
        }
    }
}
