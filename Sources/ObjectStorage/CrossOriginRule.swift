/// One of a bucket's rules for web pages of other origins (CORS).
package struct CrossOriginRule: Sendable, Hashable {
    /// The name that its author gave it.
    package var id: String?
    /// Each may have one `*`, which stands for any text.
    package var origins: [String]
    package var methods: [String]
    /// Names of request headers, each with at most one `*`.
    package var headers: [String]

    package init(id: String? = nil, origins: [String] = [], methods: [String] = [], headers: [String] = []) {
        (self.id, self.origins, self.methods, self.headers) = (id, origins, methods, headers)
    }

    /// The part of a request that a rule does not allow.
    package enum Mismatch: Sendable, Hashable {
        case origin
        case method
        case header(String)
    }

    /// nil where the rule allows the request. Stores apply the first rule that does (Amazon S3 User Guide, "Using cross-origin
    /// resource sharing").
    package func mismatch(_ request: PreflightRequest) -> Mismatch? {
        guard origins.contains(where: { Self.fits(request.origin, $0) }) else { return .origin }
        guard methods.contains(where: { $0 == request.method || $0 == "*" }) else { return .method }
        let refused = request.headers.first { name in
            !headers.contains { Self.fits(name.lowercased(), $0.lowercased()) }
        }
        return refused.map(Mismatch.header)
    }

    private static func fits(_ text: String, _ pattern: String) -> Bool {
        guard let star = pattern.firstIndex(of: "*") else { return text == pattern }
        let (start, end) = (pattern[..<star], pattern[pattern.index(after: star)...])
        return text.utf8.count >= start.utf8.count + end.utf8.count && text.hasPrefix(start) && text.hasSuffix(end)
    }
}
