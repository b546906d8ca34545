package import Basics

/// The keys that a store takes.
package struct KeyRules: Sendable, Hashable {
    /// Only UTF-8 is allowed.
    package var areText = false
    /// Bytes that no key may contain.
    package var refused: ClosedRange<UInt8>?
    /// A byte that no key may begin with. A slash counts as such, too, but no path in a mount begins with one.
    package var refusedFirst: UInt8?
    /// A prefix that no key may have: the store's own objects have it.
    package var reserved: ByteString?
    /// Kinds of keys that the server was seen to refuse.
    package var refusedKinds: Set<KeyKind> = []
    /// Kinds of keys that the server may refuse: no key of these kinds was stored so far.
    package var untried: Set<KeyKind> = []
    /// Bytes of the longest key that the server has stored so far; longer ones are untried.
    package var longestTried = Int.max

    package init() {}

    package func allows(_ key: ByteString) -> Bool {
        if let refusedFirst, key.bytes.first == refusedFirst { return false }
        if let reserved, key.hasPrefix(reserved) { return false }
        if let refused, key.bytes.contains(where: refused.contains) { return false }
        if !refusedKinds.isEmpty, !refusedKinds.isDisjoint(with: KeyKind.kinds(of: key)) { return false }
        return !areText || String(validating: key.bytes, as: UTF8.self) != nil
    }

    /// No key is refused.
    package var allowAll: Bool {
        !areText && refused == nil && refusedFirst == nil && reserved == nil && refusedKinds.isEmpty
    }

    /// Whether it is unknown if the server takes the key.
    package func isUntried(_ key: ByteString) -> Bool {
        if key.count > longestTried { return true }
        return !untried.isEmpty && !untried.isDisjoint(with: KeyKind.kinds(of: key))
    }

    /// Records that the server has stored an object with this key.
    package mutating func take(_ key: ByteString) {
        if key.count > longestTried { longestTried = key.count }
        if !untried.isEmpty { untried.subtract(KeyKind.kinds(of: key)) }
    }
}

/// Keys that some servers refuse although the protocol allows them.
package enum KeyKind: Sendable, Hashable, CaseIterable {
    case notText
    case lineBreak
    /// Other bytes below 32, and 127.
    case control

    /// The kinds of a key; most keys have none.
    package static func kinds(of key: ByteString) -> Set<KeyKind> {
        var kinds: Set<KeyKind> = []
        var isASCII = true
        for byte in key.bytes {
            switch byte {
            case UInt8(ascii: "\n"): kinds.insert(.lineBreak)
            case 0..<0x20, 0x7F: kinds.insert(.control)
            case 0x80...: isASCII = false
            default: break
            }
        }
        if !isASCII, String(validating: key.bytes, as: UTF8.self) == nil { kinds.insert(.notText) }
        return kinds
    }
}
