import Basics
import Foundation
import ObjectStorage
import SQLite
import Synchronization
import TestSupport
import Testing

@testable import Blocks

/// What could not leave when it was to: rows that the index keeps, and files that cannot be opened.
@Suite struct FailedDropTests {
    private let store = MemoryStore()
    private let time = ManualTime()
    private let key = ObjectKey("a")
    private let version: ObjectVersion
    private let truth = content(1 << 20)
    private let fixture: Fixture
    /// What the other object, which stays, takes.
    private let others: Int64

    init() async throws {
        version = store.setObject("a", truth)
        let other = store.setObject("other", content(3 << 20))
        var options = BlockOptions()
        // Rows go when a test says so, whatever the time.
        options.flushInterval = .seconds(3600)
        fixture = try Fixture(store, time: time, options: options)
        _ = try await fixture.read(fixture.cache.open("other", other), 0..<3 << 20)
        await fixture.settle()
        others = fixture.ledger.used
    }

    /// No row of a file leaves, as on a disk without space for the journal.
    private func keepRows() throws {
        try fixture.database.run(
            "CREATE TRIGGER kept BEFORE DELETE ON files BEGIN SELECT RAISE(ABORT, 'no'); END")
    }

    /// They do again, and the cache tries its disk again.
    private func freeRows() throws {
        try fixture.database.run("DROP TRIGGER kept")
        time.advance(by: fixture.options.diskRetryInterval)
    }

    private func readAll() async throws {
        #expect(try await fixture.read(fixture.cache.instance(key, version), 0..<1 << 20) == truth)
        await fixture.settle()
        fixture.cache.flush()
    }

    private func evict() { fixture.cache.evictAll(of: fixture.cache.instance(key, version)) }

    @Test(arguments: [false, true]) func whatHasLeftDoesNotLeaveAgainForARowThatStayed(_ wasLent: Bool) async throws {
        try await readAll()
        #expect(fixture.ledger.used > others)
        if wasLent {
            #expect(try await fixture.read(fixture.cache.instance(key, version), 0..<1 << 20) == truth)
            try lendOnce()
        }
        fixture.cache.flush()
        try keepRows()
        evict()
        fixture.cache.flush()
        #expect(fixture.ledger.used == others)
        try freeRows()
        evict()
        #expect(fixture.ledger.used == others)
        // The rows go with the next that are written, and with them the last that held the object.
        fixture.cache.flush()
        evict()
        #expect(fixture.ledger.used == others)
        #expect(fixture.files.count == 1)
        try await readAll()
        try fixture.reopen()
        #expect(fixture.readCached(fixture.cache.open(key, version), 0..<1 << 20) == truth)
        fixture.cache.prune(to: 0)
        #expect(fixture.ledger.used == 0)
    }

    /// Makes the file one that leaves at once.
    private func lendOnce() throws {
        let object = fixture.cache.instance(key, version)
        try #require(object.pin(whole: true))
        fixture.cache.takeBack(try #require(object.lend()).number)
        object.unpin()
    }

    @Test func rowsThatStayedCountForNothingWhileTheyGo() async throws {
        for _ in 0..<50 {
            try await readAll()
            try lendOnce()
            fixture.cache.flush()
            try keepRows()
            evict()
            try freeRows()
            DispatchQueue.concurrentPerform(iterations: 2) { $0 == 0 ? fixture.cache.flush() : evict() }
            try #require(fixture.ledger.used == others)
        }
    }

    @Test func anObjectWhoseRowStayedIsCachedAnew() async throws {
        try await readAll()
        try keepRows()
        evict()
        fixture.cache.flush()
        try freeRows()
        try await readAll()
        #expect(fixture.ledger.used > others)
        try fixture.reopen()
        #expect(fixture.readCached(fixture.cache.open(key, version), 0..<1 << 20) == truth)
    }

    /// An object in a file that could not be opened when it was wanted, and can be now.
    private func objectAfterAFailedOpen() async throws -> CachedObject {
        try await readAll()
        try fixture.reopen()
        let object = fixture.cache.open(key, version)
        #expect(object.isComplete)
        let path = fixture.cache.path(of: try #require(object.state.withLock { $0.fileID }))
        let away = fixture.directory.path("away")
        try File.rename(path, to: away)
        try Directory.create(path)
        #expect(try await fixture.read(object, 0..<1 << 20) == truth)
        await fixture.settle()
        try FileManager.default.removeItem(atPath: path)
        try File.rename(away, to: path)
        time.advance(by: fixture.options.diskRetryInterval)
        return object
    }

    @Test func blocksOfAFileThatCouldNotBeOpenedLeaveLater() async throws {
        let object = try await objectAfterAFailedOpen()
        fixture.cache.evictAll(of: object)
        #expect(fixture.ledger.used == others)
        fixture.cache.flush()
        #expect(fixture.files.count == 1)
    }

    @Test func blocksOfAFileThatCouldNotBeOpenedComeBack() async throws {
        let object = try await objectAfterAFailedOpen()
        fixture.cache.shelf.clear()
        #expect(try await fixture.read(object, 0..<1 << 20) == truth)
        await fixture.settle()
        #expect(object.isComplete)
        fixture.cache.shelf.clear()
        #expect(fixture.readCached(object, 0..<1 << 20) == truth)
    }
}
