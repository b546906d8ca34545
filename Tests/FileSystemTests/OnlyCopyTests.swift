import Basics
import Blocks
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// SEMANTICS section 3, unlink and rename: an open file stays readable, also when nothing but this mount has its bytes any more.
@Suite(.timeLimit(.minutes(5)), .ownThreads) struct OnlyCopyTests {
    private let readWrite = OpenFlags(reads: true, writes: true)
    private let readOnly = OpenFlags(reads: true, writes: false)
    private static let size = 1_000_000
    private let bytes = (0..<OnlyCopyTests.size).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 11) }

    /// How an open file loses its object.
    enum Loss: String, CaseIterable, CustomTestStringConvertible {
        case unlink, replace
        var testDescription: String { rawValue }
    }

    private func lose(_ path: String, by loss: Loss, in tree: MountedTree) async throws {
        switch loss {
        case .unlink: try await tree.unlink(path)
        case .replace:
            try await tree.store("other", Array("other".utf8))
            try await tree.rename("other", to: path)
        }
    }

    private func holds(_ file: (InodeNumber, HandleID), in tree: MountedTree) async throws -> Bool {
        try await tree.read(file, at: 0, count: Self.size) == bytes
    }

    @Test(.rule("unlink", "rename.replace"), arguments: Loss.allCases)
    func whatIsOnlyInTheCacheDoesNotLeaveIt(loss: Loss) async throws {
        let tree = try MountedTree()
        try await tree.store("f", bytes)
        let file = try await tree.open("f", readOnly)
        try await lose("f", by: loss, in: tree)
        #expect(tree.store.content("f")?.count != Self.size, "the object is gone at once")
        tree.rooms.blocks.prune(to: 0)
        #expect(try await holds(file, in: tree))
        try await tree.close(file)
        tree.rooms.blocks.prune(to: 0)
        #expect(tree.rooms.blocks.statistics().storedBytes == 0, "closed, it is as any other")
    }

    /// The same bytes written anew are the same object to the block cache.
    @Test func itStaysWhereANewFileOfTheSameBytesGetsAnotherName() async throws {
        let tree = try MountedTree()
        try await tree.store("f", bytes)
        let file = try await tree.open("f", readOnly)
        #expect(try await holds(file, in: tree))
        try await tree.unlink("f")
        try await tree.store("f", bytes)
        try await tree.rename("f", to: "g")
        tree.rooms.blocks.prune(to: 0)
        #expect(try await holds(file, in: tree))
        #expect(try await tree.load("g") == bytes)
        try await tree.close(file)
    }

    @Test(arguments: Loss.allCases)
    func theNextProcessKeepsItAsWell(loss: Loss) async throws {
        let tree = try MountedTree()
        try await tree.store("f", bytes)
        let file = try await tree.open("f", readOnly)
        try await lose("f", by: loss, in: tree)
        try await tree.restart()
        tree.rooms.blocks.prune(to: 0)
        #expect(try await holds(file, in: tree))
        try await tree.close(file)
    }

    @Test func whatIsWrittenToAFileWithoutANameOutlivesEveryProcess() async throws {
        let tree = try MountedTree()
        let file = try await tree.open("f", readWrite, create: true)
        try await tree.write(file, bytes, at: 0)
        try await tree.unlink("f")
        for mode in [UInt16(0o600), 0o640, 0o644] {
            try await tree.restart()
            #expect(try await holds(file, in: tree))
            // What is kept of it is written anew.
            var change = AttributeChange()
            change.mode = mode
            _ = try await tree.run(tree.system.setAttributes(file.0, to: change, handle: file.1))
        }
        try await tree.restart()
        #expect(try await holds(file, in: tree))
        try await tree.close(file)
        #expect(tree.store.keys.isEmpty)
    }

    @Test(arguments: [false, true])
    func aNewFileWhereARemovedOneIsOpenIsStoredByTheNextProcess(isWritten: Bool) async throws {
        let tree = try MountedTree(durability: .local)
        tree.store.setObject("f", bytes)
        let old = try await tree.open("f", readWrite)
        if isWritten { try await tree.write(old, [1], at: 0) }
        try await tree.unlink("f")
        try await tree.store("f", Array("new".utf8))
        try await tree.restart()
        #expect(try await tree.read(old, at: 1, count: 100) == Array(bytes[1..<101]))
        try await tree.close(old)
        try await tree.remount()
        #expect(try await tree.names("") == ["f"])
        #expect(tree.store.keys == ["f"])
        #expect(tree.store.content("f") == Array("new".utf8))
    }

    @Test(arguments: Loss.allCases)
    func whoOpensItMeanwhileFindsWhatIsThereThen(loss: Loss) async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", bytes)
        tree.store.setObject("other", Array("other".utf8))
        let ino = try await tree.find("f").ino
        _ = try await tree.find("other")
        let changing = tree.store.hold(loss == .unlink ? .delete : .copy)
        let (system, pool) = (tree.system, tree.pool)
        let change = pool.start { () async -> Bool in
            let outcome =
                loss == .unlink
                ? system.unlink("f", in: .root)
                : system.rename("other", in: .root, to: "f", in: .root, noReplace: false)
            return await succeeded(outcome)
        }
        await changing.waitForArrivals()
        let open = pool.start { () async -> FileSystemError.Kind? in
            let outcome = system.open(ino, flags: OpenFlags(reads: true, writes: false))
            return if case .failure(let error) = await outcome.value() { error.kind } else { nil }
        }
        for _ in 0..<1000 { await Task.yield() }
        changing.open()
        #expect(await change.value)
        #expect(await open.value == .stale, "upon which the kernel looks the name up again")
        #expect(try await tree.names("") == (loss == .unlink ? ["other"] : ["f"]))
        if loss == .replace { #expect(try await tree.load("f") == Array("other".utf8)) }
    }

    @Test func aFileThatWouldFillTheCacheKeepsItsObjectUntilItIsClosed() async throws {
        let tree = try MountedTree(capacity: 3_000_000)
        try await tree.store("f", bytes)
        let file = try await tree.open("f", readOnly)
        try await tree.unlink("f")
        #expect(try await tree.names("") == [])
        tree.rooms.blocks.prune(to: 0)
        #expect(tree.rooms.blocks.statistics().storedBytes == 0, "others may have the space")
        #expect(try await holds(file, in: tree))
        try await tree.close(file)
        #expect(tree.store.keys.isEmpty)
    }

    /// The last descriptor goes while the directory, whose last file it was, gets its marker.
    @Test func theObjectGoesThoughTheFileIsClosedAmidItsRemoval() async throws {
        let tree = try MountedTree(capacity: 3_000_000)
        tree.store.setObject("d/f", bytes)
        let file = try await tree.open("d/f", readOnly)
        let directory = try await tree.find("d").ino
        let (system, marking) = (tree.system, tree.store.hold(.put))
        let unlink = tree.pool.start { await succeeded(system.unlink("f", in: directory)) }
        await marking.waitForArrivals()
        try await tree.close(file)
        marking.open()
        #expect(await unlink.value)
        try await waitUntil("the object is removed") { tree.store.content("d/f") == nil }
        #expect(tree.store.keys == ["d/"])
    }

    @Test(.rule("crash.jobs")) func theObjectOfARemovedFileIsGoneWhenTheMountEndsThoughItsLastCloseWasForgotten()
        async throws
    {
        let tree = try MountedTree(capacity: 3_000_000)
        try await tree.store("f", bytes)
        _ = try await tree.open("f", readOnly)
        try await tree.unlink("f")
        try await tree.restart()
        #expect(tree.store.keys == ["f"], "an open file needs it")
        #expect(await tree.system.shutDown().isEmpty)
        #expect(tree.store.keys.isEmpty)
    }

    // MARK: Copies of another object

    private func copy(
        _ source: (InodeNumber, HandleID), to target: (InodeNumber, HandleID), in tree: MountedTree
    ) async throws -> Int64 {
        try await tree.run(
            tree.system.copyRange(
                from: FileRange(ino: source.0, handle: source.1, offset: 0),
                to: FileRange(ino: target.0, handle: target.1, offset: 0), count: Int64(Self.size)))
    }

    /// Two open files, the second one empty.
    private func pair(
        in tree: MountedTree
    ) async throws -> (source: (InodeNumber, HandleID), target: (InodeNumber, HandleID)) {
        try await tree.store("source", bytes)
        return (try await tree.open("source", readOnly), try await tree.open("target", readWrite, create: true))
    }

    @Test(arguments: Loss.allCases, Loss.allCases)
    func aCopyThatLosesItsNameHasItsBytesWithoutTheSource(loss: Loss, ofSource: Loss) async throws {
        let tree = try MountedTree()
        let (source, target) = try await pair(in: tree)
        #expect(try await copy(source, to: target, in: tree) == Int64(Self.size))
        try await lose("target", by: loss, in: tree)
        try await tree.close(source)
        try await lose("source", by: ofSource, in: tree)
        tree.rooms.blocks.prune(to: 0)
        #expect(try await holds(target, in: tree))
        try await tree.close(target)
        let isLeft = tree.store.content("target") == bytes
        #expect(!isLeft)
    }

    @Test func whatIsCopiedToAFileWithoutANameIsItsOwn() async throws {
        let tree = try MountedTree()
        let (source, target) = try await pair(in: tree)
        try await tree.unlink("target")
        // The kernel copies the bytes then.
        await #expect(throws: MountedTree.Failure(kind: .notSupported, reason: "")) {
            try await copy(source, to: target, in: tree)
        }
        try await tree.close(source)
        try await tree.close(target)
    }

    @Test func aCopyThatWasStoredIsNotWaitedForByItself() async throws {
        let tree = try MountedTree()
        let (source, target) = try await pair(in: tree)
        #expect(try await copy(source, to: target, in: tree) == Int64(Self.size))
        try await tree.run(tree.system.sync(target.0, handle: target.1, dataOnly: false))
        try await tree.rename("target", to: "source")
        try await tree.write(target, [1, 2, 3], at: 0)
        try await tree.close(target)
        let isStored = tree.store.content("source") == [1, 2, 3] + bytes.dropFirst(3)
        #expect(isStored)
        #expect(try await holds(source, in: tree))
        try await tree.close(source)
    }
}
