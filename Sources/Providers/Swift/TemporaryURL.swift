import Basics
import Digests
import HTTP
import ObjectStorage

/// The query of a URL without a token (Swift documentation, tempurl).
enum TemporaryURL {
    /// `path` is the encoded one, from `/v1/` on; `expires` in seconds since 1970. The decoded path is signed.
    static func query(_ method: HTTPMethod, path: String, expires: Int64, key: Secret, at server: SwiftServer?)
        -> String
    {
        let decoded = PercentEncoding.decode(path) ?? Array(path.utf8)
        let text = Array("\(method.rawValue)\n\(expires)\n".utf8) + decoded
        let key = Array(key.revealed.utf8)
        let signature = Hex.encode(server == .ceph ? HMAC.sha1(text, key: key) : HMAC.sha256(text, key: key))
        return "temp_url_sig=\(signature)&temp_url_expires=\(expires)"
    }
}
