package import Basics

/// Where a mount keeps its caches: one directory for the user, in it one for each bucket and prefix.
package enum CacheLocation {
    /// The directory for all buckets; nil when the environment names no home.
    package static func userDirectory(environment: [String: String]) -> String? {
        // The XDG base directory specification ignores paths that are not absolute.
        if let cache = environment["XDG_CACHE_HOME"], cache.hasPrefix("/") { return cache + "/pailfs" }
        guard let home = environment["HOME"], home.hasPrefix("/") else { return nil }
        return (home == "/" ? "" : home) + "/.cache/pailfs"
    }

    /// The name of the directory for one bucket and prefix at one endpoint: the same for the same content of the bucket,
    /// different for anything else. `account` is whose the bucket is, where its name does not tell. Readable, and at most 200
    /// bytes.
    package static func name(
        scheme: String, endpoint: String?, account: String? = nil, bucket: String, prefix: ByteString
    ) -> String {
        let place = host(of: endpoint) + (account.map { "@" + $0 } ?? "")
        let parts = [ByteString(scheme), ByteString(place), ByteString(bucket), prefix]
        let name = parts.map(encoded).joined(separator: ",")
        if name.utf8.count <= 200 { return name }
        let digits = String(fingerprint(name), radix: 36)
        return String(decoding: name.utf8.prefix(160), as: UTF8.self) + "~" + digits
    }

    /// Host and port; the way there (http or https) does not change what is there.
    private static func host(of endpoint: String?) -> String {
        guard let endpoint else { return "" }
        let text = endpoint.lowercased()
        guard let start = text.firstRange(of: "://")?.upperBound else { return text }
        var rest = text[start...]
        while rest.last == "/" { rest = rest.dropLast() }
        return String(rest)
    }

    /// What is safe in a file name stays; the rest, the comma that joins the parts included, is percent-encoded.
    private static func encoded(_ text: ByteString) -> String {
        let digits = Array("0123456789ABCDEF")
        return text.bytes.reduce(into: "") { result, byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."),
                UInt8(ascii: ":"):
                result.append(Character(UnicodeScalar(byte)))
            default:
                result.append("%")
                result.append(digits[Int(byte >> 4)])
                result.append(digits[Int(byte & 15)])
            }
        }
    }

    /// FNV-1a in 128 bits (the parameters of Fowler, Noll and Vo): keeps long names apart; nobody attacks it here.
    private static func fingerprint(_ text: String) -> UInt128 {
        text.utf8.reduce(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d) { hash, byte in
            (hash ^ UInt128(byte)) &* 0x0000_0000_0100_0000_0000_0000_0000_013b
        }
    }
}
