import Basics
import FileSystem
import Metadata
import ObjectStorage
import Synchronization
import TestSupport
import Testing

/// Another host makes something at a name that is known to be free here: what may not replace it does not.
@Suite(.timeLimit(.minutes(2))) struct OtherHostTests {
    private static let theirs = Array("theirs".utf8)

    private func rename(_ tree: MountedTree, _ name: ByteString, to newName: ByteString, noReplace: Bool) async throws {
        try await tree.run(
            tree.system.rename(name, in: .root, to: newName, in: .root, noReplace: noReplace))
    }

    @Test(.rule("rename.flags"), arguments: [true, false])
    func aRenameThatMustNotReplaceDoesNot(isStored: Bool) async throws {
        let tree = try MountedTree()
        let file = try await tree.open("a", OpenFlags(reads: false, writes: true), create: true)
        try await tree.write(file, [1], at: 0)
        if isStored { try await tree.close(file) }
        _ = try await tree.names("")
        tree.store.setObject("b", Self.theirs)
        await #expect(throws: MountedTree.Failure(kind: .exists, reason: "")) {
            try await rename(tree, "a", to: "b", noReplace: true)
        }
        if !isStored { try await tree.close(file) }
        #expect(tree.store.content("b") == Self.theirs)
        #expect(tree.store.content("a") == [1])
        #expect(try await tree.load("b") == Self.theirs)
    }

    @Test(.rule("rename.directory", "rename.flags"), arguments: [true, false])
    func aDirectoryDoesNotReplaceOneWithFiles(noReplace: Bool) async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("d")
        try await tree.store("d/f", [1])
        _ = try await tree.names("")
        tree.store.setObject("e/f", Self.theirs)
        await #expect(throws: MountedTree.Failure(kind: noReplace ? .exists : .notEmpty, reason: "")) {
            try await rename(tree, "d", to: "e", noReplace: noReplace)
        }
        #expect(tree.store.content("e/f") == Self.theirs)
        #expect(try await tree.names("") == ["d", "e"])
        #expect(try await tree.load("e/f") == Self.theirs)
        #expect(try await tree.load("d/f") == [1])
    }

    @Test func aDirectoryReplacesAnEmptyOne() async throws {
        let tree = try MountedTree()
        tree.store.setObject("d/f", [1])
        _ = try await tree.names("")
        tree.store.setObject("e/", [])
        await #expect(throws: MountedTree.Failure(kind: .exists, reason: "")) {
            try await rename(tree, "d", to: "e", noReplace: true)
        }
        try await rename(tree, "d", to: "e", noReplace: false)
        #expect(try await tree.load("e/f") == [1])
        #expect(try await tree.names("") == ["e"])
    }

    /// A try that came to no end, as that of a process that died, may leave copies that the store makes late.
    @Test(arguments: [true, false])
    func copiesOfAnEarlierTryAreNobodyElses(noReplace: Bool) async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("d")
        for name in ["f", "g"] { try await tree.store("d/\(name)", Array(name.utf8)) }
        _ = try await tree.names("")
        for key in ["d/", "d/f"] as [ObjectKey] {
            let target = ObjectKey("e/" + key.bytes.dropFirst(2))
            _ = try await tree.store.copy(CopyRequest(CopySource(key), to: target))
        }
        try await rename(tree, "d", to: "e", noReplace: noReplace)
        #expect(tree.store.keys == ["e/", "e/f", "e/g"])
        #expect(try await tree.load("e/g") == Array("g".utf8))
    }

    /// SEMANTICS 3: a lost race is EEXIST.
    @Test(.rule("create.exclusive", "conflict")) func aFileThatMustBeNewIsNot() async throws {
        let tree = try MountedTree()
        _ = try await tree.names("")
        tree.store.setObject("f", Self.theirs)
        let file = try await tree.open(
            "f", OpenFlags(reads: false, writes: true, exclusive: true), create: true)
        try await tree.write(file, [1], at: 0)
        await #expect(throws: MountedTree.Failure(kind: .exists, reason: "")) { try await tree.close(file) }
        #expect(tree.store.content("f") == Self.theirs)
    }

    /// Of a file that is being written nothing need be in the bucket.
    @Test(arguments: ["rmdir", "rename"])
    func aDirectoryIsNotTakenAwayFromUnderAFileThatIsWritten(act: String) async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("d")
        try await tree.makeDirectory("d/e")
        try await tree.makeDirectory("other")
        try await tree.store("d/e/f", [1])
        let file = try await tree.open("d/e/f", OpenFlags(reads: false, writes: true, truncate: true))
        try await tree.write(file, [2, 3], at: 0)
        for key in ["d/e/", "d/e/f"] as [ObjectKey] { tree.store.removeObject(key) }
        let refused = MountedTree.Failure(kind: .notEmpty, reason: "")
        if act == "rmdir" {
            await #expect(throws: refused) { try await tree.removeDirectory("d") }
        } else {
            await #expect(throws: refused) { try await tree.rename("other", to: "d") }
        }
        try await tree.close(file)
        #expect(tree.store.content("d/e/f") == [2, 3])
        try await tree.unlink("d/e/f")
        try await tree.removeDirectory("d/e")
        try await tree.removeDirectory("d")
    }

    @Test func aLinkLeadsWhereTheyHaveLedIt() async throws {
        let tree = try MountedTree()
        try await tree.symlink("l", "one")
        #expect(try await tree.readLink("l") == "one")
        tree.store.setObject("l.rclonelink", Array("another".utf8))
        tree.time.advance(by: .seconds(61))
        #expect(try await tree.readLink("l") == "another")
        #expect(try await tree.find("l").size == 7)
        tree.store.forgetRequests()
        #expect(try await tree.readLink("l") == "another")
        #expect(tree.store.requests.isEmpty)
    }

    /// A page of the listing does not reach as far as its name.
    @Test func aDirectoryThatIsGoneIsGoneBesideManyNamesThatBeginSo() async throws {
        var capabilities = Capabilities()
        capabilities.listPage = 10
        let tree = try MountedTree(capabilities: capabilities)
        for number in 10..<40 { tree.store.setObject(ObjectKey("log-\(number)"), [1]) }
        tree.store.setObject("log/f", [1])
        #expect(try await tree.find("log").kind == .directory)
        tree.time.advance(by: .seconds(61))
        #expect(try await tree.find("log").kind == .directory)
        tree.store.removeObject("log/f")
        tree.time.advance(by: .seconds(61))
        await #expect(throws: MountedTree.Failure(kind: .notFound, reason: "")) { _ = try await tree.find("log") }
        tree.store.setObject("log", [1, 2])
        tree.time.advance(by: .seconds(61))
        #expect(try await tree.find("log").size == 2)
    }

    /// An entry that does not fit into the answer of a listing tells the kernel no length: an open makes it ask.
    @Test func onlyEntriesThatTheKernelGetsTellItTheirLength() async throws {
        let tree = try MountedTree()
        for key in ["a", "b"] as [ObjectKey] { tree.store.setObject(key, Self.theirs) }
        let handle = try await tree.run(tree.system.openDirectory(.root))
        let reply = SmallReply(capacity: 3)
        try await tree.run(
            tree.system.readDirectory(.root, handle: handle, from: 0, attributes: true, into: reply))
        #expect(reply.entries.map(\.name) == [".", "..", "a"])
        tree.system.releaseDirectory(.root, handle: handle)
        let flags = OpenFlags(reads: true, writes: false)
        let known = try await tree.run(tree.system.open(try #require(reply.entries.last?.status.ino), flags: flags))
        guard case .present(let other, _) = try tree.rooms.metadata.lookup("b", in: .root) else {
            Issue.record("it was listed")
            return
        }
        await #expect(throws: MountedTree.Failure(kind: .stale, reason: "")) {
            _ = try await tree.run(tree.system.open(other.ino, flags: flags))
        }
        try await tree.close((try #require(reply.entries.last?.status.ino), known.handle))
    }

    // MARK: While a rename goes on

    /// Of objects made of parts the ETag does not tell whether they are the same.
    @Test(arguments: [true, false])
    func anObjectOfTheSameLengthIsNoCopy(noReplace: Bool) async throws {
        var capabilities = Capabilities()
        capabilities.smallestPart = 1 << 10
        let tree = try MountedTree(capabilities: capabilities, partSize: 1 << 10)
        try await inParts("d/f", Array(repeating: 1, count: 4000), tree.store)
        _ = try await tree.names("")
        try await inParts("e/f", Array(repeating: 2, count: 4000), tree.store)
        await #expect(throws: MountedTree.Failure(kind: noReplace ? .exists : .notEmpty, reason: "")) {
            try await rename(tree, "d", to: "e", noReplace: noReplace)
        }
        #expect(tree.store.content("e/f") == Array(repeating: 2, count: 4000))
        #expect(tree.store.content("d/f") == Array(repeating: 1, count: 4000))
    }

    private func inParts(_ key: ObjectKey, _ content: [UInt8], _ store: MemoryStore) async throws {
        let upload = try await store.createUpload(PutRequest(key))
        let half = content.count / 2
        var parts: [UploadedPart] = []
        for (number, piece) in [content[..<half], content[half...]].enumerated() {
            let part = PartRequest(key, upload, number: number + 1)
            parts.append(try await store.uploadPart(part, body: MemorySource(Array(piece))))
        }
        _ = try await store.completeUpload(key, upload, parts: parts, condition: nil)
    }

    /// `act` is done once, by somebody else, when the object `key` has been copied.
    private func whenCopied(_ key: ObjectKey, in tree: MountedTree, _ act: @escaping @Sendable () -> Void) {
        let isDone = Mutex(false)
        tree.store.faultAfter = { operation, target in
            guard operation == .copy, target == key, !isDone.withLock({ exchange(&$0, with: true) }) else { return nil }
            act()
            return nil
        }
    }

    @Test(.rule("rename.directory")) func whatIsStoredInADirectoryThatIsRenamedIsNotDeleted() async throws {
        let tree = try MountedTree()
        for name in ["d/", "d/f", "d/g"] { tree.store.setObject(ObjectKey(name), Array(name.utf8.dropFirst(2))) }
        whenCopied("e/f", in: tree) { [store = tree.store] in
            store.setObject("d/f", Self.theirs)
            store.setObject("d/new", Self.theirs)
        }
        try await tree.rename("d", to: "e")
        #expect(tree.store.keys == ["d/f", "d/new", "e/", "e/f", "e/g"])
        #expect(tree.store.content("d/f") == Self.theirs)
        #expect(try await tree.load("e/f") == Array("f".utf8))
        // They have made the directory again.
        #expect(try await tree.names("") == ["d", "e"])
        #expect(try await tree.load("d/f") == Self.theirs)
    }

    @Test(.rule("rename.directory")) func aRenameThatFailsLeavesWhatIsStoredWhereItCopied() async throws {
        let tree = try MountedTree()
        for name in ["d/f", "d/g"] { tree.store.setObject(ObjectKey(name), Array(name.utf8)) }
        _ = try await tree.names("")
        tree.policy.copies = 1
        try await tree.remount()
        whenCopied("e/f", in: tree) { [store = tree.store] in store.setObject("e/f", Self.theirs) }
        tree.store.fault = { operation, key in
            guard operation == .copy, key == "e/g" else { return nil }
            return ObjectStoreError(.accessDenied, operation, key: key, message: "never")
        }
        await #expect(throws: MountedTree.Failure.self) { try await tree.rename("d", to: "e") }
        #expect(tree.store.keys == ["d/f", "d/g", "e/f"])
        #expect(tree.store.content("e/f") == Self.theirs)
        #expect(try await tree.names("") == ["d", "e"])
    }

    @Test func aRenameThatFailsLeavesTheDirectoryItWasToReplace() async throws {
        let tree = try MountedTree()
        for name in ["d/", "d/f", "e/"] { tree.store.setObject(ObjectKey(name), []) }
        tree.store.fault = { operation, key in
            guard operation == .copy, key == "e/f" else { return nil }
            return ObjectStoreError(.accessDenied, operation, key: key, message: "never")
        }
        await #expect(throws: MountedTree.Failure.self) { try await tree.rename("d", to: "e") }
        #expect(tree.store.keys == ["d/", "d/f", "e/"])
        #expect(try await tree.names("") == ["d", "e"])
    }

    @Test(arguments: [true, false])
    func whatIsStoredWhileAFileIsCopiedIsNotDeleted(compares: Bool) async throws {
        var capabilities = Capabilities()
        capabilities.deleteIfMatch = compares
        let tree = try MountedTree(capabilities: capabilities)
        tree.store.setObject("a", Array("a".utf8))
        _ = try await tree.names("")
        whenCopied("b", in: tree) { [store = tree.store, time = tree.time] in
            time.advance(by: .seconds(5))
            store.setObject("a", Self.theirs)
        }
        try await tree.rename("a", to: "b")
        #expect(tree.store.content("a") == Self.theirs)
        #expect(tree.store.content("b") == Array("a".utf8))
        #expect(try await tree.names("") == ["a", "b"])
        #expect(try await tree.load("a") == Self.theirs)
        #expect(try await tree.load("b") == Array("a".utf8))
    }
}
