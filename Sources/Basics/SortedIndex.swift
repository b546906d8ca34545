/// A sorted map in runs of at most 512 entries: finding, adding, removing and starting a scan anywhere cost a binary
/// search and a short move, whatever the number of entries.
///
/// A value; its owner locks it.
package struct SortedIndex<Key: Comparable & Sendable, Value: Sendable>: Sendable {
    package struct Entry: Sendable {
        package let key: Key
        package var value: Value

        package init(key: Key, value: Value) { (self.key, self.value) = (key, value) }
    }

    /// A place in the index, valid until the next change of the index.
    package struct Position: Sendable {
        fileprivate var run: Int
        fileprivate var slot: Int
    }

    private static var longestRun: Int { 512 }
    /// Invariant: no run is empty, and keys ascend within and across runs.
    private var runs: [[Entry]] = []
    package private(set) var count = 0

    package init() {}

    /// From entries in ascending order without duplicates.
    package init(ascending entries: [Entry]) {
        count = entries.count
        let half = Self.longestRun / 2
        runs = stride(from: 0, to: entries.count, by: half).map { start in
            Array(entries[start..<min(entries.count, start + half)])
        }
    }

    package var isEmpty: Bool { count == 0 }

    package subscript(key: Key) -> Value? {
        let place = firstPosition { $0 < key }
        guard let entry = entry(at: place), entry.key == key else { return nil }
        return entry.value
    }

    /// Sets the value of `key` and returns the former one.
    @discardableResult
    package mutating func replace(_ key: Key, with value: Value) -> Value? {
        var place = firstPosition { $0 < key }
        if let old = entry(at: place), old.key == key {
            runs[place.run][place.slot].value = value
            return old.value
        }
        count += 1
        if runs.isEmpty {
            runs.append([Entry(key: key, value: value)])
            return nil
        }
        if place.run == runs.count { place = Position(run: runs.count - 1, slot: runs[runs.count - 1].count) }
        runs[place.run].insert(Entry(key: key, value: value), at: place.slot)
        if runs[place.run].count > Self.longestRun {
            let upper = Array(runs[place.run][(Self.longestRun / 2)...])
            runs[place.run].removeSubrange((Self.longestRun / 2)...)
            runs.insert(upper, at: place.run + 1)
        }
        return nil
    }

    @discardableResult
    package mutating func remove(_ key: Key) -> Value? {
        let place = firstPosition { $0 < key }
        guard let old = entry(at: place), old.key == key else { return nil }
        runs[place.run].remove(at: place.slot)
        if runs[place.run].isEmpty { runs.remove(at: place.run) }
        count -= 1
        return old.value
    }

    /// The first place for whose key `liesBefore` is false.
    /// Requires: it is true for the keys at the start of the order and false for the rest.
    package func firstPosition(where liesBefore: (Key) -> Bool) -> Position {
        var (low, high) = (0, runs.count)
        while low < high {
            let middle = (low + high) / 2
            if liesBefore(runs[middle][runs[middle].count - 1].key) { low = middle + 1 } else { high = middle }
        }
        guard low < runs.count else { return Position(run: low, slot: 0) }
        let run = low
        (low, high) = (0, runs[run].count)
        while low < high {
            let middle = (low + high) / 2
            if liesBefore(runs[run][middle].key) { low = middle + 1 } else { high = middle }
        }
        return Position(run: run, slot: low)
    }

    /// nil at the end.
    package func entry(at position: Position) -> Entry? {
        guard position.run < runs.count, position.slot < runs[position.run].count else { return nil }
        return runs[position.run][position.slot]
    }

    package func position(after position: Position) -> Position {
        guard position.run < runs.count else { return position }
        if position.slot + 1 < runs[position.run].count {
            return Position(run: position.run, slot: position.slot + 1)
        }
        return Position(run: position.run + 1, slot: 0)
    }

    /// Every entry in order; for loading and removing whole buckets, not for listings.
    package var entries: [Entry] { runs.flatMap { $0 } }
}
