import Basics
package import ObjectStorage

/// The headers that a file's object gets for its name: those of the rules, and a content type of the system's table.
///
/// A header that a program has set for an object is never replaced; one that comes from the name changes with the name.
package struct NamedHeaders: Sendable {
    let types: ContentTypes
    /// Of several that give the same header, the first counts.
    let rules: [HeaderRule]

    package init(types: ContentTypes, rules: [HeaderRule]) { (self.types, self.rules) = (types, rules) }

    /// The headers for the name of `key`.
    func headers(for key: ObjectKey) -> [ObjectHeader: String] {
        var headers: [ObjectHeader: String] = [:]
        for rule in rules where headers[rule.header] == nil && rule.fits(key) { headers[rule.header] = rule.value }
        if headers[.standard(.contentType)] == nil { headers[.standard(.contentType)] = types.type(of: key) }
        return headers
    }

    /// `metadata` as an object at `key` gets it.
    package func completed(_ metadata: ObjectMetadata, at key: ObjectKey) -> ObjectMetadata {
        var metadata = metadata
        for (header, value) in headers(for: key) { metadata[header] = metadata[header] ?? value }
        return metadata
    }

    /// `metadata` of an object that goes from one key to another: programs write `x.part` and rename it to `x.jpg`. Headers that
    /// the new name does not give stay as they are.
    func renamed(_ metadata: ObjectMetadata, from key: ObjectKey, to newKey: ObjectKey) -> ObjectMetadata {
        let given = headers(for: key)
        var renamed = metadata
        for (header, value) in headers(for: newKey) {
            guard let old = metadata[header], old != given[header] else {
                renamed[header] = value
                continue
            }
            if header == .standard(.contentType), ContentTypes.isOfNothing(old) { renamed[header] = value }
        }
        return renamed
    }

    /// Whether `type` comes from the name `key` alone, or there is none.
    func isOfTheName(_ type: String?, _ key: ObjectKey) -> Bool {
        guard let type else { return true }
        return ContentTypes.isOfNothing(type) || type == headers(for: key)[.standard(.contentType)]
    }
}
