import Basics
import Digests

/// What an OSS Signature Version 4 is made of, as a request carries it (OSS API, "Signature Version 4").
struct OSSClaim {
    var accessKey: String
    /// `yyyymmdd/region/oss/aliyun_v4_request`
    var scope: String
    /// Names of the headers signed besides those that always are.
    var additionalHeaders: [String]
    var signature: String
    /// `yyyymmddThhmmssZ`
    var date: String
    var payloadHash: String

    var words: [Substring] { scope.split(separator: "/", omittingEmptySubsequences: false) }
    var day: String { words.first.map(String.init) ?? "" }
    var region: String { words.count > 1 ? String(words[1]) : "" }
}

/// Signature Version 4 of OSS, "OSS4-HMAC-SHA256".
enum OSSSignatureV4 {
    static let algorithm = "OSS4-HMAC-SHA256"

    /// The request as the signer saw it; the resource names the bucket in every style of addressing.
    static func canonicalRequest(_ request: ServerRequest, resource: ByteString, _ claim: OSSClaim) -> String {
        let parameters: [(name: String, value: String)] = request.query.filter { $0.name != "x-oss-signature" }
            .map { (PercentEncoding.encode($0.name), PercentEncoding.encode($0.value)) }
        let query = parameters.sorted { ($0.name, $0.value) < ($1.name, $1.value) }
            .map { $0.value.isEmpty ? $0.name : "\($0.name)=\($0.value)" }.joined(separator: "&")
        var text = "\(request.method)\n\(PercentEncoding.encode(resource, keepingSlash: true))\n\(query)\n"
        let signed = request.headerNames.filter { isAlwaysSigned($0) || claim.additionalHeaders.contains($0) }
        for name in Set(signed).sorted() {
            text += "\(name):\((request.header(name) ?? "").trimmed)\n"
        }
        return text + "\n\(claim.additionalHeaders.joined(separator: ";"))\n\(claim.payloadHash)"
    }

    private static func isAlwaysSigned(_ name: String) -> Bool {
        name.hasPrefix("x-oss-") || name == "content-type" || name == "content-md5"
    }

    static func stringToSign(_ canonicalRequest: String, _ claim: OSSClaim) -> String {
        "\(algorithm)\n\(claim.date)\n\(claim.scope)\n\(Hex.encode(SHA256.of(canonicalRequest)))"
    }

    static func sign(_ stringToSign: String, _ claim: OSSClaim, secret: String) -> String {
        var key = Array("aliyun_v4\(secret)".utf8)
        for step in [claim.day, claim.region, "oss", "aliyun_v4_request"] { key = HMAC.sha256(step, key: key) }
        return Hex.encode(HMAC.sha256(stringToSign, key: key))
    }
}

extension OSSClaim {
    /// From the `Authorization` header; nil when it is of another kind.
    static func header(_ request: ServerRequest) throws(OSSError) -> OSSClaim? {
        let algorithm = OSSSignatureV4.algorithm
        guard let text = request.header("authorization"), text.hasPrefix(algorithm) else { return nil }
        var attributes: [String: String] = [:]
        // The two SDKs differ in the order of attributes and in the spaces between them.
        for item in text.dropFirst(algorithm.count).split(separator: ",") {
            guard let mark = item.firstIndex(of: "=") else { continue }
            attributes[item[..<mark].trimmed] = item[item.index(after: mark)...].trimmed
        }
        guard let credential = attributes["Credential"], let mark = credential.firstIndex(of: "/"),
            let signature = attributes["Signature"]
        else { throw malformed("Invalid Authorization header.") }
        guard let date = request.header("x-oss-date") else {
            throw malformed("Missing x-oss-date header in the request.")
        }
        guard let payloadHash = request.header("x-oss-content-sha256") else {
            throw malformed("Missing x-oss-content-sha256 header in the request.")
        }
        return OSSClaim(
            accessKey: String(credential[..<mark]), scope: String(credential[credential.index(after: mark)...]),
            additionalHeaders: names(attributes["AdditionalHeaders"]), signature: signature, date: date,
            payloadHash: payloadHash)
    }

    /// From the query of a presigned request; nil when it is none.
    static func query(_ request: ServerRequest) throws(OSSError) -> OSSClaim? {
        guard let version = request.parameter("x-oss-signature-version") else { return nil }
        guard version == OSSSignatureV4.algorithm, let credential = request.parameter("x-oss-credential"),
            let mark = credential.firstIndex(of: "/"), let date = request.parameter("x-oss-date"),
            let signature = request.parameter("x-oss-signature"), request.has("x-oss-expires")
        else { throw malformed("The query of a presigned URL is not complete.") }
        return OSSClaim(
            accessKey: String(credential[..<mark]), scope: String(credential[credential.index(after: mark)...]),
            additionalHeaders: names(request.parameter("x-oss-additional-headers")), signature: signature, date: date,
            payloadHash: request.header("x-oss-content-sha256") ?? "UNSIGNED-PAYLOAD")
    }

    private static func names(_ list: String?) -> [String] {
        (list ?? "").split(separator: ";").map { $0.lowercased() }.sorted()
    }

    static func malformed(_ message: String) -> OSSError { OSSError(400, "InvalidArgument", message) }
}

extension StringProtocol {
    /// Without spaces at both ends.
    fileprivate var trimmed: String {
        var rest = self[...]
        while rest.last == " " { rest.removeLast() }
        return String(rest.drop { $0 == " " })
    }
}
