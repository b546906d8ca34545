import Basics

/// One byte range of a `Range` header (RFC 9110 section 14.1.2).
enum RequestedRange {
    case from(Int64, through: Int64?)
    case last(Int64)

    /// nil when the header is malformed or names several ranges: then the whole object is meant.
    init?(_ header: String) {
        guard header.hasPrefix("bytes=") else { return nil }
        let halves = header.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
        guard halves.count == 2, !header.contains(",") else { return nil }
        switch (Int64(halves[0]), Int64(halves[1]), halves[0].isEmpty, halves[1].isEmpty) {
        case (let first?, let last?, _, _) where first <= last: self = .from(first, through: last)
        case (let first?, nil, _, true): self = .from(first, through: nil)
        case (nil, let count?, true, _): self = .last(count)
        default: return nil
        }
    }

    /// The bytes of an object of `size` that are meant; nil when there are none.
    func resolve(size: Int64) -> ByteRange? {
        switch self {
        case .from(let first, let last):
            guard first < size else { return nil }
            return first..<(min(last ?? size - 1, size - 1) + 1)
        case .last(let count):
            guard count > 0, size > 0 else { return nil }
            return max(0, size - count)..<size
        }
    }

    /// The same when first and last are both given and lie within the object, as ranges of copies must.
    func range(within size: Int64) -> ByteRange? {
        guard case .from(let first, let last?) = self, last < size else { return nil }
        return first..<(last + 1)
    }

    /// Whether every byte asked for exists.
    func isInside(size: Int64) -> Bool {
        switch self {
        case .from(let first, let last): last ?? first < size
        case .last(let count): count > 0 && count <= size
        }
    }
}
