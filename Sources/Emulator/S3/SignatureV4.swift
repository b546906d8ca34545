import Basics
import Digests

/// What an AWS Signature Version 4 is made of, as a request carries it.
package struct SignatureV4Claim: Hashable, Sendable {
    package var accessKey: String
    /// `yyyymmdd/region/service/aws4_request`
    package var scope: String
    package var signedHeaders: [String]
    package var signature: String
    /// `yyyymmddThhmmssZ`
    package var date: String
    package var payloadHash: String

    package var day: String { scope.split(separator: "/").first.map(String.init) ?? "" }
    package var region: String {
        let words = scope.split(separator: "/", omittingEmptySubsequences: false)
        return words.count > 1 ? String(words[1]) : ""
    }
    package var hasProperScope: Bool {
        let words = scope.split(separator: "/", omittingEmptySubsequences: false)
        return words.count == 4 && words[2] == "s3" && words[3] == "aws4_request" && date.hasPrefix(words[0])
    }
}

/// Signature Version 4 ("Authenticating Requests (AWS Signature Version 4)", Amazon S3 API reference).
package enum SignatureV4 {
    package static let emptyHash = Hex.encode(SHA256.of(""))
    static let algorithm = "AWS4-HMAC-SHA256"

    /// The request as the signer saw it. `Signature` parameters of presigned requests are left out.
    package static func canonicalRequest(_ request: ServerRequest, _ claim: SignatureV4Claim) -> String {
        let parameters: [(name: String, value: String)] = request.query.filter { $0.name != "X-Amz-Signature" }
            .map { (PercentEncoding.encode($0.name), PercentEncoding.encode($0.value)) }
        let query = parameters.sorted { ($0.name, $0.value) < ($1.name, $1.value) }
            .map { "\($0.name)=\($0.value)" }.joined(separator: "&")
        var text = "\(request.method)\n\(request.path)\n\(query)\n"
        for name in claim.signedHeaders {
            let values = request.headerValues(name).map(collapse)
            text += "\(name):\(values.joined(separator: ","))\n"
        }
        text += "\n\(claim.signedHeaders.joined(separator: ";"))\n\(claim.payloadHash)"
        return text
    }

    /// Without outer spaces and with inner runs of them as one.
    private static func collapse(_ value: String) -> String {
        guard value.utf8.contains(UInt8(ascii: " ")) || value.utf8.contains(UInt8(ascii: "\t")) else { return value }
        return value.split(whereSeparator: { $0 == " " || $0 == "\t" }).joined(separator: " ")
    }

    package static func stringToSign(_ canonicalRequest: String, _ claim: SignatureV4Claim) -> String {
        "\(algorithm)\n\(claim.date)\n\(claim.scope)\n\(Hex.encode(SHA256.of(canonicalRequest)))"
    }

    package static func signingKey(secret: String, day: String, region: String) -> [UInt8] {
        var key = Array("AWS4\(secret)".utf8)
        for step in [day, region, "s3", "aws4_request"] { key = HMAC.sha256(step, key: key) }
        return key
    }

    package static func sign(_ stringToSign: String, key: [UInt8]) -> String {
        Hex.encode(HMAC.sha256(stringToSign, key: key))
    }

    /// What the signature of one chunk of an `aws-chunked` body covers.
    package static func chunkStringToSign(
        _ claim: SignatureV4Claim, previous: String, dataHash: String
    ) -> String {
        "\(algorithm)-PAYLOAD\n\(claim.date)\n\(claim.scope)\n\(previous)\n\(emptyHash)\n\(dataHash)"
    }

    /// What the signature of the trailers covers.
    package static func trailerStringToSign(_ claim: SignatureV4Claim, previous: String, trailers: [Field]) -> String {
        let text = trailers.map { "\($0.name):\($0.value)\n" }.joined()
        return "AWS4-HMAC-SHA256-TRAILER\n\(claim.date)\n\(claim.scope)\n\(previous)\n\(Hex.encode(SHA256.of(text)))"
    }
}

extension SignatureV4Claim {
    /// From the `Authorization` header; nil when it is of another kind.
    package static func header(_ request: ServerRequest) throws(S3Error) -> SignatureV4Claim? {
        guard let text = request.header("authorization"), text.hasPrefix(SignatureV4.algorithm) else { return nil }
        var attributes: [String: String] = [:]
        for item in text.dropFirst(SignatureV4.algorithm.count).split(separator: ",") {
            guard let mark = item.firstIndex(of: "=") else { continue }
            let name = item[..<mark].filter { $0 != " " }
            attributes[name] = item[item.index(after: mark)...].split(separator: " ").first.map(String.init) ?? ""
        }
        guard let credential = attributes["Credential"], let mark = credential.firstIndex(of: "/"),
            let signed = attributes["SignedHeaders"], let signature = attributes["Signature"]
        else { throw malformed("The authorization header is malformed.") }
        guard
            let date = request.header("x-amz-date")
                ?? request.header("date").flatMap(Timestamp.init(httpDate:))?.iso8601Basic
        else { throw S3Error(403, "AccessDenied", "AWS authentication requires a valid Date or x-amz-date header") }
        guard let payloadHash = request.header("x-amz-content-sha256") else {
            throw S3Error.invalidRequest("Missing required header for this request: x-amz-content-sha256")
        }
        return SignatureV4Claim(
            accessKey: String(credential[..<mark]), scope: String(credential[credential.index(after: mark)...]),
            signedHeaders: signed.split(separator: ";").map(String.init), signature: signature, date: date,
            payloadHash: payloadHash)
    }

    /// From the query of a presigned request; nil when it is none.
    package static func query(_ request: ServerRequest) throws(S3Error) -> SignatureV4Claim? {
        guard let algorithm = request.parameter("X-Amz-Algorithm") else { return nil }
        guard algorithm == SignatureV4.algorithm, let credential = request.parameter("X-Amz-Credential"),
            let mark = credential.firstIndex(of: "/"), let date = request.parameter("X-Amz-Date"),
            let signed = request.parameter("X-Amz-SignedHeaders"),
            let signature = request.parameter("X-Amz-Signature"), request.has("X-Amz-Expires")
        else {
            throw S3Error(
                400, "AuthorizationQueryParametersError",
                "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, "
                    + "X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.")
        }
        return SignatureV4Claim(
            accessKey: String(credential[..<mark]), scope: String(credential[credential.index(after: mark)...]),
            signedHeaders: signed.split(separator: ";").map(String.init), signature: signature, date: date,
            payloadHash: request.header("x-amz-content-sha256") ?? "UNSIGNED-PAYLOAD")
    }

    static func malformed(_ message: String, region: String? = nil) -> S3Error {
        S3Error(
            400, "AuthorizationHeaderMalformed", message, elements: region.map { [Field("Region", $0)] } ?? [])
    }
}
