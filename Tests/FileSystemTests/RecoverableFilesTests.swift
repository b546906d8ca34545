import Basics
import Commits
import FileSystem
import Foundation
import Journaling
import Metadata
import ObjectStorage
import Staging
import TestSupport
import Testing

/// What a process leaves is there for the next one, also where no staged bytes tell of it.
@Suite(.timeLimit(.minutes(2))) struct KeptFilesTests {
    private static let readWrite = OpenFlags(reads: true, writes: true)

    /// A promise without a staged byte outlives a mount that may only look.
    @Test(arguments: [0, 5_000_000])
    func aMountThatMayNotWriteKeepsPromises(size: Int64) async throws {
        let tree = try MountedTree(durability: .local)
        try await tree.store("f", Array("old".utf8))
        try await tree.remount()
        let store = tree.store
        store.fault = { operation, key in
            [.put, .copy].contains(operation)
                ? ObjectStoreError(.unreachable, operation, key: key, message: "away") : nil
        }
        let file = try await tree.open("f", OpenFlags(reads: false, writes: true, truncate: true))
        if size > 0 {
            var change = AttributeChange()
            change.size = size
            _ = try await tree.run(tree.system.setAttributes(file.0, to: change, handle: file.1))
        }
        try await tree.close(file)
        #expect(try tree.rooms.journal.contents().files.values.map(\.isAcknowledged) == [true])
        let killed = tree.system
        defer { withExtendedLifetime(killed) {} }
        tree.crash()
        tree.policy.readOnly = true
        try await tree.mountAgain()
        #expect(try tree.rooms.journal.contents().files.values.map(\.isAcknowledged) == [true])
        let looked = tree.system
        defer { withExtendedLifetime(looked) {} }
        store.fault = nil
        tree.policy.readOnly = false
        try await tree.mountAgain()
        try await tree.remount()
        #expect(store.info("f")?.version.size == size)
        #expect(tree.system.listRecoverableFiles().isEmpty)
    }

    /// A file that was only cut has no staged byte, and somebody cut it all the same.
    @Test(.rule("crash.unacknowledged")) func aFileThatWasOnlyCutIsKept() async throws {
        let tree = try MountedTree()
        try await tree.store("f", Array("the first version".utf8))
        try await tree.store("untouched", [1])
        try await tree.remount()
        let file = try await tree.open("f", Self.readWrite)
        var change = AttributeChange()
        change.size = 3
        _ = try await tree.run(tree.system.setAttributes(file.0, to: change, handle: file.1))
        _ = try await tree.open("new", Self.readWrite, create: true)
        let killed = tree.system
        defer { withExtendedLifetime(killed) {} }
        tree.crash()
        try await tree.mountAgain()
        #expect(tree.system.listRecoverableFiles().map(\.intent.key) == ["f"])
        #expect(tree.system.listRecoverableFiles().map { $0.map?.size } == [3])
    }

    /// "pailfs recover commit" asks the store for the object's headers first, and a program may open the file meanwhile.
    @Test func aFileThatAProgramHasOpenedMeanwhileIsNotRecoveredIntoIt() async throws {
        let tree = try MountedTree()
        try await tree.store("f", Array("the first version".utf8))
        let left = try await tree.open("f", Self.readWrite)
        try await tree.write(left, Array("kept".utf8), at: 0)
        let killed = tree.system
        defer { withExtendedLifetime(killed) {} }
        tree.crash()
        try await tree.mountAgain()
        let kept = try #require(tree.system.listRecoverableFiles().first)
        #expect(try await tree.load("f") == Array("the first version".utf8))
        let asking = tree.store.hold(.head)
        let system = tree.system
        let recovery = tree.pool.start { () async -> FileSystemError? in
            do throws(FileSystemError) { try await system.commitRecoverable(kept.id, evenIfDoubtful: false) } catch {
                return error
            }
            return nil
        }
        await asking.waitForArrivals()
        let file = try await tree.open("f", Self.readWrite)
        try await tree.write(file, Array("written meanwhile".utf8), at: 0)
        asking.open()
        #expect(await recovery.value?.kind == .busy)
        try await tree.close(file)
        #expect(tree.store.content("f") == Array("written meanwhile".utf8))
        #expect(try await tree.load("f") == Array("written meanwhile".utf8))
        #expect(tree.system.listRecoverableFiles().map(\.id) == [kept.id])
    }

    /// A store that checks no conditions is asked before each commit, by the next process as well.
    @Test(.rule("conflict.gap")) func whatAnotherHostStoredIsNotReplacedByTheNextProcess() async throws {
        var capabilities = Capabilities()
        (capabilities.putIfMatch, capabilities.putIfAbsent, capabilities.copyCondition) = (false, false, false)
        let tree = try MountedTree(capabilities: capabilities, durability: .local)
        let store = tree.store
        store.setObject("f", Array("old".utf8))
        store.fault = { operation, key in
            operation == .put ? ObjectStoreError(.unreachable, .put, key: key, message: "away") : nil
        }
        try await tree.store("f", Array("ours".utf8))
        try await tree.waitUntil("it was tried") {
            try tree.rooms.journal.contents().files.values.contains { $0.attempt != nil }
        }
        let killed = tree.system
        defer { withExtendedLifetime(killed) {} }
        tree.crash()
        store.setObject("f", Array("theirs".utf8))
        store.fault = nil
        try await tree.mountAgain()
        _ = await tree.system.shutDown()
        #expect(store.content("f") == Array("theirs".utf8))
        let beside = try #require(store.keys.first { $0 != "f" })
        #expect(store.content(beside) == Array("ours".utf8))
    }

    /// Nobody is served until a start has looked at its journal: a store that is away is not waited for once for each file.
    @Test func aStoreThatIsAwayIsNotAskedAboutEachFile() async throws {
        let tree = try MountedTree(durability: .local)
        let store = tree.store
        let names = (0..<60).map { "f\($0 + 10)" }
        store.fault = { operation, key in
            operation == .put ? ObjectStoreError(.unreachable, operation, key: key, message: "away") : nil
        }
        for name in names { try await tree.store(name, Array(name.utf8)) }
        try await tree.waitUntil("each was tried") {
            try tree.rooms.journal.contents().files.values.allSatisfy { $0.attempt != nil }
        }
        #expect(try tree.rooms.journal.contents().files.values.count { $0.attempt != nil } == names.count)
        let killed = tree.system
        defer { withExtendedLifetime(killed) {} }
        tree.crash()
        store.fault = { operation, key in ObjectStoreError(.unreachable, operation, key: key, message: "away") }
        store.forgetRequests()
        try await tree.mountAgain()
        #expect(store.requests.count < names.count / 2)
        store.fault = nil
        _ = await tree.system.shutDown()
        for name in names { #expect(store.content(ObjectKey(ByteString(name))) == Array(name.utf8)) }
    }

    /// What is only in the journal's log may be lost by a power cut: the end of the row has to have come further.
    @Test func aRemovedFileHasNoRowAnyMoreAfterAPowerCut() async throws {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        let tree = try MountedTree(capabilities: capabilities, durability: .local, partSize: 64 << 10)
        let store = tree.store
        store.fault = { operation, key in
            [.put, .createUpload].contains(operation)
                ? ObjectStoreError(.unreachable, operation, key: key, message: "away") : nil
        }
        try await tree.store("f", [1, 2, 3])
        try await tree.store("large", [UInt8](repeating: 7, count: 300_000))
        let killed = tree.system
        defer { withExtendedLifetime(killed) {} }
        tree.crash()
        store.fault = nil
        // As long as anything is on its way nothing is flushed for its own sake.
        let gate = store.hold(.createUpload)
        try await tree.mountAgain()
        await gate.waitForArrivals()
        try await waitUntil("one file is left") { try tree.rooms.journal.contents().files.count == 1 }
        try await tree.unlink("f")
        let directory = try TemporaryDirectory()
        let copy = directory.path("journal.db")
        try FileManager.default.copyItem(atPath: tree.rooms.staging.directory + "/../journal.db", toPath: copy)
        #expect(try Journal(path: copy).contents().files.values.map(\.key) == ["large"])
        gate.open()
        _ = await tree.system.shutDown()
        #expect(store.keys == ["large"])
    }
}
