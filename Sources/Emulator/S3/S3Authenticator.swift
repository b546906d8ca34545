package import Basics
import Digests

/// What a request was found to be allowed as, and how its body must be read.
package struct S3Authorization: Sendable {
    package enum Payload: Sendable {
        case plain
        /// The body's SHA-256 in hexadecimal.
        case hashed(String)
        /// `aws-chunked`; with a claim and key every chunk is signed.
        case chunked(signedBy: ChunkSigner?, hasTrailer: Bool)
    }

    package var isAnonymous = false
    package var payload = Payload.plain
}

/// Checks the chain of chunk signatures of one body.
package struct ChunkSigner: Sendable {
    let claim: SignatureV4Claim
    let key: [UInt8]
    private(set) var previous: String

    init(claim: SignatureV4Claim, key: [UInt8]) {
        (self.claim, self.key, previous) = (claim, key, claim.signature)
    }

    mutating func accepts(_ signature: String, dataHash: [UInt8]) -> Bool {
        let text = SignatureV4.chunkStringToSign(claim, previous: previous, dataHash: Hex.encode(dataHash))
        previous = SignatureV4.sign(text, key: key)
        return previous == signature
    }

    func accepts(_ signature: String, trailers: [Field]) -> Bool {
        let text = SignatureV4.trailerStringToSign(claim, previous: previous, trailers: trailers)
        return SignatureV4.sign(text, key: key) == signature
    }
}

/// Checks that requests are signed by the one key there is. A value; any thread.
package struct S3Authenticator: Sendable {
    private let credentials: EmulatorCredentials
    private let time: any TimeSource
    private static let widestSkew = Duration.seconds(15 * 60)

    package init(credentials: EmulatorCredentials, time: any TimeSource) {
        (self.credentials, self.time) = (credentials, time)
    }

    /// `region` is the bucket's, nil when there is none to compare with; `hostBucket` the bucket named by the host.
    package func authorize(_ request: ServerRequest, region: String?, hostBucket: String?) throws(S3Error)
        -> S3Authorization
    {
        if let claim = try SignatureV4Claim.header(request) {
            try check(claim, request, region)
            try checkSkew(of: claim.date)
            return try verify(claim, request)
        }
        if let claim = try SignatureV4Claim.query(request) {
            try check(claim, request, region)
            try checkExpiry(of: claim, request)
            return try verify(claim, request)
        }
        if let header = request.header("authorization") {
            guard header.hasPrefix("AWS ") else {
                throw S3Error.invalidArgument("Unsupported Authorization Type")
            }
            return try verifyV2(header, request, hostBucket)
        }
        if request.has("AWSAccessKeyId"), request.has("Signature") { return try verifyV2Query(request, hostBucket) }
        return S3Authorization(isAnonymous: true, payload: try payload(of: request, nil))
    }

    private func check(_ claim: SignatureV4Claim, _ request: ServerRequest, _ region: String?) throws(S3Error) {
        guard claim.hasProperScope else {
            throw SignatureV4Claim.malformed("The credential scope '\(claim.scope)' does not fit the request.")
        }
        try checkKey(claim.accessKey)
        try checkToken(request.header("x-amz-security-token") ?? request.parameter("X-Amz-Security-Token"))
        if let region, claim.region != region {
            throw SignatureV4Claim.malformed(
                "The authorization header is malformed; the region '\(claim.region)' is wrong; expecting '\(region)'",
                region: region)
        }
        let present = request.headerNames.filter { $0.hasPrefix("x-amz-") } + ["host"]
        let unsigned = present.filter { !claim.signedHeaders.contains($0) }
        guard unsigned.isEmpty else {
            throw S3Error(
                403, "AccessDenied", "There were headers present in the request which were not signed",
                elements: [Field("HeadersNotSigned", unsigned.joined(separator: ", "))])
        }
    }

    private func checkKey(_ accessKey: String) throws(S3Error) {
        guard accessKey == credentials.accessKey else {
            throw S3Error(
                403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.",
                elements: [Field("AWSAccessKeyId", accessKey)])
        }
    }

    private func checkToken(_ token: String?) throws(S3Error) {
        guard credentials.tokens.accept(token) else {
            if credentials.tokens.hasEnded(token) {
                throw S3Error(400, "ExpiredToken", "The provided token has expired.")
            }
            throw S3Error(400, "InvalidToken", "The provided token is malformed or otherwise invalid.")
        }
    }

    private func checkSkew(of date: String) throws(S3Error) {
        guard let signed = Timestamp(iso8601: date) else {
            throw S3Error(403, "AccessDenied", "AWS authentication requires a valid Date or x-amz-date header")
        }
        let now = time.now()
        guard signed - now <= Self.widestSkew, now - signed <= Self.widestSkew else {
            throw S3Error(
                403, "RequestTimeTooSkewed",
                "The difference between the request time and the current time is too large.",
                elements: [
                    Field("RequestTime", date), Field("ServerTime", now.iso8601()),
                    Field("MaxAllowedSkewMilliseconds", "900000"),
                ])
        }
    }

    private func checkExpiry(of claim: SignatureV4Claim, _ request: ServerRequest) throws(S3Error) {
        guard let signed = Timestamp(iso8601: claim.date),
            let seconds = request.parameter("X-Amz-Expires").flatMap({ Int64($0) }), (1...604_800).contains(seconds)
        else {
            throw S3Error(
                400, "AuthorizationQueryParametersError", "X-Amz-Expires must be between 1 and 604800 seconds")
        }
        let now = time.now()
        guard now - signed <= .seconds(seconds), signed - now <= Self.widestSkew else {
            throw S3Error(
                403, "AccessDenied", "Request has expired",
                elements: [
                    Field("X-Amz-Expires", String(seconds)),
                    Field("Expires", (signed + .seconds(seconds)).iso8601()), Field("ServerTime", now.iso8601()),
                ])
        }
    }

    private func verify(_ claim: SignatureV4Claim, _ request: ServerRequest) throws(S3Error) -> S3Authorization {
        let key = SignatureV4.signingKey(secret: credentials.secretKey, day: claim.day, region: claim.region)
        let canonical = SignatureV4.canonicalRequest(request, claim)
        let text = SignatureV4.stringToSign(canonical, claim)
        guard HMAC.isEqual(Array(SignatureV4.sign(text, key: key).utf8), Array(claim.signature.utf8)) else {
            throw Self.mismatch([
                Field("AWSAccessKeyId", claim.accessKey), Field("StringToSign", text),
                Field("SignatureProvided", claim.signature), Field("CanonicalRequest", canonical),
            ])
        }
        return S3Authorization(payload: try payload(of: request, ChunkSigner(claim: claim, key: key)))
    }

    private func payload(of request: ServerRequest, _ signer: ChunkSigner?) throws(S3Error) -> S3Authorization.Payload {
        let hash = signer?.claim.payloadHash ?? request.header("x-amz-content-sha256") ?? "UNSIGNED-PAYLOAD"
        switch hash {
        case "UNSIGNED-PAYLOAD": return .plain
        case "STREAMING-UNSIGNED-PAYLOAD-TRAILER": return .chunked(signedBy: nil, hasTrailer: true)
        case "STREAMING-AWS4-HMAC-SHA256-PAYLOAD": return .chunked(signedBy: signer, hasTrailer: false)
        case "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER": return .chunked(signedBy: signer, hasTrailer: true)
        default:
            guard hash.utf8.count == 64, Hex.decode(hash) != nil else {
                throw S3Error.invalidArgument(
                    "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, "
                        + "STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a valid "
                        + "sha256 value.")
            }
            return .hashed(hash.lowercased())
        }
    }

    private func verifyV2(
        _ header: String, _ request: ServerRequest, _ hostBucket: String?
    ) throws(S3Error) -> S3Authorization {
        let words = header.dropFirst(4).split(separator: ":", maxSplits: 1).map(String.init)
        guard words.count == 2 else { throw S3Error.invalidArgument("The authorization header is malformed") }
        try checkKey(words[0])
        try checkToken(request.header("x-amz-security-token"))
        let date = request.header("x-amz-date") ?? request.header("date") ?? ""
        guard let signed = Timestamp(httpDate: date) ?? Timestamp(iso8601: date) else {
            throw S3Error(403, "AccessDenied", "AWS authentication requires a valid Date or x-amz-date header")
        }
        try checkSkew(of: signed.iso8601Basic)
        let text = SignatureV2.stringToSign(request, hostBucket: hostBucket)
        try compare(words[1], text)
        return S3Authorization(payload: try payload(of: request, nil))
    }

    private func verifyV2Query(_ request: ServerRequest, _ hostBucket: String?) throws(S3Error) -> S3Authorization {
        try checkKey(request.parameter("AWSAccessKeyId") ?? "")
        try checkToken(request.header("x-amz-security-token") ?? request.parameter("x-amz-security-token"))
        let expires = request.parameter("Expires") ?? ""
        guard let seconds = Int64(expires), seconds >= 0 else { throw S3Error.accessDenied }
        guard time.now().seconds <= seconds else {
            throw S3Error(
                403, "AccessDenied", "Request has expired",
                elements: [
                    Field("Expires", Timestamp(seconds: seconds).iso8601()), Field("ServerTime", time.now().iso8601()),
                ])
        }
        let text = SignatureV2.stringToSign(request, hostBucket: hostBucket, expires: expires)
        try compare(request.parameter("Signature") ?? "", text)
        return S3Authorization()
    }

    private func compare(_ signature: String, _ text: String) throws(S3Error) {
        let expected = SignatureV2.sign(text, secret: credentials.secretKey)
        guard HMAC.isEqual(Array(expected.utf8), Array(signature.utf8)) else {
            throw Self.mismatch([
                Field("AWSAccessKeyId", credentials.accessKey), Field("StringToSign", text),
                Field("SignatureProvided", signature),
            ])
        }
    }

    private static func mismatch(_ elements: [Field]) -> S3Error {
        S3Error(
            403, "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you provided. Check your key and signing "
                + "method.", elements: elements)
    }
}
