/// A dictionary that remembers the order of use and drops the least recently used entry past its capacity; O(1).
///
/// A plain value: its owner locks it. Entries live in one array, linked by index.
package struct LRU<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct Entry {
        let key: Key
        var value: Value
        var newer: Int
        var older: Int
    }

    private static var none: Int { -1 }

    /// The most entries kept.
    package let capacity: Int
    private var indices: [Key: Int] = [:]
    private var entries: [Entry?] = []
    private var vacant: [Int] = []
    private var newest = Self.none
    private var oldest = Self.none

    package init(capacity: Int) {
        precondition(capacity > 0, "an LRU holds at least one entry")
        self.capacity = capacity
    }

    package var count: Int { indices.count }

    /// The value of `key`, which becomes the most recently used.
    package mutating func value(for key: Key) -> Value? {
        guard let index = indices[key] else { return nil }
        if index != newest {
            unlink(index)
            linkAsNewest(index)
        }
        return entries[index]?.value
    }

    /// The value of `key` without a change of order.
    package func peek(_ key: Key) -> Value? { indices[key].flatMap { entries[$0]?.value } }

    /// Sets the value of `key` as the most recently used, and returns the entry that was dropped for it.
    @discardableResult
    package mutating func insert(_ value: Value, for key: Key) -> (key: Key, value: Value)? {
        if let index = indices[key] {
            entries[index]?.value = value
            unlink(index)
            linkAsNewest(index)
            return nil
        }
        let evicted = count == capacity ? removeLeastRecent() : nil
        let entry = Entry(key: key, value: value, newer: Self.none, older: Self.none)
        let index: Int
        if let free = vacant.popLast() {
            entries[free] = entry
            index = free
        } else {
            entries.append(entry)
            index = entries.count - 1
        }
        indices[key] = index
        linkAsNewest(index)
        return evicted
    }

    @discardableResult
    package mutating func removeValue(for key: Key) -> Value? {
        guard let index = indices.removeValue(forKey: key) else { return nil }
        return take(index)?.value
    }

    /// Removes the least recently used entry.
    @discardableResult
    package mutating func removeLeastRecent() -> (key: Key, value: Value)? {
        guard oldest != Self.none, let entry = take(oldest) else { return nil }
        indices.removeValue(forKey: entry.key)
        return (entry.key, entry.value)
    }

    package mutating func removeAll() { self = LRU(capacity: capacity) }

    private mutating func take(_ index: Int) -> Entry? {
        unlink(index)
        vacant.append(index)
        defer { entries[index] = nil }
        return entries[index]
    }

    private mutating func unlink(_ index: Int) {
        guard let entry = entries[index] else { return }
        if entry.newer == Self.none { newest = entry.older } else { entries[entry.newer]?.older = entry.older }
        if entry.older == Self.none { oldest = entry.newer } else { entries[entry.older]?.newer = entry.newer }
    }

    private mutating func linkAsNewest(_ index: Int) {
        entries[index]?.newer = Self.none
        entries[index]?.older = newest
        if newest != Self.none { entries[newest]?.newer = index }
        newest = index
        if oldest == Self.none { oldest = index }
    }
}
