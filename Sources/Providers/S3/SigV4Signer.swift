import Basics
import Digests
package import HTTP
package import ObjectStorage

/// Signatures of AWS version 4 as S3 wants them (AWS "Authenticating Requests: Using the Authorization Header", and
/// "Using Query Parameters"): the path is encoded once and never normalised, and `x-amz-content-sha256` is signed.
package final class SigV4Signer: RequestSigner {
    private let service: String
    private let signingKey: SigningKey

    package init(service: String = "s3") {
        self.service = service
        signingKey = SigningKey(prefix: "AWS4", service: service, ending: "aws4_request")
    }

    package let coversBody = true
    package let longestLifetime: Duration? = .seconds(7 * 86_400)
    package let needsRegion = false

    /// Adds date, payload digest, token and `Authorization`. Signs every header that is set, except those that proxies change.
    package func sign(_ headers: inout HTTPHeaders, _ request: SignedRequest, with credentials: Credentials) {
        let date = request.time.iso8601Basic
        headers["x-amz-date"] = date
        headers["x-amz-content-sha256"] = request.payload.text
        if let token = credentials.sessionToken { headers["x-amz-security-token"] = token.revealed }
        let (canonical, names) = Self.canonicalHeaders(headers)
        let text = Self.canonicalRequest(
            request, query: request.query, headers: canonical, names: names, payload: request.payload.text)
        let scope = self.scope(date: date, region: request.region)
        let signature = signature(of: text, date: date, scope: scope, credentials: credentials, region: request.region)
        headers["Authorization"] =
            "AWS4-HMAC-SHA256 Credential=\(credentials.accessKeyID)/\(scope), SignedHeaders=\(names), "
            + "Signature=\(signature)"
    }

    /// `X-Amz-Signature` comes last. `lifetime` is 1 second to 7 days.
    package func presign(
        _ request: SignedRequest, with credentials: Credentials, lifetime: Duration
    ) -> [QueryItem] {
        let date = request.time.iso8601Basic
        let scope = self.scope(date: date, region: request.region)
        var items = request.query
        items += [
            QueryItem("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            QueryItem("X-Amz-Credential", "\(credentials.accessKeyID)/\(scope)"),
            QueryItem("X-Amz-Date", date), QueryItem("X-Amz-Expires", String(lifetime.components.seconds)),
            QueryItem("X-Amz-SignedHeaders", "host"),
        ]
        if let token = credentials.sessionToken { items.append(QueryItem("X-Amz-Security-Token", token.revealed)) }
        let text = Self.canonicalRequest(
            request, query: items, headers: "host:\(request.host)\n", names: "host", payload: "UNSIGNED-PAYLOAD")
        let signature = signature(of: text, date: date, scope: scope, credentials: credentials, region: request.region)
        return items.sorted() + [QueryItem("X-Amz-Signature", signature)]
    }

    // MARK: Pieces

    static func canonicalRequest(
        _ request: SignedRequest, query: [QueryItem], headers: String, names: String, payload: String
    ) -> String {
        let query = query.sorted().map(\.text).joined(separator: "&")
        return
            "\(request.method.rawValue)\n\(request.path.isEmpty ? "/" : request.path)\n\(query)\n\(headers)\n\(names)\n\(payload)"
    }

    /// Headers that proxies and gateways rewrite on the way.
    private static let unsigned: Set<String> = [
        "authorization", "user-agent", "expect", "connection", "transfer-encoding", "accept-encoding", "content-length",
    ]

    static func canonicalHeaders(_ headers: HTTPHeaders) -> (lines: String, names: String) {
        var values: [String: [String]] = [:]
        for field in headers.fields {
            let name = field.name.lowercased()
            if unsigned.contains(name) { continue }
            values[name, default: []].append(trimmed(field.value))
        }
        let names = values.keys.sorted()
        let lines = names.map { "\($0):\((values[$0] ?? []).joined(separator: ","))\n" }.joined()
        return (lines, names.joined(separator: ";"))
    }

    /// Removes spaces at the ends, and reduces inner runs of them to one.
    private static func trimmed(_ value: String) -> String {
        value.split(separator: " ").joined(separator: " ")
    }

    private func scope(date: String, region: String) -> String {
        "\(date.prefix(8))/\(region)/\(service)/aws4_request"
    }

    private func signature(
        of request: String, date: String, scope: String, credentials: Credentials, region: String
    ) -> String {
        let text = "AWS4-HMAC-SHA256\n\(date)\n\(scope)\n\(Hex.encode(SHA256.of(request)))"
        let key = signingKey.bytes(
            day: String(date.prefix(8)), region: region, secret: credentials.secretKey)
        return Hex.encode(HMAC.sha256(text, key: key))
    }
}
