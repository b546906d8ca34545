import Basics
import Blocks
import Digests
import ObjectStorage
import SQLite
import TestSupport
import Testing

/// A byte that changes on its way from the store is not kept, and who reads the object to its end hears of it.
@Suite(.ownThreads) struct DamageTests {
    private static let mebibyte: Int64 = 1 << 20
    private static let chunk = Geometry.chunkSize
    private static let truth = content(24 << 20 - 1000)

    /// What a store may tell, and how.
    struct Told: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var checksum: (@Sendable ([UInt8]) -> ContentChecksum?)?
        var apart: (@Sendable ([UInt8]) -> [CheckedPart])?

        /// With every GET.
        static func inGets(
            _ name: String, _ checksum: @escaping @Sendable ([UInt8]) -> ContentChecksum
        ) -> Told { Told(testDescription: name, checksum: checksum) }

        /// By a request of its own.
        static func apart(_ name: String, _ parts: @escaping @Sendable ([UInt8]) -> [CheckedPart]) -> Told {
            Told(testDescription: name + " apart", apart: parts)
        }

        static func apart(_ name: String, _ checksum: @escaping @Sendable ([UInt8]) -> ContentChecksum) -> Told {
            apart(name) { (bytes: [UInt8]) in [CheckedPart(size: Int64(bytes.count), checksum(bytes))] }
        }

        static func parts(
            _ name: String, size: Int, _ checksum: @escaping @Sendable ([UInt8]) -> ContentChecksum
        ) -> Told {
            apart("\(name) of parts of \(size)") { (bytes: [UInt8]) in
                stride(from: 0, to: bytes.count, by: size).map { start in
                    let part = Array(bytes[start..<min(bytes.count, start + size)])
                    return CheckedPart(size: Int64(part.count), checksum(part))
                }
            }
        }

        static let all: [Told] = [
            .inGets("CRC-64/ECMA") { .crc64ecma(CRC64ECMA.of($0)) },
            .inGets("CRC-32C") { .crc32c(CRC32C.of($0)) },
            .inGets("MD5") { .md5(MD5.of($0)) },
            .inGets("qetag") { .qetag(QETag.of($0), partSizes: []) },
            .apart("CRC-64/NVME") { .crc64nvme(CRC64NVME.of($0)) },
            .apart("CRC-32") { .crc32(CRC32.of($0)) },
            .apart("SHA-256") { .sha256(SHA256.of($0)) },
            .apart("qetag of parts") { bytes in
                let sizes: [Int64] = [5 << 20, Int64(bytes.count) - 5 << 20]
                var digest = PartedQETag(sizes: sizes)
                digest.update(bytes)
                return .qetag(digest.finish(), partSizes: sizes)
            },
            .parts("CRC-64/NVME", size: 5 << 20) { .crc64nvme(CRC64NVME.of($0)) },
            .parts("CRC-32", size: 5_000_001) { .crc32(CRC32.of($0)) },
            .parts("MD5", size: 5 << 20) { .md5(MD5.of($0)) },
        ]
    }

    private func store(_ told: Told) -> (store: MemoryStore, version: ObjectVersion) {
        let store = MemoryStore()
        let version = store.setObject("a", Self.truth)
        (store.checksum, store.checksumsApart) = (told.checksum, told.apart)
        return (store, version)
    }

    /// Changes a byte of the first `times` bodies that hold `offset`.
    private func damage(_ store: MemoryStore, at offset: Int64, times: Int = 1) {
        let count = Counter()
        store.alterBody = { request, body in
            guard let range = request.range, range.contains(offset), count.increment() <= times else { return body }
            var body = body
            body[Int(offset - range.lowerBound)] ^= 1
            return body
        }
    }

    /// What a program gets that reads to the end, a MiB at a time.
    private func readAll(_ fixture: Fixture, _ reader: ObjectReader) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        let size = reader.object.version.size
        while Int64(bytes.count) < size {
            let start = Int64(bytes.count)
            bytes += try await fixture.read(reader, start..<min(size, start + Self.mebibyte))
        }
        return bytes
    }

    private func expectDamage(
        _ fixture: Fixture, _ reader: ObjectReader, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        do {
            let bytes = try await readAll(fixture, reader)
            Issue.record("\(bytes == Self.truth ? "right" : "damaged") bytes", sourceLocation: sourceLocation)
        } catch BlockError.store(let error) {
            #expect(error.kind == .integrity, sourceLocation: sourceLocation)
        }
    }

    @Test(.rule("read.true", "read.checked"), arguments: Told.all)
    func whoHasHadDamagedBytesHearsOfItAndTheNextReaderGetsTheRightOnes(_ told: Told) async throws {
        let (store, version) = store(told)
        damage(store, at: 10)
        let fixture = try Fixture(store)
        let reader = ObjectReader(fixture.cache.open("a", version))
        try await expectDamage(fixture, reader)
        // And keeps hearing it: the kernel may have asked on its own account.
        await #expect(throws: BlockError.self) { try await fixture.read(reader, 5 << 20..<6 << 20) }
        reader.close()
        #expect(fixture.log.warnings == 1)
        #expect(fixture.cache.statistics().damagedVersions == 1)
        await fixture.settle()
        #expect(try await readAll(fixture, ObjectReader(fixture.cache.open("a", version))) == Self.truth)
        #expect(fixture.cache.open("a", version).isComplete)
        try fixture.reopen()
        store.forgetRequests()
        #expect(fixture.readCached(fixture.cache.open("a", version), 0..<version.size) == Self.truth)
        #expect(store.requests.isEmpty)
    }

    @Test(.rule("read.true", "read.checked"), arguments: Told.all)
    func rightBytesAreReadWithOneRequestMoreAtMost(_ told: Told) async throws {
        let (store, version) = store(told)
        let fixture = try Fixture(store)
        #expect(try await readAll(fixture, ObjectReader(fixture.cache.open("a", version))) == Self.truth)
        await fixture.settle()
        #expect(store.count(.get) == 3)
        #expect(store.count(.head) == (told.apart == nil ? 0 : 1))
        #expect(fixture.log.warnings == 0)
    }

    @Test(.rule("read.true")) func anObjectThatStaysDamagedIsAnErrorAndKeptNowhere() async throws {
        let (store, version) = store(Told.all[0])
        damage(store, at: 9 << 20, times: .max)
        let fixture = try Fixture(store)
        for _ in 0..<2 {
            let reader = ObjectReader(fixture.cache.open("a", version))
            try await expectDamage(fixture, reader)
            reader.close()
            await fixture.settle()
            #expect(fixture.cache.statistics().storedBytes == 0)
            #expect(fixture.cache.statistics().shelvedBytes == 0)
        }
        // On a busy machine a piece comes in two parts, and a late one is asked for once more.
        let late = Int64(fixture.cache.statistics().hedges)
        let ranges = store.requests(.get).compactMap(\.range)
        let (asked, twice) = (ranges.reduce(Int64(0)) { $0 + $1.length }, 4 * version.size)
        #expect(ranges.count >= 12 && asked >= twice && asked <= twice + late * Self.chunk, "\(late) late of \(ranges)")
        try fixture.reopen()
        store.alterBody = nil
        #expect(try await readAll(fixture, ObjectReader(fixture.cache.open("a", version))) == Self.truth)
    }

    @Test func damageThatNoReaderHasHadIsMendedInSilence() async throws {
        let (store, version) = store(Told.all[0])
        damage(store, at: version.size - 1)
        let fixture = try Fixture(store)
        #expect(try await readAll(fixture, ObjectReader(fixture.cache.open("a", version))) == Self.truth)
        #expect(fixture.cache.statistics().damagedVersions == 1)
    }

    /// The new last block arrives before the verdict, which says that the reader has had damaged bytes.
    @Test(.rule("read.checked")) func aReadThatBeginsWhileTheVersionIsFetchedAgainWaitsForTheVerdict() async throws {
        let (store, version) = store(Told.all[0])
        damage(store, at: 10)
        let (gate, fetches) = (Gate(), Counter())
        store.beforeDelivery = { request, offset in
            guard let range = request.range, range.contains(version.size - 1), offset == range.lowerBound,
                fetches.increment() == 2
            else { return }
            await gate.pass()
        }
        let fixture = try Fixture(store)
        let reader = ObjectReader(fixture.cache.open("a", version))
        _ = try await fixture.read(reader, 0..<Self.mebibyte)
        async let whole: [UInt8]? = try? await fixture.read(fixture.cache.open("a", version), 0..<version.size)
        await gate.waitForArrivals(1)
        async let last: [UInt8]? = try? await fixture.read(reader, version.size - 1000..<version.size)
        for _ in 0..<100 { await Task.yield() }
        gate.open()
        #expect(await last == nil)
        _ = await whole
    }

    @Test func whoHasHadOtherBytesReadsOn() async throws {
        let (store, version) = store(Told.all[0])
        damage(store, at: 10)
        let fixture = try Fixture(store)
        let other = ObjectReader(fixture.cache.open("a", version))
        let piece = 20 << 20..<(20 << 20 + 4096) as ByteRange
        #expect(try await fixture.read(other, piece) == Self.truth[bytes: piece])
        try await expectDamage(fixture, ObjectReader(fixture.cache.open("a", version)))
        #expect(try await fixture.read(other, piece) == Self.truth[bytes: piece])
    }

    @Test(arguments: [Told.all[0], Told.all[2], Told.all[4]])
    func whatBlocksCameToIsKnownAfterARestart(_ told: Told) async throws {
        let (store, version) = store(told)
        damage(store, at: 10)
        let fixture = try Fixture(store)
        _ = try await fixture.read(fixture.cache.open("a", version), 0..<Self.chunk)
        await fixture.settle()
        try fixture.reopen()
        try await expectDamage(fixture, ObjectReader(fixture.cache.open("a", version)))
        await fixture.settle()
        #expect(fixture.readCached(fixture.cache.open("a", version), 0..<version.size) == Self.truth)
    }

    @Test func aProcessThatDiedBeforeTheVerdictLeavesItToTheNext() async throws {
        let (store, version) = store(Told.all[0])
        damage(store, at: 10)
        let fixture = try Fixture(store)
        let object = fixture.cache.open("a", version)
        _ = try await fixture.read(object, 0..<2 * Self.chunk)
        await fixture.settle()
        fixture.cache.flush()
        try fixture.database.run("UPDATE files SET judged = 0")
        try fixture.reopen()
        // The last block may come, be found wrong and be fetched again before a reader of the whole takes the first one.
        let getting = store.hold(.get)
        let reader = ObjectReader(fixture.cache.open("a", version))
        _ = try await fixture.read(reader, 0..<Self.mebibyte)
        getting.open()
        try await expectDamage(fixture, reader)
        #expect(try await fixture.read(fixture.cache.open("a", version), 0..<version.size) == Self.truth)
    }

    @Test func blocksOfAnEarlierVersionOfTheProgramAreReadAsBefore() async throws {
        let (store, version) = store(Told.all[0])
        let fixture = try Fixture(store)
        _ = try await fixture.read(fixture.cache.open("a", version), 0..<2 * Self.chunk)
        await fixture.settle()
        fixture.cache.flush()
        try fixture.database.run("UPDATE chunks SET sums = x''")
        try fixture.reopen(crashing: true)
        #expect(try await readAll(fixture, ObjectReader(fixture.cache.open("a", version))) == Self.truth)
        #expect(store.count(.get) == 3)
    }

    @Test func aBlockThatComesAgainIsComparedWithWhatItWas() async throws {
        let (store, version) = store(Told.all[0])
        let fixture = try Fixture(store)
        let object = fixture.cache.open("a", version)
        let reader = ObjectReader(object)
        #expect(try await readAll(fixture, reader) == Self.truth)
        reader.close()
        await fixture.settle()
        fixture.cache.prune(to: 0)
        damage(store, at: 9 << 20)
        let second = Self.chunk..<2 * Self.chunk
        #expect(try await fixture.read(object, second) == Self.truth[bytes: second])
        #expect(store.count(.get) == 5)
        fixture.cache.prune(to: 0)
        damage(store, at: 9 << 20, times: .max)
        await #expect(throws: BlockError.self) { try await fixture.read(object, second) }
        await fixture.settle()
        #expect(fixture.cache.statistics().storedBytes == 0)
    }

    @Test func withoutADiskTheSame() async throws {
        var options = BlockOptions()
        options.usesDisk = false
        let (store, version) = store(Told.all[0])
        damage(store, at: 10)
        let fixture = try Fixture(store, options: options)
        try await expectDamage(fixture, ObjectReader(fixture.cache.open("a", version)))
        #expect(try await readAll(fixture, ObjectReader(fixture.cache.open("a", version))) == Self.truth)
    }

    @Test func aMountThatDoesNotWantItComparesNothing() async throws {
        var options = BlockOptions()
        options.verifies = false
        let (store, version) = store(Told.all[4])
        damage(store, at: 10)
        let fixture = try Fixture(store, options: options)
        #expect(try await readAll(fixture, ObjectReader(fixture.cache.open("a", version))) != Self.truth)
        #expect(store.count(.head) == 0)
    }

    @Test func aChecksumThatCannotBeAskedForIsTheReadersError() async throws {
        let (store, version) = store(Told.all[4])
        store.fault = { operation, _ in
            operation == .head ? ObjectStoreError(.unreachable, .head, message: "no route") : nil
        }
        let fixture = try Fixture(store)
        await #expect(throws: BlockError.self) {
            try await readAll(fixture, ObjectReader(fixture.cache.open("a", version)))
        }
        store.fault = nil
        #expect(try await readAll(fixture, ObjectReader(fixture.cache.open("a", version))) == Self.truth)
    }

    @Test func whatAHEADToldIsNotAskedForAgain() async throws {
        let (store, version) = store(Told.all[4])
        let fixture = try Fixture(store)
        var info = ObjectInfo(version: version, metadata: ObjectMetadata())
        info.checksum = .crc64nvme(CRC64NVME.of(Self.truth))
        fixture.cache.note(info, of: "a")
        damage(store, at: 10)
        try await expectDamage(fixture, ObjectReader(fixture.cache.open("a", version)))
        #expect(store.count(.head) == 0)
    }
}
