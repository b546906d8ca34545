import Basics
import ObjectStorage
import Staging

/// The parts of one upload that the store has and whose bytes are still the file's, in order, without overlap.
struct SentParts: Sendable {
    struct Part: Sendable {
        let range: ByteRange
        let uploaded: UploadedPart
    }

    private var parts: [Part] = []

    var isEmpty: Bool { parts.isEmpty }
    var count: Int { parts.count }
    /// The sum of their lengths.
    var bytes: Int64 { parts.reduce(0) { $0 + $1.range.length } }
    var ranges: [ByteRange] { parts.map(\.range) }

    /// The part that starts at `offset`.
    func part(at offset: Int64) -> Part? {
        let index = firstIndex(endingAfter: offset)
        guard index < parts.count, parts[index].range.lowerBound == offset else { return nil }
        return parts[index]
    }

    func overlaps(_ range: ByteRange) -> Bool {
        let index = firstIndex(endingAfter: range.lowerBound)
        return index < parts.count && parts[index].range.lowerBound < range.upperBound
    }

    /// Takes a part in place of those it overlaps.
    mutating func insert(_ part: Part) {
        remove(overlapping: part.range)
        parts.insert(part, at: firstIndex(endingAfter: part.range.lowerBound))
    }

    /// Drops the parts that hold a byte of `range` and returns them.
    @discardableResult
    mutating func remove(overlapping range: ByteRange) -> [Part] {
        let first = firstIndex(endingAfter: range.lowerBound)
        var last = first
        while last < parts.count, parts[last].range.lowerBound < range.upperBound { last += 1 }
        guard first < last else { return [] }
        defer { parts.removeSubrange(first..<last) }
        return Array(parts[first..<last])
    }

    /// All parts of a file of `size` bytes, or nil when some are missing.
    func complete(size: Int64) -> [UploadedPart]? {
        var (offset, list): (Int64, [UploadedPart]) = (0, [])
        for part in parts where offset < size {
            guard part.range.lowerBound == offset, part.range.upperBound <= size else { return nil }
            list.append(part.uploaded)
            offset = part.range.upperBound
        }
        return offset == size ? list : nil
    }

    private func firstIndex(endingAfter offset: Int64) -> Int {
        var (low, high) = (0, parts.count)
        while low < high {
            let middle = (low + high) / 2
            if parts[middle].range.upperBound > offset { high = middle } else { low = middle + 1 }
        }
        return low
    }
}

/// The numbers of the parts that the store may have of one upload, whatever became of their bytes.
struct BegunParts: Sendable {
    private(set) var numbers: Set<Int>
    /// The highest; 0 without any.
    private(set) var last: Int

    init(_ numbers: [Int] = []) {
        self.numbers = Set(numbers)
        last = numbers.max() ?? 0
    }

    mutating func insert(_ number: Int) {
        numbers.insert(number)
        last = max(last, number)
    }
}

/// Bytes that the store has in parts and that the local disk need not keep.
extension CommitState {
    /// The parts whose bytes can go from the staging file: whole ones, sent from it, that the store has.
    func droppable(_ extents: ExtentMap) -> [ByteRange] {
        guard !isAbandoned, run == nil, let upload, upload.id != nil, !hasSurplus(size: extents.size) else {
            return []
        }
        return upload.sent.ranges.filter { extents.isEntirely(.staged, in: $0) && isWholePart($0) }
    }

    /// Whether parts are on their way behind the writer.
    var isStreaming: Bool { run == nil && (!waiting.isEmpty || flights.values.contains { !$0.isStale }) }

    /// Whether a change of `range` would affect bytes that only the upload has.
    func needsCommit(before range: ByteRange, _ extents: ExtentMap) -> Bool {
        guard extents.has(.stored) else { return false }
        return range.upperBound > layout.capacity || !extents.isFree(of: .stored, in: range)
    }

    /// Whether the store may have parts behind the end of the file, and would not complete the upload without them. Nothing
    /// leaves the disk for such an upload: it could not be stored.
    func hasSurplus(size: Int64) -> Bool {
        guard !capabilities.surplusParts, let upload, upload.begun.last > 0 else { return false }
        return upload.layout.range(of: upload.begun.last - 1).lowerBound >= size
    }

    private func isWholePart(_ range: ByteRange) -> Bool {
        layout.range(of: layout.index(at: range.lowerBound)) == range
    }
}
