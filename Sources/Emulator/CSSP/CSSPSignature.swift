package import Basics
import Digests

/// Checks the signature of one request (CSSP API, authentication): `Authorization: CSSP id:base64(HMAC-SHA1)`, in the forms of
/// each of the provider's SDKs, which differ.
package struct CSSPSignature: Sendable {
    private let credentials: EmulatorCredentials
    private let time: any TimeSource
    private static let widestSkew = Duration.seconds(15 * 60)

    package init(credentials: EmulatorCredentials, time: any TimeSource) {
        (self.credentials, self.time) = (credentials, time)
    }

    /// False for a request without a signature; throws for one that is wrong.
    package func isSigned(_ request: ServerRequest) throws(CSSPError) -> Bool {
        guard let header = request.header("authorization") else { return false }
        guard header.hasPrefix("CSSP "), let mark = header.lastIndex(of: ":"),
            let signature = Base64.decode(header[header.index(after: mark)...]), let date = request.header("date"),
            let signed = Timestamp(httpDate: date)
        else { throw .unauthorized }
        let id = header[header.index(header.startIndex, offsetBy: 5)..<mark]
        let skew = time.now() - signed
        guard id == credentials.accessKey, max(skew, .zero - skew) <= Self.widestSkew else { throw .unauthorized }
        let key = Array(credentials.secretKey.utf8)
        let isKnown = Self.texts(request, date: date).contains { text in
            HMAC.isEqual(HMAC.sha1(text, key: key), signature)
        }
        guard isKnown else { throw .unauthorized }
        return true
    }

    /// What may have been signed, the Java SDK's reading first.
    static func texts(_ request: ServerRequest, date: String) -> [[UInt8]] {
        guard let decoded = PercentEncoding.decode(request.path) else { return [] }
        var resources = [decoded]
        // The C++ SDK signs the path as it sends it; the iOS SDK loses a slash at the end.
        if Array(request.path.utf8) != decoded { resources.append(Array(request.path.utf8)) }
        if decoded.count > 1, decoded.last == UInt8(ascii: "/") { resources.append(Array(decoded.dropLast())) }
        let etag = request.header("etag") ?? ""
        // The iOS SDK signs Content-MD5, and nothing where the digest is an ETag.
        var digests = [etag]
        for other in [request.header("content-md5") ?? "", ""] where !digests.contains(other) { digests.append(other) }
        let metadata = request.fields(below: CSSPDialect.metadataPrefix).sorted { $0.name < $1.name }
            .map { "\(CSSPDialect.metadataPrefix)\($0.name):\($0.value)\n" }.joined()
        return digests.flatMap { digest in
            let head = "\(request.method)\n\(digest)\n\(request.header("content-type") ?? "")\n\(date)\n\(metadata)"
            return resources.map { Array(head.utf8) + $0 }
        }
    }
}
