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

    /// `prefix` is empty for reads and something like `x-amz-copy-source-` for copies. `foldsCase` is for providers that
    /// show entity tags in capitals, which the storage keeps in small letters.
    init(_ request: ServerRequest, prefix: String = "", foldsCase: Bool = false) {
        func tags(_ name: String) -> [String]? {
            request.header("\(prefix)\(name)").map { Self.tags(foldsCase ? $0.lowercased() : $0) }
        }
        match = tags("if-match")
        noneMatch = tags("if-none-match")
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

    func check(_ record: ObjectRecord) -> Outcome { check(etag: record.etag, modified: record.modified) }

    func check(etag: String, modified time: Timestamp) -> Outcome {
        let modified = time.seconds
        if let match {
            guard match.contains("*") || match.contains(etag) else { return .failed }
        } else if let unmodifiedSince, modified > unmodifiedSince.seconds {
            return .failed
        }
        if let noneMatch {
            if noneMatch.contains("*") || noneMatch.contains(etag) { return .notModified }
        } else if let modifiedSince, modified <= modifiedSince.seconds {
            return .notModified
        }
        return .go
    }
}
