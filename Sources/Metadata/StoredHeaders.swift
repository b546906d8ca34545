import ObjectStorage

/// An object's headers as the bytes of a column: the version byte 1, then pairs of length-prefixed UTF-8 texts, a tag and a
/// value. Tags of user metadata begin with `u`; `g` means that the object has tags.
enum StoredHeaders {
    private static let version: UInt8 = 1

    static func encode(_ metadata: ObjectMetadata) -> [UInt8] {
        var bytes = [version]
        func append(_ text: String) {
            let utf8 = Array(text.utf8)
            for shift in stride(from: 0, to: 32, by: 8) { bytes.append(UInt8(truncatingIfNeeded: utf8.count >> shift)) }
            bytes += utf8
        }
        func append(_ tag: String, _ value: String?) {
            guard let value else { return }
            append(tag)
            append(value)
        }
        append("t", metadata.contentType)
        append("c", metadata.cacheControl)
        append("d", metadata.contentDisposition)
        append("e", metadata.contentEncoding)
        append("l", metadata.contentLanguage)
        append("x", metadata.expires)
        if metadata.kept.isTagged { append("g", "") }
        for (name, value) in metadata.user.sorted(by: { $0.key < $1.key }) { append("u" + name, value) }
        return bytes
    }

    /// nil when `encode` never returns such bytes: the headers then count as never read.
    static func decode(_ bytes: [UInt8]) -> ObjectMetadata? {
        guard bytes.first == version else { return nil }
        var rest = bytes.dropFirst()
        func text() -> String? {
            guard rest.count >= 4 else { return nil }
            let count = rest.prefix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
            rest = rest.dropFirst(4)
            guard rest.count >= count else { return nil }
            defer { rest = rest.dropFirst(count) }
            return String(decoding: rest.prefix(count), as: UTF8.self)
        }
        var metadata = ObjectMetadata()
        while !rest.isEmpty {
            guard let tag = text(), let value = text() else { return nil }
            switch tag {
            case "t": metadata.contentType = value
            case "c": metadata.cacheControl = value
            case "d": metadata.contentDisposition = value
            case "e": metadata.contentEncoding = value
            case "l": metadata.contentLanguage = value
            case "x": metadata.expires = value
            case "g": metadata.kept.isTagged = true
            default:
                guard tag.first == "u" else { return nil }
                metadata.user[String(tag.dropFirst())] = value
            }
        }
        return metadata
    }
}
