package import Basics

/// The local directories of a mount: two for the user, with one directory in each for each bucket and prefix.
package enum CacheLocation {
    /// The two directories for all buckets, where no option sets them.
    package enum Kind: Sendable, CaseIterable {
        /// Data that can be fetched again.
        case cache
        /// Data that must not be lost.
        case state
    }

    /// nil when the environment of a user other than root has no home.
    package static func directory(for kind: Kind, environment: [String: String], isRoot: Bool) -> String? {
        let (variable, below, ofRoot) =
            switch kind {
            case .cache: ("XDG_CACHE_HOME", "/.cache", "/var/cache/pailfs")
            case .state: ("XDG_STATE_HOME", "/.local/state", "/var/lib/pailfs")
            }
        return path(variable, environment) ?? (isRoot ? ofRoot : path(below: below, environment))
    }

    /// The directory that had the contents of both in earlier versions.
    package static func former(environment: [String: String]) -> String? {
        path("XDG_CACHE_HOME", environment) ?? path(below: "/.cache", environment)
    }

    private static func path(_ variable: String, _ environment: [String: String]) -> String? {
        // The XDG base directory specification ignores paths that are not absolute.
        environment[variable].flatMap { $0.hasPrefix("/") ? $0 + "/pailfs" : nil }
    }

    private static func path(below part: String, _ environment: [String: String]) -> String? {
        guard let home = environment["HOME"], home.hasPrefix("/") else { return nil }
        return (home == "/" ? "" : home) + part + "/pailfs"
    }

    /// The name of the directory for one bucket and prefix at one endpoint: the same for the same content of the bucket,
    /// different for anything else. `account` is the account of the bucket, where the bucket's name alone does not identify it.
    /// A bucket `asOf` a time has other content than now. Readable, and at most 200 bytes.
    package static func name(
        scheme: String, endpoint: String?, account: String? = nil, bucket: String, prefix: ByteString,
        asOf: Timestamp? = nil
    ) -> String {
        let place = host(of: endpoint) + (account.map { "@" + $0 } ?? "")
        let parts = [ByteString(scheme), ByteString(place), ByteString(bucket), prefix]
        let time = asOf.map { ["\($0.iso8601Basic).\($0.nanoseconds)"] } ?? []
        let name = (parts.map(encoded) + time).joined(separator: ",")
        if name.utf8.count <= 200 { return name }
        let digits = String(fingerprint(name), radix: 36)
        return String(decoding: name.utf8.prefix(160), as: UTF8.self) + "~" + digits
    }

    /// Host and port; http and https lead to the same content.
    private static func host(of endpoint: String?) -> String {
        guard let endpoint else { return "" }
        let text = endpoint.lowercased()
        guard let start = text.firstRange(of: "://")?.upperBound else { return text }
        var rest = text[start...]
        while rest.last == "/" { rest = rest.dropLast() }
        return String(rest)
    }

    /// Percent-encodes all bytes that are not safe in a file name, and the comma that joins the parts.
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

    /// FNV-1a in 128 bits (the parameters of Fowler, Noll and Vo): distinguishes long names; no protection against attacks is
    /// needed.
    private static func fingerprint(_ text: String) -> UInt128 {
        text.utf8.reduce(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d) { hash, byte in
            (hash ^ UInt128(byte)) &* 0x0000_0000_0100_0000_0000_0000_0000_013b
        }
    }
}
