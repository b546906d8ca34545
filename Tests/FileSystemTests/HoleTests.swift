import Basics
import FileSystem
import Staging
import TestSupport
import Testing

/// Bytes of a file that no program has written.
@Suite(.timeLimit(.minutes(2))) struct HoleTests {
    private static let readWrite = OpenFlags(reads: true, writes: true)

    @Test(.rule("seek")) func holesAreFoundUntilTheFileIsStored() async throws {
        let tree = try MountedTree()
        let file = try await tree.open("f", Self.readWrite, create: true)
        try await tree.change("f") { $0.size = 1 << 20 }
        try await tree.write(file, [1], at: 1 << 19)
        let system = tree.system
        #expect(try await tree.run(system.seek(file.0, handle: file.1, from: 0, to: .hole)) == 0)
        #expect(try await tree.run(system.seek(file.0, handle: file.1, from: 0, to: .data)) == 1 << 19)
        #expect(try await tree.run(system.seek(file.0, handle: file.1, from: 1 << 19, to: .hole)) == 1 << 19 + 1)
        try await tree.close(file)
        let stored = try await tree.open("f", Self.readWrite)
        #expect(try await tree.run(system.seek(stored.0, handle: stored.1, from: 0, to: .data)) == 0)
        #expect(try await tree.run(system.seek(stored.0, handle: stored.1, from: 0, to: .hole)) == 1 << 20)
        try await tree.close(stored)
    }

    /// Modes as in linux/falloc.h: KEEP_SIZE 1, PUNCH_HOLE 2, COLLAPSE_RANGE 8, ZERO_RANGE 16, INSERT_RANGE 32, UNSHARE_RANGE 64.
    @Test(.rule("fallocate")) func allocatedBytesAreZerosAndReserveNoSpace() async throws {
        let tree = try MountedTree(capacity: 1 << 20)
        let file = try await tree.open("f", Self.readWrite, create: true)
        try await tree.write(file, Array("abcdefgh".utf8), at: 0)
        func allocate(_ range: ByteRange, _ mode: Int32) async throws(MountedTree.Failure) {
            try await tree.run(tree.system.allocate(file.0, handle: file.1, range: range, mode: mode))
        }
        try await allocate(0..<(8 << 20), 0)
        #expect(try await tree.find("f").size == 8 << 20)
        #expect(tree.rooms.staging.ledger.used < 1 << 20)
        try await allocate(0..<(16 << 20), 1)
        #expect(try await tree.find("f").size == 8 << 20)
        try await allocate(2..<4, 2 | 1)
        try await allocate(6..<7, 16)
        #expect(try await tree.read(file, at: 0, count: 10) == Array("ab\0\0ef\0h\0\0".utf8))
        for mode in [8, 32, 64] as [Int32] {
            await #expect(throws: MountedTree.Failure(kind: .notSupported, reason: "")) {
                try await allocate(0..<4096, mode)
            }
        }
        try await tree.unlink("f")
        try await tree.close(file)
    }
}
