import Basics
import Commits
import FileSystem
import Journaling
import Metadata
import ObjectStorage
import Synchronization
import TestSupport
import Testing

/// The worker dies in a rename of links, or over one, or of bytes that were written over a promise: after that everything is as if
/// it had not died.
@Suite(.timeLimit(.minutes(2))) struct RenameAfterDeathTests {
    private static let readWrite = OpenFlags(reads: true, writes: true)
    private static let bytes = Array("the file".utf8)

    enum Links: String, CaseIterable { case objects, metadata, native }

    private static func tree(
        _ links: Links = .objects, _ durability: MountPolicy.Durability = .remote
    ) async throws -> MountedTree {
        var capabilities = Capabilities()
        capabilities.symlinks = links == .native
        let codec = links == .metadata ? NameCodec(linkSuffix: nil) : NameCodec()
        let tree = try MountedTree(capabilities: capabilities, durability: durability, codec: codec)
        tree.policy.linksInHeaders = links == .metadata
        tree.policy.nativeLinks = links == .native
        try await tree.remount()
        return tree
    }

    /// A request at which the process dies.
    struct Point: Sendable, CustomTestStringConvertible {
        let operation: ObjectStoreError.Operation
        /// Whether the store carries it out.
        let isDone: Bool

        var testDescription: String { "\(isDone ? "after" : "before") \(operation)" }
    }

    private static func points(_ operations: ObjectStoreError.Operation...) -> [Point] {
        operations.flatMap { [Point(operation: $0, isDone: false), Point(operation: $0, isDone: true)] }
    }

    /// From some moment on a request that the store has not carried out never is: its process is dead.
    private final class Loss: Sendable {
        private let hasBegun = Mutex(false)

        init(of lost: ObjectStoreError.Operation, in store: MemoryStore) {
            let before = store.fault
            store.fault = { [self] operation, key in
                guard operation == lost, hasBegun.withLock({ $0 }) else { return before?(operation, key) }
                return ObjectStoreError(.unreachable, operation, key: key, message: "the request was lost")
            }
        }

        func begin() { hasBegun.withLock { $0 = true } }
    }

    private static func rename(_ name: ByteString, to newName: ByteString, _ system: BucketFileSystem) async {
        _ = await system.rename(name, in: .root, to: newName, in: .root, noReplace: false).value()
    }

    /// The process dies in `mv name newName`. With `isRestart` another one goes on with the mount, and is asked for the same again;
    /// else the bucket is mounted anew.
    private func die(
        _ tree: MountedTree, at point: Point, renaming name: ByteString, to newName: ByteString, isRestart: Bool = true
    ) async throws {
        let loss = Loss(of: point.operation, in: tree.store)
        let system = tree.system
        let gate = tree.store.hold(point.operation, beforeReply: point.isDone)
        let program = tree.pool.start { await Self.rename(name, to: newName, system) }
        await gate.waitForArrivals()
        if !point.isDone { loss.begin() }
        tree.crash()
        gate.open()
        await program.value
        tree.store.fault = nil
        if isRestart {
            try await tree.restart()
            await Self.rename(name, to: newName, tree.system)
        } else {
            try await tree.mountAgain()
        }
        withExtendedLifetime(system) {}
    }

    // MARK: Targets under another key

    @Test(
        .rule("rename.replace", "crash.jobs"), arguments: [true, false],
        [MountPolicy.Durability.remote, .local])
    func aReplacedTargetUnderAnotherKeyStaysAway(isLink: Bool, durability: MountPolicy.Durability) async throws {
        for isRestart in [true, false] {
            for point in Self.points(.copy, .delete) {
                let tree = try await Self.tree(.objects, durability)
                try await tree.store("f", Self.bytes)
                try await tree.symlink("l", "x")
                try await tree.remount()
                let (source, target): (ByteString, ByteString) = isLink ? ("l", "f") : ("f", "l")
                try await die(tree, at: point, renaming: source, to: target, isRestart: isRestart)
                let name = target.description
                #expect(try await tree.names("") == [name], "\(point.testDescription)")
                if isLink {
                    #expect(try await tree.readLink(name) == "x")
                } else {
                    #expect(try await tree.load(name) == Self.bytes)
                }
                try await tree.remount()
                #expect(tree.store.keys == [isLink ? "f.rclonelink" : "l"], "\(point.testDescription)")
                #expect(try tree.rooms.journal.contents().isEmpty)
            }
        }
    }

    /// The link's object goes when the file takes its name, and the file is then as good as acknowledged.
    @Test(.rule("rename.pending"), arguments: [true, false], Self.points(.delete))
    func aNewFileThatReplacesALinkIsThere(isRestart: Bool, point: Point) async throws {
        let tree = try await Self.tree()
        try await tree.symlink("l", "x")
        let file = try await tree.open("g", Self.readWrite, create: true)
        try await tree.write(file, Self.bytes, at: 0)
        try await die(tree, at: point, renaming: "g", to: "l", isRestart: isRestart)
        if isRestart {
            #expect(try await tree.read(file, at: 0, count: 100) == Self.bytes)
            try await tree.close(file)
        }
        #expect(try await tree.names("") == ["l"])
        #expect(try await tree.load("l") == Self.bytes)
        try await tree.remount()
        #expect(tree.store.keys == ["l"])
        #expect(tree.store.content("l") == Self.bytes)
    }

    /// Only what was meant goes.
    @Test(.rule("rename.replace")) func whatAnotherHostHasPutInThePlaceOfTheTargetStays() async throws {
        let tree = try await Self.tree()
        try await tree.store("f", Self.bytes)
        try await tree.symlink("l", "x")
        try await tree.remount()
        let source = try #require(tree.store.info("f")).version
        let link = try #require(tree.store.info("l.rclonelink")).version.etag.text
        let rename = RenameRecord(
            source: VersionRecord("f", source), to: "l", storageClass: nil, replaced: nil,
            displaced: RemovalRecord(key: "l.rclonelink", etag: link, commits: []))
        let journal = tree.rooms.journal
        try journal.write([.job(journal.newID(), .rename(rename), items: [])], flushed: true)
        tree.store.setObject("l.rclonelink", Array("y".utf8))
        try await tree.restart()
        #expect(tree.store.keys == ["l", "l.rclonelink"])
        #expect(tree.store.content("l") == Self.bytes)
        #expect(tree.store.content("l.rclonelink") == Array("y".utf8))
    }

    // MARK: Links over open files

    enum Target: String, CaseIterable { case stored, new, acknowledged, changed }

    @Test(.rule("rename.replace", "crash.process"), arguments: Target.allCases, Links.allCases)
    func aLinkReplacesAnOpenFile(target: Target, links: Links) async throws {
        for point in Self.points(links == .native ? .putSymlink : .copy, .delete) {
            let tree = try await Self.tree(links, target == .acknowledged ? .local : .remote)
            try await tree.symlink("l", "x")
            if target == .acknowledged { tree.refuseWrites() }
            if target != .new { try await tree.store("g", Self.bytes) }
            let file = try await tree.open("g", Self.readWrite, create: true)
            var expected = Self.bytes
            if target == .new || target == .changed {
                try await tree.write(file, Array("THE".utf8), at: 0)
                expected = target == .new ? Array("THE".utf8) : Array("THE".utf8) + expected[3...]
            }
            try await die(tree, at: point, renaming: "l", to: "g")
            let comment = Comment(rawValue: point.testDescription)
            #expect(try await tree.read(file, at: 0, count: 100) == expected, comment)
            try await tree.write(file, Array("more".utf8), at: 0)
            #expect(try await tree.read(file, at: 0, count: 4) == Array("more".utf8), comment)
            try await tree.close(file)
            #expect(try await tree.names("") == ["g"], comment)
            #expect(try await tree.find("g").kind == .symlink, comment)
            #expect(try await tree.readLink("g") == "x", comment)
            try await tree.remount()
            #expect(tree.store.keys == [links == .objects ? "g.rclonelink" : "g"], comment)
            #expect(try await tree.readLink("g") == "x", comment)
            #expect(tree.system.listRecoverableFiles().isEmpty, comment)
        }
    }

    // MARK: Bytes written over a version of the file's own

    /// `f` was acknowledged, and is stored without this mount's knowledge when more is written to it and it is renamed: the first try
    /// meets the file's own object, the second one the end of the process.
    @Test(.rule("crash.process", "rename.replace"), arguments: [true, false], [true, false])
    func whatWasWrittenOverAPromiseIsRenamedWithIt(isDone: Bool, isRestart: Bool) async throws {
        let tree = try await Self.tree(.objects, .local)
        let landing = tree.store.hold(.put, beforeReply: true)
        try await tree.store("f", Self.bytes)
        await landing.waitForArrivals()
        let file = try await tree.open("f", Self.readWrite)
        try await tree.write(file, Array("DIRTY".utf8), at: 0)
        let expected = Array("DIRTY".utf8) + Self.bytes[5...]
        let system = tree.system
        let asking = tree.store.hold(.head, beforeReply: true)
        let program = tree.pool.start { await Self.rename("f", to: "g", system) }
        landing.open()
        await asking.waitForArrivals()
        let loss = Loss(of: .put, in: tree.store)
        let second = tree.store.hold(.put, beforeReply: isDone)
        asking.open()
        await second.waitForArrivals()
        if !isDone { loss.begin() }
        tree.crash()
        second.open()
        await program.value
        tree.store.fault = nil
        if isRestart { try await tree.restart() } else { try await tree.mountAgain() }
        if isRestart {
            await Self.rename("f", to: "g", tree.system)
            #expect(try await tree.read(file, at: 0, count: 100) == expected)
            try await tree.write(file, Array("!".utf8), at: 0)
            try await tree.close(file)
            try await tree.remount()
            #expect(tree.store.keys == ["g"])
            #expect(tree.store.content("g") == Array("!".utf8) + expected[1...])
        } else if tree.store.content("f") != expected {
            // Nobody was promised them.
            let kept = tree.system.listRecoverableFiles()
            #expect(kept.count == 1 && kept.first?.map != nil && kept.first?.missing == [])
        }
        withExtendedLifetime(system) {}
    }

    private static func sync(
        _ file: (InodeNumber, HandleID), _ tree: MountedTree
    ) async throws(MountedTree.Failure) {
        try await tree.run(tree.system.sync(file.0, handle: file.1, dataOnly: false))
    }

    /// The store carries an fsync(2) out and refuses it; the next one finds that, and then the store does not answer.
    @Test(.rule("crash.process"), arguments: [true, false])
    func aFileKeepsWhatWasWrittenOverItsOwnCommit(isUnlinked: Bool) async throws {
        let tree = try await Self.tree()
        let file = try await tree.open("f", Self.readWrite, create: true)
        try await tree.write(file, Self.bytes, at: 0)
        tree.store.faultAfter = { operation, key in
            guard operation == .put else { return nil }
            return ObjectStoreError(.accessDenied, operation, key: key, message: "the answer was lost")
        }
        await #expect(throws: MountedTree.Failure.self) { try await Self.sync(file, tree) }
        tree.store.faultAfter = nil
        try await tree.write(file, Array("DIRTY".utf8), at: 0)
        let expected = Array("DIRTY".utf8) + Self.bytes[5...]
        let loss = Loss(of: .put, in: tree.store)
        let asking = tree.store.hold(.head)
        let program = tree.pool.start { [system = tree.system] in
            _ = await system.sync(file.0, handle: file.1, dataOnly: false).value()
        }
        await asking.waitForArrivals()
        loss.begin()
        asking.open()
        await program.value
        tree.store.fault = nil
        if isUnlinked { try await tree.unlink("f") }
        try await tree.restart()
        #expect(try await tree.read(file, at: 0, count: 100) == expected)
        try await tree.write(file, Array("!".utf8), at: 0)
        #expect(try await tree.read(file, at: 0, count: 1) == Array("!".utf8))
        try await tree.close(file)
        try await tree.remount()
        #expect(tree.store.keys == (isUnlinked ? [] : ["f"]))
        if !isUnlinked { #expect(tree.store.content("f") == Array("!".utf8) + expected[1...]) }
    }
}
