import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// A program that is killed in a call does not end the call, and may be started again at once.
@Suite(.timeLimit(.minutes(1))) struct RepeatedRenameTests {
    private func rename(_ tree: MountedTree, _ name: ByteString, to newName: ByteString) -> Task<Bool, Never> {
        let system = tree.system
        return tree.pool.start { () async -> Bool in
            let outcome = system.rename(name, in: .root, to: newName, in: .root, noReplace: false)
            return if case .success = await outcome.value() { true } else { false }
        }
    }

    @Test func theSecondOfTwoEqualRenamesFindsNothing() async throws {
        let tree = try MountedTree()
        try await tree.store("a", Array("bytes".utf8))
        let gate = tree.store.hold(.copy)
        let first = rename(tree, "a", to: "c")
        await gate.waitForArrivals()
        let second = rename(tree, "a", to: "c")
        try await Task.sleep(for: .milliseconds(100))
        gate.open()
        #expect(await first.value)
        #expect(await !second.value)
        #expect(tree.store.content("c") == Array("bytes".utf8))
        #expect(tree.store.keys == ["c"])
    }

    @Test func whatWasRenamedMeanwhileIsNotRemoved() async throws {
        let tree = try MountedTree()
        try await tree.store("a", Array("bytes".utf8))
        let gate = tree.store.hold(.copy)
        let first = rename(tree, "a", to: "c")
        await gate.waitForArrivals()
        let system = tree.system
        let second = tree.pool.start { () async -> Bool in
            if case .success = await system.unlink("a", in: .root).value() { true } else { false }
        }
        try await Task.sleep(for: .milliseconds(100))
        gate.open()
        #expect(await first.value)
        #expect(await !second.value)
        #expect(tree.store.content("c") == Array("bytes".utf8))
    }
}
