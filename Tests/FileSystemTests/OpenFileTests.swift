import Basics
import Blocks
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// SEMANTICS sections 3 and 5: what handles see of each other, of other people, and of removals.
@Suite struct OpenFileTests {
    private let readWrite = OpenFlags(reads: true, writes: true)
    private let readOnly = OpenFlags(reads: true, writes: false)

    @Test(.rule("visible.own", "visible.other", "create.new", "write.any")) func aReaderSeesWhatIsBeingWritten()
        async throws
    {
        let tree = try MountedTree()
        let writer = try await tree.open("f", readWrite, create: true)
        try await tree.write(writer, Array("hello".utf8), at: 3)
        let reader = try await tree.open("f", readOnly)
        #expect(try await tree.read(reader, at: 0, count: 100) == [0, 0, 0] + Array("hello".utf8))
        #expect(tree.store.content("f") == nil)
        try await tree.close(writer)
        #expect(try await tree.read(reader, at: 0, count: 100) == [0, 0, 0] + Array("hello".utf8))
        try await tree.close(reader)
    }

    @Test(.rule("unlink")) func anUnlinkedFileStaysUsableAndIsNeverPutBack() async throws {
        let tree = try MountedTree()
        try await tree.store("f", Array("before".utf8))
        let file = try await tree.open("f", readWrite)
        try await tree.unlink("f")
        #expect(tree.store.content("f") == nil)
        #expect(try await tree.read(file, at: 0, count: 100) == Array("before".utf8))
        try await tree.write(file, Array("AFTER".utf8), at: 0)
        #expect(try await tree.read(file, at: 0, count: 100) == Array("AFTERe".utf8))
        try await tree.close(file)
        #expect(tree.store.keys.isEmpty)
        await #expect(throws: MountedTree.Failure(kind: .notFound, reason: "")) { try await tree.find("f") }
    }

    @Test(.rule("unlink")) func anUnlinkedFileThatIsNotCachedStaysReadable() async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", Array("only in the bucket".utf8))
        let file = try await tree.open("f", readOnly)
        try await tree.unlink("f")
        #expect(try await tree.names("") == [])
        #expect(try await tree.read(file, at: 0, count: 100) == Array("only in the bucket".utf8))
        try await tree.close(file)
        #expect(tree.store.keys.isEmpty)
    }

    @Test func aNewFileOfTheSameNameOutlivesTheOneThatWasRemovedWhileOpen() async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", Array("old".utf8))
        tree.store.setObject("g", Array("other".utf8))
        let old = try await tree.open("f", readOnly)
        try await tree.unlink("f")
        try await tree.store("f", Array("new".utf8))
        try await tree.close(old)
        #expect(tree.store.content("f") == Array("new".utf8))
        let again = try await tree.open("f", readOnly)
        tree.rooms.blocks.forget("f")
        try await tree.unlink("f")
        try await tree.rename("g", to: "f")
        try await tree.close(again)
        #expect(tree.store.content("f") == Array("other".utf8))
        #expect(tree.store.keys == ["f"])
    }

    @Test(.rule("visible.replaced", "visible.remote", "open.version", "write.stale"))
    func aReplacedObjectIsAnotherFileToWhoeverLooksAtItsName() async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", Array("old".utf8))
        let old = try await tree.open("f", readWrite)
        #expect(try await tree.read(old, at: 0, count: 100) == Array("old".utf8))
        tree.store.setObject("f", Array("brand new".utf8))
        #expect(try await tree.find("f").size == 3)
        tree.time.advance(by: .seconds(61))
        let status = try await tree.find("f")
        #expect(status.size == 9)
        #expect(status.ino != old.0)
        // Whoever has the old one open keeps it: its length, and the bytes that are here.
        let open = try await tree.run(tree.system.attributes(old.0, handle: old.1)).status
        #expect(open.size == 3)
        #expect(open.links == 0)
        #expect(try await tree.read(old, at: 0, count: 100) == Array("old".utf8))
        let new = try await tree.open("f", readOnly)
        #expect(try await tree.read(new, at: 0, count: 100) == Array("brand new".utf8))
        #expect(try await tree.read(old, at: 0, count: 100) == Array("old".utf8))
        // What is written to it could not be stored.
        await #expect(throws: MountedTree.Failure(kind: .stale, reason: "")) {
            try await tree.write(old, Array("x".utf8), at: 0)
        }
        try await tree.close(old)
        try await tree.close(new)
        #expect(try await tree.find("f").ino == status.ino)
        #expect(tree.store.content("f") == Array("brand new".utf8))
    }

    @Test func anOpenFileWhoseAttributesAloneWereChangedElsewhereIsTheSame() async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", Array("same".utf8))
        let file = try await tree.open("f", readOnly)
        tree.time.advance(by: .seconds(61))
        let headers = ObjectMetadata(user: ["mode": "33024", "mtime": "946684799"])
        tree.store.setObject("f", Array("same".utf8), metadata: headers)
        let status = try await tree.find("f")
        #expect(status.ino == file.0)
        #expect(status.mode & 0o777 == 0o400)
        #expect(status.modified.seconds == 946_684_799)
        try await tree.close(file)
    }

    @Test func aListingThatTellsOfAnotherVersionIsBelievedOfOpenFiles() async throws {
        let tree = try MountedTree()
        tree.store.setObject("d/f", Array("old".utf8))
        let old = try await tree.open("d/f", readOnly)
        tree.store.setObject("d/f", Array("brand new".utf8))
        tree.time.advance(by: .seconds(61))
        _ = try await tree.names("d")
        #expect(try await tree.find("d/f").size == 9)
        try await tree.close(old)
    }

    /// rename(2) over it, one that is not stored yet included, or a removal and a new file of the name.
    @Test(.rule("rename.replace", "rename.open"), arguments: ["rename", "rename new", "recreate"])
    func anOpenFileThatIsReplacedHereIsReadToItsEnd(_ act: String) async throws {
        let tree = try MountedTree()
        let old = (0..<(17 << 20)).map { UInt8(truncatingIfNeeded: $0 >> 12) }
        tree.store.setObject("f", old)
        tree.store.setObject("other", Array("new".utf8))
        let file = try await tree.open("f", readOnly)
        #expect(try await tree.read(file, at: 0, count: 10) == Array(old[..<10]))
        switch act {
        case "rename": try await tree.rename("other", to: "f")
        case "rename new":
            let new = try await tree.open("new", readWrite, create: true)
            try await tree.write(new, Array("new".utf8), at: 0)
            try await tree.rename("new", to: "f")
            try await tree.close(new)
        default:
            try await tree.unlink("f")
            try await tree.store("f", Array("new".utf8))
        }
        #expect(tree.store.content("f") == Array("new".utf8))
        for start in stride(from: 0, to: old.count, by: 1 << 20) {
            let piece = try await tree.read(file, at: Int64(start), count: 1 << 20)
            #expect(piece.elementsEqual(old[start..<min(old.count, start + 1 << 20)]))
        }
        try await tree.close(file)
        #expect(try await tree.load("f") == Array("new".utf8))
    }

    @Test(.rule("read.true", "open.version", "visible.replaced"))
    func anObjectReplacedBeforeItWasReadIsStaleAndNeverAMix() async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", Array(repeating: 1, count: 9 << 20))
        let file = try await tree.open("f", readOnly)
        tree.store.setObject("f", Array(repeating: 2, count: 9 << 20))
        await #expect(throws: MountedTree.Failure(kind: .stale, reason: "")) {
            try await tree.read(file, at: 0, count: 4096)
        }
    }

    @Test(.rule("conflict", "conflict.keep")) func theSecondWriterGetsStaleAndItsBytesAreKeptBesideTheFile()
        async throws
    {
        let tree = try MountedTree()
        tree.store.setObject("f", Array("start".utf8))
        let file = try await tree.open("f", readWrite)
        try await tree.write(file, Array("mine ".utf8), at: 0)
        tree.store.setObject("f", Array("theirs".utf8))
        await #expect(throws: MountedTree.Failure(kind: .stale, reason: "")) { try await tree.close(file) }
        #expect(tree.store.content("f") == Array("theirs".utf8))
        let kept = ObjectKey("f.conflict-here-\(tree.time.now().seconds)")
        #expect(tree.store.keys == ["f", kept])
        #expect(tree.store.content(kept) == Array("mine ".utf8))
        #expect(try await tree.load("f") == Array("theirs".utf8))
    }

    /// Nothing of the old object is in it, so it is as if the removal had come first.
    @Test(.rule("conflict.removed"), arguments: MountPolicy.ConflictPolicy.allCases)
    func aFileWrittenAnewIsStoredThoughOthersRemovedTheObject(_ conflict: MountPolicy.ConflictPolicy) async throws {
        for isSeen in [false, true] {
            let tree = try MountedTree()
            tree.policy.conflict = conflict
            try await tree.remount()
            tree.store.setObject("d/f", Array("start".utf8))
            _ = try await tree.names("d")
            tree.store.removeObject("d/f")
            let file = try await tree.open("d/f", OpenFlags(reads: false, writes: true, truncate: true))
            try await tree.write(file, Array("new".utf8), at: 0)
            if isSeen {
                tree.time.advance(by: .seconds(61))
                _ = try? await tree.names("d")
                #expect(try await tree.names("") == ["d"])
                #expect(try await tree.find("d/f").size == 3)
                #expect(try await tree.names("d") == ["f"])
            }
            try await tree.close(file)
            #expect(tree.store.content("d/f") == Array("new".utf8))
            #expect(tree.store.keys == ["d/f"])
            #expect(try await tree.load("d/f") == Array("new".utf8))
        }
    }

    @Test(.rule("conflict.removed")) func anEditOfAnObjectThatSomebodyElseRemovedIsStaleAndKept() async throws {
        for isSeen in [false, true] {
            let tree = try MountedTree()
            tree.store.setObject("d/f", Array("start".utf8))
            let file = try await tree.open("d/f", readWrite)
            #expect(try await tree.read(file, at: 0, count: 5) == Array("start".utf8))
            try await tree.write(file, Array("S".utf8), at: 0)
            tree.store.removeObject("d/f")
            if isSeen {
                tree.time.advance(by: .seconds(61))
                _ = try? await tree.names("d")
                #expect(try await tree.find("d/f").size == 5)
            }
            await #expect(throws: MountedTree.Failure(kind: .stale, reason: "")) { try await tree.close(file) }
            #expect(tree.store.content("d/f") == nil)
            let kept = tree.store.keys.filter { $0.description.hasPrefix("d/f.conflict-here-") }
            #expect(kept.first.flatMap { tree.store.content($0) } == Array("Start".utf8), "\(isSeen)")
            #expect(await tree.system.shutDown().isEmpty)
        }
    }

    @Test(.rule("write.stale", "conflict.removed")) func nothingIsWrittenToAFileWhoseRemovalElsewhereWasSeen()
        async throws
    {
        let tree = try MountedTree()
        tree.store.setObject("f", Array("start".utf8))
        let file = try await tree.open("f", readWrite)
        #expect(try await tree.read(file, at: 0, count: 5) == Array("start".utf8))
        tree.store.removeObject("f")
        tree.time.advance(by: .seconds(61))
        #expect(try await tree.names("") == [])
        #expect(try await tree.read(file, at: 0, count: 5) == Array("start".utf8))
        await #expect(throws: MountedTree.Failure(kind: .stale, reason: "")) {
            try await tree.write(file, Array("x".utf8), at: 0)
        }
        try await tree.close(file)
        #expect(await tree.system.shutDown().isEmpty)
        #expect(tree.store.keys.isEmpty)
    }

    @Test(.rule("close.remote")) func aFailedCommitIsReportedAtCloseAndTheBytesAreStillThere() async throws {
        let tree = try MountedTree()
        tree.store.fault = { operation, key in
            operation == .put
                ? ObjectStoreError(.accessDenied, operation, key: key, status: 403, message: "denied") : nil
        }
        await #expect(throws: MountedTree.Failure(kind: .accessDenied, reason: "")) {
            try await tree.store("f", Array("precious".utf8))
        }
        #expect(try await tree.load("f") == Array("precious".utf8))
        tree.store.fault = nil
        #expect(await tree.system.shutDown().isEmpty)
        #expect(tree.store.content("f") == Array("precious".utf8))
    }

    @Test(.rule("visible.other")) func renamingAnOpenFileTakesItsWritesAlong() async throws {
        let tree = try MountedTree()
        try await tree.store("a", Array("one".utf8))
        let file = try await tree.open("a", readWrite)
        try await tree.write(file, Array("two".utf8), at: 3)
        try await tree.rename("a", to: "b")
        #expect(tree.store.content("b") == Array("onetwo".utf8))
        try await tree.write(file, Array("three".utf8), at: 6)
        try await tree.close(file)
        #expect(tree.store.content("b") == Array("onetwothree".utf8))
        #expect(tree.store.content("a") == nil)
    }

    @Test func renamingADirectoryTakesOpenFilesAlong() async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("d")
        try await tree.store("d/old", Array("old".utf8))
        let file = try await tree.open("d/new", readWrite, create: true)
        try await tree.write(file, Array("new".utf8), at: 0)
        let old = try await tree.open("d/old", readOnly)
        try await tree.rename("d", to: "e")
        try await tree.close(file)
        #expect(tree.store.content("e/new") == Array("new".utf8))
        #expect(tree.store.content("e/old") == Array("old".utf8))
        #expect(try await tree.read(old, at: 0, count: 10) == Array("old".utf8))
        #expect(tree.store.keys.allSatisfy { $0.description.hasPrefix("e/") })
    }

    @Test func whatOthersPutWhereARemovedFileIsStillOpenIsTheirs() async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", Array("first".utf8))
        let file = try await tree.open("f", OpenFlags(reads: true, writes: false))
        try await tree.unlink("f")
        #expect(try await tree.names("") == [])
        tree.time.advance(by: .seconds(1))
        tree.store.setObject("f", Array("theirs".utf8))
        try await tree.close(file)
        #expect(tree.store.content("f") == Array("theirs".utf8))
        tree.time.advance(by: .seconds(100))
        #expect(try await tree.names("") == ["f"])
        #expect(try await tree.load("f") == Array("theirs".utf8))
    }

    /// A new file takes an object's place in the tree before it does in the bucket.
    @Test func anObjectThatANewFileWasRenamedOverNeverComesBack() async throws {
        let tree = try MountedTree()
        for kept in ["removed", "moved", "replaced", "linked", "d/below"] {
            if kept == "d/below" { try await tree.makeDirectory("d") }
            try await tree.store(kept, Array("old".utf8))
        }
        var open: [(InodeNumber, HandleID)] = []
        for name in ["removed", "moved", "replaced", "linked", "d/below"] {
            let file = try await tree.open("new", readWrite, create: true)
            try await tree.write(file, Array("new of \(name)".utf8), at: 0)
            try await tree.rename("new", to: name)
            open.append(file)
        }
        let other = try await tree.open("other", readWrite, create: true)
        try await tree.write(other, Array("other".utf8), at: 0)
        try await tree.unlink("removed")
        try await tree.rename("moved", to: "elsewhere")
        try await tree.rename("other", to: "replaced")
        try await tree.symlink("link", "target")
        try await tree.rename("link", to: "linked")
        try await tree.rename("d", to: "e")
        for file in open { try await tree.close(file) }
        try await tree.close(other)
        tree.time.advance(by: .seconds(100))
        #expect(try await tree.names("") == ["e", "elsewhere", "linked", "replaced"])
        #expect(
            Set(tree.store.keys.map(\.description)) == ["e/", "e/below", "elsewhere", "linked.rclonelink", "replaced"])
        #expect(try await tree.load("elsewhere") == Array("new of moved".utf8))
        #expect(try await tree.load("replaced") == Array("other".utf8))
        #expect(try await tree.load("e/below") == Array("new of d/below".utf8))
    }

    @Test(.rule("write.append")) func appendsGoToTheEnd() async throws {
        let tree = try MountedTree()
        try await tree.store("log", Array("1".utf8))
        let first = try await tree.open("log", readWrite)
        let second = try await tree.open("log", readWrite)
        try await tree.append(first, Array("2".utf8))
        try await tree.append(second, Array("3".utf8))
        try await tree.append(first, Array("4".utf8))
        try await tree.close(first)
        try await tree.close(second)
        #expect(tree.store.content("log") == Array("1234".utf8))
    }

    @Test func aFewBytesWrittenIntoABigObjectMoveOnlyTheirParts() async throws {
        let tree = try MountedTree()
        var generator = SeededGenerator(seed: 3)
        var bytes = generator.bytes(40 << 20)
        tree.store.setObject("big", bytes)
        let file = try await tree.open("big", readWrite)
        try await tree.write(file, [1, 2, 3], at: 20 << 20)
        try await tree.close(file)
        bytes.replaceSubrange(20 << 20..<20 << 20 + 3, with: [1, 2, 3])
        #expect(tree.store.content("big") == bytes)
        let sent = tree.store.requests(.uploadPart).reduce(0) { $0 + ($1.bytes ?? 0) }
        #expect(sent == 8 << 20)
        #expect(try await tree.load("big") == bytes)
    }

    @Test(.rule("mkdir.last")) func removingTheLastFileKeepsADirectoryThatHadNoMarker() async throws {
        let tree = try MountedTree()
        tree.store.setObject("d/only", [1])
        try await tree.unlink("d/only")
        #expect(tree.store.keys == ["d/"])
        #expect(try await tree.find("d").kind == .directory)
        try await tree.removeDirectory("d")
        #expect(tree.store.keys.isEmpty)
    }

    @Test(.rule("rmdir")) func aDirectoryWithKeysNobodyListedIsNotRemoved() async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("d")
        #expect(try await tree.names("d").isEmpty)
        tree.store.setObject("d/foreign", [1])
        await #expect(throws: MountedTree.Failure(kind: .notEmpty, reason: "")) {
            try await tree.removeDirectory("d")
        }
    }

    @Test(.rule("permission")) func aReadOnlyMountRefusesEveryChange() async throws {
        let tree = try MountedTree()
        tree.store.setObject("f", [1])
        tree.policy.readOnly = true
        try await tree.remount()
        let refused = MountedTree.Failure(kind: .readOnly, reason: "")
        await #expect(throws: refused) { try await tree.store("g", [1]) }
        await #expect(throws: refused) { try await tree.unlink("f") }
        await #expect(throws: refused) { try await tree.makeDirectory("d") }
        await #expect(throws: refused) { try await tree.rename("f", to: "g") }
        await #expect(throws: refused) { try await tree.open("f", readWrite) }
        #expect(try await tree.load("f") == [1])
    }

    @Test(.rule("name.length")) func namesAndKeysTooLongAreRefusedBeforeAnyByteMoves() async throws {
        let tree = try MountedTree()
        let tooLong = MountedTree.Failure(kind: .nameTooLong, reason: "")
        await #expect(throws: tooLong) { try await tree.store(String(repeating: "n", count: 256), [1]) }
        let deep = (0..<5).map { _ in String(repeating: "d", count: 200) }
        for length in 1...5 { try await tree.makeDirectory(deep.prefix(length).joined(separator: "/")) }
        let writes = tree.store.count(.put)
        await #expect(throws: tooLong) {
            try await tree.store(deep.joined(separator: "/") + "/" + String(repeating: "f", count: 30), [1])
        }
        #expect(tree.store.count(.put) == writes)
    }

    /// By /proc/self/fd, as `cat /dev/stdin` does it with what a shell has removed already.
    @Test(arguments: [true, false])
    func aFileWithoutANameIsOpenedAgain(isStored: Bool) async throws {
        let tree = try MountedTree()
        let readWrite = OpenFlags(reads: true, writes: true)
        let file = try await tree.open("f", readWrite, create: true)
        try await tree.write(file, Array("bytes".utf8), at: 0)
        if isStored { try await tree.run(tree.system.sync(file.0, handle: file.1, dataOnly: false)) }
        try await tree.unlink("f")
        let again = (file.0, try await tree.run(tree.system.open(file.0, flags: readWrite)).handle)
        try await tree.close(file)
        #expect(try await tree.read(again, at: 0, count: 10) == Array("bytes".utf8))
        let flags = OpenFlags(reads: false, writes: true, truncate: true)
        let emptying = (file.0, try await tree.run(tree.system.open(file.0, flags: flags)).handle)
        #expect(try await tree.read(again, at: 0, count: 10).isEmpty)
        try await tree.write(emptying, [1], at: 0)
        #expect(try await tree.read(again, at: 0, count: 10) == [1])
        try await tree.close(emptying)
        try await tree.close(again)
        try await tree.remount()
        #expect(tree.store.keys.isEmpty)
    }
}
