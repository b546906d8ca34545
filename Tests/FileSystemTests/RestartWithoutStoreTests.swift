import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// A worker takes over while the store is away.
@Suite(.timeLimit(.minutes(2))) struct RestartWithoutStoreTests {
    /// Every object is copied; the process dies before the first source is deleted.
    @Test(.rule("crash.process", "rename.directory")) func aRenamedDirectoryWaitsForTheStore() async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("d")
        try await tree.store("d/f", [1, 2, 3])
        let system = tree.system
        let gate = tree.store.hold(.deleteMany)
        let program = tree.pool.start {
            _ = await system.rename("d", in: .root, to: "e", in: .root, noReplace: false).value()
        }
        await gate.waitForArrivals()
        tree.store.fault = { operation, key in
            ObjectStoreError(.unreachable, operation, key: key, message: "away")
        }
        tree.crash()
        gate.open()
        await program.value
        try await tree.restart()
        tree.store.fault = nil
        #expect(try await tree.find("e/f").size == 3)
        try await tree.waitUntil("the old objects are deleted") {
            tree.time.advance(by: .seconds(1))
            return tree.store.keys == ["e/", "e/f"]
        }
        withExtendedLifetime(system) {}
    }
}
