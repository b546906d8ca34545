package import Basics
import Digests

/// Checks that requests are signed by the one key there is, in each form that official SDKs use: versions 4 and 1, in
/// headers and in queries, with and without a token. A value; any thread.
package struct OSSAuthenticator: Sendable {
    private let credentials: EmulatorCredentials
    private let time: any TimeSource
    private static let widestSkew = Duration.seconds(15 * 60)
    private static let longestValidity: Int64 = 604_800

    package init(credentials: EmulatorCredentials, time: any TimeSource) {
        (self.credentials, self.time) = (credentials, time)
    }

    /// False for a request that is not signed at all. `bucket` and `key` are what the request points at, whatever way it
    /// says so; `region` is the bucket's, nil when there is none to compare with.
    package func isSigned(
        _ request: ServerRequest, bucket: String, key: ByteString, region: String?
    ) throws(OSSError) -> Bool {
        let resource = ByteString(bucket.isEmpty ? "/" : "/\(bucket)/") + key
        if let claim = try OSSClaim.header(request) {
            try check(claim, region, ec: "0002-00000228", place: "Authorization header")
            try checkKey(claim.accessKey, token: request.header("x-oss-security-token"))
            guard let date = Timestamp(iso8601: claim.date) else { throw Self.malformedDate }
            try checkSkew(of: date)
            try verify(claim, request, resource)
        } else if let claim = try OSSClaim.query(request) {
            try check(claim, region, ec: "0002-00000226", place: "query")
            try checkKey(claim.accessKey, token: request.parameter("x-oss-security-token"))
            try checkExpiry(of: claim, request)
            try verify(claim, request, resource)
        } else if let header = request.header("authorization") {
            try verifyV1(header, request, resource)
        } else if let accessKey = request.parameter("OSSAccessKeyId") {
            try verifyV1Query(accessKey, request, resource)
        } else {
            return false
        }
        return true
    }

    private func check(_ claim: OSSClaim, _ region: String?, ec: String, place: String) throws(OSSError) {
        let words = claim.words
        guard words.count == 4, words[2] == "oss", words[3] == "aliyun_v4_request" else {
            throw OSSClaim.malformed("Invalid credential scope in \(place).")
        }
        guard claim.date.hasPrefix(words[0]), words[0].count == 8 else {
            throw OSSClaim.malformed("Invalid signing date in \(place).")
        }
        guard let region, claim.region != region else { return }
        throw OSSError(
            400, "InvalidArgument", "Invalid signing region in \(place).", ec: ec, elements: [Field("Region", region)])
    }

    private func checkKey(_ accessKey: String, token: String?) throws(OSSError) {
        let isKnown = accessKey == credentials.accessKey
        // A temporary key is no key without its token.
        guard isKnown, token != nil || credentials.tokens.accept(nil) else {
            throw OSSError(
                403, "InvalidAccessKeyId", "The OSS Access Key Id you provided does not exist in our records.",
                ec: "0002-00000902", elements: [Field("OSSAccessKeyId", accessKey)])
        }
        guard credentials.tokens.accept(token) else {
            if credentials.tokens.hasEnded(token) {
                throw OSSError(403, "SecurityTokenExpired", "The security token you provided has expired.")
            }
            throw OSSError(403, "InvalidSecurityToken", "The security token you provided is invalid.")
        }
    }

    private func checkSkew(of date: Timestamp) throws(OSSError) {
        let now = time.now()
        guard date - now <= Self.widestSkew, now - date <= Self.widestSkew else {
            throw OSSError(
                403, "RequestTimeTooSkewed",
                "The difference between the request time and the current time is too large.", ec: "0002-00000504",
                elements: [
                    Field("MaxAllowedSkewMilliseconds", "900000"), Field("RequestTime", date.iso8601(fraction: 3)),
                    Field("ServerTime", now.iso8601(fraction: 3)),
                ])
        }
    }

    private func checkExpiry(of claim: OSSClaim, _ request: ServerRequest) throws(OSSError) {
        guard let signed = Timestamp(iso8601: claim.date) else { throw Self.malformedDate }
        guard let seconds = request.parameter("x-oss-expires").flatMap({ Int64($0) }),
            (1...Self.longestValidity).contains(seconds)
        else { throw OSSClaim.malformed("x-oss-expires must be between 1 and \(Self.longestValidity) seconds.") }
        let now = time.now()
        guard signed - now <= Self.widestSkew else { throw Self.malformedDate }
        try checkNotAfter(signed + .seconds(seconds))
    }

    private func checkNotAfter(_ end: Timestamp) throws(OSSError) {
        let now = time.now()
        guard now <= end else {
            throw OSSError(
                403, "AccessDenied", "Request has expired.",
                elements: [
                    Field("Expires", end.iso8601(fraction: 3)), Field("ServerTime", now.iso8601(fraction: 3)),
                ])
        }
    }

    private func verify(_ claim: OSSClaim, _ request: ServerRequest, _ resource: ByteString) throws(OSSError) {
        let canonical = OSSSignatureV4.canonicalRequest(request, resource: resource, claim)
        let text = OSSSignatureV4.stringToSign(canonical, claim)
        let expected = OSSSignatureV4.sign(text, claim, secret: credentials.secretKey)
        try compare(claim.signature, expected, ByteString(text), [Field("CanonicalRequest", canonical)])
    }

    private func verifyV1(_ header: String, _ request: ServerRequest, _ resource: ByteString) throws(OSSError) {
        let words = header.dropFirst("OSS ".count).split(separator: ":", maxSplits: 1).map(String.init)
        guard header.hasPrefix("OSS "), words.count == 2 else {
            throw OSSClaim.malformed("Invalid Authorization header.")
        }
        // In version 1 the newer SDK sends the token in a header of its own that is not signed.
        try checkKey(words[0], token: request.header("x-oss-security-token") ?? request.header("security-token"))
        let date = request.header("x-oss-date") ?? request.header("date") ?? ""
        guard let signed = Timestamp(httpDate: date) ?? Timestamp(iso8601: date) else {
            throw OSSError(403, "AccessDenied", "OSS authentication requires a valid Date.")
        }
        try checkSkew(of: signed)
        let text = OSSSignatureV1.stringToSign(request, resource: resource, date: date)
        try compare(words[1], OSSSignatureV1.sign(text, secret: credentials.secretKey), text)
    }

    private func verifyV1Query(
        _ accessKey: String, _ request: ServerRequest, _ resource: ByteString
    ) throws(OSSError) {
        try checkKey(accessKey, token: request.parameter("security-token"))
        let expires = request.parameter("Expires") ?? ""
        guard let seconds = Int64(expires), seconds >= 0 else { throw OSSClaim.malformed("Invalid Expires in query.") }
        try checkNotAfter(Timestamp(seconds: seconds))
        let text = OSSSignatureV1.stringToSign(request, resource: resource, date: expires)
        let signature = request.parameter("Signature") ?? ""
        try compare(signature, OSSSignatureV1.sign(text, secret: credentials.secretKey), text)
    }

    private func compare(
        _ signature: String, _ expected: String, _ text: ByteString, _ more: [Field] = []
    ) throws(OSSError) {
        guard HMAC.isEqual(Array(expected.utf8), Array(signature.utf8)) else {
            throw OSSError(
                403, "SignatureDoesNotMatch",
                "The request signature we calculated does not match the signature you provided. Check your key and "
                    + "signing method.", ec: "0002-00000040",
                elements: [
                    Field("OSSAccessKeyId", credentials.accessKey), Field("SignatureProvided", signature),
                    Field("StringToSign", text.description),
                ] + more)
        }
    }

    private static let malformedDate = OSSClaim.malformed("Invalid signing date in Authorization header.")
}
