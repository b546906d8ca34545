import Basics

/// What a copy reads: `/bucket/key`, percent-encoded, with `?versionId=` behind it.
struct CopySource {
    let bucket: String
    let key: ByteString
    let version: String?

    /// nil unless bucket and key are both there.
    init?(_ header: String) {
        let (path, version) = Self.split(header)
        guard let decoded = PercentEncoding.decode(path) else { return nil }
        let name = decoded.first == UInt8(ascii: "/") ? decoded.dropFirst() : decoded[...]
        guard let mark = name.firstIndex(of: UInt8(ascii: "/")), mark + 1 < name.endIndex else { return nil }
        bucket = String(decoding: name[..<mark], as: UTF8.self)
        key = ByteString(name[(mark + 1)...])
        self.version = version
    }

    /// The header before and behind its last `?versionId=`.
    static func split(_ header: String) -> (path: Substring, version: String?) {
        guard let question = header.lastIndex(of: "?"), header[question...].hasPrefix("?versionId=") else {
            return (header[...], nil)
        }
        return (header[..<question], String(header[question...].dropFirst("?versionId=".count)))
    }
}
