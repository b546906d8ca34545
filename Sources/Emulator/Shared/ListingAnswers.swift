import Basics

/// Writes names plain or percent-encoded, as `encoding-type` wants them.
struct NameCoding {
    let isURL: Bool

    /// nil for an encoding that does not exist.
    init?(_ request: ServerRequest) {
        let type = request.parameter("encoding-type") ?? ""
        guard type.isEmpty || type == "url" else { return nil }
        isURL = type == "url"
    }

    /// `%20` and `%2B` are right whether the reader takes `+` for a space or not.
    func encode(_ name: ByteString) -> ByteString {
        isURL ? ByteString(PercentEncoding.encode(name, keepingSlash: true)) : name
    }
}

/// Where the next page starts, as a text clients hand back unread.
enum ContinuationToken {
    static func text(_ place: ByteString) -> String { Base64.encode(place.bytes, alphabet: .urlSafe) }

    /// nil for a text that never was one.
    static func place(_ token: String) -> ByteString? {
        Base64.decode(token, alphabet: .urlSafe).map { ByteString($0) }
    }
}

extension ServerRequest {
    /// What `max-keys` and its kin ask for, at most `most`; nil when that is no number.
    func pageLimit(_ name: String, default number: Int, most: Int = 1000) -> Int? {
        guard let text = parameter(name), !text.isEmpty else { return number }
        guard let number = Int(text), number >= 0 else { return nil }
        return min(number, most)
    }
}

extension XMLWriter {
    mutating func commonPrefixes<Value>(of page: ListingResult<Value>, _ names: NameCoding) {
        for case .commonPrefix(let prefix) in page.items {
            element("CommonPrefixes") { $0.element("Prefix", names.encode(prefix)) }
        }
    }
}
