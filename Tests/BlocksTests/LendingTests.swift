import Basics
import Blocks
import Foundation
import ObjectStorage
import SQLite
import TestSupport
import Testing

@Suite struct LendingTests {
    private func bytes(of file: File) throws -> [UInt8] {
        try File(file.path).read(atMost: 64 << 20)
    }

    /// All of it is on the disk.
    private func wholeObject() async throws -> (fixture: Fixture, object: CachedObject, content: [UInt8]) {
        let store = MemoryStore()
        let truth = content(9 << 20)
        let version = store.setObject("a", truth)
        let fixture = try Fixture(store)
        let object = fixture.cache.open("a", version)
        _ = try await fixture.read(object, 0..<9 << 20)
        await fixture.settle()
        return (fixture, object, truth)
    }

    @Test func onlyAWholeFileThatWasFoundRightIsLent() async throws {
        let store = MemoryStore()
        let truth = content(9 << 20)
        let version = store.setObject("a", truth)
        let fixture = try Fixture(store)
        let object = fixture.cache.open("a", version)
        #expect(object.lend() == nil)
        _ = try await fixture.read(object, 0..<1 << 20)
        await fixture.settle()
        #expect(object.lend() == nil)
        _ = try await fixture.read(object, 0..<9 << 20)
        await fixture.settle()
        let lent = try #require(object.lend())
        #expect(try bytes(of: lent.file) == truth)
        fixture.cache.takeBack(lent.number)

        try fixture.reopen()
        let known = fixture.cache.open("a", version)
        #expect(known.isComplete && known.lend() == nil, "nobody has looked at the bytes yet")
        _ = try await fixture.read(known, 0..<9 << 20)
        let again = try #require(known.lend())
        fixture.cache.takeBack(again.number)
    }

    @Test func whatIsLentStaysUntilItIsBack() async throws {
        let (fixture, object, truth) = try await wholeObject()
        let first = try #require(object.lend())
        let second = try #require(object.lend())
        #expect(first.number == second.number)
        fixture.cache.prune(to: 0)
        fixture.cache.forget("a")
        fixture.cache.takeBack(first.number)
        fixture.cache.prune(to: 0)
        #expect(try bytes(of: first.file) == truth)
        #expect(fixture.cache.statistics().storedBytes >= 9 << 20)
        fixture.cache.takeBack(second.number)
        fixture.cache.prune(to: 0)
        #expect(fixture.cache.statistics().storedBytes == 0)
        #expect(fixture.ledger.used == 0)
    }

    @Test func whatWasLentLeavesWholeByItsName() async throws {
        let (fixture, object, truth) = try await wholeObject()
        let lent = try #require(object.lend())
        // As a mapping, which holds the open file.
        let mapped = try File(lent.file.path)
        fixture.cache.takeBack(lent.number)
        fixture.cache.prune(to: 4 << 20)
        #expect(try mapped.read(atMost: 64 << 20) == truth)
        #expect(!FileManager.default.fileExists(atPath: lent.file.path))
        #expect(fixture.cache.statistics().storedBytes == 0)
        #expect(fixture.ledger.used == 0)

        #expect(try await fixture.read(object, 0..<9 << 20) == truth)
        await fixture.settle()
        let again = try #require(object.lend())
        #expect(again.number != lent.number)
        #expect(try bytes(of: again.file) == truth)
        #expect(try mapped.read(atMost: 64 << 20) == truth)
    }

    @Test func whatAnEarlierProcessHadLentOnceLeavesWhole() async throws {
        let (fixture, object, truth) = try await wholeObject()
        let lent = try #require(object.lend())
        let mapped = try File(lent.file.path)
        fixture.cache.takeBack(lent.number)
        try fixture.reopen()
        fixture.cache.prune(to: 4 << 20)
        #expect(try mapped.read(atMost: 64 << 20) == truth)
        #expect(fixture.cache.statistics().storedBytes == 0)
    }

    @Test func whatWasLentIsNotCutAfterACrash() async throws {
        let (fixture, object, truth) = try await wholeObject()
        let lent = try #require(object.lend())
        let mapped = try File(lent.file.path)
        fixture.cache.takeBack(lent.number)
        // Some rows are gone, and what they named is still in the file.
        fixture.cache.flush()
        try fixture.database.run("DELETE FROM chunks WHERE chunk = 1")
        try fixture.database.run("UPDATE files SET settled = 0")
        try fixture.reopen(crashing: true)
        #expect(try mapped.read(atMost: 64 << 20) == truth)
        #expect(fixture.cache.statistics().storedBytes == 0)
        #expect(try await fixture.read(fixture.cache.open("a", object.version), 0..<9 << 20) == truth)
    }

    @Test func wrongBytesOfWhatWasLentAreFetchedAgain() async throws {
        let (fixture, object, truth) = try await wholeObject()
        let lent = try #require(object.lend())
        fixture.cache.takeBack(lent.number)
        try fixture.reopen()
        try File(lent.file.path, .readWrite).write([UInt8](repeating: 7, count: 4096).span.bytes, at: 5 << 20)
        let known = fixture.cache.open("a", object.version)
        #expect(try await fixture.read(known, 0..<9 << 20) == truth)
        await fixture.settle()
        #expect(fixture.cache.statistics().corruptBlocks > 0)
        #expect(try await fixture.read(known, 0..<9 << 20) == truth)
        #expect(try bytes(of: #require(known.lend()).file) == truth)
    }

    @Test func whatAnEarlierProcessHadLentIsLeftAsItIs() async throws {
        let (fixture, object, truth) = try await wholeObject()
        let lent = try #require(object.lend())
        // Its rows may not have been written.
        try fixture.reopen(crashing: true, lent: [lent.number])
        fixture.cache.prune(to: 0)
        fixture.cache.forget("a")
        #expect(try bytes(of: lent.file) == truth)
    }
}
