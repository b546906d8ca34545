package import Basics

/// The place of the bytes of a piece of a dirty file.
package enum PieceSource: UInt8, Sendable, Hashable {
    /// In the staging file, at the same offset.
    case staged
    /// Not stored: zeros that a program made through this mount.
    case hole
    /// Still in the committed version, at the same offset.
    case base
    /// In the staging file and in the committed version: a commit has read them from the store.
    case filled
    /// In a part of an upload of this file that the store has, and nowhere else until that upload becomes the object.
    case stored

    /// Whether the staging file has the bytes.
    package var isHere: Bool { self == .staged || self == .filled }
}

/// A range of a dirty file whose bytes have one source.
package struct Piece: Sendable, Hashable {
    package var range: ByteRange
    package var source: PieceSource

    package init(_ range: ByteRange, _ source: PieceSource) { (self.range, self.source) = (range, source) }
}

/// Which bytes of a file are staged, which are zeros, and which are still in the committed version.
///
/// A value without I/O. It covers `0..<size` without gaps; neighbours differ. Writes and fills make the base bytes fewer;
/// `unfill`, `uploadLanded` and `takeBase` of `StagedFile` make them more. The cost of a change, also of a copied map, hardly
/// depends on the number of pieces.
package struct ExtentMap: Sendable, Hashable {
    private struct Extent: Sendable, Hashable {
        var start: Int64
        var source: PieceSource
    }

    /// The extents by their ends.
    private var extents = SortedIndex<Int64, Extent>()
    /// The file's length in bytes.
    package private(set) var size: Int64 = 0

    /// A file of `baseSize` bytes, all of them in the committed version.
    package init(baseSize: Int64) {
        precondition(baseSize >= 0, "a file has no negative size")
        append(.base, upTo: baseSize)
    }

    package static func == (one: ExtentMap, other: ExtentMap) -> Bool {
        guard one.size == other.size, one.count == other.count else { return false }
        return one.pieces(in: 0..<one.size) == other.pieces(in: 0..<other.size)
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(size)
        hasher.combine(count)
    }

    /// How many pieces the whole file has.
    package var count: Int { extents.count }

    /// The pieces of `range` in order, cut to the file's size.
    package func pieces(in range: ByteRange) -> [Piece] {
        let range = range.clamped(to: 0..<size)
        guard !range.isEmpty else { return [] }
        var pieces: [Piece] = []
        var place = place(of: range.lowerBound)
        while let entry = extents.entry(at: place), entry.value.start < range.upperBound {
            pieces.append(Piece((entry.value.start..<entry.key).clamped(to: range), entry.value.source))
            place = extents.position(after: place)
        }
        return pieces
    }

    /// Whether `range` lies inside the file and every byte of it comes from `source`. An empty range does.
    package func isEntirely(_ source: PieceSource, in range: ByteRange) -> Bool {
        guard !range.isEmpty else { return true }
        guard range.lowerBound >= 0, range.upperBound <= size, let extent = extent(at: range.lowerBound) else {
            return false
        }
        return extent.source == source && extent.range.upperBound >= range.upperBound
    }

    /// Whether any byte of the file comes from `source`.
    package func has(_ source: PieceSource) -> Bool { !isFree(of: source, in: 0..<size) }

    /// Makes every byte that comes from `source` come from `other`.
    package mutating func replace(_ source: PieceSource, with other: PieceSource) {
        for piece in pieces(in: 0..<size) where piece.source == source { set(piece.range, to: other) }
    }

    /// Whether no byte of `range` comes from `source`.
    package func isFree(of source: PieceSource, in range: ByteRange) -> Bool {
        let range = range.clamped(to: 0..<size)
        guard !range.isEmpty else { return true }
        var place = place(of: range.lowerBound)
        while let entry = extents.entry(at: place), entry.value.start < range.upperBound {
            if entry.value.source == source { return false }
            place = extents.position(after: place)
        }
        return true
    }

    /// Makes `range` come from `source`. Past the end the file grows, and the gap before `range` becomes a hole.
    package mutating func set(_ range: ByteRange, to source: PieceSource) {
        precondition(range.lowerBound >= 0, "a file has no negative offsets")
        guard !range.isEmpty else { return }
        if range.lowerBound > size { append(.hole, upTo: range.lowerBound) }
        // The usual rewrite of bytes already staged changes nothing.
        if isEntirely(source, in: range) { return }
        var merged = range
        // The pieces with the byte before and the byte after, if there are any, stay or merge with the new piece.
        let (before, after) = (extent(at: range.lowerBound - 1), extent(at: range.upperBound))
        removeExtents(meeting: range)
        if let before {
            if before.source == source {
                extents.remove(before.range.upperBound)
                merged = before.range.lowerBound..<merged.upperBound
            } else {
                put(before.range.lowerBound..<range.lowerBound, before.source)
            }
        }
        if let after {
            let rest = range.upperBound..<after.range.upperBound
            if after.source == source { merged = merged.lowerBound..<rest.upperBound } else { put(rest, after.source) }
        }
        put(merged, source)
        size = max(size, range.upperBound)
    }

    /// Cuts the file to `newSize`, or grows it by a hole.
    package mutating func truncate(to newSize: Int64) {
        precondition(newSize >= 0, "a file has no negative size")
        if newSize >= size { return append(.hole, upTo: newSize) }
        let last = extent(at: newSize - 1)
        removeExtents(meeting: newSize..<size)
        if let last { put(last.range.lowerBound..<newSize, last.source) }
        size = newSize
    }

    private mutating func append(_ source: PieceSource, upTo end: Int64) {
        guard end > size else { return }
        set(size..<end, to: source)
    }

    /// The piece that holds `offset`; nil outside the file.
    private func extent(at offset: Int64) -> Piece? {
        guard offset >= 0, let entry = extents.entry(at: place(of: offset)) else { return nil }
        return Piece(entry.value.start..<entry.key, entry.value.source)
    }

    private func place(of offset: Int64) -> SortedIndex<Int64, Extent>.Position {
        extents.firstPosition { $0 <= offset }
    }

    private mutating func put(_ range: ByteRange, _ source: PieceSource) {
        extents.replace(range.upperBound, with: Extent(start: range.lowerBound, source: source))
    }

    private mutating func removeExtents(meeting range: ByteRange) {
        while let entry = extents.entry(at: place(of: range.lowerBound)), entry.value.start < range.upperBound {
            extents.remove(entry.key)
        }
    }
}
