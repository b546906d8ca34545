import ObjectStorage

/// Stored headers as Kodo has them: `x-qn-meta-<name>` for user metadata, `x-qn-meta-!<Header>` for HTTP headers, which its
/// SDKs set and change that way (Kodo API, resource management; "changeHeaders" of the SDKs). Names are in small letters here.
enum KodoMetadata {
    static let prefix = "x-qn-meta-"
    private static let headers = [
        "!cache-control", "!content-disposition", "!content-encoding", "!content-language", "!expires",
    ]

    static func isHeader(_ name: String) -> Bool { headers.contains(name) }

    /// The fields to store, by name without the prefix.
    static func fields(of metadata: ObjectMetadata) -> [String: String] {
        var fields = metadata.user
        for name in headers { fields[name] = value(of: name, in: metadata) }
        return fields
    }

    /// The stored headers, without removed ones.
    static func metadata(_ fields: [String: String], contentType: String?) -> ObjectMetadata {
        var metadata = ObjectMetadata(contentType: contentType)
        for (name, value) in fields {
            let name = name.lowercased()
            guard value != gone(name) else { continue }
            if headers.contains(name) { set(name, value, in: &metadata) } else { metadata.user[name] = value }
        }
        return metadata
    }

    /// A name as requests have it.
    static func wire(_ name: String) -> String {
        guard name.hasPrefix("!") else { return prefix + name }
        let words = name.dropFirst().split(separator: "-").map { $0.prefix(1).uppercased() + $0.dropFirst() }
        return "\(prefix)!\(words.joined(separator: "-"))"
    }

    /// The value of a removed header: Kodo cannot remove one (Kodo API, resource management). For an HTTP header the value has
    /// no effect; for metadata it is invalid percent-encoding.
    static func gone(_ name: String) -> String { name == "!content-encoding" ? "identity" : "%" }

    private static func value(of name: String, in metadata: ObjectMetadata) -> String? {
        switch name {
        case "!cache-control": metadata.cacheControl
        case "!content-disposition": metadata.contentDisposition
        case "!content-encoding": metadata.contentEncoding
        case "!content-language": metadata.contentLanguage
        default: metadata.expires
        }
    }

    private static func set(_ name: String, _ value: String, in metadata: inout ObjectMetadata) {
        switch name {
        case "!cache-control": metadata.cacheControl = value
        case "!content-disposition": metadata.contentDisposition = value
        case "!content-encoding": metadata.contentEncoding = value
        case "!content-language": metadata.contentLanguage = value
        default: metadata.expires = value
        }
    }
}
