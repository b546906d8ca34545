import Basics
import Blocks
import FileSystem
import Journaling
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// The process that serves a mount dies while the store carries out what a program has asked for: the next one goes on with the
/// files that are open, whether or not the program asks again.
@Suite(.timeLimit(.minutes(2))) struct DyingProcessTests {
    private static let readWrite = OpenFlags(reads: true, writes: true)

    /// Small parts, so that a small object is made of some: its ETag is another one when its headers change, as at S3.
    private static func treeOfParts(_ durability: MountPolicy.Durability = .remote) throws -> MountedTree {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        return try MountedTree(capabilities: capabilities, durability: durability, partSize: 64 << 10)
    }

    /// Runs `act`, which no answer comes to, until the store has carried out `operation`; then another process takes over.
    private func die(
        _ tree: MountedTree, after operation: ObjectStoreError.Operation,
        in act: @escaping @Sendable (BucketFileSystem) async -> Void
    ) async throws {
        let system = tree.system
        let gate = tree.store.hold(operation, beforeReply: true)
        let program = tree.pool.start { await act(system) }
        await gate.waitForArrivals()
        tree.crash()
        gate.open()
        _ = await program.value
        try await tree.restart()
    }

    private static func end<Value: Sendable>(_ outcome: Outcome<Value>) async { _ = await outcome.value() }

    enum Act: CaseIterable { case mode, attribute }

    @Test(arguments: Act.allCases, [true, false])
    func anOpenFileKeepsItsObjectWhenItsHeadersChange(act: Act, isRepeated: Bool) async throws {
        let tree = try Self.treeOfParts()
        var bytes = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
        try await tree.store("f", bytes)
        try await tree.remount()
        tree.rooms.blocks.forget("f")
        let file = try await tree.open("f", Self.readWrite)
        let ino = file.0
        @Sendable func change(_ system: BucketFileSystem) async {
            switch act {
            case .mode:
                var change = AttributeChange()
                change.mode = 0o600
                await Self.end(system.setAttributes(ino, to: change, handle: nil))
            case .attribute:
                await Self.end(system.setExtendedAttribute("user.a", of: ino, to: "b", mode: .createOrReplace))
            }
        }
        try await die(tree, after: .updateMetadata, in: change)
        if isRepeated { await change(tree.system) }
        #expect(try await tree.read(file, at: 200_000, count: 10) == Array(bytes[200_000..<200_010]))
        try await tree.write(file, Array("more".utf8), at: 100)
        bytes.replaceSubrange(100..<104, with: Array("more".utf8))
        try await tree.close(file)
        #expect(tree.store.content("f") == bytes)
        #expect(tree.store.keys == ["f"])
        switch act {
        case .mode: #expect(try await tree.find("f").mode & 0o777 == 0o600)
        case .attribute: #expect(try await tree.run(tree.system.extendedAttribute("user.a", of: ino)) == "b")
        }
        #expect(try tree.rooms.journal.contents().isEmpty)
    }

    /// The store has come to the end of it after the next process had asked: what the program asks again is refused.
    @Test func headersThatWereChangedLate() async throws {
        let tree = try Self.treeOfParts()
        let bytes = [UInt8](repeating: 1, count: 300_000)
        try await tree.store("f", bytes)
        let file = try await tree.open("f", Self.readWrite)
        tree.store.faultAfter = { operation, key in
            guard operation == .updateMetadata else { return nil }
            return ObjectStoreError(.preconditionFailed, operation, key: key, message: "it has another ETag by now")
        }
        try await tree.change("f") { $0.mode = 0o600 }
        tree.store.faultAfter = nil
        try await tree.write(file, Array("more".utf8), at: 0)
        try await tree.close(file)
        #expect(tree.store.content("f") == Array("more".utf8) + bytes[4...])
        #expect(tree.store.keys == ["f"])
    }

    /// Nobody answers for a while.
    @Test func headersOfWhichNothingIsHeard() async throws {
        let tree = try Self.treeOfParts()
        let bytes = [UInt8](repeating: 1, count: 300_000)
        try await tree.store("f", bytes)
        try await tree.remount()
        tree.rooms.blocks.forget("f")
        let file = try await tree.open("f", Self.readWrite)
        tree.store.faultAfter = { operation, key in
            guard [.updateMetadata, .head].contains(operation) else { return nil }
            return ObjectStoreError(.unreachable, operation, key: key, message: "the answer was lost")
        }
        await #expect(throws: MountedTree.Failure.self) { try await tree.change("f") { $0.mode = 0o600 } }
        tree.store.faultAfter = nil
        try await tree.waitUntil("no job is left", each: .seconds(1)) { tree.system.unfinishedJobs().isEmpty }
        #expect(try await tree.read(file, at: 200_000, count: 2) == [1, 1])
        try await tree.write(file, Array("more".utf8), at: 0)
        try await tree.close(file)
        #expect(tree.store.content("f") == Array("more".utf8) + bytes[4...])
        #expect(tree.store.keys == ["f"])
        #expect(try await tree.find("f").mode & 0o777 == 0o600)
    }

    @Test(arguments: [true, false], [true, false])
    func anOpenFileIsFoundAtItsNewName(isRepeated: Bool, replaces: Bool) async throws {
        let tree = try MountedTree()
        let bytes = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
        let old = [UInt8](repeating: 9, count: 1000)
        try await tree.store("a", bytes)
        try await tree.makeDirectory("d")
        if replaces { try await tree.store("d/b", old) }
        try await tree.remount()
        tree.rooms.blocks.forget("a")
        let file = try await tree.open("a", Self.readWrite)
        let replaced = replaces ? try await tree.open("d/b", OpenFlags(reads: true, writes: false)) : nil
        let directory = try await tree.find("d").ino
        @Sendable func rename(_ system: BucketFileSystem) async {
            await Self.end(system.rename("a", in: .root, to: "b", in: directory, noReplace: false))
        }
        try await die(tree, after: .copy, in: rename)
        if isRepeated { await rename(tree.system) }
        #expect(try await tree.read(file, at: 50_000, count: 10) == Array(bytes[50_000..<50_010]))
        try await tree.write(file, Array("more".utf8), at: 0)
        #expect(try await tree.find("d/b").ino == file.0)
        if let replaced {
            #expect(try await tree.read(replaced, at: 0, count: 2000) == old)
            try await tree.close(replaced)
        }
        try await tree.close(file)
        #expect(try await tree.names("") == ["d"])
        #expect(tree.store.content("d/b") == Array("more".utf8) + bytes[4...])
        #expect(tree.store.content("a") == nil)
        try await tree.remount()
        #expect(try await tree.load("d/b") == Array("more".utf8) + bytes[4...])
    }

    @Test(arguments: [MountPolicy.Durability.remote, .local])
    func theNewestAttributesOfAnUploadAreStored(durability: MountPolicy.Durability) async throws {
        let tree = try Self.treeOfParts(durability)
        let bytes = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
        let file = try await tree.open("f", Self.readWrite, create: true)
        try await tree.write(file, bytes, at: 0)
        while tree.store.uploadsInProgress.isEmpty { try await Task.sleep(for: .milliseconds(1)) }
        try await tree.change("f") { $0.mode = 0o755 }
        try await tree.run(
            tree.system.setExtendedAttribute("user.a", of: file.0, to: "b", mode: .createOrReplace))
        try await die(tree, after: .completeUpload) { system in
            await Self.end(system.flush(file.0, handle: file.1) { false })
        }
        try await tree.close(file)
        try await tree.remount()
        #expect(tree.store.content("f") == bytes)
        #expect(try await tree.find("f").mode & 0o777 == 0o755)
        #expect(try await tree.run(tree.system.extendedAttribute("user.a", of: try await tree.find("f").ino)) == "b")
        #expect(tree.store.uploadsInProgress.isEmpty)
    }

    /// What was written over a promise has reached the store, and nobody has heard of it: the promise is kept by that.
    @Test(arguments: [MountPolicy.ConflictPolicy.keep, .overwrite], [true, false])
    func aPromiseThatWasWrittenOverDoesNotComeBack(conflict: MountPolicy.ConflictPolicy, isRestart: Bool) async throws {
        var capabilities = Capabilities()
        if conflict == .overwrite { (capabilities.putIfMatch, capabilities.putIfAbsent) = (false, false) }
        let tree = try MountedTree(capabilities: capabilities, durability: .local)
        tree.policy.conflict = conflict
        try await tree.remount()
        tree.store.setObject("f", Array("first".utf8))
        tree.store.fault = { operation, key in
            guard operation == .put else { return nil }
            return ObjectStoreError(.unreachable, operation, key: key, message: "nobody answers")
        }
        try await tree.store("f", Array("promised".utf8))
        let file = try await tree.open("f", Self.readWrite)
        try await tree.write(file, Array("what was written after that".utf8), at: 0)
        tree.store.fault = nil
        let system = tree.system
        let gate = tree.store.hold(.put, beforeReply: true)
        let program = tree.pool.start {
            await Self.end(system.rename("f", in: .root, to: "g", in: .root, noReplace: false))
        }
        await gate.waitForArrivals()
        tree.crash()
        gate.open()
        _ = await program.value
        if isRestart { try await tree.restart() } else { try await tree.mountAgain() }
        _ = await tree.system.shutDown()
        #expect(tree.store.keys == ["f"])
        #expect(tree.store.content("f") == Array("what was written after that".utf8))
        #expect(try tree.rooms.journal.contents().isEmpty)
        #expect(tree.system.listRecoverableFiles().isEmpty)
    }
}
