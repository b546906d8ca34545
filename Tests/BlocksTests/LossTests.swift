import Basics
import Blocks
import Foundation
import ObjectStorage
import TestSupport
import Testing

/// Another program removes files of the cache, or all of it.
struct LossTests {
    private let size: Int64 = 300_000

    @Test func whatAnotherProgramRemovesIsFetchedAgain() async throws {
        let store = MemoryStore()
        let versions = (0..<3).map {
            store.setObject(ObjectKey(ByteString("\($0)")), content(300_000, seed: UInt64($0)))
        }
        let fixture = try Fixture(store)
        func readAll() async throws {
            for (number, version) in versions.enumerated() {
                let object = fixture.cache.open(ObjectKey(ByteString("\(number)")), version)
                #expect(try await fixture.read(object, 0..<size) == content(300_000, seed: UInt64(number)))
            }
            await fixture.settle()
        }
        try await readAll()
        let used = fixture.ledger.used
        try fixture.reopen()
        Directory.removeTree(fixture.blocks)
        // Without an error of the disk: it is there, and takes new files.
        try await readAll()
        #expect(fixture.files.count == 3 && fixture.ledger.used == used)
        #expect(!fixture.cache.statistics().isDiskFailing)
    }

    @Test func spaceOfRemovedFilesIsFree() async throws {
        let store = MemoryStore()
        let version = store.setObject("a", content(300_000))
        let fixture = try Fixture(store)
        _ = try await fixture.read(fixture.cache.open("a", version), 0..<size)
        await fixture.settle()
        try fixture.reopen()
        #expect(fixture.ledger.used >= size)
        Directory.removeTree(fixture.blocks)
        fixture.cache.findLost()
        #expect(fixture.ledger.used == 0)
        #expect(access(fixture.blocks, F_OK) == 0)
        try fixture.reopen()
        #expect(fixture.ledger.used == 0, "the rows have gone, too")
    }

    @Test func aFileThatIsOpenIsReadOn() async throws {
        let store = MemoryStore()
        let version = store.setObject("a", content(300_000))
        let fixture = try Fixture(store)
        let object = fixture.cache.open("a", version)
        _ = try await fixture.read(object, 0..<size)
        await fixture.settle()
        Directory.removeTree(fixture.blocks)
        fixture.cache.findLost()
        store.forgetRequests()
        #expect(fixture.readCached(object, 0..<size) == content(300_000))
        #expect(store.count(.get) == 0)
    }
}
