import Basics
import Digests

/// What a COS signature is made of, as a request carries it: in its `Authorization` header or in its query.
package struct COSSignatureClaim: Hashable, Sendable {
    package var algorithm: String
    package var secretID: String
    /// `start;end` in Unix seconds: when the signature holds.
    package var signTime: String
    /// `start;end` in Unix seconds: when the key made for it holds.
    package var keyTime: String
    /// The headers and parameters that are signed, encoded and in lower case; nothing else counts.
    package var headerNames: [String]
    package var parameterNames: [String]
    package var signature: String

    /// nil without every one of the seven.
    init?(_ value: (String) -> String?) {
        guard let algorithm = value("q-sign-algorithm"), let secretID = value("q-ak"),
            let signTime = value("q-sign-time"), let keyTime = value("q-key-time"),
            let headers = value("q-header-list"), let parameters = value("q-url-param-list"),
            let signature = value("q-signature")
        else { return nil }
        (self.algorithm, self.secretID, self.signTime, self.keyTime) = (algorithm, secretID, signTime, keyTime)
        (headerNames, parameterNames) = (Self.names(headers), Self.names(parameters))
        self.signature = signature
    }

    private static func names(_ list: String) -> [String] { list.split(separator: ";").map { $0.lowercased() } }
}

extension COSSignatureClaim {
    /// nil for a request that is not signed.
    package init?(_ request: ServerRequest) throws(COSError) {
        // An anonymous client of the official SDK sends the header empty.
        let header = request.header("authorization") ?? ""
        let isInQuery = request.has("q-signature") || request.has("q-sign-algorithm")
        guard !header.isEmpty || isInQuery else { return nil }
        var attributes: [Substring: String] = [:]
        for item in header.split(separator: "&") {
            guard let mark = item.firstIndex(of: "=") else { continue }
            attributes[item[..<mark]] = String(item[item.index(after: mark)...])
        }
        let claim = Self { name in header.isEmpty ? request.parameter(name) : attributes[Substring(name)] }
        guard let claim else {
            throw .invalidArgument(
                "The signature must have q-sign-algorithm, q-ak, q-sign-time, q-key-time, q-header-list, "
                    + "q-url-param-list and q-signature.")
        }
        self = claim
    }
}

/// The COS signature with HMAC-SHA1 (COS API, "Request Signature").
package enum COSSignature {
    /// The request as the signer saw it. `host` stands for the header of that name.
    package static func httpString(_ request: ServerRequest, _ claim: COSSignatureClaim, host: String) -> [UInt8] {
        var headers: [Pair] = []
        for name in Set(request.headerNames) {
            let key = encoded(name)
            guard claim.headerNames.contains(key) else { continue }
            let value = name == "host" ? host : request.header(name) ?? ""
            headers.append(Pair(name: key, value: PercentEncoding.encode(trimmed(value).utf8)))
        }
        let parameters = request.query.compactMap { item in
            let name = encoded(item.name)
            return claim.parameterNames.contains(name)
                ? Pair(name: name, value: PercentEncoding.encode(item.value)) : nil
        }
        // The path is signed as it is meant, not as it is sent.
        let path = PercentEncoding.decode(request.path) ?? Array(request.path.utf8)
        return Array("\(request.method.lowercased())\n".utf8) + path + Array("\n\(join(parameters))\n".utf8)
            + Array("\(join(headers))\n".utf8)
    }

    private struct Pair {
        let name: String
        let value: String
    }

    private static func join(_ pairs: [Pair]) -> String {
        pairs.sorted { ($0.name, $0.value) < ($1.name, $1.value) }.map { "\($0.name)=\($0.value)" }
            .joined(separator: "&")
    }

    private static func encoded(_ name: String) -> String { PercentEncoding.encode(name).lowercased() }

    private static func trimmed(_ value: String) -> Substring {
        var rest = value.drop { $0 == " " || $0 == "\t" }
        while let last = rest.last, last == " " || last == "\t" { rest.removeLast() }
        return rest
    }

    package static func stringToSign(_ httpString: [UInt8], keyTime: String) -> String {
        "sha1\n\(keyTime)\n\(Hex.encode(SHA1.of(httpString)))\n"
    }

    /// The key of one signature, in hexadecimal; that text and not its bytes is the key of the second step.
    package static func signKey(secret: String, keyTime: String) -> String {
        Hex.encode(HMAC.sha1(keyTime, key: Array(secret.utf8)))
    }

    package static func sign(_ stringToSign: String, signKey: String) -> String {
        Hex.encode(HMAC.sha1(stringToSign, key: Array(signKey.utf8)))
    }
}
