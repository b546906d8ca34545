import Basics
import FileSystem
import Metadata
import ObjectStorage
import Synchronization
import TestSupport
import Testing

/// Two mounts of one bucket rename the same directories.
@Suite(.timeLimit(.minutes(2))) struct TwoMountRenameTests {
    /// One mount, which one task uses.
    private struct Player: @unchecked Sendable {
        let tree: MountedTree
        let names: [String]

        /// What failed otherwise than it may.
        func play() async -> [String] {
            var failures: [String] = []
            for round in 0..<60 {
                let (from, to) = (names[round % 3], names[(round + 1) % 3])
                do throws(MountedTree.Failure) {
                    try await tree.rename(from, to: to)
                    try await tree.store("\(to)/new-\(round)", [1])
                } catch {
                    switch error.kind {
                    case .notFound, .notEmpty, .exists, .stale: break
                    default: failures.append("\(error)")
                    }
                }
            }
            return failures
        }
    }

    /// What the other mount did to a directory is told as on a local disk, and is no error of the store.
    @Test(.rule("rename.directory"), arguments: [MountPolicy.Durability.remote, .local])
    func directoriesThatTwoMountsRenameOntoEachOtherAreGoneOrNotEmpty(durability: MountPolicy.Durability) async throws {
        let first = try MountedTree(durability: durability)
        let second = try MountedTree(over: first.store, durability: durability)
        for name in ["a", "b"] {
            try await first.makeDirectory(name)
            try await first.store("\(name)/of-\(name)", Array(name.utf8))
        }
        let players = [
            Player(tree: first, names: ["a", "b", "c"]), Player(tree: second, names: ["b", "a", "c"]),
        ]
        let failures = await withTaskGroup(of: [String].self) { group in
            for player in players { group.addTask { await player.play() } }
            return await group.reduce(into: []) { $0 += $1 }
        }
        #expect(failures == [])
    }

    /// The object that was listed goes and comes back between the listing and the copy.
    @Test(.rule("rename.directory")) func anObjectThatIsRenamedToAndFroIsCopied() async throws {
        let tree = try MountedTree()
        try await tree.makeDirectory("d")
        try await tree.store("d/f", [1])
        let tries = Mutex(0)
        tree.store.fault = { operation, key in
            guard operation == .copy, key == "e/f" else { return nil }
            let isFirst = tries.withLock { count in
                count += 1
                return count == 1
            }
            return isFirst ? ObjectStoreError(.notFound, .copy, key: "d/f", status: 404, message: "gone") : nil
        }
        try await tree.rename("d", to: "e")
        #expect(tree.store.keys == ["e/", "e/f"])
    }

    @Test(.rule("rename.directory"), arguments: [MountPolicy.Durability.remote, .local])
    func aDirectoryThatAnotherHostHasRenamedIsGone(durability: MountPolicy.Durability) async throws {
        let tree = try MountedTree(durability: durability)
        tree.store.setObject("d/f", [1])
        _ = try await tree.names("d")
        tree.store.removeObject("d/f")
        tree.store.setObject("other/f", [1])
        await #expect(throws: MountedTree.Failure(kind: .notFound, reason: "")) { try await tree.rename("d", to: "e") }
        #expect(try await tree.names("") == ["other"])
        #expect(tree.store.keys == ["other/f"])
    }
}
