package import Basics
import Digests

/// Checks the three kinds of tokens Kodo knows (Kodo API, security). A value; any thread.
package struct KodoAuthenticator: Sendable {
    private let credentials: EmulatorCredentials
    private let time: any TimeSource
    private static let widestSkew = Duration.seconds(15 * 60)
    private static let form = "application/x-www-form-urlencoded"

    package init(credentials: EmulatorCredentials, time: any TimeSource) {
        (self.credentials, self.time) = (credentials, time)
    }

    // MARK: Management

    /// Admits a management request by its `Qiniu` token, which covers method, host, headers and body, or its older `QBox`
    /// token, which covers path and body.
    package func authorizeManagement(_ request: ServerRequest, body: [UInt8]) throws(KodoError) {
        guard let header = request.header("authorization") else { throw .noToken }
        let words = header.split(separator: " ", maxSplits: 1)
        guard words.count == 2 else { throw .badToken }
        let candidates: [[UInt8]]
        switch words[0] {
        case "Qiniu": candidates = qiniuData(request, body)
        case "QBox": candidates = [qboxData(request, body)]
        default: throw .badToken
        }
        guard candidates.contains(where: { accepts(words[1], for: $0) }) else { throw .badToken }
        if words[0] == "Qiniu", let date = request.header("x-qiniu-date") {
            guard let time = Timestamp(iso8601: date) else { throw .invalid("invalid X-Qiniu-Date") }
            let skew = self.time.now() - time
            guard max(skew, .zero - skew) <= Self.widestSkew else { throw .skewed }
        }
    }

    /// What may have been signed: with the body, and without it where clients differ about the content type.
    private func qiniuData(_ request: ServerRequest, _ body: [UInt8]) -> [[UInt8]] {
        let type = request.header("content-type") ?? ""
        var text = "\(request.method) \(request.target)\nHost: \(request.header("host") ?? "")\n"
        if !type.isEmpty { text += "Content-Type: \(type)\n" }
        let names = request.headerNames.filter { $0.hasPrefix("x-qiniu-") && $0.utf8.count > 8 }
        for name in Set(names).map(Self.canonical).sorted() {
            text += "\(name): \(request.header(name) ?? "")\n"
        }
        text += "\n"
        let head = Array(text.utf8)
        switch type {
        case Self.form, "application/json": return [head + body]
        case "", "application/octet-stream": return [head]
        default: return [head, head + body]
        }
    }

    private func qboxData(_ request: ServerRequest, _ body: [UInt8]) -> [UInt8] {
        let coversBody = request.header("content-type") == Self.form
        return Array("\(request.target)\n".utf8) + (coversBody ? body : [])
    }

    /// `x-qiniu-date` as `X-Qiniu-Date`.
    private static func canonical(_ name: String) -> String {
        name.split(separator: "-", omittingEmptySubsequences: false)
            .map { $0.prefix(1).uppercased() + $0.dropFirst().lowercased() }.joined(separator: "-")
    }

    // MARK: Uploads

    /// The policy of an upload token whose signature is right; whether it has run out is asked when the upload ends.
    package func policy(ofUploadToken token: some StringProtocol) throws(KodoError) -> PutPolicy {
        let parts = token.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 3, accepts("\(parts[0]):\(parts[1])", for: Array(parts[2].utf8)),
            let policy = Base64.decode(parts[2], alphabet: .urlSafe).flatMap({ PutPolicy(json: $0) })
        else { throw .badToken }
        return policy
    }

    /// The policy in `Authorization: UpToken …`.
    func policy(of request: ServerRequest) throws(KodoError) -> PutPolicy {
        guard let header = request.header("authorization") else { throw .noToken }
        guard header.hasPrefix("UpToken ") else { throw .badToken }
        return try policy(ofUploadToken: header.dropFirst(8))
    }

    func checkDeadline(_ policy: PutPolicy) throws(KodoError) {
        guard policy.deadline >= time.now().seconds else { throw .tokenExpired }
    }

    // MARK: Downloads

    /// Admits a download by the token in its URL. The token covers everything in front of it, the scheme included, which a
    /// server behind a proxy cannot know: either is right.
    package func authorizeDownload(_ request: ServerRequest) throws(KodoError) {
        guard let mark = Self.tokenStart(request.target) else { throw .downloadTokenMissing }
        let signed = request.target[..<mark.lowerBound]
        let token = request.target[mark.upperBound...].prefix { $0 != "&" }
        let host = request.header("host") ?? ""
        guard
            ["http", "https"].contains(where: { accepts(token, for: Array("\($0)://\(host)\(signed)".utf8)) }),
            let deadline = request.parameter("e").flatMap({ Int64($0) })
        else { throw .badToken }
        guard deadline >= time.now().seconds else { throw .tokenExpired }
    }

    /// Where `&token=` stands.
    private static func tokenStart(_ target: String) -> Range<String.Index>? {
        var place = target.startIndex
        while let start = target[place...].firstIndex(of: "&") {
            let rest = target[start...]
            if rest.hasPrefix("&token=") { return start..<target.index(start, offsetBy: 7) }
            place = target.index(after: start)
        }
        return nil
    }

    // MARK: Signatures

    /// Whether `token` is `<access key>:<signature>` for the data.
    private func accepts(_ token: some StringProtocol, for data: [UInt8]) -> Bool {
        let halves = token.split(separator: ":", omittingEmptySubsequences: false)
        guard halves.count == 2, halves[0] == credentials.accessKey,
            let signature = Base64.decode(halves[1], alphabet: .urlSafe)
        else { return false }
        return HMAC.isEqual(signature, HMAC.sha1(data, key: Array(credentials.secretKey.utf8)))
    }
}
