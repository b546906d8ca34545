import Basics

/// For each of the prefixes that were looked at last, keys below it that are there as far as anybody knows: then nothing has
/// to be looked for below it when another key there is removed. Two, so that one is left when the other goes; the key of the
/// prefix itself comes before others, as what stands for a directory goes last.
struct Witnesses: Sendable {
    private static let delimiter = UInt8(ascii: "/")
    private static let most = 2
    /// By prefix; each ends in a slash, as those of directories do.
    private var keys: LRU<ByteString, [ByteString]>

    /// `capacity` is that of prefixes.
    init(capacity: Int) { keys = LRU(capacity: capacity) }

    /// Whether a key below the prefix is known.
    mutating func isOccupied(_ prefix: ByteString) -> Bool { keys.value(for: prefix) != nil }

    /// A key is there.
    mutating func add(_ key: ByteString) {
        for prefix in Self.prefixes(of: key) {
            var known = keys.peek(prefix) ?? []
            guard !known.contains(key), prefix == key || known.count < Self.most else { continue }
            known.insert(key, at: prefix == key ? 0 : known.endIndex)
            keys.insert(known.prefix(Self.most).map(\.self), for: prefix)
        }
    }

    /// A key is there no longer, or that is not known.
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
