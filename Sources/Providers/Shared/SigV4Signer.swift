package import Basics
import Digests
package import HTTP
package import ObjectStorage
import Synchronization

/// Signatures of AWS version 4 as S3 wants them (AWS "Authenticating Requests: Using the Authorization Header", and
/// "Using Query Parameters"): the path is encoded once and never normalised, and `x-amz-content-sha256` is signed.
///
/// Keeps the signing key of the last day, region and secret, which is all the state there is; a leaf lock.
package final class SigV4Signer: Sendable {
    /// What the store is told of the body.
    package enum Payload: Sendable, Hashable {
        case sha256([UInt8])
        case unsigned

        static let empty = Payload.sha256(SHA256.of([UInt8]()))

        var text: String {
            switch self {
            case .sha256(let digest): Hex.encode(digest)
            case .unsigned: "UNSIGNED-PAYLOAD"
            }
        }
    }

    private struct DayKey {
        let scope: String
        let secret: Secret
        let key: [UInt8]
    }

    private let service: String
    private let cached = Mutex<DayKey?>(nil)

    package init(service: String = "s3") { self.service = service }

    /// Adds the headers of a signed request: date, payload digest, token and `Authorization`.
    ///
    /// `path` is as sent; `query` is encoded pairs. Every header already there is signed but those that proxies change.
    package func sign(
        _ headers: inout HTTPHeaders, _ method: HTTPMethod, path: String, query: [QueryItem], payload: Payload,
        with credentials: Credentials, region: String, at time: Timestamp
    ) {
        let date = time.iso8601Basic
        headers["x-amz-date"] = date
        headers["x-amz-content-sha256"] = payload.text
        if let token = credentials.sessionToken { headers["x-amz-security-token"] = token.revealed }
        let (canonical, names) = Self.canonicalHeaders(headers)
        let request = Self.canonicalRequest(
            method, path: path, query: query, headers: canonical, names: names, payload: payload.text)
        let scope = self.scope(date: date, region: region)
        let signature = signature(of: request, date: date, scope: scope, credentials: credentials, region: region)
        headers["Authorization"] =
            "AWS4-HMAC-SHA256 Credential=\(credentials.accessKeyID)/\(scope), SignedHeaders=\(names), "
            + "Signature=\(signature)"
    }

    /// The query of a presigned URL, `X-Amz-Signature` last. `lifetime` is 1 second to 7 days.
    package func presign(
        _ method: HTTPMethod, host: String, path: String, query: [QueryItem], with credentials: Credentials,
        region: String, at time: Timestamp, lifetime: Duration
    ) -> [QueryItem] {
        let date = time.iso8601Basic
        let scope = self.scope(date: date, region: region)
        var items = query
        items += [
            QueryItem("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            QueryItem("X-Amz-Credential", "\(credentials.accessKeyID)/\(scope)"),
            QueryItem("X-Amz-Date", date), QueryItem("X-Amz-Expires", String(lifetime.components.seconds)),
            QueryItem("X-Amz-SignedHeaders", "host"),
        ]
        if let token = credentials.sessionToken { items.append(QueryItem("X-Amz-Security-Token", token.revealed)) }
        let request = Self.canonicalRequest(
            method, path: path, query: items, headers: "host:\(host)\n", names: "host", payload: "UNSIGNED-PAYLOAD")
        let signature = signature(of: request, date: date, scope: scope, credentials: credentials, region: region)
        return items.sorted() + [QueryItem("X-Amz-Signature", signature)]
    }

    // MARK: Pieces

    static func canonicalRequest(
        _ method: HTTPMethod, path: String, query: [QueryItem], headers: String, names: String, payload: String
    ) -> String {
        let query = query.sorted().map(\.text).joined(separator: "&")
        return "\(method.rawValue)\n\(path.isEmpty ? "/" : path)\n\(query)\n\(headers)\n\(names)\n\(payload)"
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

    /// Without spaces at the ends, inner runs of them as one.
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
        let key = signingKey(scope: scope, day: String(date.prefix(8)), region: region, secret: credentials.secretKey)
        return Hex.encode(HMAC.sha256(text, key: key))
    }

    private func signingKey(scope: String, day: String, region: String, secret: Secret) -> [UInt8] {
        if let known = cached.withLock({ $0 }), known.scope == scope, known.secret == secret { return known.key }
        var key = Array("AWS4\(secret.revealed)".utf8)
        for part in [day, region, service, "aws4_request"] { key = HMAC.sha256(part, key: key) }
        let day = DayKey(scope: scope, secret: secret, key: key)
        cached.withLock { $0 = day }
        return key
    }
}

/// One parameter of a query, percent-encoded. Ordered by encoded name, then value, as signatures want it.
package struct QueryItem: Sendable, Hashable, Comparable {
    package let name: String
    package let value: String

    /// Encodes both.
    package init(_ name: String, _ value: String = "") {
        self.init(name, ByteString(value))
    }

    package init(_ name: String, _ value: ByteString) {
        self.name = PercentEncoding.encode(name)
        self.value = PercentEncoding.encode(value)
    }

    /// A parameter without a value is written with `=`.
    package var text: String { "\(name)=\(value)" }

    package static func < (left: QueryItem, right: QueryItem) -> Bool {
        if left.name != right.name { return left.name.utf8.lexicographicallyPrecedes(right.name.utf8) }
        return left.value.utf8.lexicographicallyPrecedes(right.value.utf8)
    }
}
