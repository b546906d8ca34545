package import Basics
import Digests
package import HTTP
package import ObjectStorage

/// The signature of iFlytek's open storage (CSSP API, authentication): HMAC-SHA1 over six kinds of lines. A value; any thread.
package struct CSSPSigner: Sendable {
    package init() {}

    /// Adds `Authorization`; `Date` must be set. Later changes to method, resource, `ETag`, `Content-Type`, `Date` or object
    /// metadata invalidate the signature; it covers nothing else.
    package func sign(
        _ headers: inout HTTPHeaders, _ method: HTTPMethod, resource: ByteString, with credentials: Credentials
    ) {
        let text = stringToSign(headers, method, resource: resource)
        let code = HMAC.sha1(text.bytes, key: Array(credentials.secretKey.revealed.utf8))
        headers["Authorization"] = "CSSP \(credentials.accessKeyID):\(Base64.encode(code))"
    }

    /// `resource` is `/container` or `/container/object`, not encoded.
    package func stringToSign(_ headers: HTTPHeaders, _ method: HTTPMethod, resource: ByteString) -> ByteString {
        var lines = [method.rawValue, headers["ETag"] ?? "", headers["Content-Type"] ?? "", headers["Date"] ?? ""]
        lines += headers.fields.map { (name: $0.name.lowercased(), value: $0.value) }
            .filter { $0.name.hasPrefix(SwiftMetadata.prefix) }
            .sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
            .map { "\($0.name):\($0.value)" }
        return ByteString(lines.joined(separator: "\n") + "\n") + resource
    }
}
