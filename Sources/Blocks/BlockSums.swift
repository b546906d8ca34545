import Basics
import Digests

/// The CRCs of a version's blocks as the store sent them. The CRC of a block stays when the block leaves the cache. Pure.
struct BlockSums: Sendable {
    private struct Row: Sendable {
        var known = BlockSet.empty
        var values: [UInt64]
    }

    let kind: CRCKind
    let geometry: Geometry
    private var rows: [Int: Row] = [:]
    /// Blocks with a known CRC.
    private(set) var count = 0

    init(_ kind: CRCKind, _ geometry: Geometry) { (self.kind, self.geometry) = (kind, geometry) }

    /// Whether the CRC of every block is known.
    var isComplete: Bool { count == geometry.blockCount }

    /// Those of `blocks` that were recorded with another value before.
    func contradictions(_ values: [UInt64], of blocks: Range<Int>, in chunk: Int) -> BlockSet {
        guard let row = rows[chunk] else { return .empty }
        return blocks.reduce(into: .empty) { differing, block in
            if row.known.contains(block), row.values[block] != values[block - blocks.lowerBound] {
                differing.formUnion(BlockSet(block..<block + 1))
            }
        }
    }

    /// Whether the CRCs of all `blocks` are known.
    func knows(_ blocks: Range<Int>, in chunk: Int) -> Bool {
        BlockSet(blocks).subtracting(rows[chunk]?.known ?? .empty).isEmpty
    }

    /// Records the values of `blocks` in place of any earlier ones.
    mutating func record(_ values: [UInt64], of blocks: Range<Int>, in chunk: Int) {
        // Taken out of the dictionary while it changes: otherwise the row is copied, which is about a thousand bytes.
        var row = rows.removeValue(forKey: chunk) ?? emptyRow(chunk)
        for block in blocks { row.values[block] = values[block - blocks.lowerBound] }
        count += BlockSet(blocks).subtracting(row.known).count
        row.known.formUnion(BlockSet(blocks))
        rows[chunk] = row
    }

    /// The offset of the first block without a known CRC.
    var firstMissing: Int64? {
        for chunk in 0..<geometry.chunkCount {
            let missing = geometry.allBlocks(of: chunk).subtracting(rows[chunk]?.known ?? .empty)
            if let block = missing.first(from: 0) { return geometry.bytes(of: block..<block + 1, in: chunk).lowerBound }
        }
        return nil
    }

    /// The CRC of a range; nil when a block of it is unknown, or when it does not begin and end at blocks.
    func value(of range: ByteRange) -> UInt64? {
        guard range.lowerBound % Geometry.blockSize == 0,
            range.upperBound % Geometry.blockSize == 0 || range.upperBound == geometry.size
        else { return nil }
        var joiner = CRCJoiner(kind, usualLength: Geometry.blockSize)
        for chunk in Geometry.chunks(touching: range) {
            guard let row = rows[chunk] else { return nil }
            for block in geometry.blocks(touching: range, in: chunk) {
                guard row.known.contains(block) else { return nil }
                joiner.append(row.values[block], length: geometry.bytes(of: block..<block + 1, in: chunk).length)
            }
        }
        return joiner.value
    }

    /// The blocks whose CRC differs from the one in `other`, by chunk; also every block that is unknown in one of them or of
    /// another kind.
    func differences(from other: BlockSums) -> [Int: BlockSet] {
        var differences: [Int: BlockSet] = [:]
        for chunk in 0..<geometry.chunkCount {
            let (mine, theirs) = (rows[chunk] ?? emptyRow(chunk), other.rows[chunk] ?? emptyRow(chunk))
            let same = (0..<geometry.blockCount(of: chunk)).filter {
                kind == other.kind && mine.known.contains($0) && theirs.known.contains($0)
                    && mine.values[$0] == theirs.values[$0]
            }
            let equal = same.reduce(into: BlockSet.empty) { $0.formUnion(BlockSet($1..<$1 + 1)) }
            let differing = geometry.allBlocks(of: chunk).subtracting(equal)
            if !differing.isEmpty { differences[chunk] = differing }
        }
        return differences
    }

    private func emptyRow(_ chunk: Int) -> Row {
        Row(values: Array(repeating: 0, count: geometry.blockCount(of: chunk)))
    }

    // MARK: On disk

    /// The form of one chunk in the index: the kind, which blocks, and 8 bytes a block, lowest first. Empty when no CRC is
    /// known.
    func encoded(_ chunk: Int) -> [UInt8] {
        guard let row = rows[chunk] else { return [] }
        var bytes = [kind.rawValue] + row.known.bytes
        bytes.reserveCapacity(bytes.count + row.values.count * 8)
        for value in row.values {
            for shift in 0..<8 as Range<UInt64> { bytes.append(UInt8(truncatingIfNeeded: value >> (shift * 8))) }
        }
        return bytes
    }

    /// The kind of the CRCs in such a form.
    static func kind(ofEncoded bytes: [UInt8]) -> CRCKind? { bytes.first.flatMap(CRCKind.init) }

    /// Reads such a form, for blocks in `present` whose CRC is not known yet. Bytes of any other form are ignored.
    mutating func decode(_ bytes: [UInt8], of chunk: Int, present: BlockSet) {
        let length = geometry.blockCount(of: chunk)
        guard bytes.count == 17 + length * 8, Self.kind(ofEncoded: bytes) == kind,
            let named = BlockSet(bytes: Array(bytes[1..<17]))
        else { return }
        for run in named.intersection(present).subtracting(rows[chunk]?.known ?? .empty).runs {
            let values = run.map { block in
                var value: UInt64 = 0
                for index in 0..<8 { value |= UInt64(bytes[17 + block * 8 + index]) << UInt64(index * 8) }
                return value
            }
            record(values, of: run, in: chunk)
        }
    }
}
