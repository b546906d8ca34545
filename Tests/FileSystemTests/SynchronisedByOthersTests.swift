import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// fsync(2) and truncate(2) by others than those who have written.
@Suite struct SynchronisedByOthersTests {
    private let writing = OpenFlags(reads: false, writes: true)
    private let reading = OpenFlags(reads: true, writes: false)

    /// Kills the process, and lets the next one store what was promised, and nothing else.
    private func crash(_ tree: MountedTree) async throws {
        tree.crash()
        let dead = tree.system
        try await tree.mountAgain()
        #expect(await tree.system.shutDown().isEmpty)
        withExtendedLifetime(dead) {}
    }

    private func refusePuts(_ tree: MountedTree) {
        tree.store.fault = { operation, key in
            guard operation == .put else { return nil }
            return ObjectStoreError(.unreachable, operation, key: key, message: "the store is away")
        }
    }

    /// sync(1) opens the file for reading.
    @Test(.rule("fsync.file"), arguments: [MountPolicy.Durability.remote, .local])
    func aReadersFsyncIsOfTheFile(durability: MountPolicy.Durability) async throws {
        let tree = try MountedTree(durability: durability)
        let writer = try await tree.open("f", writing, create: true)
        try await tree.write(writer, Array("bytes".utf8), at: 0)
        let reader = try await tree.open("f", reading)
        try await tree.run(tree.system.sync(reader.0, handle: reader.1, dataOnly: false))
        if durability == .remote { #expect(tree.store.content("f") == Array("bytes".utf8)) }
        try await crash(tree)
        #expect(tree.store.content("f") == Array("bytes".utf8))
    }

    @Test(.rule("fsync.file")) func aReadersFsyncTellsWhatFails() async throws {
        let tree = try MountedTree()
        let writer = try await tree.open("f", writing, create: true)
        try await tree.write(writer, [1], at: 0)
        let reader = try await tree.open("f", reading)
        refusePuts(tree)
        await #expect(throws: MountedTree.Failure.self) {
            try await tree.run(tree.system.sync(reader.0, handle: reader.1, dataOnly: false))
        }
        // Its close has nothing to do with what others write.
        try await tree.close(reader)
        tree.store.fault = nil
        try await tree.close(writer)
        #expect(tree.store.content("f") == [1])
    }

    /// pailfs-semantics(7), truncate: by path it stores the file before it returns. That of a file that only waits for the store as well.
    @Test(.rule("truncate")) func aTruncatedPromiseIsAPromise() async throws {
        let tree = try MountedTree(durability: .local)
        refusePuts(tree)
        try await tree.store("f", Array("bytes".utf8))
        try await tree.change("f") { $0.size = 2 }
        tree.crash()
        let dead = tree.system
        tree.store.fault = nil
        try await tree.mountAgain()
        #expect(await tree.system.shutDown().isEmpty)
        #expect(tree.store.content("f") == Array("by".utf8))
        withExtendedLifetime(dead) {}
    }

    @Test(.rule("truncate")) func whatSomebodyWritesIsStoredByTheirClose() async throws {
        let tree = try MountedTree()
        let writer = try await tree.open("f", writing, create: true)
        try await tree.write(writer, Array("bytes".utf8), at: 0)
        try await tree.change("f") { $0.size = 2 }
        #expect(tree.store.content("f") == nil)
        try await tree.close(writer)
        #expect(tree.store.content("f") == Array("by".utf8))
    }

    /// A close that failed has left it to whoever stores it next.
    @Test(.rule("truncate")) func aTruncatedFileThatNobodyHasOpenIsStored() async throws {
        let tree = try MountedTree()
        refusePuts(tree)
        let writer = try await tree.open("f", writing, create: true)
        try await tree.write(writer, Array("bytes".utf8), at: 0)
        await #expect(throws: MountedTree.Failure.self) { try await tree.close(writer) }
        tree.store.fault = nil
        try await tree.change("f") { $0.size = 2 }
        #expect(tree.store.content("f") == Array("by".utf8))
    }

    /// What the store refuses for good is told to whoever synchronises the directory, and to the file's own descriptor as well.
    @Test(.rule("fsync.directory", "close.clean", "close.local"))
    func aDirectorysFsyncTellsWhatIsRefusedInTheBackground() async throws {
        let tree = try MountedTree(durability: .local)
        tree.store.fault = { operation, key in
            guard operation == .put else { return nil }
            return ObjectStoreError(.accessDenied, operation, key: key, message: "it may not be written")
        }
        let writer = try await tree.open("f", writing, create: true)
        try await tree.write(writer, Array("bytes".utf8), at: 0)
        try await tree.run(tree.system.sync(writer.0, handle: writer.1, dataOnly: false))
        var told: MountedTree.Failure?
        try await tree.waitUntil("fsync of the directory fails") {
            do throws(MountedTree.Failure) { try await tree.run(tree.system.syncDirectory(.root)) } catch {
                told = error
            }
            return told != nil
        }
        #expect(told?.kind == .accessDenied)
        await #expect(throws: MountedTree.Failure(kind: .accessDenied, reason: "")) { try await tree.close(writer) }
        tree.store.fault = nil
        try await tree.remount()
        #expect(tree.store.content("f") == Array("bytes".utf8))
    }
}
