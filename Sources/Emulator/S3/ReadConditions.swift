import Basics

/// `If-Match` and its kin on reads and copy sources (RFC 9110 section 13).
struct ReadConditions {
    enum Outcome {
        case go
        case notModified
        case failed
    }

    private let match: [String]?
    private let noneMatch: [String]?
    private let modifiedSince: Timestamp?
    private let unmodifiedSince: Timestamp?

    /// `prefix` is empty for reads and `x-amz-copy-source-` for copies.
    init(_ request: ServerRequest, prefix: String = "") {
        match = request.header("\(prefix)if-match").map(Self.tags)
        noneMatch = request.header("\(prefix)if-none-match").map(Self.tags)
        modifiedSince = request.header("\(prefix)if-modified-since").flatMap(Timestamp.init(httpDate:))
        unmodifiedSince = request.header("\(prefix)if-unmodified-since").flatMap(Timestamp.init(httpDate:))
    }

    /// A list of entity tags without quotes and weakness marks.
    static func tags(_ list: String) -> [String] {
        list.split(separator: ",").map { item in
            var tag = item.drop { $0 == " " }
            while tag.last == " " { tag.removeLast() }
            if tag.hasPrefix("W/") { tag = tag.dropFirst(2) }
            return tag.filter { $0 != "\"" }
        }
    }

    func check(_ record: ObjectRecord) -> Outcome {
        let modified = record.modified.seconds
        if let match {
            guard match.contains("*") || match.contains(record.etag) else { return .failed }
        } else if let unmodifiedSince, modified > unmodifiedSince.seconds {
            return .failed
        }
        if let noneMatch {
            if noneMatch.contains("*") || noneMatch.contains(record.etag) { return .notModified }
        } else if let modifiedSince, modified <= modifiedSince.seconds {
            return .notModified
        }
        return .go
    }
}

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
}
