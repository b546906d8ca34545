import Basics
package import ObjectStorage

/// A file of options: for every mount, and in sections for the buckets in their titles.
///
/// A line is `name = value` as in `-o`, or a name alone; `#` and `;` begin comments at the start of a line. Lines before the
/// first section apply to all mounts; those of `[scheme://bucket/prefix]` to that bucket, at and below the prefix. Pure but for
/// `load`; a value, so nothing locks it.
package struct ConfigFile: Sendable, Hashable {
    /// One option in the file.
    package struct Entry: Sendable, Hashable {
        package var name: String
        /// nil for a name alone.
        package var value: String?
        /// From 1.
        package var line: Int
        /// Whether it applies to every mount: it is before the first section.
        package var isGeneral: Bool
    }

    private struct Section: Sendable, Hashable {
        /// nil applies to all.
        var url: BucketURL?
        var entries: [Entry]
    }

    package let path: String
    private let sections: [Section]

    /// Throws `.badFile`, which names the line.
    package init(parsing text: String, path: String) throws(SettingsError) {
        self.path = path
        var sections = [Section(url: nil, entries: [])]
        // A carriage return and its line feed are one Character.
        let text = text.hasPrefix("\u{FEFF}") ? text.dropFirst() : text[...]
        let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
        for (index, line) in lines.enumerated() {
            let line = (number: index + 1, text: line.trimmed)
            guard let first = line.text.first, first != "#", first != ";" else { continue }
            if first == "[" {
                sections.append(Section(url: try Self.title(line.text, line.number, path), entries: []))
                continue
            }
            let parts = line.text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = parts[0].trimmed
            guard !name.isEmpty, !name.contains(where: \.isWhitespace) else {
                throw .badFile(
                    path: path, line: line.number, reason: "\"\(line.text)\" is not of the form name = value")
            }
            let value = parts.count == 2 ? parts[1].trimmed : nil
            sections[sections.count - 1].entries.append(
                Entry(name: name, value: value, line: line.number, isGeneral: sections.count == 1))
        }
        self.sections = sections
    }

    /// The file's options for a bucket, or with nil those for all: the general ones first, then the sections from the shortest
    /// prefix to the longest, so that the last value wins.
    package func entries(for url: BucketURL?) -> [Entry] {
        sections.filter { $0.url.map { url?.isAtOrBelow($0) ?? false } ?? true }
            .sorted { ($0.url?.specificity ?? -1) < ($1.url?.specificity ?? -1) }
            .flatMap(\.entries)
    }

    /// Reads a file, or a symbolic link's target; nil when there is none. A file that users other than its owner and root may
    /// write is refused: it determines where requests go.
    package static func load(_ path: String) throws(SettingsError) -> ConfigFile? {
        let bytes: [UInt8]
        let status: LocalFileStatus
        do throws(FileError) {
            guard try LocalFileStatus(of: path) != nil else { return nil }
            let file = try File(path, followsLinks: true)
            (status, bytes) = (try LocalFileStatus(of: file), try file.read(0..<min(file.size, 1 << 20)))
        } catch { throw .badFile(path: path, line: nil, reason: "\(error)") }
        if status.kind == .file {
            guard status.isTrusted(at: File.resolved(path) ?? path) else {
                throw .badFile(path: path, line: nil, reason: "it belongs to another user; copy it")
            }
            guard status.permissions & 0o022 == 0 else {
                throw .badFile(path: path, line: nil, reason: "other users can write to it; run chmod go-w \(path)")
            }
        }
        return try ConfigFile(parsing: String(decoding: bytes, as: UTF8.self), path: path)
    }

    private static func title(
        _ text: String, _ line: Int, _ path: String
    ) throws(SettingsError) -> BucketURL {
        guard text.hasSuffix("]") else { throw .badFile(path: path, line: line, reason: "\(text) has no ] at the end") }
        do { return try BucketURL(parsing: text.dropFirst().dropLast().trimmed) } catch {
            throw .badFile(path: path, line: line, reason: error.description)
        }
    }
}

extension BucketURL {
    /// Whether this bucket or prefix is, or is part of, that of `other`.
    fileprivate func isAtOrBelow(_ other: BucketURL) -> Bool {
        guard scheme == other.scheme else { return false }
        guard let name = other.bucket else { return true }
        return bucket == name && prefix.hasPrefix(other.prefix)
    }

    fileprivate var specificity: Int { bucket == nil ? 0 : 1 + prefix.count }
}
