/// Which blocks of one chunk: 128 bits.
package struct BlockSet: Hashable, Sendable {
    /// Blocks in a chunk.
    package static let capacity = 128
    package static let empty = BlockSet()

    private var bits: UInt128

    package init() { bits = 0 }

    private init(bits: UInt128) { self.bits = bits }

    /// The blocks of `range`, which lies within `0..<capacity`.
    package init(_ range: Range<Int>) {
        precondition(range.lowerBound >= 0 && range.upperBound <= Self.capacity, "block outside its chunk")
        // A shift by the full width yields 0.
        let below: UInt128 = ~0 >> (Self.capacity - range.count)
        bits = range.isEmpty ? 0 : below << range.lowerBound
    }

    package var isEmpty: Bool { bits == 0 }
    package var count: Int { bits.nonzeroBitCount }

    package func contains(_ block: Int) -> Bool { bits >> block & 1 != 0 }

    /// How many blocks from `block` on are members without a gap.
    package func run(from block: Int) -> Int {
        block >= Self.capacity ? 0 : min((~(bits >> block)).trailingZeroBitCount, Self.capacity - block)
    }

    /// The first member at or after `block`.
    package func first(from block: Int) -> Int? {
        guard block < Self.capacity else { return nil }
        let rest = bits >> block
        return rest == 0 ? nil : block + rest.trailingZeroBitCount
    }

    /// Longest stretches of members, in order.
    package var runs: [Range<Int>] {
        var runs: [Range<Int>] = []
        var next = 0
        while let start = first(from: next) {
            next = start + run(from: start)
            runs.append(start..<next)
        }
        return runs
    }

    package func union(_ other: BlockSet) -> BlockSet { BlockSet(bits: bits | other.bits) }
    package func intersection(_ other: BlockSet) -> BlockSet { BlockSet(bits: bits & other.bits) }
    package func subtracting(_ other: BlockSet) -> BlockSet { BlockSet(bits: bits & ~other.bits) }
    package mutating func formUnion(_ other: BlockSet) { bits |= other.bits }
    package mutating func subtract(_ other: BlockSet) { bits &= ~other.bits }

    /// 16 bytes, lowest block first; the form of the index.
    package var bytes: [UInt8] { (0..<16).map { UInt8(truncatingIfNeeded: bits >> ($0 * 8)) } }

    /// Reads `bytes`; nil unless there are 16.
    package init?(bytes: [UInt8]) {
        guard bytes.count == 16 else { return nil }
        bits = bytes.reversed().reduce(0) { $0 << 8 | UInt128($1) }
    }
}
