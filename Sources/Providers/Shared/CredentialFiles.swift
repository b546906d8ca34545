import Basics

/// Reads the small files in which users keep credentials.
package enum CredentialFiles {
    /// The text of a file, or of a symbolic link's target, up to a MiB; nil when it cannot be read.
    package static func readText(_ path: String) -> String? {
        guard let file = try? File(path, followsLinks: true), let bytes = try? file.read(0..<min(file.size, 1 << 20))
        else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Why a file that names the servers for requests is not trusted; nil for a file of this user or root, and for a missing one.
    static func reasonForDistrust(of path: String) -> String? {
        guard let file = try? File(path, followsLinks: true), let status = try? LocalFileStatus(of: file) else {
            return nil
        }
        guard status.isTrusted(at: File.resolved(path) ?? path) else {
            return "belongs to another user; copy it, or name it in OS_CLIENT_CONFIG_FILE"
        }
        return status.permissions & 0o002 == 0 ? nil : "is writable by other users; run chmod o-w \(path)"
    }

    /// INI as Python's configparser and botocore read it: sections, `name = value` or `name: value`, whole-line comments; names
    /// in lower case. A line that is indented more than the name above it belongs to that name: `a = b` below `s3 =` is `s3.a`;
    /// other indented lines are ignored. A file whose lines all have the same indentation is read like one without.
    static func sections(_ text: String) -> [String: [String: String]] {
        var sections: [String: [String: String]] = [:]
        var current: String?
        var above: (name: String, indentation: Int, isEmpty: Bool)?
        for line in text.split(whereSeparator: \.isNewline) {
            let body = line.drop { $0.isWhitespace || $0 == "\u{FEFF}" }
            guard let first = body.first, first != "#", first != ";" else { continue }
            let indentation = line.prefix { $0.isWhitespace }.count
            if let above, indentation > above.indentation {
                if above.isEmpty, let current, let (name, value) = assignment(body) {
                    sections[current, default: [:]]["\(above.name).\(name)"] = value
                }
            } else if first == "[", let end = body.firstIndex(of: "]") {
                let name = body[body.index(after: body.startIndex)..<end]
                current = name.split(whereSeparator: \.isWhitespace).joined(separator: " ")
                above = nil
                sections[current ?? "", default: [:]].merge([:]) { $1 }
            } else if let current, let (name, value) = assignment(body) {
                sections[current, default: [:]][name] = value
                above = (name, indentation, value.isEmpty)
            }
        }
        return sections
    }

    private static func assignment(_ line: Substring) -> (name: String, value: String)? {
        guard let mark = line.firstIndex(where: { $0 == "=" || $0 == ":" }) else { return nil }
        let name = line[..<mark].split(whereSeparator: \.isWhitespace).joined().lowercased()
        return (name, line[line.index(after: mark)...].trimmed)
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
