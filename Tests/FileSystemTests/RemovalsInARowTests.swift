import Basics
import Commits
import FileSystem
import Journaling
import Metadata
import ObjectStorage
import Synchronization
import TestSupport
import Testing

/// `rm -r`: programs do not wait for the store from the third removal on, and objects go many to a request.
@Suite struct RemovalsInARowTests {
    private let tree: MountedTree
    private let body = Array("content".utf8)

    init() throws { tree = try MountedTree() }

    private func fill(_ directory: String, _ count: Int) {
        tree.store.setObject(ObjectKey(directory + "/"), [])
        for number in 0..<count { tree.store.setObject(name(directory, number), body) }
    }

    private func name(_ directory: String, _ number: Int) -> ObjectKey { ObjectKey("\(directory)/f\(1000 + number)") }

    private func removeAll(_ directory: String) async throws {
        for name in try await tree.names(directory) { try await tree.unlink("\(directory)/\(name)") }
    }

    private func waitUntil(_ what: String, _ condition: () -> Bool) async throws {
        try await tree.waitUntil(what, each: .milliseconds(20), condition)
    }

    @Test(.rule("unlink.batch")) func aDirectoryOfFilesGoesInAFewRequests() async throws {
        fill("d", 2500)
        let names = try await tree.names("d")
        #expect(names.count == 2500)
        tree.store.forgetRequests()
        for name in names { try await tree.unlink("d/\(name)") }
        #expect(try await tree.names("d").isEmpty)
        try await tree.removeDirectory("d")
        #expect(tree.store.keys.isEmpty)
        #expect(tree.store.count(.deleteMany) <= 3)
        // Two go before it is a row, and the marker by itself; what is removed is looked at first.
        #expect(tree.store.count(.delete) <= 3)
        #expect(tree.store.count(.list) <= 4)
        #expect(tree.store.count(.head) == 0)
        #expect(try tree.rooms.journal.contents().isEmpty)
    }

    /// `rm -r` lists each directory, and removes it before it comes to the next one.
    @Test func removalsDoNotEndTheListingOfTheTree() async throws {
        let directories = (100..<140).map { "t/d\($0)" }
        for directory in directories { fill(directory, 60) }
        #expect(try await tree.names("t").count == directories.count)
        tree.store.forgetRequests()
        for directory in directories {
            try await removeAll(directory)
            try await tree.removeDirectory(directory)
        }
        #expect(tree.store.keys == ["t/"])
        // 2,440 objects are three pages. Two directories are listed by themselves; the rest are questions of rmdir.
        let flat = tree.store.requests(.list).compactMap(\.list).filter { $0.delimiter == nil && $0.prefix == "t/" }
        #expect(flat.count <= 6, "\(flat.count)")
        let single = tree.store.requests(.list).compactMap(\.list).filter { $0.delimiter != nil }
        #expect(single.count <= 6, "\(single.count)")
    }

    @Test(.rule("unlink.batch")) func theyGoByThemselvesWhenNoOtherComes() async throws {
        fill("d", 5)
        try await removeAll("d")
        try await waitUntil("all are gone") { tree.store.keys == ["d/"] }
        try await waitUntil("the journal is empty") { (try? tree.rooms.journal.contents().isEmpty) == true }
        tree.time.advance(by: .seconds(120))
        #expect(try await tree.names("d").isEmpty)
    }

    @Test(.rule("unlink.batch")) func whatWaitsIsGoneForPrograms() async throws {
        fill("d", 6)
        try await removeAll("d")
        #expect(tree.store.keys.count == 5)
        await #expect(throws: MountedTree.Failure.self) { try await tree.find("d/f1005") }
        tree.time.advance(by: .seconds(120))
        #expect(try await tree.names("d").isEmpty)
    }

    /// An object of parts gets another ETag when its headers change, and the answer that has it was lost.
    @Test func aFileGoesWhoseHeadersChangedWithoutAnAnswer() async throws {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        let tree = try MountedTree(capabilities: capabilities, partSize: 64 << 10)
        for number in 0..<4 { try await tree.store("f\(number)", body) }
        try await tree.store("f4", [UInt8](repeating: 1, count: 300_000))
        try await tree.remount()
        tree.store.faultAfter = { operation, key in
            guard [.updateMetadata, .head].contains(operation) else { return nil }
            return ObjectStoreError(.unreachable, operation, key: key, message: "the answer was lost")
        }
        await #expect(throws: MountedTree.Failure.self) { try await tree.change("f4") { $0.mode = 0o600 } }
        tree.store.faultAfter = nil
        for number in 0..<5 { try await tree.unlink("f\(number)") }
        #expect(await tree.system.store(below: .root).isEmpty)
        #expect(tree.store.keys.isEmpty)
        #expect(try tree.rooms.journal.contents().isEmpty)
    }

    @Test func aNewFileUnderTheNameStays() async throws {
        fill("d", 6)
        try await removeAll("d")
        try await tree.store("d/f1004", Array("new".utf8))
        try await waitUntil("the others are gone") { tree.store.keys.count == 2 }
        #expect(tree.store.content("d/f1004") == Array("new".utf8))
        try await tree.remount()
        #expect(try await tree.load("d/f1004") == Array("new".utf8))
    }

    @Test func aLinkUnderTheNameOfOneStays() async throws {
        for number in 0..<6 { try await tree.symlink("l\(number)", "target") }
        for number in 0..<6 { try await tree.unlink("l\(number)") }
        try await tree.symlink("l4", "target")
        try await waitUntil("the others are gone") { tree.store.keys.count == 1 }
        tree.time.advance(by: .seconds(120))
        #expect(try await tree.readLink("l4") == "target")
    }

    @Test func whatOthersPutThereMeanwhileIsTheirs() async throws {
        fill("d", 30)
        try await removeAll("d")
        tree.store.setObject("d/f1020", Array("theirs".utf8))
        try await tree.system.refresh(.root)
        #expect(try await tree.names("d") == ["f1020"])
        #expect(try await tree.load("d/f1020") == Array("theirs".utf8))
        await #expect(throws: MountedTree.Failure(kind: .notEmpty, reason: "")) { try await tree.removeDirectory("d") }
    }

    @Test(.rule("unlink.batch", "crash.jobs")) func aProcessThatDiesLeavesThemToTheNext() async throws {
        fill("d", 40)
        try await removeAll("d")
        #expect(tree.store.keys.count > 30)
        try await tree.restart()
        #expect(tree.store.keys == ["d/"])
        #expect(try await tree.names("d").isEmpty)
        #expect(try tree.rooms.journal.contents().isEmpty)
    }

    @Test func theEndOfTheMountWaitsForThem() async throws {
        fill("d", 40)
        try await removeAll("d")
        try await tree.remount()
        #expect(tree.store.keys == ["d/"])
    }

    @Test func aDirectoryThatIsFlushedHasLostThem() async throws {
        fill("d", 40)
        try await removeAll("d")
        #expect(await tree.system.store(below: .root).isEmpty)
        #expect(tree.store.keys == ["d/"])
    }

    @Test func theLastFileOfADirectoryWithoutAMarkerLeavesOne() async throws {
        fill("d", 12)
        tree.store.removeObject("d/")
        try await removeAll("d")
        #expect(try await tree.names("") == ["d"])
        try await tree.remount()
        #expect(try await tree.names("") == ["d"])
        #expect(tree.store.keys == ["d/"])
    }

    // MARK: The store refuses

    private func refuse(_ kind: ObjectStoreError.Kind, _ operations: Set<ObjectStoreError.Operation>) {
        tree.store.fault = { operation, key in
            guard operations.contains(operation) else { return nil }
            return ObjectStoreError(kind, operation, key: key, message: "not now")
        }
    }

    @Test(.rule("crash.background")) func whatTheStoreRefusesIsNamedHiddenAndRemovedLater() async throws {
        fill("d", 12)
        let names = try await tree.names("d")
        for name in names.prefix(6) { try await tree.unlink("d/\(name)") }
        refuse(.unreachable, [.deleteMany, .delete])
        for name in names.dropFirst(6).prefix(4) { try await tree.unlink("d/\(name)") }
        try await waitUntil("they were refused") { tree.system.unfinishedJobs().count == 8 }
        #expect(tree.system.unfinishedJobs().allSatisfy { $0.act == .removal && $0.lastError.contains("not now") })
        // The next one hears of it.
        await #expect(throws: MountedTree.Failure.self) { try await tree.unlink("d/\(names[10])") }
        #expect(try await tree.names("d") == Array(names.suffix(2)))
        tree.store.fault = nil
        try await waitUntil("no job is left") { tree.system.unfinishedJobs().isEmpty }
        #expect(tree.store.keys.count == 3)
        tree.time.advance(by: .seconds(120))
        #expect(try await tree.names("d") == Array(names.suffix(2)))
    }

    @Test func theEndOfTheMountDoesNotTryEachOfThemWhereNobodyAnswers() async throws {
        fill("d", 100)
        let names = try await tree.names("d")
        for name in names.prefix(90) { try await tree.unlink("d/\(name)") }
        refuse(.timedOut, [.deleteMany, .delete, .head, .list])
        let before = tree.store.requests.count
        let unstored = await tree.system.shutDown()
        #expect(unstored.count == 88)
        #expect(tree.store.requests.count - before <= 20)
        tree.store.fault = nil
        tree.crash()
        try await tree.mountAgain()
        #expect(try await tree.names("d") == Array(names.suffix(10)))
        #expect(tree.store.keys.count == 11)
    }

    @Test func aStoreWithoutTheRequestGetsOneForEach() async throws {
        fill("d", 12)
        refuse(.notSupported, [.deleteMany])
        try await removeAll("d")
        try await tree.removeDirectory("d")
        #expect(tree.store.keys.isEmpty)
        #expect(tree.system.unfinishedJobs().isEmpty)
    }

    // MARK: When they go

    @Test(.rule("unlink.batch")) func theyWaitATenthOfASecondForAnother() async throws {
        fill("d", 6)
        try await removeAll("d")
        tree.time.advance(by: .milliseconds(99))
        try await Task.sleep(for: .milliseconds(20))
        #expect(tree.store.keys.count == 5)
        try await waitUntil("they are gone") { tree.store.keys == ["d/"] }
    }

    @Test(.rule("unlink.batch")) func theFirstOneWaitsFiveSecondsForARowWithoutAnEnd() async throws {
        fill("d", 300)
        let (names, began) = (try await tree.names("d"), tree.time.uptime())
        for name in names where tree.store.count(.deleteMany) == 0 {
            try await tree.unlink("d/\(name)")
            tree.time.advance(by: .milliseconds(50))
            try await Task.sleep(for: .milliseconds(2))
        }
        let passed = tree.time.uptime() - began
        #expect(passed >= .seconds(5) && passed < .seconds(10), "\(passed)")
    }

    /// Under `rm -r` some always wait: a request that is sent early takes no others along, which then fill the next.
    @Test(.rule("unlink.batch")) func whatIsRemovedWhileARequestIsSentWaitsForItsOwn() async throws {
        fill("d", 20)
        let (names, gate) = (try await tree.names("d"), tree.store.hold(.deleteMany))
        for name in names.prefix(12) { try await tree.unlink("d/\(name)") }
        try await waitUntil("the first ones are sent") { gate.arrivals == 1 }
        for name in names.dropFirst(12).prefix(4) { try await tree.unlink("d/\(name)") }
        gate.open()
        // Real time: nothing here is to happen.
        for _ in 0..<20 where gate.arrivals == 1 { try await Task.sleep(for: .milliseconds(5)) }
        #expect(gate.arrivals == 1)
        try await waitUntil("all are gone") { tree.store.keys.count == 5 }
        #expect(gate.arrivals == 2)
    }

    /// What was listed has grown old since, and the directory has no object of its own.
    @Test(.rule("unlink.batch", "mkdir.last")) func namesThatAreStillThereAreAskedForByThePage() async throws {
        fill("d", 2000)
        tree.store.removeObject("d/")
        let names = try await tree.names("d")
        tree.time.advance(by: .seconds(61))
        tree.store.forgetRequests()
        for name in names {
            try await tree.run(tree.system.unlink(ByteString(name), in: try directory()))
        }
        #expect(tree.store.count(.deleteMany) <= 3)
        // Each request looks at what it removes; and a page of names a thousand removals.
        #expect(tree.store.count(.list) <= 12)
        try await waitUntil("all are gone") { tree.store.keys == ["d/"] }
    }

    private func directory() throws -> InodeNumber {
        guard case .present(let entry, _) = try tree.rooms.metadata.lookup("d", in: .root) else { return .root }
        return entry.ino
    }

    @Test(.rule("unlink.batch")) func fsyncOfTheDirectoryWaitsForThem() async throws {
        fill("d", 40)
        try await removeAll("d")
        #expect(tree.store.keys.count > 30)
        try await tree.run(tree.system.syncDirectory(try await tree.find("d").ino))
        #expect(tree.store.keys == ["d/"])
    }

    @Test(.rule("unlink.batch")) func whereARequestDeletesOneObjectEachIsGoneAtOnce() async throws {
        var capabilities = Capabilities()
        capabilities.deleteBatch = 1
        let tree = try MountedTree(capabilities: capabilities)
        for number in 0..<6 { tree.store.setObject(name("d", number), body) }
        tree.store.setObject("d/", [])
        for (number, name) in try await tree.names("d").enumerated() {
            try await tree.unlink("d/\(name)")
            #expect(tree.store.keys.count == 6 - number)
        }
    }
}
