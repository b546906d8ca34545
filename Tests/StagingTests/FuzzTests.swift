import Basics
import TestSupport
import Testing

@testable import Staging

/// A map that a dead process or a damaged disk left is read as far as it makes sense, and nothing traps.
@Suite struct FuzzTests {
    @Test func mapsOfStagedFiles() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("1")
        // Maps with holes, with what was there before, and with changes upon changes.
        var seeds: [[UInt8]] = []
        for length in [Int64(10), 1 << 40] {
            var map = ExtentMap(baseSize: 100)
            map.set(5..<5 + length, to: .staged)
            var log = ExtentLog(of: path, baseSize: 100, ledger: SpaceLedger(limit: 1 << 40, floor: 0) { 1 << 50 })
            try log.replace(with: map)
            for change in [ExtentLog.Change.set(0..<7, .hole), .truncate(length / 2), .set(3..<4, .staged)] {
                try log.prepare(change, records: 1, for: .written, count: 3) { map }
                try log.add(change)
            }
            seeds.append(try File(path + StagingArea.mapSuffix).read(0..<256))
        }
        #expect(seeds.allSatisfy { $0.count >= 32 * 5 })
        let file = try File(path + StagingArea.mapSuffix, .readWrite, create: .ifMissing)
        Fuzzer("maps of staged files", seeds: seeds).run(2000) { bytes in
            try file.truncate(to: 0)
            try file.write(bytes, at: 0)
            guard let map = ExtentLog.read(of: path, baseSize: 100) else { return }
            #expect(map.size >= 0)
            var end: Int64 = 0
            for piece in map.pieces(in: 0..<map.size) {
                #expect(piece.range.lowerBound == end && piece.range.upperBound > end)
                end = piece.range.upperBound
            }
            #expect(end == map.size)
        }
    }
}
