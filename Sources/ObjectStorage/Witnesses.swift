import Basics

/// For each recently used prefix, keys below it that exist as far as known: then the removal of another key there needs no check
/// whether the prefix is empty. Two, so that one is left when the other is removed; the prefix's own key comes first, as a
/// directory's marker is removed last.
struct Witnesses: Sendable {
    private static let delimiter = UInt8(ascii: "/")
    private static let most = 2
    /// By prefix; each ends in a slash, as a directory's key does.
    private var keys: LRU<ByteString, [ByteString]>

    /// `capacity` is the number of prefixes.
    init(capacity: Int) { keys = LRU(capacity: capacity) }

    /// Whether a key below the prefix is known.
    mutating func isOccupied(_ prefix: ByteString) -> Bool { keys.value(for: prefix) != nil }

    /// Records a key that exists.
    mutating func add(_ key: ByteString) {
        for prefix in Self.prefixes(of: key) {
            var known = keys.peek(prefix) ?? []
            guard !known.contains(key), prefix == key || known.count < Self.most else { continue }
            known.insert(key, at: prefix == key ? 0 : known.endIndex)
            keys.insert(known.prefix(Self.most).map(\.self), for: prefix)
        }
    }

    /// Removes a key that does not exist any more, or may not.
    mutating func remove(_ key: ByteString) {
        for prefix in Self.prefixes(of: key) {
            guard let known = keys.peek(prefix), known.contains(key) else { continue }
            let others = known.filter { $0 != key }
            if others.isEmpty { keys.removeValue(for: prefix) } else { keys.insert(others, for: prefix) }
        }
    }

    private static func prefixes(of key: ByteString) -> [ByteString] {
        key.bytes.indices.filter { key.bytes[$0] == delimiter }.map { ByteString(key.bytes[...$0]) }
    }
}
