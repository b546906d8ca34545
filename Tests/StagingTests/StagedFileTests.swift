import Basics
import Foundation
import Journaling
import Staging
import Synchronization
import TestSupport
import Testing

@Suite("A staged file")
struct StagedFileTests {
    private let directory: TemporaryDirectory
    private let ledger: SpaceLedger
    private let area: StagingArea

    init() throws {
        directory = try TemporaryDirectory()
        ledger = SpaceLedger(limit: 1 << 20, floor: 0) { 1 << 40 }
        area = try StagingArea(directory: directory.path("staging"), ledger: ledger, time: SystemTime())
    }

    @Test("keeps its time when bytes come and go that nobody has written")
    func time() throws {
        let file = try area.create(IntentID(rawValue: 1), baseSize: 20_000)
        let bytes = [UInt8](repeating: 7, count: 10_000)
        try file.write(bytes.span.bytes, at: 0)
        let modified = Timestamp(seconds: 1_000_000_000, nanoseconds: 5)
        try file.setModified(modified)
        try file.fill(bytes.span.bytes, at: 10_000)
        #expect(area.modified(file.name) == modified)
        file.unfill(10_000..<20_000)
        try file.prepareToLeave([0..<10_000])
        file.leaveToStore([0..<10_000])
        #expect(area.modified(file.name) == modified)
        // As a process leaves it that is killed while it fetches.
        let left = try File(directory.path("staging/" + file.name), .readWrite)
        try left.setTimes(accessed: Timestamp(seconds: modified.seconds + 6_311_433_600, nanoseconds: 5))
        try left.write(bytes.span.bytes, at: 10_000)
        #expect(area.modified(file.name) == modified)
        let again = try #require(try area.reopen(file.name, baseSize: 20_000))
        #expect(area.modified(file.name) == modified)
        again.leave()
        try file.write(bytes.span.bytes, at: 0)
        #expect(try #require(area.modified(file.name)) > modified)
    }

    @Test("has no bytes past its end that a killed process has left there")
    func end() throws {
        let file = try area.create(IntentID(rawValue: 1), baseSize: 0)
        let bytes: [UInt8] = [1, 2, 3]
        try file.write(bytes.span.bytes, at: 100)
        file.leave()
        // As a process leaves it that is killed in the middle of an append.
        let left = try File(directory.path("staging/1"), .readWrite)
        try left.write(bytes.span.bytes, at: 103)
        let again = try #require(try area.reopen("1", baseSize: 0))
        #expect(again.size == 103)
        #expect(try left.size == 103)
        again.leave()
    }

    @Test("reads like the bytes written, over the base it was made on", arguments: 0..<40)
    func model(seed: UInt64) throws {
        var dice = SeededGenerator(seed: seed)
        let base = dice.bytes(Int.random(in: 0...60_000, using: &dice))
        let file = try area.create(IntentID(rawValue: 1), baseSize: Int64(base.count))
        var truth = base
        // What only an upload has.
        var uploaded: [UInt8] = []
        let limit = 80_000
        for step in 0..<150 {
            let start = Int.random(in: 0...limit, using: &dice)
            let count = Int.random(in: 0...(Bool.random(using: &dice) ? 9000 : 40), using: &dice)
            let before = file.generation
            switch Int.random(in: 0..<11, using: &dice) {
            case 0...2:
                let bytes = dice.bytes(count)
                try file.write(bytes.span.bytes, at: Int64(start))
                put(bytes, at: start, &truth)
                #expect(bytes.isEmpty || file.generation > before)
            case 3:
                let bytes = dice.bytes(min(count, 100))
                #expect(try file.append(bytes.span.bytes) == Int64(truth.count))
                truth += bytes
            case 4:
                try file.truncate(to: Int64(start))
                truth = Array(truth.prefix(start))
                truth += [UInt8](repeating: 0, count: start - truth.count)
            case 5:
                try file.zero(Int64(start)..<Int64(start + count))
                for index in start..<max(start, min(start + count, truth.count)) { truth[index] = 0 }
            case 6:
                file.unfill(Int64(start)..<Int64(start + count))
                #expect(file.generation == before)
            case 7 where start < truth.count:
                let range = start..<min(start + count, truth.count)
                uploaded += [UInt8](repeating: 0, count: max(0, truth.count - uploaded.count))
                uploaded.replaceSubrange(range, with: truth[range])
                try file.prepareToLeave([Int64(range.lowerBound)..<Int64(range.upperBound)])
                file.leaveToStore([Int64(range.lowerBound)..<Int64(range.upperBound)])
                #expect(file.generation == before)
            default:
                // Bytes of the base come in whole or announced first; they never hide what is newer.
                let range = min(start, base.count)..<min(start + count, base.count)
                let bytes = Array(base[range])
                if Bool.random(using: &dice) {
                    try file.fill(bytes.span.bytes, at: Int64(range.lowerBound))
                } else {
                    try file.prepareFill(
                        [UInt8](repeating: 7, count: bytes.count).span.bytes, at: Int64(range.lowerBound))
                    #expect(try content(of: file, base, uploaded) == truth, "seed \(seed), step \(step), unconfirmed")
                    try file.prepareFill(bytes.span.bytes, at: Int64(range.lowerBound))
                    file.confirmFill(Int64(range.lowerBound)..<Int64(range.upperBound))
                }
                #expect(file.generation == before)
            }
            #expect(file.size == Int64(truth.count))
            #expect(try content(of: file, base, uploaded) == truth, "seed \(seed), step \(step)")
            #expect(ledger.used == file.reservedBytes)
            #expect(try onDisk(file.path) <= ledger.used, "seed \(seed), step \(step)")
            // What a crash now would leave.
            let recorded = StagingArea.recordedMap(
                of: "1", in: directory.path("staging"), baseSize: Int64(base.count))
            #expect(recorded == file.extents, "seed \(seed), step \(step)")
        }
        file.discard()
        #expect(ledger.used == 0)
        #expect(!FileManager.default.fileExists(atPath: file.path))
        #expect(!FileManager.default.fileExists(atPath: file.path + StagingArea.mapSuffix))
    }

    @Test("zeroes only what it is told to beside bytes of the base that are on their way")
    func zeroBesideFill() throws {
        let base = [UInt8](repeating: 7, count: 12_288)
        let file = try area.create(IntentID(rawValue: 1), baseSize: 12_288)
        try file.prepareFill(base.span.bytes, at: 0)
        try file.zero(100..<4200)
        file.confirmFill(0..<12_288)
        let zeros = [UInt8](repeating: 0, count: 4100)
        #expect(try content(of: file, []) == base[..<100] + zeros + base[4200...])
        try file.zero(0..<12_288)
        #expect(try onDisk(file.path) == onDisk(file.path + StagingArea.mapSuffix))
        #expect(ledger.used == 4096, "the map")
    }

    @Test("counts the units that its file system takes", arguments: [16 << 10, 64 << 10] as [Int64])
    func units(bytes: Int64) throws {
        let area = try StagingArea(
            directory: directory.path("units"), ledger: ledger, time: SystemTime(), unit: DiskUnit(bytes: bytes))
        let file = try area.create(IntentID(rawValue: 1), baseSize: 0)
        try file.write([UInt8](repeating: 1, count: 4096).span.bytes, at: 0)
        #expect(ledger.used == bytes)
        try file.write([UInt8](repeating: 1, count: 4096).span.bytes, at: 8192)
        #expect(ledger.used == bytes + bytes, "two pieces in one unit, and the map")
        // A hole inside a unit frees nothing.
        try file.zero(0..<4096)
        #expect(ledger.used == bytes + bytes)
        try file.zero(0..<12_288)
        #expect(ledger.used == bytes, "the map")
        let zeros = [UInt8](repeating: 0, count: 12_288)
        #expect(try content(of: file, []) == zeros)
    }

    @Test("hands over a file that holds what it says is right")
    func handover() throws {
        let base = [UInt8](repeating: 9, count: 50_000)
        let file = try area.create(IntentID(rawValue: 1), baseSize: 50_000)
        try file.write(([1, 2, 3] as [UInt8]).span.bytes, at: 20_000)
        try file.zero(10_000..<15_000)
        try file.write(([4] as [UInt8]).span.bytes, at: 60_000)
        file.rest()
        let truth = try content(of: file, base)
        file.rest()
        let handover = try #require(file.release())
        #expect(file.release() == nil)
        #expect(handover.size == 60_001)
        #expect(handover.present == [10_000..<15_000, 20_000..<20_003, 50_000..<60_001])
        let bytes = [UInt8](try Data(contentsOf: URL(fileURLWithPath: handover.path)))
        #expect(bytes.count == 60_001)
        for range in handover.present {
            let (low, high) = (Int(range.lowerBound), Int(range.upperBound))
            #expect(bytes[low..<high] == truth[low..<high])
        }
        #expect(ledger.used == handover.reservedBytes)
        #expect(throws: StagingError.notStaged) { try file.write(([1] as [UInt8]).span.bytes, at: 0) }
    }

    @Test("refuses bytes there is no room for and changes nothing")
    func noSpace() throws {
        let file = try area.create(IntentID(rawValue: 1), baseSize: 0)
        try file.write([UInt8](repeating: 1, count: 4096).span.bytes, at: 0)
        #expect(throws: StagingError.noSpace) {
            try file.write([UInt8](repeating: 2, count: 1 << 20).span.bytes, at: 100)
        }
        #expect(file.size == 4096)
        #expect(try file.source(0..<4096).collect() == [UInt8](repeating: 1, count: 4096))
        #expect(ledger.used == 4096)
    }

    @Test("counts as moved only what is sent for the first time since it was written")
    func traffic() throws {
        let file = try area.create(IntentID(rawValue: 1), baseSize: 0)
        try file.write([UInt8](repeating: 1, count: 300_000).span.bytes, at: 0)
        let body = file.source(0..<300_000)
        for _ in 1...3 { try body.forEachPiece { _ in } }
        #expect(area.traffic.count.read == 300_000)
        for _ in 1...3 { try file.source(0..<300_000).forEachPiece { _ in } }
        #expect(area.traffic.count.read == 300_000)
        try file.write([UInt8](repeating: 2, count: 1000).span.bytes, at: 299_000)
        try file.source(0..<300_000).forEachPiece { _ in }
        #expect(area.traffic.count.read == 301_000)
    }

    @Test("tells of every range that changed, and of no fill")
    func observer() throws {
        let file = try area.create(IntentID(rawValue: 1), baseSize: 100)
        let seen = Mutex<[ByteRange]>([])
        file.observeChanges { range in seen.withLock { $0.append(range) } }
        try file.write(([1, 2] as [UInt8]).span.bytes, at: 10)
        try file.fill(([1, 2] as [UInt8]).span.bytes, at: 20)
        try file.truncate(to: 50)
        try file.zero(5..<200)
        _ = try file.append(([1] as [UInt8]).span.bytes)
        #expect(seen.withLock { $0 } == [10..<12, 50..<Int64.max, 5..<50, 50..<51])
    }

    @Test("is gone on with by the next process as it was", arguments: 0..<40)
    func successor(seed: UInt64) throws {
        var dice = SeededGenerator(seed: seed)
        let base = dice.bytes(Int.random(in: 0...60_000, using: &dice))
        let file = try area.create(IntentID(rawValue: 1), baseSize: Int64(base.count))
        for _ in 0..<Int.random(in: 0..<100, using: &dice) {
            let start = Int.random(in: 0...80_000, using: &dice)
            let count = Int.random(in: 0...(Bool.random(using: &dice) ? 9000 : 40), using: &dice)
            switch Int.random(in: 0..<7, using: &dice) {
            case 0...1: try file.write(dice.bytes(count).span.bytes, at: Int64(start))
            case 2: _ = try file.append(dice.bytes(count).span.bytes)
            case 3: try file.truncate(to: Int64(start))
            case 4: try file.zero(Int64(start)..<Int64(start + count))
            case 5: file.rest()
            default:
                let range = min(start, base.count)..<min(start + count, base.count)
                try file.prepareFill(Array(base[range]).span.bytes, at: Int64(range.lowerBound))
                if Bool.random(using: &dice) {
                    file.confirmFill(Int64(range.lowerBound)..<Int64(range.upperBound))
                }
            }
        }
        let truth = try content(of: file, base)
        file.keep(true)
        let fresh = SpaceLedger(limit: 1 << 30, floor: 0) { 1 << 40 }
        let next = try StagingArea(
            directory: directory.path("staging"), ledger: fresh, time: SystemTime(), kept: ["1"])
        let reopened = try #require(try next.reopen("1", baseSize: Int64(base.count)))
        #expect(try content(of: reopened, base) == truth, "seed \(seed)")
        // And by the one after that.
        try reopened.write(([1, 2, 3] as [UInt8]).span.bytes, at: 5)
        let changed = try content(of: reopened, base)
        let last = try #require(try next.reopen("1", baseSize: Int64(base.count)))
        #expect(try content(of: last, base) == changed, "seed \(seed)")
    }

    @Test(
        "is replaced by a copy or an empty file that a crash leaves whole or not at all",
        arguments: [0, 60_000], [false, true])
    func replacement(base count: Int, emptying: Bool) throws {
        let base = [UInt8](repeating: 7, count: count)
        let file = try area.create(IntentID(rawValue: 1), baseSize: Int64(count))
        // All of it is here now, and nothing of the base.
        try file.truncate(to: 0)
        try file.write([UInt8](repeating: 1, count: 10_000).span.bytes, at: 0)
        let truth = emptying ? [] : try content(of: file, base)
        let copy = try area.copy(file, IntentID(rawValue: 2), emptying: emptying)
        #expect(try content(of: copy, base) == truth)
        #expect(ledger.used == file.reservedBytes + copy.reservedBytes)
        copy.keep(true)
        for _ in 0..<2 {
            let fresh = SpaceLedger(limit: 1 << 30, floor: 0) { 1 << 40 }
            let next = try StagingArea(
                directory: directory.path("staging"), ledger: fresh, time: SystemTime(), kept: ["1", "2"])
            let reopened = try #require(try next.reopen("2", baseSize: Int64(count)))
            #expect(try content(of: reopened, base) == truth)
            reopened.keep(true)
        }
        // What was not finished has no name.
        try File.rename(copy.path, to: copy.path + ".new")
        let next = try StagingArea(
            directory: directory.path("staging"), ledger: ledger, time: SystemTime(), kept: ["1", "2"])
        #expect(try !next.has("2"))
        #expect(!FileManager.default.fileExists(atPath: copy.path + ".new"))
    }

    @Test("tells of any number of changes")
    func manyChanges() throws {
        let file = try area.create(IntentID(rawValue: 1), baseSize: 0)
        let seen = Mutex(0)
        file.observeChanges { _ in seen.withLock { $0 += 1 } }
        for _ in 0..<20_000 { try file.write(([1] as [UInt8]).span.bytes, at: 0) }
        #expect(seen.withLock { $0 } == 20_000)
    }

    @Test("survives its process as an orphan that the ledger counts")
    func orphans() throws {
        let file = try area.create(IntentID(rawValue: 1), baseSize: 0)
        try file.write([UInt8](repeating: 1, count: 10_000).span.bytes, at: 0)
        let fresh = SpaceLedger(limit: 1 << 20, floor: 0) { 1 << 40 }
        let next = try StagingArea(directory: directory.path("staging"), ledger: fresh, time: SystemTime())
        #expect(next.orphans.files == 1)
        #expect(next.orphans.bytes >= 10_000)
        #expect(fresh.used == next.orphans.bytes)
        _ = try next.create(IntentID(rawValue: 1), baseSize: 0)
    }

    @Test("counts in the ledger, with its map, while it is held for somebody to decide")
    func held() throws {
        let file = try area.create(IntentID(rawValue: 1), baseSize: 100_000)
        file.keep(true)
        for start in stride(from: Int64(0), to: 100_000, by: 10_000) {
            try file.write(([1, 2, 3] as [UInt8]).span.bytes, at: start)
        }
        try Data([1]).write(to: URL(fileURLWithPath: file.path + StagingArea.mapSuffix + ".new"))
        let fresh = SpaceLedger(limit: 1 << 20, floor: 0) { 1 << 40 }
        let next = try StagingArea(
            directory: directory.path("staging"), ledger: fresh, time: SystemTime(), kept: ["1"],
            lastKnown: IntentID(rawValue: 1))
        #expect(!FileManager.default.fileExists(atPath: file.path + StagingArea.mapSuffix + ".new"))
        #expect(try next.hold("1") > 0)
        #expect(try fresh.used == onDisk(file.path) && fresh.staged == fresh.used)
        next.giveBack("1")
        #expect(fresh.used == 0)
        let map = try #require(
            StagingArea.recordedMap(of: "1", in: directory.path("staging"), baseSize: 100_000))
        let taken = try next.open("1", extents: map, baseSize: 100_000)
        #expect(try onDisk(file.path) <= fresh.used)
        taken.discard()
        #expect(fresh.used == 0)
        #expect(try onDisk(file.path) == 0)
    }

    @Test("needs space for its map and for its bytes, and changes nothing without", arguments: [4095, 8192] as [Int64])
    func noSpaceForTheMap(_ limit: Int64) throws {
        let tight = SpaceLedger(limit: limit, floor: 0) { 1 << 40 }
        let area = try StagingArea(directory: directory.path("tight"), ledger: tight, time: SystemTime())
        let file = try area.create(IntentID(rawValue: 1), baseSize: 1 << 20)
        #expect(throws: StagingError.noSpace) {
            try file.write([UInt8](repeating: 1, count: 8192).span.bytes, at: 4096)
        }
        #expect(file.generation == 0)
        #expect(try onDisk(file.path) <= tight.used && tight.used <= tight.limit)
    }

    @Test("keeps its bytes through reads, writes and cuts at once")
    func concurrency() async throws {
        let file = try area.create(IntentID(rawValue: 1), baseSize: 0)
        try file.write([UInt8](repeating: 1, count: 8192).span.bytes, at: 0)
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                for _ in 0..<300 {
                    try? file.truncate(to: 4096)
                    try? file.write([UInt8](repeating: 1, count: 4096).span.bytes, at: 4096)
                }
            }
            group.addTask {
                for _ in 0..<600 {
                    let size = file.size
                    // A cut may come in between, and is an error then; other bytes never are.
                    if let bytes = try? file.source(0..<size).collect() { #expect(bytes.allSatisfy { $0 == 1 }) }
                }
            }
        }
    }

    /// Bytes of disk that a staging file takes with what lies beside it.
    private func onDisk(_ path: String) throws -> Int64 {
        try [path, path + StagingArea.mapSuffix].reduce(0) { sum, path in
            try FileManager.default.fileExists(atPath: path) ? sum + File(path).allocated : sum
        }
    }

    private func content(of file: StagedFile, _ base: [UInt8], _ uploaded: [UInt8] = []) throws -> [UInt8] {
        var content: [UInt8] = []
        for piece in file.pieces(in: 0..<Int64.max) {
            switch piece.source {
            case .base: content += base[Int(piece.range.lowerBound)..<Int(piece.range.upperBound)]
            case .stored: content += uploaded[Int(piece.range.lowerBound)..<Int(piece.range.upperBound)]
            case .hole, .staged, .filled: content += try file.source(piece.range).collect()
            }
        }
        return content
    }

    private func put(_ bytes: [UInt8], at start: Int, _ truth: inout [UInt8]) {
        guard !bytes.isEmpty else { return }
        let end = start + bytes.count
        if truth.count < end { truth += [UInt8](repeating: 0, count: end - truth.count) }
        truth.replaceSubrange(start..<end, with: bytes)
    }
}
