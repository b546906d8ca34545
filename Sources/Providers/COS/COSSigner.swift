import Basics
import Digests
package import HTTP
package import ObjectStorage

/// Signatures of COS (COS API, "Request Signature"): the request names the headers and parameters that it signs, and a window
/// of time.
package struct COSSigner: RequestSigner {
    /// How long a header's signature is valid, starting a minute ago: longer than a request waits and takes to be sent.
    private let window: Duration

    package init(window: Duration = .seconds(3600)) { self.window = window }

    package var coversBody: Bool { false }
    package var needsRegion: Bool { false }

    /// Signs every parameter, and the headers that COS interprets and proxies do not rewrite.
    package func sign(_ headers: inout HTTPHeaders, _ request: SignedRequest, with credentials: Credentials) {
        if let token = credentials.sessionToken { headers["x-cos-security-token"] = token.revealed }
        let signed = headers.fields.filter { Self.isSigned($0.name.lowercased()) }
            .map { QueryItem($0.name, $0.value) }
        let pairs = Self.pairs(request, headers: signed, with: credentials, lifetime: window)
        headers["Authorization"] = pairs.map { "\($0.name)=\($0.value)" }.joined(separator: "&")
    }

    /// The token is a parameter of its own that the signature does not cover, as the official clients have it.
    package func presign(
        _ request: SignedRequest, with credentials: Credentials, lifetime: Duration
    ) -> [QueryItem] {
        let host = [QueryItem("host", request.host)]
        let pairs = Self.pairs(request, headers: host, with: credentials, lifetime: lifetime)
        var items = request.query.sorted() + pairs.map { QueryItem($0.name, $0.value) }
        if let token = credentials.sessionToken { items.append(QueryItem("x-cos-security-token", token.revealed)) }
        return items
    }

    private static func isSigned(_ name: String) -> Bool {
        name.hasPrefix("x-cos-") || name.hasPrefix("x-ci-") || signedHeaders.contains(name)
    }

    private static let signedHeaders: Set<String> = [
        "cache-control", "content-disposition", "content-encoding", "content-type", "content-md5", "content-length",
        "expires", "host", "if-match", "if-modified-since", "if-none-match", "if-unmodified-since", "origin", "range",
    ]

    private static func pairs(
        _ request: SignedRequest, headers: [QueryItem], with credentials: Credentials, lifetime: Duration
    ) -> [(name: String, value: String)] {
        let start = request.time.seconds - 60
        let keyTime = "\(start);\(start + 60 + lifetime.components.seconds)"
        let (parameterNames, parameters) = canonical(request.query)
        let (headerNames, headerText) = canonical(headers)
        // The decoded path, in bytes, as keys need not be UTF-8.
        let path = PercentEncoding.decode(request.path) ?? Array(request.path.utf8)
        let text =
            Array("\(request.method.rawValue.lowercased())\n".utf8) + path
            + Array("\n\(parameters)\n\(headerText)\n".utf8)
        let toSign = "sha1\n\(keyTime)\n\(Hex.encode(SHA1.of(text)))\n"
        let signKey = Hex.encode(HMAC.sha1(keyTime, key: Array(credentials.secretKey.revealed.utf8)))
        let signature = Hex.encode(HMAC.sha1(toSign, key: Array(signKey.utf8)))
        return [
            ("q-sign-algorithm", "sha1"), ("q-ak", credentials.accessKeyID), ("q-sign-time", keyTime),
            ("q-key-time", keyTime), ("q-header-list", headerNames), ("q-url-param-list", parameterNames),
            ("q-signature", signature),
        ]
    }

    /// Names are converted to lower case after they were encoded (COS API, "Request Signature").
    private static func canonical(_ items: [QueryItem]) -> (names: String, text: String) {
        let pairs = items.map { (name: $0.name.lowercased(), value: $0.value) }.sorted { $0.name < $1.name }
        return (
            pairs.map(\.name).joined(separator: ";"),
            pairs.map { "\($0.name)=\($0.value)" }.joined(separator: "&")
        )
    }
}
