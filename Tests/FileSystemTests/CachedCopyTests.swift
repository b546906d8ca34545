import Basics
import FileSystem
import ObjectStorage
import TestSupport
import Testing

/// A store that refuses to copy: the bytes that are on this machine are not downloaded again.
@Suite(.timeLimit(.minutes(2))) struct CachedCopyTests {
    private func makeTree() throws -> MountedTree {
        var capabilities = Capabilities()
        capabilities.quirks = [.copiesRefused]
        return try MountedTree(capabilities: capabilities)
    }

    @Test func aRenameSendsTheCachedBytes() async throws {
        let tree = try makeTree()
        try await tree.store("file", [1, 2, 3])
        #expect(try await tree.load("file") == [1, 2, 3])
        tree.store.forgetRequests()
        try await tree.rename("file", to: "renamed")
        #expect(tree.store.count(.get) == 0 && tree.store.count(.copy) == 0 && tree.store.count(.put) == 1)
        #expect(tree.store.keys == ["renamed"] && tree.store.content("renamed") == [1, 2, 3])
        try await tree.remount()
        #expect(try await tree.load("renamed") == [1, 2, 3])
    }

    @Test func aChangeOfAttributesSendsTheCachedBytes() async throws {
        let tree = try makeTree()
        try await tree.store("file", [1, 2, 3])
        #expect(try await tree.load("file") == [1, 2, 3])
        tree.store.forgetRequests()
        try await tree.change("file") { $0.mode = 0o600 }
        #expect(tree.store.count(.get) == 0 && tree.store.count(.updateMetadata) == 0)
        #expect(tree.store.content("file") == [1, 2, 3])
        #expect(try await tree.find("file").mode & 0o777 == 0o600)
    }

    /// The cached version is not in the bucket any more.
    @Test func anotherHostsVersionIsNotReplacedByTheCachedBytes() async throws {
        let tree = try makeTree()
        try await tree.store("file", [1, 2, 3])
        #expect(try await tree.load("file") == [1, 2, 3])
        tree.store.setObject("file", [4])
        _ = try? await tree.rename("file", to: "renamed")
        #expect(tree.store.content("renamed") ?? tree.store.content("file") == [4])
    }

    @Test func bytesThatAreElsewhereAreCopiedByTheStore() async throws {
        let tree = try makeTree()
        tree.store.setObject("file", [1, 2, 3])
        try await tree.rename("file", to: "renamed")
        #expect(tree.store.count(.copy) == 1 && tree.store.count(.put) == 0)
    }
}
