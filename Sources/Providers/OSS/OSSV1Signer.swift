import Basics
import Digests
package import HTTP
package import ObjectStorage

/// Signatures of OSS version 1 (OSS API, "Signature Version 1"): no region, the raw key, and only sub-resources of the query.
package struct OSSV1Signer: RequestSigner {
    package init() {}

    package var coversBody: Bool { false }
    package var needsRegion: Bool { false }

    package func sign(_ headers: inout HTTPHeaders, _ request: SignedRequest, with credentials: Credentials) {
        let date = request.time.httpDate
        headers["Date"] = date
        if let token = credentials.sessionToken { headers["x-oss-security-token"] = token.revealed }
        let text = Self.stringToSign(request, request.query, date: date, headers)
        headers["Authorization"] = "OSS \(credentials.accessKeyID):\(Self.signature(of: text, credentials))"
    }

    package func presign(
        _ request: SignedRequest, with credentials: Credentials, lifetime: Duration
    ) -> [QueryItem] {
        var items = request.query
        if let token = credentials.sessionToken { items.append(QueryItem("security-token", token.revealed)) }
        let end = String((request.time + lifetime).seconds)
        let text = Self.stringToSign(request, items, date: end, HTTPHeaders())
        return items.sorted() + [
            QueryItem("OSSAccessKeyId", credentials.accessKeyID), QueryItem("Expires", end),
            QueryItem("Signature", Self.signature(of: text, credentials)),
        ]
    }

    private static func signature(of text: [UInt8], _ credentials: Credentials) -> String {
        Base64.encode(HMAC.sha1(text, key: Array(credentials.secretKey.revealed.utf8)))
    }

    /// The string to sign, in bytes, as keys need not be UTF-8.
    private static func stringToSign(
        _ request: SignedRequest, _ query: [QueryItem], date: String, _ headers: HTTPHeaders
    ) -> [UInt8] {
        let lines = [request.method.rawValue, headers["Content-MD5"] ?? "", headers["Content-Type"] ?? "", date]
        let own = headers.fields.map { (name: $0.name.lowercased(), value: $0.value) }
            .filter { $0.name.hasPrefix("x-oss-") }.sorted { $0.name < $1.name }
        let head = lines.map { $0 + "\n" }.joined() + own.map { "\($0.name):\($0.value)\n" }.joined()
        var text = Array(head.utf8) + request.resource.bytes
        let signed = query.map { (decoded($0.name), decoded($0.value)) }
            .filter { isSubresource(ByteString($0.0).description) }
            .sorted { $0.0.lexicographicallyPrecedes($1.0) }
        for (index, (name, value)) in signed.enumerated() {
            text += Array((index == 0 ? "?" : "&").utf8) + name
            if !value.isEmpty { text += Array("=".utf8) + value }
        }
        return text
    }

    private static func decoded(_ text: String) -> [UInt8] { PercentEncoding.decode(text) ?? Array(text.utf8) }

    private static func isSubresource(_ name: String) -> Bool {
        subresources.contains(name) || name.hasPrefix("x-oss-ac-")
    }

    private static let subresources: Set<String> = [
        "acl", "append", "asyncFetch", "bucketArchiveDirectRead", "bucketInfo", "callback", "callback-var", "cname",
        "comp", "continuation-token", "cors", "delete", "encryption", "endTime", "httpsConfig", "img", "inventory",
        "inventoryId", "lifecycle", "link", "live", "location", "logging", "metaQuery", "objectInfo", "objectMeta",
        "partNumber", "policy", "position", "publicAccessBlock", "qos", "qosInfo", "referer", "regionList",
        "replication", "replicationLocation", "replicationProgress", "requestPayment", "resourceGroup",
        "response-cache-control", "response-content-disposition", "response-content-encoding",
        "response-content-language", "response-content-type", "response-expires", "restore", "seal", "security-token",
        "sequential", "startTime", "stat", "status", "style", "styleName", "symlink", "tagging",
        "transferAcceleration", "uploadId", "uploads", "versionId", "versioning", "versions", "vod", "website", "worm",
        "wormExtend", "wormId", "x-oss-async-process", "x-oss-process", "x-oss-request-payer", "x-oss-traffic-limit",
    ]
}
