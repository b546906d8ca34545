import Basics
package import ObjectStorage

/// Content types by the last extension of a name, as the system's table of types has them.
package struct ContentTypes: Sendable {
    /// Where systems keep the table (Debian's package media-types).
    package static let systemTable = "/etc/mime.types"
    /// The types that stores show for objects without one.
    private static let ofNothing: Set<String> = ["application/octet-stream", "binary/octet-stream"]

    /// Extensions in lower case.
    private var types: [[UInt8]: String] = [:]

    /// With an empty table no name has a type.
    package init() {}

    /// Reads lines of a type and its extensions, and comments that begin with `#`. The first type of an extension counts.
    package init(table: [UInt8]) {
        for line in table.split(separator: UInt8(ascii: "\n")) where line.first != UInt8(ascii: "#") {
            let words = line.split { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") || $0 == UInt8(ascii: "\r") }
            guard words.count > 1, words[0].contains(UInt8(ascii: "/")) else { continue }
            let type = String(decoding: words[0], as: UTF8.self)
            guard StoredHeader.canCarry(type) else { continue }
            for word in words.dropFirst() where types[Self.lowercased(word)] == nil {
                types[Self.lowercased(word)] = type
            }
        }
    }

    /// The type for the name of `key`; nil for names without an extension, hidden ones of one word and unknown extensions.
    package func type(of key: ObjectKey) -> String? {
        guard !types.isEmpty else { return nil }
        let name = key.bytes.bytes.lastIndex(of: UInt8(ascii: "/")).map { key.bytes.bytes[($0 + 1)...] }
        let bytes = name ?? key.bytes.bytes[...]
        guard let dot = bytes.lastIndex(of: UInt8(ascii: ".")), dot > bytes.startIndex else { return nil }
        return types[Self.lowercased(bytes[(dot + 1)...])]
    }

    /// Whether a store shows `type` for an object that has none.
    static func isOfNothing(_ type: String) -> Bool { ofNothing.contains(type) }

    private static func lowercased(_ word: some Sequence<UInt8>) -> [UInt8] {
        word.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }
    }
}
