import Basics
import FileSystem
import ObjectStorage
import TestSupport
import Testing

/// Credentials that may not delete.
@Suite(.timeLimit(.minutes(2))) struct RefusedDeletionTests {
    private let denied = MountedTree.Failure(kind: .accessDenied, reason: "")

    private func refuseDeletions(_ store: MemoryStore, below prefix: String = "") {
        store.fault = { operation, key in
            guard operation == .delete || operation == .deleteMany && key != nil,
                key?.bytes.hasPrefix(ByteString(prefix)) ?? true
            else { return nil }
            return ObjectStoreError(
                .accessDenied, operation, key: key, status: 403, code: "AccessDenied", message: "Access Denied")
        }
    }

    private func lastError(_ tree: MountedTree, _ path: String) async throws -> String {
        let ino = try await tree.find(path).ino
        return try await tree.run(tree.system.extendedAttribute("user.pailfs.lasterror", of: ino)).description
    }

    @Test(.rule("rename.refused")) func aRenameNamesTheCopyThatItCannotDelete() async throws {
        let tree = try MountedTree()
        tree.store.setObject("a", [1])
        refuseDeletions(tree.store)
        await #expect(throws: denied) { try await tree.rename("a", to: "b") }
        #expect(try await lastError(tree, "a").contains("the copy b stays in the bucket"))
        #expect(try await tree.load("a") == [1])
    }

    @Test(.rule("rename.refused")) func theNextRenameIsRefusedBeforeItCopies() async throws {
        let tree = try MountedTree()
        for key in ["a", "b", "d/x", "d/y"] { tree.store.setObject(ObjectKey(key), [1]) }
        refuseDeletions(tree.store)
        await #expect(throws: denied) { try await tree.unlink("a") }
        tree.store.forgetRequests()
        await #expect(throws: denied) { try await tree.rename("b", to: "c") }
        await #expect(throws: denied) { try await tree.rename("d", to: "e") }
        #expect(tree.store.count(.copy) == 0)
        #expect(try await lastError(tree, "b").contains("allow these credentials to delete"))
        #expect(tree.store.keys == ["a", "b", "d/x", "d/y"])
    }

    /// Nothing has shown yet whether the credentials may delete.
    @Test(.rule("rename.refused")) func aRenameOfATreeIsRefusedBeforeItCopies() async throws {
        let tree = try MountedTree()
        for key in ["d/x", "d/y", "d/deep/z"] { tree.store.setObject(ObjectKey(key), [1]) }
        refuseDeletions(tree.store)
        await #expect(throws: denied) { try await tree.rename("d", to: "e") }
        #expect(tree.store.count(.copy) == 0)
        #expect(tree.store.keys == ["d/deep/z", "d/x", "d/y"])
        #expect(try await lastError(tree, "d").contains("allow these credentials to delete"))
        tree.time.advance(by: .seconds(61))
        await #expect(throws: denied) { try await tree.rename("d", to: "e") }
        #expect(tree.store.count(.copy) == 0)
        tree.store.fault = nil
        tree.time.advance(by: .seconds(61))
        try await tree.rename("d", to: "e")
        #expect(tree.store.keys == ["e/deep/z", "e/x", "e/y"])
    }

    /// One deletion that succeeded is enough.
    @Test func laterRenamesOfTreesAskNothing() async throws {
        let tree = try MountedTree()
        for key in ["d/x", "d/y", "a/x", "a/y"] { tree.store.setObject(ObjectKey(key), [1]) }
        try await tree.rename("d", to: "e")
        let first = tree.store.count(.delete)
        try await tree.rename("a", to: "b")
        #expect(first == 1 && tree.store.count(.delete) == first)
    }

    /// The copy that is left shows whether the credentials may delete now.
    @Test(.rule("rename.refused")) func aRenameWorksOnceTheCredentialsMayDelete() async throws {
        let tree = try MountedTree()
        for key in ["a", "b"] { tree.store.setObject(ObjectKey(key), [1]) }
        refuseDeletions(tree.store)
        await #expect(throws: denied) { try await tree.rename("a", to: "c") }
        tree.time.advance(by: .seconds(61))
        await #expect(throws: denied) { try await tree.rename("b", to: "d") }
        #expect(tree.store.keys == ["a", "b", "c"])
        tree.store.fault = nil
        tree.time.advance(by: .seconds(61))
        try await tree.rename("b", to: "d")
        #expect(tree.store.keys == ["a", "d"])
    }

    /// A policy may differ from directory to directory.
    @Test func aRefusalCountsForItsDirectoryOnceADeletionSucceeded() async throws {
        let tree = try MountedTree()
        for key in ["kept/a", "free/a", "free/b"] { tree.store.setObject(ObjectKey(key), [1]) }
        refuseDeletions(tree.store, below: "kept/")
        try await tree.unlink("free/a")
        await #expect(throws: denied) { try await tree.unlink("kept/a") }
        try await tree.rename("free/b", to: "free/c")
        #expect(try await tree.load("free/c") == [1])
        #expect(tree.store.content("free/b") == nil)
    }

    /// An open file's object goes with its last descriptor, and nothing waits for that.
    @Test func anOpenFileIsNotUnlinkedWhereDeletionsAreRefused() async throws {
        let tree = try MountedTree()
        for key in ["a", "b"] { tree.store.setObject(ObjectKey(key), [UInt8](repeating: 1, count: 20 << 20)) }
        refuseDeletions(tree.store)
        let file = try await tree.open("a", OpenFlags(reads: true, writes: false))
        await #expect(throws: denied) { try await tree.unlink("b") }
        await #expect(throws: denied) { try await tree.unlink("a") }
        try await tree.close(file)
        #expect(tree.store.keys == ["a", "b"])
    }
}
