import Basics
import FileSystem
import Journaling
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// `durable=local`: files that are closed one soon after the other reach the store when no other comes.
@Suite struct UploadsInARowTests {
    private func tree(capacity: Int64 = 1 << 30) throws -> MountedTree {
        try MountedTree(capacity: capacity, durability: .local)
    }

    private func close(_ tree: MountedTree, _ names: [String], size: Int = 100) async throws {
        for name in names { try await tree.store(name, [UInt8](repeating: 1, count: size)) }
    }

    @Test(.rule("close.local")) func oneOrTwoGoAtOnce() async throws {
        let tree = try tree()
        try await close(tree, ["a", "b"])
        try await waitUntil("both are stored") { tree.store.keys == ["a", "b"] }
    }

    @Test(.rule("close.local")) func thoseAfterThemWaitForAMomentWithoutAnother() async throws {
        let tree = try tree()
        try await close(tree, ["a", "b", "c", "d", "e"])
        try await waitUntil("the first two are stored") { tree.store.count(.put) >= 2 }
        // Time stands still.
        #expect(tree.store.keys == ["a", "b"])
        tree.time.advance(by: .milliseconds(300))
        try await waitUntil("all are stored") { tree.store.keys.count == 5 }
        try await waitUntil("the journal is empty") { (try? tree.rooms.journal.contents().isEmpty) == true }
        // The next one is by itself again.
        tree.time.advance(by: .seconds(1))
        try await close(tree, ["f"])
        try await waitUntil("it is stored") { tree.store.keys.count == 6 }
    }

    @Test(.rule("close.local")) func aRowWithoutAnEndIsStoredAllTheSame() async throws {
        let tree = try tree()
        for number in 0..<60 {
            try await close(tree, ["f\(number)"])
            tree.time.advance(by: .milliseconds(100))
        }
        try await waitUntil("those of the first seconds are stored") { tree.store.keys.count >= 50 }
    }

    @Test func whatIsRemovedOrWrittenAgainMeanwhileCostsNoRequest() async throws {
        let tree = try tree()
        try await close(tree, ["a", "b"])
        try await waitUntil("the first two are stored") { tree.store.keys == ["a", "b"] }
        try await close(tree, ["c", "d", "d", "d", "e"])
        try await tree.unlink("c")
        try await tree.rename("e", to: "g")
        tree.time.advance(by: .milliseconds(300))
        try await waitUntil("all are stored") { tree.store.keys == ["a", "b", "d", "g"] }
        #expect(tree.store.count(.put) == 4)
        #expect(tree.store.count(.delete) == 0)
    }

    /// Who waits for the store does so for these too.
    @Test func theyGoBeforeAnOrderlyEnd() async throws {
        let tree = try tree()
        try await close(tree, ["a", "b", "c", "d"])
        try await tree.remount()
        #expect(tree.store.keys == ["a", "b", "c", "d"])
    }

    @Test(.rule("close.local", "crash.acknowledged")) func theyAreThereAfterACrash() async throws {
        let tree = try tree()
        try await close(tree, ["a", "b", "c", "d"])
        tree.crash()
        try await tree.mountAgain()
        #expect(try await tree.names("") == ["a", "b", "c", "d"])
        tree.time.advance(by: .milliseconds(300))
        try await waitUntil("all are stored") { tree.store.keys == ["a", "b", "c", "d"] }
    }

    /// A quarter of the space is for what is not stored yet; time stands still, so nothing but the need moves them.
    @Test(.rule("close.local")) func theyGoWhenSpaceIsShort() async throws {
        let tree = try tree(capacity: 4 << 20)
        // Writers may be slowed down a little; not for so long that what waits would go for that.
        let clock = tree.time.advancing(by: .microseconds(100))
        try await close(tree, (0..<30).map { "f\($0)" }, size: 100_000)
        clock.cancel()
        try await waitUntil("some went") { tree.store.keys.count > 10 }
    }
}
