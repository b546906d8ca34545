package import Basics
package import Metadata
package import ObjectStorage

/// POSIX attributes as headers of an object, in the convention of the s3fs family, which most mounts read.
///
/// `mode`, `uid`, `gid` are decimal (`mode` with the file type bits), `mtime` is seconds with an optional fraction, which is
/// rclone's form as well; so are `ctime` and, where a program has set it, `atime`. The octal `mode` that rclone stores with
/// `--metadata` is read, never written. Extended attributes are one header, `xattr`: percent-encoded JSON of name to base64.
package enum AttributeCodec {
    private static let ours: Set<String> = [
        "mode", "uid", "gid", "mtime", "ctime", "atime", "xattr", "--symlink-target",
    ]

    /// Whether a name of user metadata is one of this convention.
    static func isOurs(_ name: String) -> Bool { ours.contains(name) }

    /// Fills mode, owner and times from headers. Those without a header stay as they are, except that atime is unset.
    package static func decode(_ metadata: ObjectMetadata, into attributes: inout Attributes) {
        if let mode = metadata.user["mode"].flatMap({ bits($0) }) { attributes.mode = mode & 0o7777 }
        if let uid = metadata.user["uid"].flatMap({ UInt32($0) }) { attributes.uid = uid }
        if let gid = metadata.user["gid"].flatMap({ UInt32($0) }) { attributes.gid = gid }
        if let mtime = metadata.user["mtime"].flatMap({ timestamp($0) }) { attributes.mtime = mtime }
        if let ctime = metadata.user["ctime"].flatMap({ timestamp($0) }) { attributes.ctime = ctime }
        attributes.atime = metadata.user["atime"].flatMap { timestamp($0) }
        attributes.headersKnown = true
    }

    /// `previous` with the attributes written over it: content type, cache control and foreign headers stay.
    package static func encode(_ attributes: Attributes, over previous: ObjectMetadata) -> ObjectMetadata {
        var metadata = previous
        if let mode = attributes.mode { metadata.user["mode"] = String(typeBits(attributes.kind) | UInt32(mode)) }
        if let uid = attributes.uid { metadata.user["uid"] = String(uid) }
        if let gid = attributes.gid { metadata.user["gid"] = String(gid) }
        metadata.user["mtime"] = text(attributes.mtime)
        metadata.user["ctime"] = text(attributes.ctime)
        metadata.user["atime"] = attributes.atime.map { text($0) }
        return metadata
    }

    /// Sets the ctime of headers that have one.
    static func dating(_ headers: ObjectMetadata, changed: Timestamp) -> ObjectMetadata {
        var headers = headers
        if headers.user["ctime"] != nil { headers.user["ctime"] = text(changed) }
        return headers
    }

    /// Whether headers make the object a symbolic link: its stored mode, as the s3fs family has it, or a target among them.
    package static func isLink(_ metadata: ObjectMetadata) -> Bool {
        linkTarget(metadata) != nil
            || metadata.user["mode"].flatMap { bits($0) }.map { $0 & 0o170000 == 0o120000 } ?? false
    }

    /// The target of a link as geesefs stores it, percent-encoded in a header of an empty object; read, never written.
    package static func linkTarget(_ metadata: ObjectMetadata) -> ByteString? {
        metadata.user["--symlink-target"].flatMap { PercentEncoding.decode($0) }.map { ByteString($0) }
    }

    /// Bytes of the names and values of user metadata, as stores count them.
    package static func cost(_ metadata: ObjectMetadata) -> Int {
        metadata.user.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count }
    }

    /// The same with the longest values of the headers that pailfs itself writes, `commitHeader` among them.
    static func longestCost(_ metadata: ObjectMetadata, commitHeader: String) -> Int {
        var others = metadata
        for name in ["mode", "uid", "gid", "mtime", "ctime", "atime", commitHeader] { others.user[name] = nil }
        // Up to UInt16.max, UInt32.max and 9999999999.999999999; an id of 32 digits with a number.
        let longest = [
            ("mode", 5), ("uid", 10), ("gid", 10), ("mtime", 20), ("ctime", 20), ("atime", 20),
            (commitHeader, 32 + 1 + 10),
        ]
        return longest.reduce(cost(others)) { $0 + $1.0.utf8.count + $1.1 }
    }

    /// Decimal, unless that has no file type that a mount shows and the same digits in octal have one: `4516` is a FIFO of s3fs,
    /// and no octal number without a type.
    private static func bits(_ text: String) -> UInt16? {
        let known: Set<UInt16> = [0o100000, 0o040000, 0o120000]
        let decimal = text.hasPrefix("0") ? nil : UInt16(text)
        if let decimal, decimal & 0o170000 == 0 || known.contains(decimal & 0o170000) { return decimal }
        guard let octal = UInt16(text, radix: 8) else { return decimal }
        let isPlain = octal & 0o170000 == 0 && decimal == nil
        return isPlain || known.contains(octal & 0o170000) ? octal : decimal
    }

    private static func typeBits(_ kind: EntryKind) -> UInt32 {
        switch kind {
        case .file: 0o100000
        case .directory: 0o040000
        case .symlink: 0o120000
        }
    }

    /// A decimal number of seconds, as rclone writes it: half a second before 1970 is -0.5.
    package static func text(_ time: Timestamp) -> String {
        guard time.nanoseconds != 0 else { return String(time.seconds) }
        let isNegative = time.seconds < 0
        let whole = isNegative ? -(time.seconds + 1) : time.seconds
        let fraction = String(isNegative ? 1_000_000_000 - time.nanoseconds : time.nanoseconds)
        return "\(isNegative ? "-" : "")\(whole).\(String(repeating: "0", count: 9 - fraction.count))\(fraction)"
    }

    static func timestamp(_ text: String) -> Timestamp? {
        let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard let seconds = parts.first.flatMap({ Int64($0) }) else { return nil }
        guard parts.count == 2 else { return Timestamp(seconds: seconds).shownAsDate }
        let digits = parts[1].prefix(9)
        guard !digits.isEmpty, digits.allSatisfy(\.isASCII), let value = Int32(digits), value >= 0 else { return nil }
        var nanoseconds = value
        for _ in digits.count..<9 { nanoseconds *= 10 }
        // Int64.min has no fraction: it is no time that anything shows.
        guard text.hasPrefix("-"), nanoseconds > 0, seconds > .min else {
            return Timestamp(seconds: seconds, nanoseconds: nanoseconds).shownAsDate
        }
        return Timestamp(seconds: seconds - 1, nanoseconds: 1_000_000_000 - nanoseconds).shownAsDate
    }
}
