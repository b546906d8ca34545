import Basics
import Commits
import ObjectStorage

/// The decisions of `pailfs cp` that need neither disk nor store: which parts are sent, which ranges are fetched, and which names
/// the copies get.
enum CopyPlan {
    /// Bytes of one range of a download.
    static let rangeLength: Int64 = 8 << 20
    /// Parts of one file, or ranges of one object, in flight at a time; the mount's options bound all files together.
    static let transfersPerFile = 8

    /// A part of an upload: its number, from 1, and its bytes.
    struct Part: Sendable, Hashable {
        let number: Int
        let range: ByteRange
    }

    /// The parts of an object of `size` bytes, in order, of `partSize` bytes each, or more where the store's limits need it. All have
    /// one size, so that no part needs more memory than it must. An empty object has one, which is empty.
    static func parts(size: Int64, partSize: Int64, limits: Capabilities) -> [Part] {
        guard size > 0 else { return [Part(number: 1, range: 0..<0)] }
        let fewest = (size - 1) / Int64(max(limits.mostParts, 1)) + 1
        let length = max(min(max(partSize, limits.smallestPart), limits.largestPart), fewest)
        return (0...(size - 1) / length).map { index in
            Part(number: Int(index) + 1, range: index * length..<min((index + 1) * length, size))
        }
    }

    /// Divides the parts of an upload into those that the store has and those to be sent; nil when the store has parts that
    /// belong to none of them: then that upload cannot become the object.
    static func resume(
        _ parts: [Part], listed: [UploadedPart]
    ) -> (stored: [UploadedPart], missing: [Part])? {
        let byNumber = Dictionary(listed.map { ($0.number, $0) }, uniquingKeysWith: { $1 })
        guard byNumber.keys.allSatisfy({ (1...parts.count).contains($0) }) else { return nil }
        var (stored, missing): ([UploadedPart], [Part]) = ([], [])
        for part in parts {
            if let known = byNumber[part.number], known.size == part.range.length {
                stored.append(known)
            } else {
                missing.append(part)
            }
        }
        return (stored, missing)
    }

    /// The ranges of an object of `size` bytes that are not in `known`, each of at most `length` bytes.
    static func missingRanges(size: Int64, known: [ByteRange], length: Int64 = rangeLength) -> [ByteRange] {
        var (missing, offset): ([ByteRange], Int64) = ([], 0)
        func add(upTo end: Int64) {
            while offset < end {
                missing.append(offset..<min(offset + length, end))
                offset = missing[missing.count - 1].upperBound
            }
        }
        for range in known.sorted(by: { $0.lowerBound < $1.lowerBound }) where range.upperBound > offset {
            add(upTo: min(range.lowerBound, size))
            offset = max(offset, range.upperBound)
        }
        add(upTo: size)
        return missing
    }

    // MARK: Names

    /// The last name of a key or path; empty where there is none.
    static func lastName(of path: ByteString) -> ByteString {
        ByteString(path.bytes.split(separator: UInt8(ascii: "/")).last ?? [])
    }

    /// The part before the last slash; empty without one.
    static func parent(of name: ByteString) -> ByteString {
        name.bytes.lastIndex(of: UInt8(ascii: "/")).map { ByteString(name.bytes[..<$0]) } ?? ""
    }

    /// The path without slashes at its end; the root stays as it is.
    static func withoutSlash(_ path: ByteString) -> ByteString {
        var path = path
        while path.count > 1, path.hasSuffix("/") { path = path.dropLast(1) }
        return path
    }

    /// `name` below `root`, which may be empty or end in a slash. An empty name is the root itself.
    static func path(_ root: ByteString, _ name: ByteString) -> ByteString {
        if name.isEmpty { return root }
        return root.isEmpty || root.hasSuffix("/") ? root + name : root + "/" + name
    }

    /// The beginning of the names of a source's files below the destination: the source's own last name if the copy goes `into` a
    /// directory. A tree with a slash at its end stands for its contents, whose names begin with nothing.
    static func beginning(of source: ByteString, isTree: Bool, into: Bool) -> ByteString {
        guard into, !isTree || !source.hasSuffix("/") else { return "" }
        return lastName(of: source)
    }

    /// A local source whose last name can be a name in the destination: `.` stands for the contents of the directory, and `..` for the
    /// directory that it leads to. `resolved` is the path without links and dots.
    static func named(_ path: String, resolved: String) -> String {
        switch lastName(of: ByteString(path)) {
        case ".": path.hasSuffix("/") ? path : path + "/"
        case "..": path.hasSuffix("/") ? path : resolved
        default: path
        }
    }

    /// Whether a copy of all that is below the prefix would find its own copies there: its destination `root` is below it.
    static func isEndless(from prefix: ByteString, to root: ByteString) -> Bool {
        let root = root.isEmpty || root.hasSuffix("/") ? root : root + "/"
        return root != prefix && root.hasPrefix(prefix)
    }

    /// The longest prefix up to a slash that all names have in common.
    static func commonDirectory(of names: some Collection<ByteString>) -> ByteString {
        guard let first = names.first else { return "" }
        let common = names.reduce(first.bytes[...]) { common, name in
            common.prefix(zip(common, name.bytes).prefix { $0 == $1 }.count)
        }
        return ByteString(common.prefix(common.lastIndex(of: UInt8(ascii: "/")).map { $0 + 1 } ?? 0))
    }

    /// Why a key's part below the copied prefix cannot be the name of a local file below a directory; nil when it can. A slash at
    /// its end is allowed for a directory's marker.
    static func objection(toLocalName name: ByteString, isMarker: Bool) -> String? {
        let path = isMarker && name.hasSuffix("/") ? name.dropLast(1) : name
        if path.hasSuffix("/") { return "a name that ends in a slash cannot be a file here" }
        for component in path.bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            if component.isEmpty { return "a file here cannot have an empty component in its path" }
            if component.elementsEqual(".".utf8) || component.elementsEqual("..".utf8) {
                return "a file here cannot have . or .. in its path"
            }
            if component.contains(0) { return "a file here cannot have a NUL in its name" }
            if component.count > 255 { return "a file here cannot have a name of more than 255 bytes" }
        }
        return isUTF8(path) ? nil : "the name is not UTF-8"
    }

    static func isUTF8(_ text: ByteString) -> Bool { ByteString(text.description) == text }
}
