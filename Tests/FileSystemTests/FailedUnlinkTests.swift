import Basics
import FileSystem
import Metadata
import ObjectStorage
import SQLite
import Staging
import TestSupport
import Testing

/// What failed since the metadata cache could not be written does not happen later.
@Suite(.timeLimit(.minutes(2))) struct FailedUnlinkTests {
    /// The metadata cache as another connection has it: rows of entries cannot be deleted until `heal`.
    private struct Damage {
        let database: Database
        init(_ tree: MountedTree) throws {
            var directory = tree.rooms.staging.directory
            directory.removeLast("/staging".count)
            database = try Database(.file(directory + "/meta.db"), migrations: MetadataCache.migrations)
            try database.write { (connection) throws(SQLiteError) in
                try connection.execute(
                    "CREATE TRIGGER broken BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'broken'); END")
            }
        }
        func heal() throws {
            try database.write { (connection) throws(SQLiteError) in try connection.execute("DROP TRIGGER broken") }
            database.close()
        }
    }

    @Test(.rule("crash.later")) func aFileThatWasNotRemovedStays() async throws {
        let tree = try MountedTree()
        let bytes = Array("content".utf8)
        tree.store.setObject("f", bytes)
        let file = try await tree.open("f", OpenFlags(reads: true, writes: false))
        let damage = try Damage(tree)
        await #expect(throws: MountedTree.Failure.self) { try await tree.unlink("f") }
        try damage.heal()
        try await tree.close(file)
        #expect(try await tree.load("f") == bytes)
        try await tree.remount()
        #expect(tree.store.content("f") == bytes)
    }

    /// `durable=local`, promised and written to again: there is no object yet.
    @Test(arguments: [true, false])
    func whatWasPromisedStaysPromised(isOrderly: Bool) async throws {
        let tree = try MountedTree(durability: .local)
        let bytes = Array("promised".utf8)
        tree.store.fault = { operation, key in
            guard operation == .put else { return nil }
            return ObjectStoreError(.unreachable, operation, key: key, message: "the store is away")
        }
        try await tree.store("f", bytes)
        let file = try await tree.open("f", OpenFlags(reads: true, writes: true))
        try await tree.write(file, Array("P".utf8), at: 0)
        let damage = try Damage(tree)
        await #expect(throws: MountedTree.Failure.self) { try await tree.unlink("f") }
        try damage.heal()
        try await tree.close(file)
        tree.store.fault = nil
        if isOrderly {
            try await tree.remount()
        } else {
            tree.crash()
            try await tree.mountAgain()
        }
        #expect(try await tree.load("f") == Array("Promised".utf8))
        try await tree.remount()
        #expect(tree.store.content("f") == Array("Promised".utf8))
    }

    @Test(.rule("crash.later")) func aDirectoryThatWasNotRenamedStays() async throws {
        let tree = try MountedTree()
        for name in ["d/x", "d/y"] { tree.store.setObject(ObjectKey(name), Array(name.utf8)) }
        _ = try await tree.names("d")
        let damage = try Damage(tree)
        await #expect(throws: MountedTree.Failure.self) { try await tree.rename("d", to: "e") }
        try damage.heal()
        #expect(try await tree.load("d/x") == Array("d/x".utf8))
        try await tree.remount()
        #expect(tree.store.keys == ["d/x", "d/y"])
    }
}
