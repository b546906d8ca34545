import Basics
import Blocks
import ObjectStorage
import Synchronization
import TestSupport
import Testing

/// How many requests reads cost, and who gets what when.
struct ReadingTests {
    private let mebibyte: Int64 = 1 << 20

    @Test func aSmallFileIsOneGetOfTheWholeObjectAndThenNone() async throws {
        let store = MemoryStore()
        let truth = content(300_001)
        let version = store.setObject("a", truth)
        let fixture = try Fixture(store)
        let object = fixture.cache.open("a", version)
        #expect(fixture.readCached(object, 0..<4096) == nil)
        #expect(try await fixture.read(object, 5000..<9000) == truth[bytes: 5000..<9000])
        #expect(store.requests(.get).map(\.range) == [nil])
        #expect(store.requests(.get).first?.readCondition == .ifMatch(version.etag))
        #expect(try await fixture.read(object, 0..<300_001) == truth)
        await fixture.settle()
        #expect(fixture.readCached(object, 0..<300_001) == truth)
        #expect(object.isComplete)
        #expect(store.count(.get) == 1)
        #expect(fixture.infos.all.map(\.version.etag) == [version.etag])
    }

    @Test func aSequentialReadOfNChunksIsNGets() async throws {
        let store = MemoryStore()
        let truth = content(5 << 23 - 12345)
        let version = store.setObject("a", truth)
        let fixture = try Fixture(store)
        let reader = ObjectReader(fixture.cache.open("a", version))
        var position: Int64 = 0
        while position < version.size {
            let range = position..<min(position + 128 << 10, version.size)
            #expect(try await fixture.read(reader, range) == truth[bytes: range])
            position = range.upperBound
        }
        reader.close()
        #expect(store.count(.get) == 5)
        #expect(store.requests(.get).allSatisfy { $0.readCondition == .ifMatch(version.etag) })
        await fixture.settle()
        #expect(fixture.cache.open("a", version).isComplete)
    }

    @Test func aLongStreamKeepsManyGetsInFlight() async throws {
        let store = MemoryStore()
        let truth = content(96 << 20)
        let version = store.setObject("a", truth)
        let gate = Gate()
        store.beforeDelivery = { request, _ in
            if (request.range?.lowerBound ?? 0) >= 3 * Geometry.chunkSize { await gate.pass() }
        }
        let fixture = try Fixture(store)
        let reader = ObjectReader(fixture.cache.open("a", version))
        for step in 0..<9 as Range<Int64> {
            _ = try await fixture.read(reader, ByteRange(at: step * mebibyte, count: mebibyte))
        }
        await gate.waitForArrivals(8)
        gate.open()
        reader.close()
        await fixture.settle()
        #expect(store.count(.get) == 11)
    }

    @Test func theKernelsFirstReadsAreOneGetInWhateverOrderTheyCome() async throws {
        let store = MemoryStore()
        let truth = content(16 << 20)
        let version = store.setObject("a", truth)
        let fixture = try Fixture(store)
        let reader = ObjectReader(fixture.cache.open("a", version))
        for range in [mebibyte..<2 * mebibyte, 0..<mebibyte] {
            #expect(try await fixture.read(reader, range) == truth[bytes: range])
        }
        await fixture.settle()
        #expect(store.count(.get) == 1)
    }

    @Test func whatHasArrivedIsKeptThoughItsReaderCloses() async throws {
        let store = MemoryStore()
        let truth = content(24 << 20)
        let version = store.setObject("a", truth)
        let fixture = try Fixture(store)
        let reader = ObjectReader(fixture.cache.open("a", version))
        for step in 0..<24 as Range<Int64> {
            _ = try await fixture.read(reader, ByteRange(at: step * mebibyte, count: mebibyte))
        }
        reader.close()
        try fixture.reopen()
        #expect(fixture.cache.open("a", version).isComplete)
        #expect(store.count(.get) == 3)
    }

    @Test func whatWasFetchedAheadIsReadOnceFromMemoryAndThenFromDisk() async throws {
        let store = MemoryStore()
        let truth = content(80 << 20)
        let version = store.setObject("a", truth)
        let fixture = try Fixture(store)
        let reader = ObjectReader(fixture.cache.open("a", version))
        // As the kernel does: a piece late, and one twice.
        var pieces = Array(0..<80)
        pieces.swapAt(33, 34)
        pieces.insert(40, at: 42)
        for piece in pieces {
            let range = Int64(piece) << 20..<Int64(piece + 1) << 20
            #expect(try await fixture.read(reader, range) == truth[bytes: range])
            #expect(fixture.cache.statistics().shelvedBytes <= 128 << 20)
            if piece == 20 { await fixture.settle() }
        }
        reader.close()
        await fixture.settle()
        #expect(fixture.cache.statistics().shelvedBytes == 0)
        try fixture.reopen()
        store.forgetRequests()
        #expect(fixture.readCached(fixture.cache.open("a", version), 0..<80 << 20) == truth)
        #expect(store.count(.get) == 0)
    }

    @Test func randomReadsFetchOneBlockEach() async throws {
        let store = MemoryStore()
        let truth = content(64 << 20)
        let version = store.setObject("a", truth)
        let fixture = try Fixture(store)
        let reader = ObjectReader(fixture.cache.open("a", version))
        var generator = SeededGenerator(seed: 3)
        for _ in 0..<100 {
            let offset = Int64.random(in: 1..<(64 << 20) / 4096, using: &generator) * 4096
            let range = ByteRange(at: offset, count: 4096)
            #expect(try await fixture.read(reader, range) == truth[bytes: range])
        }
        #expect(store.count(.get) <= 100)
        #expect(store.requests(.get).allSatisfy { ($0.range?.length ?? .max) <= 64 << 10 })
    }

    @Test func adjacentMissingBlocksAreOneGetAndPresentOnesAreNotFetchedAgain() async throws {
        let store = MemoryStore()
        let truth = content(20 << 20)
        let version = store.setObject("a", truth)
        let fixture = try Fixture(store)
        let object = fixture.cache.open("a", version)
        let block = Geometry.blockSize
        _ = try await fixture.read(object, 10 * block..<10 * block + 1)
        #expect(try await fixture.read(object, 8 * block + 5..<13 * block) == truth[bytes: 8 * block + 5..<13 * block])
        // The two go out at once, in either order.
        let asked = store.requests(.get).compactMap(\.range)
        #expect(asked.count == 3 && asked.first == 10 * block..<11 * block)
        #expect(Set(asked.dropFirst()) == [8 * block..<10 * block, 11 * block..<13 * block])
    }

    @Test func manyReadersOfOneRangeShareOneGet() async throws {
        let store = MemoryStore()
        let truth = content(100_000)
        let version = store.setObject("a", truth)
        let gate = store.hold(.get)
        let fixture = try Fixture(store)
        let object = fixture.cache.open("a", version)
        await withTaskGroup(of: Bool.self) { group in
            for index in 0..<50 as Range<Int64> {
                group.addTask {
                    let range = index * 1000..<index * 1000 + 5000
                    return (try? await fixture.read(object, range)) == truth[bytes: range]
                }
            }
            await gate.waitForArrivals()
            gate.open()
            for await isRight in group { #expect(isRight) }
        }
        #expect(store.count(.get) == 1)
    }

    @Test func readersOfAStreamWakeAsTheirBytesArrive() async throws {
        let store = MemoryStore()
        let truth = content(20 << 20)
        let version = store.setObject("a", truth)
        let gate = Gate()
        store.beforeDelivery = { _, offset in if offset == 1 << 20 { await gate.pass() } }
        let fixture = try Fixture(store)
        let reader = ObjectReader(fixture.cache.open("a", version))
        // Returns though the rest of its chunk never comes.
        #expect(try await fixture.read(reader, 0..<mebibyte) == truth[bytes: 0..<mebibyte])
        #expect(fixture.readCached(reader.object, 0..<mebibyte) == truth[bytes: 0..<mebibyte])
        #expect(fixture.readCached(reader.object, 0..<mebibyte + 1) == nil)
        gate.open()
        #expect(try await fixture.read(reader, mebibyte..<2 * mebibyte) == truth[bytes: mebibyte..<2 * mebibyte])
        await fixture.settle()
    }

    @Test func aSmallObjectIsHeldBackUntilItIsVerified() async throws {
        let store = MemoryStore()
        let version = store.setObject("a", content(1 << 20))
        store.alterBody = { _, body in body.map { $0 ^ 1 } }
        let fixture = try Fixture(store)
        let object = fixture.cache.open("a", version)
        let error = await #expect(throws: BlockError.self) { try await fixture.read(object, 0..<100) }
        guard case .store(let reason) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(reason.kind == .integrity)
        await fixture.settle()
        #expect(fixture.readCached(object, 0..<1) == nil)
        #expect(fixture.diskUse == 0)
        store.alterBody = nil
        #expect(try await fixture.read(object, 0..<100) == content(1 << 20)[bytes: 0..<100])
    }

    @Test(.rule("read.true"), arguments: [-1, 1]) func aRangeOfTheWrongLengthIsAnErrorAndNotCached(excess: Int)
        async throws
    {
        let store = MemoryStore()
        let truth = content(20 << 20)
        let version = store.setObject("a", truth)
        store.alterBody = { _, body in excess < 0 ? Array(body.dropLast()) : body + [7] }
        let fixture = try Fixture(store)
        let object = fixture.cache.open("a", version)
        // Bytes that came before the mistake was noticed are right.
        let early = try? await fixture.read(object, 0..<65536)
        #expect(early == nil || excess > 0 && early == truth[bytes: 0..<65536])
        await fixture.settle()
        #expect(fixture.readCached(object, 0..<1) == nil)
        store.alterBody = nil
        #expect(try await fixture.read(object, 0..<65536) == truth[bytes: 0..<65536])
    }

    enum Change: CaseIterable { case replaced, removed }

    @Test(arguments: Change.allCases) func aReplacedObjectIsStaleButItsBlocksAreServed(change: Change) async throws {
        let store = MemoryStore()
        let truth = content(20 << 20)
        let version = store.setObject("a", truth)
        let fixture = try Fixture(store)
        let object = fixture.cache.open("a", version)
        _ = try await fixture.read(object, 0..<65536)
        await fixture.settle()
        switch change {
        case .replaced: store.setObject("a", content(20 << 20, seed: 2))
        case .removed: store.removeObject("a")
        }
        #expect(try await fixture.read(object, 0..<65536) == truth[bytes: 0..<65536])
        let error = await #expect(throws: BlockError.self) { try await fixture.read(object, 65536..<70000) }
        guard case .stale = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test func aStoreErrorReachesEveryWaiterAndTheNextReadTriesAgain() async throws {
        let store = MemoryStore()
        let truth = content(1000)
        let version = store.setObject("a", truth)
        let failure = ObjectStoreError(.timedOut, .get, key: "a", message: "too slow")
        store.fault = { operation, _ in operation == .get ? failure : nil }
        let gate = store.hold(.get)
        let fixture = try Fixture(store)
        let object = fixture.cache.open("a", version)
        await withTaskGroup(of: BlockError?.self) { group in
            for _ in 0..<5 {
                group.addTask {
                    do { _ = try await fixture.read(object, 0..<1000) } catch { return error as? BlockError }
                    return nil
                }
            }
            await gate.waitForArrivals()
            gate.open()
            for await error in group { #expect(error == .store(failure)) }
        }
        store.fault = nil
        #expect(try await fixture.read(object, 0..<1000) == truth)
    }

    @Test func aCancelledWaiterLeavesTheOthersTheirFetch() async throws {
        let store = MemoryStore()
        let truth = content(1000)
        let version = store.setObject("a", truth)
        let gate = store.hold(.get)
        let fixture = try Fixture(store)
        let object = fixture.cache.open("a", version)
        let patient = Task { try await fixture.read(object, 0..<1000) }
        await gate.waitForArrivals()
        let hasty = Task { try await fixture.read(object, 0..<1000) }
        await Task.yield()
        hasty.cancel()
        await #expect(throws: BlockError.cancelled) { try await hasty.value }
        gate.open()
        #expect(try await patient.value == truth)
        #expect(store.count(.get) == 1)
    }

    @Test func theLastWaiterToGoCancelsTheFetch() async throws {
        let store = MemoryStore()
        let version = store.setObject("a", content(1000))
        let gate = store.hold(.get)
        let fixture = try Fixture(store)
        let object = fixture.cache.open("a", version)
        let reader = Task { try await fixture.read(object, 0..<1000) }
        await gate.waitForArrivals()
        reader.cancel()
        await #expect(throws: BlockError.cancelled) { try await reader.value }
        // The gate lets only cancelled requests pass, and their buffers come back.
        await fixture.settle()
        #expect(fixture.diskUse == 0)
    }

    @Test func closingAReaderCancelsWhatItFetchedAhead() async throws {
        let store = MemoryStore()
        let truth = content(80 << 20)
        let version = store.setObject("a", truth)
        let gate = Gate()
        store.beforeDelivery = { _, offset in if offset >= 1 << 20 { await gate.pass() } }
        let fixture = try Fixture(store)
        let reader = ObjectReader(fixture.cache.open("a", version))
        _ = try await fixture.read(reader, 0..<mebibyte / 2)
        _ = try await fixture.read(reader, mebibyte / 2..<mebibyte)
        #expect(fixture.buffers.budget.used > 0)
        reader.close()
        await fixture.settle()
        #expect(fixture.cache.statistics().storedBytes == 0)
    }

    @Test func prefetchTakesOnlyMemoryThatIsFree() async throws {
        let store = MemoryStore()
        let truth = content(64 << 20)
        let version = store.setObject("a", truth)
        let fixture = try Fixture(store, memory: 16 << 20)
        let reader = ObjectReader(fixture.cache.open("a", version))
        var position: Int64 = 0
        while position < version.size {
            let range = ByteRange(at: position, count: mebibyte)
            #expect(try await fixture.read(reader, range) == truth[bytes: range])
            #expect(fixture.buffers.budget.used <= 16 << 20)
            position += mebibyte
        }
        #expect(store.count(.get) == 8)
    }

    @Test func readsThatNeedTwoFetchesEachDoNotStarveOneAnother() async throws {
        let store = MemoryStore()
        let truth = content(10 << 20)
        let versions = (0..<12).map { store.setObject(ObjectKey("f\($0)"), truth) }
        var options = BlockOptions()
        options.usesDisk = false
        let fixture = try Fixture(store, memory: 1 << 20, options: options)
        let range = Geometry.chunkSize - mebibyte / 2..<Geometry.chunkSize + mebibyte / 2
        await withTaskGroup(of: Bool.self) { group in
            for (index, version) in versions.enumerated() {
                group.addTask(executorPreference: fixture.pool) {
                    let object = fixture.cache.open(ObjectKey("f\(index)"), version)
                    return (try? await fixture.read(object, range)) == truth[bytes: range]
                }
            }
            for await isRight in group { #expect(isRight) }
        }
    }

    @Test func manyFilesAtOnceShareASmallBudgetWithoutDeadlock() async throws {
        let store = MemoryStore()
        let truth = content(9 << 20)
        var versions: [ObjectVersion] = []
        for index in 0..<20 { versions.append(store.setObject(ObjectKey("f\(index)"), truth)) }
        let fixture = try Fixture(store, memory: 17 << 20)
        await withTaskGroup(of: Bool.self) { [versions] group in
            for (index, version) in versions.enumerated() {
                group.addTask(executorPreference: fixture.pool) {
                    let reader = ObjectReader(fixture.cache.open(ObjectKey("f\(index)"), version))
                    defer { reader.close() }
                    for step in 0..<9 as Range<Int64> {
                        let range = ByteRange(at: step << 20, count: 1 << 20)
                        guard (try? await fixture.read(reader, range)) == truth[bytes: range] else { return false }
                    }
                    return true
                }
            }
            for await isRight in group { #expect(isRight) }
        }
        #expect(fixture.buffers.budget.used <= 17 << 20)
        #expect(store.count(.get) == 40)
    }
}
