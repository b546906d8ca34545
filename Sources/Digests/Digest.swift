/// A digest computed over bytes as they come: a value, so a copy is a state to go on from.
///
/// `MD5.of(bytes)`, or `var hasher = MD5()`, `hasher.update(bytes)` any number of times, `hasher.finish()`.
package protocol Digest: Sendable {
    init()
    mutating func update(_ bytes: RawSpan)
    /// The digest of everything so far, in network byte order. The state stays: more may follow.
    func finish() -> [UInt8]
}

extension Digest {
    package mutating func update(_ bytes: [UInt8]) { update(bytes.span.bytes) }

    package static func of(_ bytes: RawSpan) -> [UInt8] {
        var hasher = Self()
        hasher.update(bytes)
        return hasher.finish()
    }

    package static func of(_ bytes: [UInt8]) -> [UInt8] { of(bytes.span.bytes) }

    /// The digest of a text's UTF-8.
    package static func of(_ text: String) -> [UInt8] { of(Array(text.utf8)) }
}
