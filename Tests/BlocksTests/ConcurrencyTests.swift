import Basics
import Blocks
import ObjectStorage
import TestSupport
import Testing

/// Everything at once, compared byte for byte with the truth.
struct ConcurrencyTests {
    /// Objects of awkward sizes, some small, some of several chunks.
    private static let sizes = [1, 4095, 65536, 65537, 1_000_000, 8 << 20, (8 << 20) + 1, 20_000_003, 33 << 20]

    private static func populate(_ store: MemoryStore) -> [(key: ObjectKey, version: ObjectVersion, truth: [UInt8])] {
        sizes.enumerated().map { index, size in
            let truth = content(size, seed: UInt64(index + 100))
            let key = ObjectKey("object \(index)")
            return (key, store.setObject(key, truth), truth)
        }
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func readersEvictionsAndRestartsNeverMixUpBytes(seed: UInt64) async throws {
        let store = MemoryStore()
        let objects = Self.populate(store)
        let limit: Int64 = 24 << 20
        let fixture = try Fixture(store, limit: limit, memory: 40 << 20)
        let overruns = Counter()
        for round in 0..<3 as Range<UInt64> {
            await withTaskGroup(of: String?.self) { group in
                for worker in 0..<8 as Range<UInt64> {
                    group.addTask(executorPreference: fixture.pool) {
                        var generator = SeededGenerator(seed: seed * 1000 + round * 100 + worker)
                        return await Self.read(objects, from: fixture, &generator)
                    }
                }
                group.addTask(executorPreference: fixture.pool) {
                    var generator = SeededGenerator(seed: seed * 1000 + round * 100 + 99)
                    for _ in 0..<40 {
                        switch Int.random(in: 0..<4, using: &generator) {
                        case 0: fixture.cache.prune(to: Int64.random(in: 0..<limit, using: &generator))
                        case 1: fixture.cache.forget(objects[Int.random(in: 0..<objects.count, using: &generator)].key)
                        case 2:
                            // Others' dirty bytes come and go.
                            if fixture.ledger.reserve(3 << 20, evicting: true) { fixture.ledger.release(3 << 20) }
                        default: break
                        }
                        // Files are measured one by one: a sum counts only if nothing came or went meanwhile.
                        let before = fixture.cache.statistics()
                        let use = fixture.diskUse
                        if use > limit, before == fixture.cache.statistics() { overruns.increment() }
                        await Task.yield()
                    }
                    return nil
                }
                for await complaint in group {
                    if let complaint { Issue.record("seed \(seed), round \(round): \(complaint)") }
                }
            }
            await fixture.settle()
            #expect(fixture.ledger.used <= limit)
            #expect(fixture.diskUse <= fixture.ledger.used)
            #expect(fixture.ledger.used == fixture.cache.statistics().storedBytes)
            // After a crash the rows of evicted blocks may still be there; their checksums tell.
            #expect(round == 2 || fixture.cache.statistics().corruptBlocks == 0)
            try fixture.reopen(crashing: round == 1)
            #expect(fixture.diskUse <= fixture.ledger.used)
        }
        #expect(overruns.value == 0)
        #expect(fixture.log.warnings <= 1)
    }

    /// A few handles, read at random and in order; answers the first difference.
    private static func read(
        _ objects: [(key: ObjectKey, version: ObjectVersion, truth: [UInt8])], from fixture: Fixture,
        _ generator: inout SeededGenerator
    ) async -> String? {
        for _ in 0..<12 {
            let object = objects[Int.random(in: 0..<objects.count, using: &generator)]
            let reader = ObjectReader(fixture.cache.open(object.key, object.version))
            defer { reader.close() }
            var position: Int64 = 0
            for _ in 0..<10 {
                if Bool.random(using: &generator) {
                    position = Int64.random(in: 0..<object.version.size, using: &generator)
                }
                let most = min(object.version.size - position, 1 << 20)
                if most == 0 { break }
                let range = ByteRange(at: position, count: Int64.random(in: 1...most, using: &generator))
                do {
                    if try await fixture.read(reader, range) != object.truth[bytes: range] {
                        return "\(object.key) differs in \(range)"
                    }
                } catch {
                    return "\(object.key) \(range): \(error)"
                }
                position = range.upperBound
            }
        }
        return nil
    }

    @Test func cancellationsAtAnyMomentHurtNobodyElse() async throws {
        let store = MemoryStore(deliverySize: 16 << 10)
        let objects = Self.populate(store)
        store.beforeDelivery = { _, _ in await Task.yield() }
        let fixture = try Fixture(store, memory: 24 << 20)
        await withTaskGroup(of: String?.self) { group in
            for worker in 0..<12 as Range<UInt64> {
                group.addTask(executorPreference: fixture.pool) {
                    var generator = SeededGenerator(seed: worker)
                    if worker < 4 { return await Self.read(objects, from: fixture, &generator) }
                    for _ in 0..<30 {
                        let object = objects[Int.random(in: 0..<objects.count, using: &generator)]
                        let lower = Int64.random(in: 0..<object.version.size, using: &generator)
                        let range = lower..<min(object.version.size, lower + 300_000)
                        let yields = Int.random(in: 0..<20, using: &generator)
                        let hasty = fixture.pool.start {
                            _ = try? await fixture.read(fixture.cache.open(object.key, object.version), range)
                        }
                        for _ in 0..<yields { await Task.yield() }
                        hasty.cancel()
                        await hasty.value
                    }
                    return nil
                }
            }
            for await complaint in group {
                if let complaint { Issue.record("\(complaint)") }
            }
        }
        await fixture.settle()
    }

    @Test(.rule("read.true")) func brokenTransfersNeverShowAWrongByte() async throws {
        let store = MemoryStore()
        let objects = Self.populate(store)
        let count = Counter()
        store.alterBody = { _, body in
            // Every third body is cut, every seventh too long.
            let number = count.increment()
            return number % 3 == 0 ? Array(body.dropLast(1 + body.count / 3)) : number % 7 == 0 ? body + [1] : body
        }
        let fixture = try Fixture(store, limit: 24 << 20)
        var generator = SeededGenerator(seed: 5)
        var failures = 0
        for _ in 0..<300 {
            let object = objects[Int.random(in: 0..<objects.count, using: &generator)]
            let lower = Int64.random(in: 0..<object.version.size, using: &generator)
            let range = lower..<min(object.version.size, lower + 200_000)
            do {
                let bytes = try await fixture.read(fixture.cache.open(object.key, object.version), range)
                #expect(bytes == object.truth[bytes: range])
            } catch { failures += 1 }
        }
        #expect(failures > 0 && failures < 300)
    }
}
