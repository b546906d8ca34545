package import Basics

/// How the bytes of one object divide into chunks of 8 MiB and blocks of 64 KiB, and what they cost on disk. Pure.
package struct Geometry: Hashable, Sendable {
    /// The unit of checksums and of random reads.
    package static let blockSize: Int64 = 64 << 10
    /// The unit of index rows, eviction and sequential reads.
    package static let chunkSize: Int64 = blockSize * Int64(BlockSet.capacity)

    /// Size of the object, in bytes.
    package let size: Int64

    /// The unit in which the file system of the cache allocates.
    package let unit: DiskUnit

    package init(size: Int64, unit: DiskUnit = .usual) { (self.size, self.unit) = (size, unit) }

    package var chunkCount: Int { Self.count(of: Self.chunkSize, in: size) }

    /// Blocks of the object.
    package var blockCount: Int { Self.count(of: Self.blockSize, in: size) }

    /// A store may return any length, so the addition must not overflow.
    private static func count(of unit: Int64, in size: Int64) -> Int { Int(size / unit + (size % unit > 0 ? 1 : 0)) }

    /// Whether one request fetches the object whole.
    package var isSmall: Bool { size <= Self.chunkSize }

    /// Blocks in a chunk of this object.
    package func blockCount(of chunk: Int) -> Int {
        let length = min(Self.chunkSize, size - Int64(chunk) * Self.chunkSize)
        return Int((length + Self.blockSize - 1) / Self.blockSize)
    }

    package func allBlocks(of chunk: Int) -> BlockSet { BlockSet(0..<blockCount(of: chunk)) }

    package static func chunk(at offset: Int64) -> Int { Int(offset / chunkSize) }

    /// The place of an offset's block in its chunk.
    package static func block(at offset: Int64) -> Int { Int(offset % chunkSize / blockSize) }

    /// The bytes of some blocks, cut at the object's end.
    package func bytes(of blocks: Range<Int>, in chunk: Int) -> ByteRange {
        let start = Int64(chunk) * Self.chunkSize
        let lower = min(start + Int64(blocks.lowerBound) * Self.blockSize, size)
        return lower..<min(start + Int64(blocks.upperBound) * Self.blockSize, size)
    }

    /// The blocks of `chunk` that hold a byte of `range`.
    package func blocks(touching range: ByteRange, in chunk: Int) -> Range<Int> {
        let part = range.clamped(to: bytes(of: 0..<BlockSet.capacity, in: chunk))
        if part.isEmpty { return 0..<0 }
        return Self.block(at: part.lowerBound)..<Self.block(at: part.upperBound - 1) + 1
    }

    /// The blocks of `chunk` whose every byte is in `range`.
    package func blocks(within range: ByteRange, in chunk: Int) -> Range<Int> {
        let start = Int64(chunk) * Self.chunkSize
        let whole = bytes(of: 0..<BlockSet.capacity, in: chunk)
        let part = range.clamped(to: whole)
        let lower = Int((part.lowerBound - start + Self.blockSize - 1) / Self.blockSize)
        let upper =
            part.upperBound == whole.upperBound
            ? blockCount(of: chunk) : Int((part.upperBound - start) / Self.blockSize)
        return part.isEmpty || lower >= upper ? 0..<0 : lower..<upper
    }

    /// The chunks that hold a byte of `range`.
    package static func chunks(touching range: ByteRange) -> Range<Int> {
        range.isEmpty ? 0..<0 : chunk(at: range.lowerBound)..<chunk(at: range.upperBound - 1) + 1
    }

    /// The most bytes of disk that some blocks of one chunk take: whole units, and one unit for the file system's own map of
    /// them when the file can have more extents than fit its inode (ext4: four extents, then 340 to a block).
    package func charge(for blocks: BlockSet, in chunk: Int) -> Int64 {
        if blocks.isEmpty { return 0 }
        var charge = Int64(blocks.count) * Self.blockSize
        let last = blockCount(of: chunk) - 1
        if blocks.contains(last) {
            let tail = bytes(of: last..<last + 1, in: chunk).length
            charge += unit.roundedUp(tail) - Self.blockSize
        }
        return size > 4 * Self.blockSize ? charge + unit.bytes : charge
    }
}
