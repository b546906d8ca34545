import Basics
import Blocks
import Foundation
import ObjectStorage
import SQLite
import TestSupport
import Testing

/// What is on disk: restarts, damage, the limit, adoption.
struct DiskTests {
    private let block = Geometry.blockSize
    private let chunk = Geometry.chunkSize

    @Test func aReopenedCacheServesWhatItHeld() async throws {
        let store = MemoryStore()
        let (small, big) = (content(10_000), content(20 << 20, seed: 2))
        let versions = (store.setObject("small", small), store.setObject("big", big))
        let fixture = try Fixture(store)
        _ = try await fixture.read(fixture.cache.open("small", versions.0), 0..<1)
        _ = try await fixture.read(fixture.cache.open("big", versions.1), 100 * block..<150 * block)
        await fixture.settle()
        let used = fixture.ledger.used
        try fixture.reopen()
        #expect(fixture.ledger.used == used)
        store.forgetRequests()
        let object = fixture.cache.open("big", versions.1)
        #expect(fixture.readCached(fixture.cache.open("small", versions.0), 0..<10_000) == small)
        #expect(fixture.readCached(object, 100 * block..<150 * block) == big[bytes: 100 * block..<150 * block])
        #expect(fixture.readCached(object, 150 * block..<150 * block + 1) == nil)
        #expect(store.count(.get) == 0)
    }

    @Test func rowsAreWrittenAfterAnInterval() async throws {
        let time = ManualTime()
        let store = MemoryStore(time: time)
        let version = store.setObject("a", content(10_000))
        let fixture = try Fixture(store, time: time)
        _ = try await fixture.read(fixture.cache.open("a", version), 0..<1)
        await fixture.settle()
        await time.waitForSleepers()
        time.advance(by: .seconds(1))
        // The flush runs on the pool: wait for what it does.
        while try fixture.database.read({ connection throws(SQLiteError) in
            let statement = try connection.prepare("SELECT COUNT(*) FROM chunks")
            return try statement.step() ? statement.int64(0) : 0
        }) == 0 { await Task.yield() }
        try fixture.reopen(crashing: true)
        #expect(fixture.readCached(fixture.cache.open("a", version), 0..<10_000) == content(10_000))
    }

    @Test func blocksWithoutARowAreGivenBackAfterACrash() async throws {
        let time = ManualTime()
        let store = MemoryStore(time: time)
        let version = store.setObject("a", content(20 << 20))
        let fixture = try Fixture(store, time: time)
        let object = fixture.cache.open("a", version)
        _ = try await fixture.read(object, 0..<block)
        await fixture.settle()
        try fixture.reopen()
        _ = try await fixture.read(fixture.cache.open("a", version), 4 * block..<9 * block)
        await fixture.settle()
        #expect(fixture.diskUse >= 6 * block)
        try fixture.reopen(crashing: true)
        #expect(fixture.diskUse <= 2 * block)
        #expect(fixture.diskUse <= fixture.ledger.used)
        let reopened = fixture.cache.open("a", version)
        #expect(fixture.readCached(reopened, 0..<block) == content(20 << 20)[bytes: 0..<block])
        #expect(fixture.readCached(reopened, 4 * block..<5 * block) == nil)
    }

    @Test(.rule("read.true")) func damagedBlocksAreNoticedAndFetchedAgain() async throws {
        let store = MemoryStore()
        let truth = content(20 << 20)
        let version = store.setObject("a", truth)
        let fixture = try Fixture(store)
        _ = try await fixture.read(fixture.cache.open("a", version), 0..<8 * block)
        await fixture.settle()
        let used = fixture.ledger.used
        try fixture.reopen()
        let name = try #require(fixture.files.keys.first)
        try File("\(fixture.blocks)/\(name)", .readWrite).write([truth[Int(3 * block) + 77] ^ 1], at: 3 * block + 77)
        let object = fixture.cache.open("a", version)
        #expect(fixture.readCached(object, 0..<3 * block) == truth[bytes: 0..<3 * block])
        #expect(fixture.readCached(object, 0..<8 * block) == nil)
        #expect(fixture.cache.statistics().corruptBlocks == 1)
        #expect(fixture.ledger.used == used - block)
        store.forgetRequests()
        #expect(try await fixture.read(object, 0..<8 * block) == truth[bytes: 0..<8 * block])
        #expect(store.requests(.get).map(\.range) == [3 * block..<4 * block])
        await fixture.settle()
        #expect(fixture.ledger.used == used)
    }

    @Test func aFileCutShortIsAMiss() async throws {
        let truth = content(5 << 20)
        let (fixture, version) = try await reopened(truth)
        let name = try #require(fixture.files.keys.first)
        try File("\(fixture.blocks)/\(name)", .readWrite).truncate(to: 1 << 20)
        #expect(try await fixture.read(fixture.cache.open("a", version), 0..<5 << 20) == truth)
    }

    /// A cache that has the object "a", after a restart.
    private func reopened(_ truth: [UInt8]) async throws -> (Fixture, ObjectVersion) {
        let store = MemoryStore()
        let version = store.setObject("a", truth)
        let fixture = try Fixture(store)
        _ = try await fixture.read(fixture.cache.open("a", version), 0..<1)
        await fixture.settle()
        try fixture.reopen()
        return (fixture, version)
    }

    @Test func aRowWithoutAFileIsAMiss() async throws {
        let truth = content(10_000)
        let (fixture, version) = try await reopened(truth)
        for name in fixture.files.keys { try File.remove("\(fixture.blocks)/\(name)") }
        let object = fixture.cache.open("a", version)
        #expect(fixture.readCached(object, 0..<1) == nil)
        #expect(fixture.ledger.used == 0)
        #expect(try await fixture.read(object, 0..<10_000) == truth)
        await fixture.settle()
        try fixture.reopen()
        #expect(fixture.readCached(fixture.cache.open("a", version), 0..<10_000) == truth)
    }

    /// As that of a damaged inode.
    @Test(.timeLimit(.minutes(5))) func aFileThatCannotBeOpenedIsFetchedAnew() async throws {
        let truth = content(10_000)
        let (fixture, version) = try await reopened(truth)
        for name in fixture.files.keys {
            try File.remove("\(fixture.blocks)/\(name)")
            try Directory.create("\(fixture.blocks)/\(name)")
        }
        #expect(try await fixture.read(fixture.cache.open("a", version), 0..<10_000) == truth)
    }

    @Test func aStoreMayTellAnyLength() {
        let geometry = Geometry(size: .max)
        #expect(geometry.chunkCount == Int(Int64.max / Geometry.chunkSize) + 1)
        #expect(geometry.blockCount == Int(Int64.max / Geometry.blockSize) + 1)
    }

    @Test func aFileWithoutARowIsRemoved() async throws {
        let store = MemoryStore()
        let version = store.setObject("a", content(10_000))
        let fixture = try Fixture(store)
        _ = try await fixture.read(fixture.cache.open("a", version), 0..<1)
        await fixture.settle()
        _ = try File("\(fixture.blocks)/7777", .readWrite, create: .ifMissing)
        _ = try File("\(fixture.blocks)/what is this", .readWrite, create: .ifMissing)
        try fixture.reopen()
        while fixture.files.count > 1 { await Task.yield() }
        #expect(fixture.readCached(fixture.cache.open("a", version), 0..<1) != nil)
    }

    @Test func theLeastRecentlyUsedChunksGoFirst() async throws {
        let store = MemoryStore()
        let truth = content(1 << 20)
        let versions = (0..<10).map { store.setObject(ObjectKey("f\($0)"), truth) }
        let fixture = try Fixture(store, limit: 5 << 20)
        let open = { (index: Int) in fixture.cache.open(ObjectKey("f\(index)"), versions[index]) }
        for index in 0..<4 {
            _ = try await fixture.read(open(index), 0..<1)
            await fixture.settle()
        }
        #expect(fixture.readCached(open(0), 0..<1) != nil)
        _ = try await fixture.read(open(4), 0..<1)
        await fixture.settle()
        _ = try await fixture.read(open(5), 0..<1)
        await fixture.settle()
        #expect(fixture.readCached(open(0), 0..<1) != nil)
        #expect(fixture.readCached(open(1), 0..<1) == nil)
        #expect(fixture.readCached(open(5), 0..<1) != nil)
        #expect(fixture.diskUse <= 5 << 20)
    }

    @Test func pruningAndForgettingRemoveFiles() async throws {
        let store = MemoryStore()
        let versions = (0..<5).map { store.setObject(ObjectKey("f\($0)"), content(1 << 20)) }
        let fixture = try Fixture(store)
        for (index, version) in versions.enumerated() {
            _ = try await fixture.read(fixture.cache.open(ObjectKey("f\(index)"), version), 0..<1)
        }
        await fixture.settle()
        fixture.cache.forget("f0")
        while fixture.ledger.used > 4 * (1 << 20 + 4096) { await Task.yield() }
        #expect(fixture.readCached(fixture.cache.open("f0", versions[0]), 0..<1) == nil)
        fixture.cache.prune(to: 0)
        #expect(fixture.ledger.used == 0)
        fixture.cache.prune(to: 0)
        #expect(fixture.files.isEmpty)
        _ = try await fixture.read(fixture.cache.open("f0", versions[0]), 0..<1)
    }

    /// What is still leaving when the cache ends leaves before, or stays whole.
    @Test(.timeLimit(.minutes(5))) func aCacheThatEndsWhileBlocksLeaveComesBackWithoutADamagedOne() async throws {
        let store = MemoryStore()
        let objects = (0..<60).map { number in
            let key = ObjectKey("f\(number)")
            return (key: key, version: store.setObject(key, content(300_000, seed: UInt64(number))))
        }
        let fixture = try Fixture(store)
        for round in 0..<20 {
            for object in objects {
                _ = try await fixture.read(fixture.cache.open(object.key, object.version), 0..<300_000)
            }
            await fixture.settle()
            for object in objects.dropFirst(round) { fixture.cache.forget(object.key) }
            for _ in 0..<round * 10 { await Task.yield() }
            try fixture.reopen()
            for object in objects {
                _ = fixture.readCached(fixture.cache.open(object.key, object.version), 0..<300_000)
            }
            #expect(fixture.cache.statistics().corruptBlocks == 0, "round \(round)")
            #expect(fixture.diskUse <= fixture.ledger.used)
        }
    }

    @Test func aFailingDiskIsLoggedOnceAndMemoryServes() async throws {
        let time = ManualTime()
        let store = MemoryStore(time: time)
        let truth = content(1 << 20)
        let versions = (0..<5).map { store.setObject(ObjectKey("f\($0)"), truth) }
        let fixture = try Fixture(store, time: time)
        // A file takes the directory's place: the cache can neither write below it nor make the directory again.
        // Whatever makes a directory that was deleted anew may be faster.
        repeat {
            try? FileManager.default.removeItem(atPath: fixture.blocks)
        } while (try? File(fixture.blocks, .readWrite, create: .exclusive)) == nil
        for (index, version) in versions.enumerated() {
            let object = fixture.cache.open(ObjectKey("f\(index)"), version)
            #expect(try await fixture.read(object, 0..<1 << 20) == truth)
        }
        while fixture.cache.statistics().shelvedBytes < 5 << 20 { await Task.yield() }
        #expect(fixture.log.warnings == 1)
        #expect(fixture.ledger.used == 0)
        #expect(fixture.readCached(fixture.cache.open("f2", versions[2]), 0..<1 << 20) == truth)
        #expect(store.count(.get) == 5)
        // Later the disk is there again.
        try File.remove(fixture.blocks)
        try Directory.create(fixture.blocks)
        time.advance(by: .seconds(31))
        let version = store.setObject("g", truth)
        _ = try await fixture.read(fixture.cache.open("g", version), 0..<1)
        while fixture.cache.statistics().isDiskFailing { await Task.yield() }
        #expect(fixture.cache.statistics().storedBytes > 0)
    }

    @Test func withoutADiskRecentBlocksStayInAShareOfTheBudget() async throws {
        var options = BlockOptions()
        options.usesDisk = false
        let store = MemoryStore()
        let truth = content(1 << 20)
        let versions = (0..<20).map { store.setObject(ObjectKey("f\($0)"), truth) }
        let fixture = try Fixture(store, memory: 32 << 20, options: options)
        for (index, version) in versions.enumerated() {
            _ = try await fixture.read(fixture.cache.open(ObjectKey("f\(index)"), version), 0..<1)
        }
        while fixture.cache.statistics().shelvedBytes < 8 << 20 { await Task.yield() }
        #expect(fixture.readCached(fixture.cache.open("f19", versions[19]), 0..<1) != nil)
        #expect(fixture.readCached(fixture.cache.open("f0", versions[0]), 0..<1) == nil)
        // Who needs the memory gets it.
        let buffer = try await fixture.buffers.borrow(32 << 20)
        #expect(fixture.cache.statistics().shelvedBytes == 0)
        withExtendedLifetime(buffer) {}
    }

    @Test func anAdoptedStagingFileIsServedWithoutARequestAlsoAfterARestart() async throws {
        let store = MemoryStore()
        let truth = content(20 << 20)
        let version = store.setObject("a", truth)
        let fixture = try Fixture(store)
        let path = fixture.directory.path("staged")
        let file = try File(path, .readWrite, create: .ifMissing)
        let present = [0..<3 * block + 100, 5 * block - 7..<9 * block, 19 << 20..<20 << 20]
        for range in present { try file.write(truth[bytes: range], at: range.lowerBound) }
        try file.truncate(to: 20 << 20)
        let reserved = 3 * block + 4096 + 5 * block + 1 << 20
        #expect(fixture.ledger.reserve(reserved, evicting: false))
        fixture.cache.adopt(
            stagingFile: path, size: 20 << 20, present: present, key: "a", version: version, reserved: reserved)
        let object = fixture.cache.open("a", version)
        #expect(fixture.readCached(object, 0..<3 * block) == truth[bytes: 0..<3 * block])
        #expect(fixture.readCached(object, 3 * block..<3 * block + 1) == nil)
        #expect(fixture.readCached(object, 5 * block..<9 * block) == truth[bytes: 5 * block..<9 * block])
        #expect(fixture.readCached(object, 19 << 20..<20 << 20) == truth[bytes: 19 << 20..<20 << 20])
        #expect(fixture.diskUse <= fixture.ledger.used)
        #expect(fixture.ledger.used == fixture.cache.statistics().storedBytes)
        #expect(!FileManager.default.fileExists(atPath: path))
        #expect(store.count(.get) == 0)
        while try fixture.database.read({ connection throws(SQLiteError) in
            let statement = try connection.prepare("SELECT COUNT(*) FROM files WHERE settled = 1")
            return try statement.step() ? statement.int64(0) : 0
        }) == 0 { try await Task.sleep(for: .milliseconds(5)) }
        try fixture.reopen()
        let reopened = fixture.cache.open("a", version)
        #expect(fixture.readCached(reopened, 5 * block..<9 * block) == truth[bytes: 5 * block..<9 * block])
        #expect(fixture.readCached(reopened, 3 * block..<3 * block + 1) == nil)
    }

    @Test func anAdoptionThatFailsRemovesTheFileAndItsReservation() async throws {
        let store = MemoryStore()
        let version = store.setObject("a", content(10_000))
        let fixture = try Fixture(store, limit: 16384)
        #expect(fixture.ledger.reserve(12288, evicting: false))
        fixture.cache.adopt(
            stagingFile: fixture.directory.path("nothing"), size: 10_000, present: [0..<10_000], key: "a",
            version: version, reserved: 12288)
        #expect(fixture.ledger.used == 0)
        #expect(try await fixture.read(fixture.cache.open("a", version), 0..<10_000) == content(10_000))
    }

    @Test func blocksFollowARenamedAndARenewedObject() async throws {
        let store = MemoryStore()
        let truth = content(20 << 20)
        let version = store.setObject("a", truth)
        let fixture = try Fixture(store)
        _ = try await fixture.read(fixture.cache.open("a", version), 0..<8 * block)
        await fixture.settle()
        let copy = store.setObject("b", truth)
        fixture.cache.move("a", version, to: "b", copy)
        let renewed = ObjectVersion(etag: ETag("other"), size: copy.size, modified: copy.modified)
        fixture.cache.renew("b", from: copy, to: renewed)
        store.forgetRequests()
        #expect(fixture.readCached(fixture.cache.open("a", version), 0..<1) == nil)
        #expect(fixture.readCached(fixture.cache.open("b", copy), 0..<1) == nil)
        #expect(fixture.readCached(fixture.cache.open("b", renewed), 0..<8 * block) == truth[bytes: 0..<8 * block])
        let used = fixture.ledger.used
        try fixture.reopen()
        #expect(fixture.ledger.used == used)
        #expect(fixture.readCached(fixture.cache.open("b", renewed), 0..<8 * block) == truth[bytes: 0..<8 * block])
        #expect(store.count(.get) == 0)
    }
}
