import Basics
import FileSystem
import ObjectStorage
import TestSupport
import Testing

/// Objects that the bucket holds while programs change files, and after that.
@Suite(.timeLimit(.minutes(2))) struct StoredObjectTests {
    private static let write = OpenFlags(reads: false, writes: true)
    private static let writeAnew = OpenFlags(reads: false, writes: true, truncate: true)

    @Test(.rule("object.plain", "mkdir", "symlink")) func aTreeIsStoredAsFilesMarkersAndLinks() async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("d")
        try await tree.store("d/f", Array("bytes".utf8))
        try await tree.symlink("d/l", "f")
        #expect(tree.store.keys == ["d/", "d/f", "d/l.rclonelink"])
        #expect(tree.store.content("d/") == [])
        #expect(tree.store.content("d/f") == Array("bytes".utf8))
        #expect(tree.store.content("d/l.rclonelink") == Array("f".utf8))
        let marker = try #require(tree.store.info("d/")).metadata.user
        #expect((marker["mode"], marker["uid"], marker["gid"]) == (String(0o40750), "1000", "100"))
        #expect(marker["mtime"].flatMap(Double.init).map(Int64.init) == tree.time.now().seconds)
        for name in ["d/f", "d/l"] { try await tree.unlink(name) }
        try await tree.removeDirectory("d")
        #expect(tree.store.keys == [])
    }

    @Test(.rule("object.whole", "write.stream", "visible.other"), arguments: [true, false])
    func theOldObjectStaysUntilTheNewOneIsWhole(isAccepted: Bool) async throws {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        let tree = try MountedTree(capabilities: capabilities, partSize: 64 << 10)
        let (old, new) = (Array("old".utf8), (0..<5 << 16).map { UInt8(truncatingIfNeeded: $0 >> 8) })
        tree.store.setObject("f", old)
        let file = try await tree.open("f", Self.writeAnew)
        try await tree.write(file, Array(new[..<(4 << 16)]), at: 0)
        try await waitUntil("a part is sent while the program writes") { tree.store.count(.uploadPart) > 0 }
        #expect(tree.store.content("f") == old)
        try await tree.write(file, Array(new[(4 << 16)...]), at: 4 << 16)
        if !isAccepted {
            tree.store.fault = { operation, key in
                guard operation == .completeUpload else { return nil }
                return ObjectStoreError(.accessDenied, operation, key: key, message: "not now")
            }
        }
        let (system, completing) = (tree.system, tree.store.hold(.completeUpload))
        let flush = tree.pool.start { await succeeded(system.flush(file.0, handle: file.1) { false }) }
        await completing.waitForArrivals()
        #expect(tree.store.content("f") == old)
        completing.open()
        #expect(await flush.value == isAccepted)
        #expect(tree.store.content("f") == (isAccepted ? new : old))
        tree.store.fault = nil
        try await tree.run(tree.system.release(file.0, handle: file.1))
        try await tree.remount()
        #expect(tree.store.content("f") == new)
        #expect(tree.store.keys == ["f"])
    }

    @Test(.rule("write.limit")) func nothingIsWrittenBeyondTheLargestObject() async throws {
        var capabilities = Capabilities()
        capabilities.largestObject = 1000
        let tree = try MountedTree(capabilities: capabilities)
        let file = try await tree.open("f", Self.write, create: true)
        try await tree.write(file, [UInt8](repeating: 1, count: 1000), at: 0)
        let tooLarge = MountedTree.Failure(kind: .fileTooLarge, reason: "")
        await #expect(throws: tooLarge) { try await tree.write(file, [2], at: 1000) }
        await #expect(throws: tooLarge) { try await tree.append(file, [2]) }
        await #expect(throws: tooLarge) { try await tree.change("f") { $0.size = 1001 } }
        try await tree.close(file)
        #expect(tree.store.content("f") == [UInt8](repeating: 1, count: 1000))
    }

    @Test(.rule("open.archived"), arguments: [true, false])
    func anArchivedObjectIsShownAndNotRead(isRestoring: Bool) async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", [1, 2, 3])
        tree.store.fault = { operation, key in
            guard operation == .get else { return nil }
            return ObjectStoreError(
                .archived(restoring: isRestoring), operation, key: key, message: "in the archive")
        }
        #expect(try await tree.find("f").size == 3)
        let refused = MountedTree.Failure(kind: isRestoring ? .tryAgain : .accessDenied, reason: "")
        await #expect(throws: refused) { _ = try await tree.load("f") }
        tree.store.fault = nil
        #expect(try await tree.load("f") == [1, 2, 3])
    }

    @Test(.rule("close.refused")) func aRefusalThatTheObjectDoesNotExplainIsAnErrorOfTheClose() async throws {
        let tree = try MountedTree()
        try await tree.store("f", Array("old".utf8))
        tree.store.fault = { operation, key in
            guard operation == .put else { return nil }
            return ObjectStoreError(.preconditionFailed, operation, key: key, message: "it is another")
        }
        let puts = tree.store.count(.put)
        let file = try await tree.open("f", Self.writeAnew)
        try await tree.write(file, Array("new".utf8), at: 0)
        await #expect(throws: MountedTree.Failure(kind: .inputOutput, reason: "")) {
            try await tree.run(tree.system.flush(file.0, handle: file.1) { false })
        }
        #expect(tree.store.count(.put) == puts + 3)
        try await tree.run(tree.system.release(file.0, handle: file.1))
        #expect(tree.store.content("f") == Array("old".utf8))
        #expect(try await tree.load("f") == Array("new".utf8))
        #expect(await tree.system.shutDown().map(\.path) == ["f"])
    }

    @Test(.rule("rename.open")) func ofALargeFileThatIsReplacedTheBytesOnThisMachineAreRead() async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", [UInt8](repeating: 1, count: 64 << 20 + 1))
        tree.store.setObject("other", Array("other".utf8))
        let file = try await tree.open("f", OpenFlags(reads: true, writes: false))
        #expect(try await tree.read(file, at: 0, count: 2) == [1, 1])
        try await tree.rename("other", to: "f")
        #expect(try await tree.read(file, at: 0, count: 2) == [1, 1])
        await #expect(throws: MountedTree.Failure(kind: .stale, reason: "")) {
            _ = try await tree.read(file, at: 60 << 20, count: 2)
        }
        try await tree.close(file)
        #expect(try await tree.load("f") == Array("other".utf8))
    }
}
