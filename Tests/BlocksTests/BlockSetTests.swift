import Basics
import Blocks
import TestSupport
import Testing

struct BlockSetTests {
    @Test func setOperationsAgreeWithAnOrdinarySet() {
        var generator = SeededGenerator(seed: 11)
        for _ in 0..<500 {
            let ranges = (0..<4).map { _ in
                let lower = Int.random(in: 0...128, using: &generator)
                return lower..<Int.random(in: lower...128, using: &generator)
            }
            let left = BlockSet(ranges[0]).union(BlockSet(ranges[1]))
            let right = BlockSet(ranges[2]).union(BlockSet(ranges[3]))
            let (plainLeft, plainRight) = (Set(ranges[0]).union(ranges[1]), Set(ranges[2]).union(ranges[3]))
            #expect(members(left) == plainLeft)
            #expect(members(left.intersection(right)) == plainLeft.intersection(plainRight))
            #expect(members(left.subtracting(right)) == plainLeft.subtracting(plainRight))
            #expect(left.count == plainLeft.count)
            #expect(Set(left.runs.flatMap { $0 }) == plainLeft)
            #expect(zip(left.runs, left.runs.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound })
            #expect(BlockSet(bytes: left.bytes) == left)
            let block = Int.random(in: 0..<128, using: &generator)
            #expect(left.run(from: block) == (block..<128).prefix { plainLeft.contains($0) }.count)
            #expect(left.first(from: block) == (block..<128).first { plainLeft.contains($0) })
        }
    }

    @Test func bytesOfAnotherLengthAreRefused() {
        #expect(BlockSet(bytes: []) == nil)
        #expect(BlockSet(bytes: Array(repeating: 1, count: 17)) == nil)
    }

    private func members(_ set: BlockSet) -> Set<Int> { Set((0..<128).filter { set.contains($0) }) }
}

struct GeometryTests {
    @Test(arguments: [1, 4095, 4096, 65536, 65537, 262_144, 262_145, 8 << 20, (8 << 20) + 1, 20_000_001] as [Int64])
    func blocksCoverTheObjectExactly(size: Int64) {
        let geometry = Geometry(size: size)
        var next: Int64 = 0
        for chunk in 0..<geometry.chunkCount {
            for block in 0..<geometry.blockCount(of: chunk) {
                let bytes = geometry.bytes(of: block..<block + 1, in: chunk)
                #expect(bytes.lowerBound == next)
                #expect(Geometry.chunk(at: bytes.lowerBound) == chunk)
                #expect(Geometry.block(at: bytes.upperBound - 1) == block)
                next = bytes.upperBound
            }
        }
        #expect(next == size)
    }

    @Test func blocksWithinARangeAreThoseItCoversWhole() {
        let geometry = Geometry(size: (8 << 20) + 100_000)
        #expect(geometry.blocks(within: 0..<65535, in: 0).isEmpty)
        #expect(geometry.blocks(within: 0..<65536, in: 0) == 0..<1)
        #expect(geometry.blocks(within: 1..<200_000, in: 0) == 1..<3)
        #expect(geometry.blocks(within: 0..<(8 << 20) + 100_000, in: 1) == 0..<2)
        #expect(geometry.blocks(within: 0..<(8 << 20) + 99_999, in: 1) == 0..<1)
        #expect(geometry.blocks(touching: 65535..<65537, in: 0) == 0..<2)
        #expect(geometry.blocks(touching: 65535..<65537, in: 1).isEmpty)
    }

    @Test func aSmallFileCostsItsPages() {
        #expect(Geometry(size: 1).charge(for: BlockSet(0..<1), in: 0) == 4096)
        #expect(Geometry(size: 65537).charge(for: BlockSet(0..<2), in: 0) == 65536 + 4096)
        #expect(Geometry(size: 1 << 20).charge(for: BlockSet(0..<16), in: 0) == (1 << 20) + 4096)
        #expect(Geometry(size: 1 << 20).charge(for: .empty, in: 0) == 0)
    }

    @Test(arguments: [16 << 10, 64 << 10] as [Int64])
    func aSmallFileCostsTheUnitsThatItsFileSystemTakes(bytes: Int64) {
        func charge(_ size: Int64, _ blocks: Int) -> Int64 {
            Geometry(size: size, unit: DiskUnit(bytes: bytes)).charge(for: BlockSet(0..<blocks), in: 0)
        }
        #expect(charge(1, 1) == bytes)
        #expect(charge(bytes, 1) == bytes)
        #expect(charge(65537, 2) == 65536 + bytes)
        #expect(charge(1 << 20, 16) == (1 << 20) + bytes)
    }
}

struct FetchPlanTests {
    struct Row: CustomTestStringConvertible {
        var testDescription: String
        var extent: Range<Int>
        var present: [Range<Int>] = []
        var inFlight: [Range<Int>] = []
        var bridge = 0
        var runs: [Range<Int>]
    }

    static let rows = [
        Row(testDescription: "nothing here", extent: 3..<9, runs: [3..<9]),
        Row(testDescription: "all here", extent: 3..<9, present: [0..<128], runs: []),
        Row(testDescription: "all under way", extent: 3..<9, inFlight: [0..<128], runs: []),
        Row(testDescription: "a hole in the middle", extent: 0..<9, present: [0..<3, 5..<9], runs: [3..<5]),
        Row(testDescription: "random reads do not bridge", extent: 0..<9, present: [4..<5], runs: [0..<4, 5..<9]),
        Row(testDescription: "sequential ones do", extent: 0..<9, present: [4..<5], bridge: 16, runs: [0..<9]),
        Row(
            testDescription: "but not too far", extent: 0..<128, present: [4..<30], bridge: 16, runs: [0..<4, 30..<128]),
        Row(
            testDescription: "nor over a fetch", extent: 0..<9, present: [3..<4], inFlight: [4..<5], bridge: 16,
            runs: [0..<3, 5..<9]),
    ]

    @Test(arguments: rows) func runsFillWhatIsMissing(row: Row) {
        let union = { (ranges: [Range<Int>]) in ranges.reduce(BlockSet.empty) { $0.union(BlockSet($1)) } }
        let runs = FetchPlan.runs(
            in: row.extent, present: union(row.present), inFlight: union(row.inFlight), bridge: row.bridge)
        #expect(runs == row.runs)
    }
}

struct FetchTableTests {
    /// `#expect` cannot call what mutates a struct.
    private final class Table {
        private var table = FetchTable<String>()

        func add(_ name: String) -> UInt64 { table.add(name, chunk: 0, blocks: 0..<4).id }
        func wait(for id: UInt64) { table.wait(for: id) }
        func endWait(for id: UInt64, gaveUp: Bool) -> String? { table.endWait(for: id, gaveUp: gaveUp) }
        func hold(_ id: UInt64) { table.hold(id) }
        func release(_ id: UInt64) -> String? { table.release(id) }
        func markReceived(_ id: UInt64) -> Bool { table.markReceived(id) }
        func remove(_ id: UInt64) { table.remove(id) }
        var names: [String] { table.entries.map(\.payload) }
        var inFlight: BlockSet { table.inFlight(in: 0) }
    }

    @Test func aWaiterThatGivesUpCancelsOnlyWhenNobodyElseWants() {
        let table = Table()
        let id = table.add("a")
        table.wait(for: id)
        table.wait(for: id)
        #expect(table.endWait(for: id, gaveUp: true) == nil)
        #expect(table.endWait(for: id, gaveUp: true) == "a")
        #expect(table.names.isEmpty)
    }

    @Test func aWaiterThatGotItsBytesLetsTheFetchRunOn() {
        let table = Table()
        let id = table.add("a")
        table.wait(for: id)
        #expect(table.endWait(for: id, gaveUp: false) == nil)
        #expect(table.names == ["a"])
    }

    @Test func theLastHolderCancels() {
        let table = Table()
        let id = table.add("a")
        table.hold(id)
        table.hold(id)
        table.wait(for: id)
        #expect(table.release(id) == nil)
        #expect(table.release(id) == nil)
        #expect(table.endWait(for: id, gaveUp: true) == "a")
    }

    @Test func whatHasBeenReceivedIsKept() {
        let table = Table()
        let id = table.add("a")
        table.hold(id)
        #expect(table.markReceived(id))
        #expect(table.release(id) == nil)
        #expect(!table.inFlight.isEmpty)
        table.remove(id)
        #expect(table.inFlight.isEmpty)
        #expect(!table.markReceived(id))
    }

    @Test func interestInAFetchThatIsOverDoesNothing() {
        let table = Table()
        let id = table.add("a")
        table.hold(id)
        table.remove(id)
        _ = table.add("b")
        #expect(table.release(id) == nil)
        #expect(table.names == ["b"])
    }
}
