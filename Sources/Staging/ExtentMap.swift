package import Basics

/// Where the bytes of a piece of a dirty file are.
package enum PieceSource: UInt8, Sendable, Hashable {
    /// In the staging file, at the same offset.
    case staged
    /// Nowhere: zeros made through this mount.
    case hole
    /// Still in the committed version, at the same offset.
    case base
    /// In the staging file and in the committed version: brought here by a commit.
    case filled
    /// In a part that an upload of this file has brought to the store, and nowhere else until that upload becomes the object.
    case stored

    /// Whether the staging file has the bytes.
    package var isHere: Bool { self == .staged || self == .filled }
}

/// A range of a dirty file whose bytes come from one place.
package struct Piece: Sendable, Hashable {
    package var range: ByteRange
    package var source: PieceSource

    package init(_ range: ByteRange, _ source: PieceSource) { (self.range, self.source) = (range, source) }
}

/// Which bytes of a file are staged, which are zeros, and which are still in the committed version.
///
/// A value without I/O. It covers `0..<size` without gaps; neighbours differ. Base bytes become fewer, but for those that a
/// copy takes on at the end.
package struct ExtentMap: Sendable, Hashable {
    private struct Extent: Sendable, Hashable {
        /// The extent starts where the one before it ends.
        var end: Int64
        var source: PieceSource
    }

    private var extents: [Extent]

    /// A file of `baseSize` bytes, all of them in the committed version.
    package init(baseSize: Int64) {
        precondition(baseSize >= 0, "a file has no negative size")
        extents = baseSize == 0 ? [] : [Extent(end: baseSize, source: .base)]
    }

    /// The file's length in bytes.
    package var size: Int64 { extents.last?.end ?? 0 }
    /// How many pieces the whole file has.
    package var count: Int { extents.count }

    /// The pieces of `range` in order, cut to the file's size.
    package func pieces(in range: ByteRange) -> [Piece] {
        let range = range.clamped(to: 0..<size)
        guard !range.isEmpty else { return [] }
        var pieces: [Piece] = []
        var start = range.lowerBound
        var index = index(at: start)
        while start < range.upperBound {
            let end = min(extents[index].end, range.upperBound)
            pieces.append(Piece(start..<end, extents[index].source))
            (start, index) = (end, index + 1)
        }
        return pieces
    }

    /// Whether `range` lies inside the file and every byte of it comes from `source`. An empty range does.
    package func isEntirely(_ source: PieceSource, in range: ByteRange) -> Bool {
        guard !range.isEmpty else { return true }
        guard range.lowerBound >= 0, range.upperBound <= size else { return false }
        let extent = extents[index(at: range.lowerBound)]
        return extent.source == source && extent.end >= range.upperBound
    }

    /// Whether any byte of the file comes from `source`.
    package func has(_ source: PieceSource) -> Bool { extents.contains { $0.source == source } }

    /// Makes every byte that comes from `source` come from `other`.
    package mutating func replace(_ source: PieceSource, with other: PieceSource) {
        let old = extents
        extents = []
        for extent in old {
            let source = extent.source == source ? other : extent.source
            Self.extend(&extents, Extent(end: extent.end, source: source))
        }
    }

    /// Whether no byte of `range` comes from `source`.
    package func isFree(of source: PieceSource, in range: ByteRange) -> Bool {
        !pieces(in: range).contains { $0.source == source }
    }

    /// Makes `range` come from `source`. Past the end the file grows, and the gap before `range` becomes a hole.
    package mutating func set(_ range: ByteRange, to source: PieceSource) {
        precondition(range.lowerBound >= 0, "a file has no negative offsets")
        guard !range.isEmpty else { return }
        if range.lowerBound > size { append(.hole, upTo: range.lowerBound) }
        if range.lowerBound == size { return append(source, upTo: range.upperBound) }
        var first = index(at: range.lowerBound)
        // The usual rewrite of bytes already staged changes nothing.
        if extents[first].source == source, extents[first].end >= range.upperBound { return }
        let isLast = range.upperBound >= size
        var last = isLast ? extents.count - 1 : index(at: range.upperBound)
        var replacement: [Extent] = []
        if start(of: first) < range.lowerBound {
            replacement.append(Extent(end: range.lowerBound, source: extents[first].source))
        } else if first > 0 {
            first -= 1
            replacement.append(extents[first])
        }
        Self.extend(&replacement, Extent(end: range.upperBound, source: source))
        if isLast {
            last = extents.count
        } else {
            // `last` holds the first byte after the range: its rest stays, merged when it is alike.
            Self.extend(&replacement, extents[last])
            last += 1
        }
        extents.replaceSubrange(first..<last, with: replacement)
    }

    /// Cuts the file to `newSize`, or grows it by a hole.
    package mutating func truncate(to newSize: Int64) {
        precondition(newSize >= 0, "a file has no negative size")
        if newSize >= size { return append(.hole, upTo: newSize) }
        guard newSize > 0 else { return extents.removeAll() }
        let last = index(at: newSize - 1)
        extents.removeSubrange((last + 1)...)
        extents[last].end = newSize
    }

    private mutating func append(_ source: PieceSource, upTo end: Int64) {
        guard end > size else { return }
        Self.extend(&extents, Extent(end: end, source: source))
    }

    private static func extend(_ list: inout [Extent], _ extent: Extent) {
        if let last = list.last, last.source == extent.source {
            list[list.count - 1].end = extent.end
        } else {
            list.append(extent)
        }
    }

    private func start(of index: Int) -> Int64 { index == 0 ? 0 : extents[index - 1].end }

    /// The extent that holds `offset`, which is below `size`.
    private func index(at offset: Int64) -> Int {
        var (low, high) = (0, extents.count)
        while low < high {
            let middle = (low + high) / 2
            if extents[middle].end > offset { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
