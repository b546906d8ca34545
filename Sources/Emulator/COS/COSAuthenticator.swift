package import Basics
import Digests

/// Checks that requests are signed by the one key there is (COS API, "Request Signature"). A value; any thread.
package struct COSAuthenticator: Sendable {
    private let credentials: EmulatorCredentials
    private let time: any TimeSource
    private static let widestSkew = Duration.seconds(15 * 60)

    package init(credentials: EmulatorCredentials, time: any TimeSource) {
        (self.credentials, self.time) = (credentials, time)
    }

    /// Whether the request is signed, and well; false for one without a signature.
    package func isSigned(_ request: ServerRequest) throws(COSError) -> Bool {
        guard let claim = try COSSignatureClaim(request) else { return false }
        guard claim.algorithm == "sha1" else {
            throw .invalidArgument("The signature algorithm \(claim.algorithm) is not supported; use sha1.")
        }
        guard claim.secretID == credentials.accessKey else {
            throw COSError(403, "InvalidAccessKeyId", "The Access Key Id you provided does not exist in our records.")
        }
        try checkToken(request)
        try checkDate(request)
        try checkWindow(claim.signTime)
        try checkWindow(claim.keyTime)
        try verify(claim, request)
        return true
    }

    /// Temporary keys come with their token, permanent ones without.
    private func checkToken(_ request: ServerRequest) throws(COSError) {
        let token = request.header("x-cos-security-token") ?? request.parameter("x-cos-security-token")
        guard !credentials.tokens.accept(token) else { return }
        guard token != nil else { throw .accessDenied }
        throw .expiredToken
    }

    /// A client that sends its clock's time must be near ours.
    private func checkDate(_ request: ServerRequest) throws(COSError) {
        guard let date = (request.header("x-cos-date") ?? request.header("date")).flatMap(Timestamp.init(httpDate:))
        else { return }
        let now = time.now()
        guard date - now <= Self.widestSkew, now - date <= Self.widestSkew else { throw .requestTimeTooSkewed }
    }

    /// `window` is `start;end` in Unix seconds; both count.
    private func checkWindow(_ window: String) throws(COSError) {
        let bounds = window.split(separator: ";", omittingEmptySubsequences: false).map { Int64($0) }
        guard bounds.count == 2, let start = bounds[0], let end = bounds[1], start <= end else {
            throw .invalidArgument("q-sign-time and q-key-time must be start;end in Unix seconds.")
        }
        let now = time.now()
        guard Timestamp(seconds: start) - now <= Self.widestSkew else { throw .requestTimeTooSkewed }
        guard start <= now.seconds, now.seconds <= end else {
            throw COSError(403, "AccessDenied", "Request has expired")
        }
    }

    private func verify(_ claim: COSSignatureClaim, _ request: ServerRequest) throws(COSError) {
        let key = COSSignature.signKey(secret: credentials.secretKey, keyTime: claim.keyTime)
        let host = request.header("host") ?? ""
        var hosts = [host]
        // The official SDK signs a host of its own settings without the port that is sent.
        if let mark = host.lastIndex(of: ":"), host[mark...].dropFirst().allSatisfy(\.isNumber) {
            hosts.append(String(host[..<mark]))
        }
        var text = ""
        for host in hosts {
            text = COSSignature.stringToSign(
                COSSignature.httpString(request, claim, host: host), keyTime: claim.keyTime)
            let expected = COSSignature.sign(text, signKey: key)
            if HMAC.isEqual(Array(expected.utf8), Array(claim.signature.utf8)) { return }
        }
        throw COSError(
            403, "SignatureDoesNotMatch",
            "The Signature you specified is invalid.",
            elements: [Field("StringToSign", text), Field("FormatString", Self.readable(request, claim))])
    }

    /// What was signed by our reckoning, to compare with the client's.
    private static func readable(_ request: ServerRequest, _ claim: COSSignatureClaim) -> String {
        let bytes = COSSignature.httpString(request, claim, host: request.header("host") ?? "")
        return String(decoding: bytes, as: UTF8.self)
    }
}
