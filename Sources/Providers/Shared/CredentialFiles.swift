import Basics

/// Reading of the small files in which people keep credentials.
package enum CredentialFiles {
    /// The text of a file, or of what a symbolic link leads to, up to a MiB; nil when there is none that can be read.
    package static func readText(_ path: String) -> String? {
        guard let file = try? File(path, followsLinks: true), let bytes = try? file.read(0..<min(file.size, 1 << 20))
        else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Why a file that says where requests go is not to be believed; nil for one of this user
    /// or root, or none.
    static func reasonForDistrust(of path: String) -> String? {
        guard let file = try? File(path, followsLinks: true), let status = try? LocalFileStatus(of: file) else {
            return nil
        }
        guard status.isTrusted(at: File.resolved(path) ?? path) else {
            return "belongs to another user; copy it, or name it in OS_CLIENT_CONFIG_FILE"
        }
        return status.permissions & 0o002 == 0 ? nil : "is writable by other users; run chmod o-w \(path)"
    }

    /// INI: sections, `name = value`, whole-line comments; names in lower case. An indented line belongs to the value
    /// before it and is left out.
    static func sections(_ text: String) -> [String: [String: String]] {
        var sections: [String: [String: String]] = [:]
        var current: String?
        for line in text.split(whereSeparator: \.isNewline) {
            guard let first = line.first, !first.isWhitespace, first != "#", first != ";" else { continue }
            if first == "[", let end = line.firstIndex(of: "]") {
                let name = line[line.index(after: line.startIndex)..<end]
                current = name.split(whereSeparator: \.isWhitespace).joined(separator: " ")
            } else if let current, let equals = line.firstIndex(of: "=") {
                let name = line[..<equals].split(whereSeparator: \.isWhitespace).joined()
                sections[current, default: [:]][name.lowercased()] = line[line.index(after: equals)...].trimmed
            }
        }
        return sections
    }

    /// The s3fs family's file: `ID:SECRET` or `bucket:ID:SECRET` a line, the bucket's own line first.
    static func password(_ text: String, bucket: String) -> (id: String, secret: String)? {
        var general: (String, String)?
        for line in text.split(whereSeparator: \.isNewline) where !line.hasPrefix("#") {
            let parts = line.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
            if parts.count == 2 {
                general = (parts[0], parts[1])
            } else if parts.count == 3, parts[0] == bucket {
                return (parts[1], parts[2])
            }
        }
        return general
    }
}
