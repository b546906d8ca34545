import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// A request that a program has interrupted is still on its way: what replaces its bytes goes after it.
@Suite(.timeLimit(.minutes(2))) struct LatePutTests {
    /// Stores `f`, whose upload waits at the gate and then finds the store away.
    private func uploadDuringAnOutage(_ tree: MountedTree) async throws -> Gate {
        tree.store.fault = { operation, key in
            guard operation == .put else { return nil }
            return ObjectStoreError(.unreachable, operation, key: key, message: "away")
        }
        let gate = tree.store.hold(.put)
        try await tree.store("f", Array("promised".utf8))
        return gate
    }

    @Test(arguments: [false, true])
    func whatIsWrittenOverAPromiseIsSentAfterIt(isReplaced: Bool) async throws {
        let tree = try MountedTree(durability: .local)
        if isReplaced { tree.store.setObject("other", Array("other".utf8)) }
        let gate = tree.store.hold(.put)
        try await tree.store("f", Array("promised".utf8))
        await gate.waitForArrivals()
        let file = try await tree.open("f", OpenFlags(reads: false, writes: true, truncate: true))
        try await tree.write(file, Array("newer".utf8), at: 0)
        let system = tree.system
        let copies = tree.store.count(.copy)
        let rename = tree.pool.start { () async -> Bool in
            let outcome =
                isReplaced
                ? system.rename("other", in: .root, to: "f", in: .root, noReplace: false)
                : system.rename("f", in: .root, to: "g", in: .root, noReplace: false)
            return await succeeded(outcome)
        }
        try await Task.sleep(for: .milliseconds(100))
        #expect(gate.arrivals == 1)
        #expect(tree.store.count(.copy) == copies)
        gate.open()
        #expect(await rename.value)
        try await tree.close(file)
        #expect(await tree.system.shutDown().isEmpty)
        #expect(tree.store.keys == [isReplaced ? "f" : "g"])
        #expect(tree.store.content(isReplaced ? "f" : "g") == Array((isReplaced ? "other" : "newer").utf8))
    }

    /// However often it was interrupted before.
    @Test func whoWantsThePromisedFileNeedNotWaitForTheRequest() async throws {
        let tree = try MountedTree(durability: .local)
        let gate = tree.store.hold(.put)
        try await tree.store("f", Array("promised".utf8))
        await gate.waitForArrivals()
        for mode in 0..<8 as Range<UInt16> {
            try await tree.change("f") { $0.mode = 0o600 + mode }
            // For the upload to be tried again.
            try await Task.sleep(for: .milliseconds(20))
        }
        #expect(gate.arrivals == 1)
        gate.open()
        #expect(await tree.system.shutDown().isEmpty)
        #expect(tree.store.content("f") == Array("promised".utf8))
        #expect(tree.store.info("f")?.metadata.user["mode"] == String(0o100607))
    }

    @Test func nobodyWaitsForAStoreThatIsAwayForLong() async throws {
        let tree = try MountedTree(durability: .local)
        var gate = try await uploadDuringAnOutage(tree)
        for mode in 0..<8 as Range<UInt16> {
            await gate.waitForArrivals()
            try await tree.change("f") { $0.mode = 0o600 + mode }
            let next = tree.store.hold(.put)
            gate.open()
            gate = next
        }
        tree.store.fault = nil
        gate.open()
        let time = tree.advancingTime()
        defer { time.cancel() }
        #expect(await tree.system.shutDown().isEmpty)
        #expect(tree.store.info("f")?.metadata.user["mode"] == String(0o100607))
    }

    /// The store came back while the upload waited for its answer, and the mount ends.
    @Test func silenceFromBeforeTheEndKeepsNoFileFromBeingStored() async throws {
        let tree = try MountedTree(durability: .local)
        let gate = try await uploadDuringAnOutage(tree)
        await gate.waitForArrivals()
        tree.store.fault = nil
        let system = tree.system
        let end = tree.pool.start { await system.shutDown() }
        try await Task.sleep(for: .milliseconds(100))
        gate.open()
        let time = tree.advancingTime()
        defer { time.cancel() }
        #expect(await end.value.isEmpty)
        #expect(tree.store.content("f") == Array("promised".utf8))
    }
}
