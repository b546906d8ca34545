package import Basics

/// Which bytes a store takes as a key.
package struct KeyRules: Sendable, Hashable {
    /// Only UTF-8.
    package var areText = false
    /// Bytes that no key has.
    package var refused: ClosedRange<UInt8>?
    /// The byte that no key begins with, apart from a slash, with which no path in a mount does.
    package var refusedFirst: UInt8?

    package init() {}

    package func allows(_ key: ByteString) -> Bool {
        if let refusedFirst, key.bytes.first == refusedFirst { return false }
        if let refused, key.bytes.contains(where: refused.contains) { return false }
        return !areText || String(validating: key.bytes, as: UTF8.self) != nil
    }
}
