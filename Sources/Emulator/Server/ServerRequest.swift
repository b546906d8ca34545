package import Basics
package import NIOHTTP1

/// One parameter of a query, decoded.
package struct QueryItem: Hashable, Sendable {
    package let name: String
    package let value: ByteString

    package init(name: String, value: ByteString) { (self.name, self.value) = (name, value) }
}

/// A request's head as the dialects see it; the body is read separately.
package struct ServerRequest: Sendable {
    package let method: String
    /// Path and query as they were sent: what some signatures cover.
    package let target: String
    /// The path as it was sent, still encoded; never empty.
    package let path: String
    package let query: [QueryItem]
    package let headers: HTTPHeaders
    /// What this server calls the request.
    package let id: String

    /// `target` is the request line's, in origin or absolute form (RFC 9112 section 3.2).
    package init(method: String, target: String, headers: HTTPHeaders, id: String = "") {
        self.method = method
        self.headers = headers
        self.id = id
        var rest = Substring(target)
        for scheme in ["http://", "https://"] where rest.hasPrefix(scheme) {
            rest = rest.dropFirst(scheme.count)
            rest = rest.firstIndex { $0 == "/" || $0 == "?" }.map { rest[$0...] } ?? "/"
        }
        self.target = String(rest)
        let mark = rest.utf8.firstIndex(of: UInt8(ascii: "?"))
        let path = mark.map { rest[..<$0] } ?? rest
        self.path = path.isEmpty ? "/" : String(path)
        query = mark.map { Self.parse(rest[rest.utf8.index(after: $0)...]) } ?? []
    }

    package init(method: String, target: String, fields: [Field]) {
        self.init(method: method, target: target, headers: HTTPHeaders(fields.map { ($0.name, $0.value) }))
    }

    /// Parameters in the order sent; `+` is a space.
    package static func parse(_ query: Substring) -> [QueryItem] {
        query.utf8.split(separator: UInt8(ascii: "&")).map { item in
            let mark = item.firstIndex(of: UInt8(ascii: "=")) ?? item.endIndex
            let value = mark < item.endIndex ? item[item.index(after: mark)...] : item[item.endIndex...]
            return QueryItem(name: decode(item[..<mark]).description, value: decode(value))
        }
    }

    /// A value with a stray `%` stands for itself.
    private static func decode(_ text: Substring.UTF8View) -> ByteString {
        ByteString(PercentEncoding.decode(Substring(text), plusIsSpace: true) ?? Array(text))
    }

    /// All values of a header joined by commas; nil without the header.
    package func header(_ name: String) -> String? {
        let values = headers[name]
        return values.count < 2 ? values.first : values.joined(separator: ",")
    }

    package func hasHeader(_ name: String) -> Bool { headers.contains(name: name) }
    /// The values of a header, one for each time it was sent.
    package func headerValues(_ name: String) -> [String] { headers[name] }
    /// Every header's name in lower case.
    package var headerNames: [String] { headers.map { $0.name.lowercased() } }

    package func has(_ parameter: String) -> Bool { query.contains { $0.name == parameter } }
    /// The value of a query parameter, as text.
    package func parameter(_ name: String) -> String? { bytes(name)?.description }
    /// The value of a query parameter, as it is.
    package func bytes(_ name: String) -> ByteString? { query.first { $0.name == name }?.value }

    /// In bytes; nil when the client does not say.
    package var contentLength: Int64? { header("content-length").flatMap { Int64($0) } }
}

/// What a dialect answers.
package struct ServerResponse: Sendable {
    package enum Body: Sendable {
        case none
        /// No bytes, but the length they would have: an answer to HEAD.
        case promised(length: Int64)
        case bytes([UInt8])
        /// A part of an object, sent from its files.
        case content(Content, ByteRange)

        /// In bytes.
        package var length: Int64 {
            switch self {
            case .none: 0
            case .promised(let length): length
            case .bytes(let bytes): Int64(bytes.count)
            case .content(_, let range): range.length
            }
        }
    }

    package var status: Int
    package var headers: [Field]
    package var body: Body
    /// What the request turned out to be about where only its body tells, for the log.
    package var key: ByteString?
    /// The answer has no Content-Length, and its connection ends with it.
    package var omitsLength = false

    package init(status: Int, headers: [Field] = [], body: Body = .none) {
        (self.status, self.headers, self.body) = (status, headers, body)
    }
}
