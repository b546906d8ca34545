import Basics
import Blocks
import Commits
import FileSystem
import Foundation
import Journaling
import Metadata
import ObjectStorage
import Staging
import TestSupport
import Testing

/// Somebody else replaces an object that is being changed, and the bytes that were not written here are gone with theirs: what
/// was written is kept for "pailfs recover", and the name is the other's.
@Suite(.timeLimit(.minutes(2))) struct ConflictTests {
    private static let readWrite = OpenFlags(reads: true, writes: true)
    private static let old = Array("the first version".utf8)
    private static let theirs = Array("theirs".utf8)
    private static let ours = Array("+ours".utf8)

    /// An append to an object of which nothing was read, which was replaced meanwhile.
    private func conflict(_ durability: MountPolicy.Durability) async throws -> (MountedTree, (InodeNumber, HandleID)) {
        let tree = try MountedTree(ttl: .zero, durability: durability)
        tree.store.setObject("f", Self.old)
        let file = try await tree.open("f", Self.readWrite)
        try await tree.append(file, Self.ours)
        tree.store.setObject("f", Self.theirs)
        return (tree, file)
    }

    private func expectTheirs(_ tree: MountedTree) async throws {
        #expect(try await tree.load("f") == Self.theirs)
        let file = try await tree.open("f", Self.readWrite)
        try await tree.append(file, Array("+more".utf8))
        try await tree.close(file)
        #expect(tree.store.content("f") == Self.theirs + Array("+more".utf8))
        #expect(tree.store.keys == ["f"])
    }

    /// What can be had of the one file that is kept, in the place of what is gone zeros.
    private func saved(_ tree: MountedTree) async throws -> [UInt8] {
        let kept = tree.system.listRecoverableFiles()
        try #require(kept.count == 1)
        let directory = try TemporaryDirectory()
        let path = directory.path("saved")
        await #expect(throws: FileSystemError.self) {
            _ = try await tree.system.saveRecoverable(kept[0].id, to: path, evenIfDoubtful: false)
        }
        let missing = try await tree.system.saveRecoverable(
            kept[0].id, to: path, evenIfDoubtful: false, evenIfPartial: true)
        #expect(missing == [0..<Int64(Self.old.count)])
        return Array(try Data(contentsOf: URL(fileURLWithPath: path)))
    }

    private var expected: [UInt8] { [UInt8](repeating: 0, count: Self.old.count) + Self.ours }

    @Test(.rule("conflict", "conflict.keep")) func closeFailsAndTheNameIsTheirs() async throws {
        let (tree, file) = try await conflict(.remote)
        await #expect(throws: MountedTree.Failure(kind: .stale, reason: "")) { try await tree.close(file) }
        #expect(try await saved(tree) == expected)
        try await expectTheirs(tree)
        // The program that wrote was told; nothing else is wrong.
        try await tree.remount()
        #expect(try await saved(tree) == expected)
        try await expectTheirsAgain(tree)
    }

    /// Each of those who have the file open is told, whoever of them finds out.
    @Test(.rule("conflict", "close.clean"), arguments: [MountPolicy.Durability.remote, .local])
    func everyDescriptorIsToldOnce(_ durability: MountPolicy.Durability) async throws {
        let (tree, file) = try await conflict(durability)
        let (other, reader) = (
            try await tree.open("f", Self.readWrite), try await tree.open("f", OpenFlags(reads: true, writes: false))
        )
        let stale = MountedTree.Failure(kind: .stale, reason: "")
        if durability == .remote {
            await #expect(throws: stale) {
                try await tree.run(tree.system.sync(file.0, handle: file.1, dataOnly: false))
            }
        } else {
            try await tree.run(tree.system.sync(file.0, handle: file.1, dataOnly: false))
            try await tree.waitUntil("it can be recovered") { !tree.system.listRecoverableFiles().isEmpty }
            await #expect(throws: stale) { try await tree.run(tree.system.flush(file.0, handle: file.1) { false }) }
        }
        try await tree.close(file)
        await #expect(throws: stale) { try await tree.run(tree.system.sync(other.0, handle: other.1, dataOnly: true)) }
        try await tree.run(tree.system.sync(other.0, handle: other.1, dataOnly: true))
        try await tree.close(other)
        await #expect(throws: stale) {
            try await tree.run(tree.system.sync(reader.0, handle: reader.1, dataOnly: true))
        }
        try await tree.close(reader)
        #expect(try await tree.load("f") == Self.theirs)
    }

    /// The disk does not let the bytes be kept at first.
    @Test func whatCouldNotBeSetAsideIsTriedAgain() async throws {
        let (tree, file) = try await conflict(.remote)
        let staging = tree.rooms.staging.directory
        try FileManager.default.moveItem(atPath: staging, toPath: staging + "-away")
        await #expect(throws: MountedTree.Failure.self) {
            try await tree.run(tree.system.sync(file.0, handle: file.1, dataOnly: false))
        }
        #expect(tree.system.listRecoverableFiles().isEmpty)
        try FileManager.default.moveItem(atPath: staging + "-away", toPath: staging)
        await #expect(throws: MountedTree.Failure(kind: .stale, reason: "")) { try await tree.close(file) }
        #expect(try await saved(tree) == expected)
    }

    private func expectTheirsAgain(_ tree: MountedTree) async throws {
        #expect(try await tree.load("f") == Self.theirs + Array("+more".utf8))
    }

    @Test(.rule("conflict.keep")) func aPromiseThatCannotBeKeptIsNamedAtTheEnd() async throws {
        let (tree, file) = try await conflict(.local)
        try await tree.close(file)
        try await tree.waitUntil("it can be recovered") { !tree.system.listRecoverableFiles().isEmpty }
        #expect(try await saved(tree) == expected)
        #expect(try await tree.load("f") == Self.theirs)
        let unstored = await tree.system.shutDown()
        #expect(unstored.map(\.path) == ["f"])
        #expect(unstored.first?.reason.contains("pailfs recover") == true)
        try await tree.mountAgain()
        #expect(try await saved(tree) == expected)
    }

    /// The process that serves the mount dies afterwards.
    @Test func theNextProcessDoesNotGoOnWithIt() async throws {
        let (tree, file) = try await conflict(.remote)
        await #expect(throws: MountedTree.Failure.self) {
            try await tree.run(tree.system.sync(file.0, handle: file.1, dataOnly: false))
        }
        try await tree.restart()
        #expect(try await saved(tree) == expected)
        try await expectTheirs(tree)
    }

    @Test(.rule("conflict.fail")) func whatFailsByOptionIsKept() async throws {
        let tree = try MountedTree(ttl: .zero)
        tree.policy.conflict = .fail
        try await tree.remount()
        tree.store.setObject("f", Self.old)
        let file = try await tree.open("f", OpenFlags(reads: false, writes: true, truncate: true))
        try await tree.write(file, Self.ours, at: 0)
        tree.store.setObject("f", Self.theirs)
        await #expect(throws: MountedTree.Failure(kind: .stale, reason: "")) { try await tree.close(file) }
        let kept = tree.system.listRecoverableFiles()
        #expect(kept.map(\.here) == [[0..<Int64(Self.ours.count)]])
        try await expectTheirs(tree)
        try await tree.system.discardRecoverable(try #require(kept.first).id)
        #expect(tree.system.listRecoverableFiles().isEmpty)
    }

    /// There is no name beside it: one that begins so would be another's, or the store allows none that long.
    @Test(arguments: ["a%%file", "long"])
    func whatCannotBeStoredBesideIsKept(name: String) async throws {
        var capabilities = Capabilities()
        capabilities.longestKey = 20
        let tree = try MountedTree(capabilities: name == "long" ? capabilities : Capabilities(), ttl: .zero)
        let key: ObjectKey = name == "long" ? "long" : "a"
        tree.store.setObject("a/other", Self.old)
        tree.store.setObject(key, Self.old)
        _ = try await tree.names("")
        let file = try await tree.open(name, OpenFlags(reads: false, writes: true, truncate: true))
        try await tree.write(file, Self.ours, at: 0)
        tree.store.setObject(key, Self.theirs)
        await #expect(throws: MountedTree.Failure(kind: .stale, reason: "")) { try await tree.close(file) }
        #expect(tree.system.listRecoverableFiles().map(\.here) == [[0..<Int64(Self.ours.count)]])
        #expect(try await tree.load(name) == Self.theirs)
        #expect(tree.store.content(key) == Self.theirs)
        #expect(tree.store.keys.count == 2)
        try await tree.remount()
    }

    /// The process dies while it stores beside the file: whoever has it open hears of the conflict from the next one.
    @Test(arguments: [false, true])
    func theNextProcessTellsOfAConflict(isStored: Bool) async throws {
        let tree = try MountedTree(ttl: .zero)
        let store = tree.store
        store.setObject("f", Self.old)
        let file = try await tree.open("f", OpenFlags(reads: false, writes: true, truncate: true))
        try await tree.write(file, Self.ours, at: 0)
        store.setObject("f", Self.theirs)
        if isStored {
            let gate = store.hold(.put, beforeReply: true)
            let system = tree.system
            _ = tree.pool.start { _ = await system.flush(file.0, handle: file.1) { false }.value() }
            await gate.waitForArrivals()
            tree.crash()
            gate.open()
            try await tree.restart()
        } else {
            store.fault = { operation, key in
                operation == .put && key != "f"
                    ? ObjectStoreError(.unreachable, .put, key: key, message: "away") : nil
            }
            await #expect(throws: MountedTree.Failure.self) {
                try await tree.run(tree.system.sync(file.0, handle: file.1, dataOnly: false))
            }
            try await tree.restart()
            store.fault = nil
        }
        await #expect(throws: MountedTree.Failure.self) { try await tree.close(file) }
        #expect(store.keys.count == 2)
        let beside = try #require(store.keys.first { $0 != "f" })
        #expect(store.content(beside) == Self.ours)
        #expect(store.content("f") == Self.theirs)
    }

    /// What is stored beside the file is not stored there again because the journal cannot be told.
    @Test func theNameIsTheirsThoughTheJournalDoesNotTakeIt() async throws {
        let tree = try MountedTree(ttl: .zero, durability: .local)
        tree.store.setObject("f", Self.old)
        let file = try await tree.open("f", OpenFlags(reads: false, writes: true, truncate: true))
        try await tree.write(file, Self.ours, at: 0)
        tree.store.setObject("f", Self.theirs)
        let journal = tree.rooms.journal
        tree.store.faultAfter = { operation, key in
            if operation == .put, key != "f" { journal.close() }
            return nil
        }
        try await tree.close(file)
        try await tree.waitUntil("the name is the other's") { (try? await tree.load("f")) == Self.theirs }
        #expect(tree.store.keys.count == 2)
        #expect(tree.system.unfinishedJobs().count == 1)
    }

    /// Listings tell no modes, and this host knows them.
    @Test(.rule("conflict.keep"), arguments: [MountPolicy.Durability.remote, .local])
    func whatIsStoredBesideKeepsItsMode(_ durability: MountPolicy.Durability) async throws {
        let tree = try MountedTree(durability: durability)
        tree.store.setObject("f", Self.old)
        let file = try await tree.open("f", OpenFlags(reads: false, writes: true, truncate: true))
        try await tree.write(file, Self.ours, at: 0)
        try await tree.change("f") { $0.mode = 0o600 }
        tree.store.setObject("f", Self.theirs)
        try? await tree.close(file)
        try await tree.waitUntil("it is stored beside the file") { tree.store.keys.count == 2 }
        try await tree.waitUntil("the name is the other's") { (try? await tree.load("f")) == Self.theirs }
        let requests = tree.store.count(.head)
        let conflict = try #require(try await tree.names("").first { $0 != "f" })
        #expect(try await tree.find(conflict).mode == 0o600)
        #expect(try await tree.find(conflict).size == Int64(Self.ours.count))
        #expect(tree.store.count(.head) == requests)
    }

    /// A version that was below the bytes must not come back under them.
    @Test(.rule("conflict.keep"), arguments: [MountPolicy.Durability.remote, .local])
    func theDescriptorOfWhatIsStoredElsewhereIsStale(_ durability: MountPolicy.Durability) async throws {
        let tree = try MountedTree(ttl: .zero, durability: durability)
        tree.store.setObject("f", Self.old)
        #expect(try await tree.load("f") == Self.old)
        let (reader, file) = (
            try await tree.open("f", OpenFlags(reads: true, writes: false)),
            try await tree.open("f", OpenFlags(reads: true, writes: true, truncate: true))
        )
        try await tree.write(file, Self.ours, at: 0)
        tree.store.setObject("f", Self.theirs)
        let stale = MountedTree.Failure(kind: .stale, reason: "")
        do throws(MountedTree.Failure) {
            try await tree.run(tree.system.sync(file.0, handle: file.1, dataOnly: false))
            #expect(durability == .local)
        } catch { #expect(error == stale && durability == .remote) }
        try await tree.waitUntil("it is stored beside the file") { tree.store.keys.count == 2 }
        // It is stored there before anybody here has heard of it.
        try await waitUntil("the descriptor is stale") { (try? await tree.read(file, at: 0, count: 100)) == nil }
        await #expect(throws: stale) { _ = try await tree.read(file, at: 0, count: 100) }
        await #expect(throws: stale) { _ = try await tree.read(reader, at: 0, count: 100) }
        await #expect(throws: stale) { try await tree.append(file, Self.ours) }
        await #expect(throws: stale) { try await tree.write(file, Self.ours, at: 100) }
        // Whoever opens the name has the other's, and is not in the way of those who still hold the old file.
        #expect(try await tree.load("f") == Self.theirs)
        try? await tree.close(file)
        try await tree.close(reader)
        #expect(tree.store.keys.count == 2)
        let conflict = try #require(tree.store.keys.first { $0 != "f" })
        #expect(tree.store.content(conflict) == Self.ours)
        #expect(tree.store.content("f") == Self.theirs)
    }

    @Test(.rule("conflict.overwrite")) func theOtherVersionIsReplacedByOption() async throws {
        let tree = try MountedTree(ttl: .zero)
        tree.policy.conflict = .overwrite
        try await tree.remount()
        tree.store.setObject("f", Self.old)
        let file = try await tree.open("f", OpenFlags(reads: false, writes: true, truncate: true))
        try await tree.write(file, Self.ours, at: 0)
        tree.store.setObject("f", Self.theirs)
        try await tree.close(file)
        #expect(tree.store.content("f") == Self.ours)
        #expect(tree.store.keys == ["f"])
    }

    @Test(.rule("conflict.gap"), arguments: [true, false])
    func whereTheStoreDoesNotCompareItIsAskedRightBefore(isInBetween: Bool) async throws {
        var capabilities = Capabilities()
        capabilities.putIfMatch = false
        let tree = try MountedTree(capabilities: capabilities, ttl: .zero)
        tree.store.setObject("f", Self.old)
        let file = try await tree.open("f", OpenFlags(reads: false, writes: true, truncate: true))
        try await tree.write(file, Self.ours, at: 0)
        tree.store.forgetRequests()
        let gate = tree.store.hold(.put)
        if !isInBetween { tree.store.setObject("f", Self.theirs) }
        let system = tree.system
        if !isInBetween { gate.open() }
        let flush = tree.pool.start { await succeeded(system.flush(file.0, handle: file.1) { false }) }
        if isInBetween {
            await gate.waitForArrivals()
            tree.store.setObject("f", Self.theirs)
            gate.open()
        }
        #expect(await flush.value == isInBetween)
        #expect(tree.store.requests.first?.operation == .head)
        #expect(tree.store.content("f") == (isInBetween ? Self.ours : Self.theirs))
        try await tree.run(system.release(file.0, handle: file.1))
    }

    @Test(.rule("conflict.large")) func ofAFileLargerThanTheCacheTheUploadKeepsWhatLeftTheDisk() async throws {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        let tree = try MountedTree(capabilities: capabilities, capacity: 1 << 20, partSize: 64 << 10)
        let clock = tree.advancingTime()
        defer { clock.cancel() }
        tree.store.setObject("big", Self.old)
        let file = try await tree.open("big", OpenFlags(reads: false, writes: true, truncate: true))
        for piece in 0..<25 {
            try await tree.write(file, [UInt8](repeating: UInt8(piece), count: 100_000), at: Int64(piece * 100_000))
        }
        tree.store.setObject("big", Self.theirs)
        await #expect(throws: MountedTree.Failure(kind: .stale, reason: "")) { try await tree.close(file) }
        #expect(tree.store.content("big") == Self.theirs)
        #expect(tree.store.keys == ["big"])
        #expect(tree.store.uploadsInProgress.map(\.key) == ["big"])
        #expect(try #require(tree.system.listRecoverableFiles().first).uploaded.isEmpty == false)
    }
}
