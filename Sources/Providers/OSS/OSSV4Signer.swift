import Basics
import Digests
package import HTTP
package import ObjectStorage

/// Signatures of OSS version 4 (OSS API, "Signature Version 4"): the signed resource contains the bucket for every addressing
/// style, the payload is never signed, and headers besides OSS's own are signed when they are named.
package final class OSSV4Signer: RequestSigner {
    private let product: String
    private let additional: [String]
    private let signingKey: SigningKey

    /// `additional` are lower-case names of headers that are signed if present, in byte order.
    package init(product: String = "oss", additional: [String] = ["host", "range"]) {
        (self.product, self.additional) = (product, additional)
        signingKey = SigningKey(prefix: "aliyun_v4", service: product, ending: "aliyun_v4_request")
    }

    package let coversBody = false
    package let longestLifetime: Duration? = .seconds(7 * 86_400)
    package let needsRegion = true

    package func sign(_ headers: inout HTTPHeaders, _ request: SignedRequest, with credentials: Credentials) {
        let date = request.time.iso8601Basic
        headers["x-oss-date"] = date
        headers["x-oss-content-sha256"] = SignedRequest.Payload.unsigned.text
        if let token = credentials.sessionToken { headers["x-oss-security-token"] = token.revealed }
        let named = additional.filter { headers[$0] != nil }
        let scope = self.scope(date: date, region: request.region)
        let text = Self.canonicalRequest(request, request.query, lines: canonicalHeaders(headers, named), named)
        let signature = signature(of: text, date: date, scope: scope, credentials, request.region)
        var authorization = "OSS4-HMAC-SHA256 Credential=\(credentials.accessKeyID)/\(scope)"
        if !named.isEmpty { authorization += ",AdditionalHeaders=\(named.joined(separator: ";"))" }
        headers["Authorization"] = authorization + ",Signature=\(signature)"
    }

    /// `lifetime` is 1 second to 7 days. No header is signed, so that any client can use the URL.
    package func presign(
        _ request: SignedRequest, with credentials: Credentials, lifetime: Duration
    ) -> [QueryItem] {
        let date = request.time.iso8601Basic
        let scope = self.scope(date: date, region: request.region)
        var items = request.query
        items += [
            QueryItem("x-oss-signature-version", "OSS4-HMAC-SHA256"),
            QueryItem("x-oss-credential", "\(credentials.accessKeyID)/\(scope)"),
            QueryItem("x-oss-date", date), QueryItem("x-oss-expires", String(lifetime.components.seconds)),
        ]
        if let token = credentials.sessionToken { items.append(QueryItem("x-oss-security-token", token.revealed)) }
        let text = Self.canonicalRequest(request, items, lines: "", [])
        let signature = signature(of: text, date: date, scope: scope, credentials, request.region)
        return items.sorted() + [QueryItem("x-oss-signature", signature)]
    }

    // MARK: Pieces

    private static func canonicalRequest(
        _ request: SignedRequest, _ query: [QueryItem], lines: String, _ named: [String]
    ) -> String {
        let path = PercentEncoding.encode(request.resource, keepingSlash: true)
        let query = query.sorted().map { $0.value.isEmpty ? $0.name : $0.text }.joined(separator: "&")
        let payload = SignedRequest.Payload.unsigned.text
        let names = named.joined(separator: ";")
        return "\(request.method.rawValue)\n\(path)\n\(query)\n\(lines)\n\(names)\n\(payload)"
    }

    private func canonicalHeaders(_ headers: HTTPHeaders, _ named: [String]) -> String {
        let signed = headers.fields.map { (name: $0.name.lowercased(), value: $0.value) }.filter { field in
            field.name.hasPrefix("x-oss-") || field.name == "content-type" || field.name == "content-md5"
                || named.contains(field.name)
        }
        return signed.sorted { $0.name < $1.name }.map { "\($0.name):\($0.value)\n" }.joined()
    }

    private func scope(date: String, region: String) -> String {
        "\(date.prefix(8))/\(region)/\(product)/aliyun_v4_request"
    }

    private func signature(
        of request: String, date: String, scope: String, _ credentials: Credentials, _ region: String
    ) -> String {
        let text = "OSS4-HMAC-SHA256\n\(date)\n\(scope)\n\(Hex.encode(SHA256.of(request)))"
        let key = signingKey.bytes(
            day: String(date.prefix(8)), region: region, secret: credentials.secretKey)
        return Hex.encode(HMAC.sha256(text, key: key))
    }
}
