import Basics

/// A header that stores keep with an object: a standard one, or metadata under its name at the store.
package enum ObjectHeader: Sendable, Hashable {
    case standard(StoredHeader)
    case metadata(String)

    /// The text before the name of metadata in the headers of some store.
    private static let prefixes = ["x-amz-meta-", "x-oss-meta-", "x-cos-meta-", "x-qn-meta-", "x-object-meta-"]

    /// `name` as a request has it, such as `Cache-Control` or `X-Amz-Meta-Team`; nil for another header. The name of metadata may
    /// be one that no store takes.
    package init?(_ name: some StringProtocol) {
        let name = name.lowercased()
        if let standard = StoredHeader(rawValue: name) {
            self = .standard(standard)
        } else if let prefix = Self.prefixes.first(where: { name.hasPrefix($0) }) {
            self = .metadata(String(name.dropFirst(prefix.count)))
        } else {
            return nil
        }
    }
}

extension ObjectMetadata {
    package subscript(_ header: ObjectHeader) -> String? {
        get {
            switch header {
            case .standard(let header): self[header]
            case .metadata(let name): user[name]
            }
        }
        set {
            switch header {
            case .standard(let header): self[header] = newValue
            case .metadata(let name): user[name] = newValue
            }
        }
    }
}

/// A header for the files whose names a pattern stands for: `pattern: name: value`.
package struct HeaderRule: Sendable, Hashable {
    /// In bytes: what Kodo allows.
    private static let longestName = 40

    package let header: ObjectHeader
    package let value: String
    private let pattern: NamePattern

    /// A backslash before a colon of the pattern makes it a character of names. nil for another form, for a pattern of
    /// directories, and for a header that not every store keeps.
    package init?(_ text: String) {
        let bytes = Array(text.utf8)
        var (isEscaped, end) = (false, 0)
        while end < bytes.count, isEscaped || bytes[end] != UInt8(ascii: ":") {
            isEscaped = !isEscaped && bytes[end] == UInt8(ascii: "\\")
            end += 1
        }
        let rest = String(decoding: bytes.dropFirst(end + 1), as: UTF8.self)
        guard let pattern = NamePattern(String(decoding: bytes.prefix(end), as: UTF8.self)), !pattern.isForDirectories,
            let colon = rest.firstIndex(of: ":"), let header = ObjectHeader(rest[..<colon].withoutOuterSpaces)
        else { return nil }
        if case .metadata(let name) = header, !Self.isTakenByAll(name) { return nil }
        let value = rest[rest.index(after: colon)...].withoutOuterSpaces
        guard StoredHeader.canCarry(value) else { return nil }
        (self.header, self.value, self.pattern) = (header, value, pattern)
    }

    private static func isTakenByAll(_ name: String) -> Bool {
        (1...longestName).contains(name.utf8.count)
            && name.utf8.allSatisfy { (97...122).contains($0) || (48...57).contains($0) || "-_".utf8.contains($0) }
    }

    /// Whether the rule is for the file at `key`.
    package func fits(_ key: ObjectKey) -> Bool {
        let bytes = key.bytes.bytes
        let name = bytes.lastIndex(of: UInt8(ascii: "/")).map { ByteString(Array(bytes[($0 + 1)...])) } ?? key.bytes
        return pattern.matches(path: key.bytes, name: name)
    }
}

extension Substring {
    /// Without the spaces at its ends, which are no part of a header's name or value.
    package var withoutOuterSpaces: String {
        var text = drop { $0 == " " }
        while text.last == " " { text.removeLast() }
        return String(text)
    }
}
