package import Basics
import Synchronization

/// What was written and removed at a store whose listings lag behind (`Capabilities.listingLag`), for as long as they may.
///
/// Owned by the store that notes it, in memory alone: a later process is told by whoever has kept it (`remember`). A leaf
/// lock, held for a look through what lies in one listing page's range. Bounded: past `capacity` the oldest go first, and a
/// listing is believed of them again.
package final class RecentWrites: Sendable {
    /// What is at a key.
    enum State: Sendable, Hashable {
        case present(ListedObject)
        /// Of a copy only the ETag is told.
        case replaced(ETag)
        case absent
        /// A write's answer was lost, or somebody else was there first.
        case unknown

        var isPresent: Bool {
            switch self {
            case .present, .replaced: true
            case .absent, .unknown: false
            }
        }
    }

    struct Write: Sendable {
        let state: State
        /// The clock's time when it was known.
        let at: Timestamp
        /// Tells one write of a key from the next.
        let number: UInt64
        /// The version with which listings contradict, the object itself having been asked.
        var outdated: ETag?
    }

    /// What a listing page has to agree with.
    struct Claims: Sendable {
        var objects: [(key: ObjectKey, write: Write)] = []
        /// Common prefixes with something below them.
        var prefixes: Set<ObjectKey> = []
        /// Keys of which it is not known whether they make such a prefix.
        var doubtful: [(key: ObjectKey, write: Write, prefix: ObjectKey)] = []
        /// Common prefixes below which something was removed, perhaps, and nothing written; with the number of the newest such.
        var thinned: [ObjectKey: UInt64] = [:]

        var isEmpty: Bool { objects.isEmpty && prefixes.isEmpty && doubtful.isEmpty && thinned.isEmpty }
    }

    private struct Contents {
        var writes: [ObjectKey: Write] = [:]
        var keys = SortedIndex<ByteString, Void>()
        /// In the order of their times; those whose key was written again since are passed over.
        var queue: ArraySlice<(key: ObjectKey, number: UInt64)> = []
        var count: UInt64 = 0
        /// Common prefixes below which something was left when this was the newest removal there.
        var occupied: [ObjectKey: UInt64] = [:]
    }

    private static let mostOccupied = 1 << 16

    /// How long listings may lag behind.
    package let lag: Duration
    /// Most keys that it has word of.
    package let capacity: Int
    private let time: any TimeSource
    private let contents = Mutex(Contents())

    package init(lag: Duration, time: any TimeSource, capacity: Int = 1 << 16) {
        (self.lag, self.time, self.capacity) = (lag, time, capacity)
    }

    func note(_ key: ObjectKey, _ state: State) { insert(key, state, at: time.now()) }

    /// What an earlier process wrote at that time; nil: removed. Does nothing where there is newer word of the key.
    package func remember(_ key: ObjectKey, _ object: ListedObject?, at: Timestamp) {
        guard self[key] == nil else { return }
        insert(key, object.map { .present($0) } ?? .absent, at: at)
    }

    private func insert(_ key: ObjectKey, _ state: State, at: Timestamp) {
        let now = time.now()
        contents.withLock { contents in
            contents.count += 1
            let write = Write(state: state, at: at, number: contents.count)
            if contents.writes.updateValue(write, forKey: key) == nil { contents.keys.replace(key.bytes, with: ()) }
            contents.queue.append((key, write.number))
            while let (key, number) = contents.queue.first {
                let write = contents.writes[key].flatMap { $0.number == number ? $0 : nil }
                let isFull = contents.writes.count > capacity || contents.queue.count > 2 * capacity
                if let write, isCurrent(write, now), !isFull { break }
                contents.queue.removeFirst()
                guard write != nil else { continue }
                contents.writes[key] = nil
                contents.keys.remove(key.bytes)
            }
        }
    }

    /// A time in the future is from before the clock was set back.
    private func isCurrent(_ write: Write, _ now: Timestamp) -> Bool { write.at <= now && now - write.at < lag }

    subscript(_ key: ObjectKey) -> Write? {
        let now = time.now()
        return contents.withLock { $0.writes[key] }.flatMap { isCurrent($0, now) ? $0 : nil }
    }

    /// What the store said when it was asked about a key of which there is word: that stands until its time is over, unless
    /// something was written since `write`. Listings that show `outdated` are not believed.
    func settle(_ key: ObjectKey, _ write: Write, _ state: State, outdated: ETag? = nil) {
        contents.withLock { contents in
            guard let known = contents.writes[key], known.number == write.number else { return }
            contents.writes[key] = Write(
                state: state, at: known.at, number: known.number, outdated: outdated ?? known.outdated)
        }
    }

    /// Something is below a prefix all the same, after the removal of that number.
    func keep(_ prefix: ObjectKey, despite number: UInt64) {
        contents.withLock { contents in
            if contents.occupied.count >= Self.mostOccupied { contents.occupied = [:] }
            contents.occupied[prefix] = number
        }
    }

    /// What there is word of among the keys that a listing page covers: those after `lower`, up to `upper` (nil: to the end).
    func claims(on request: ListRequest, after lower: ByteString?, through upper: ByteString?) -> Claims {
        let now = time.now()
        return contents.withLock { contents in
            var claims = Claims()
            if contents.writes.isEmpty { return claims }
            let prefix = request.prefix
            var place = contents.keys.firstPosition { $0 < prefix || request.isListed($0, through: lower) }
            while let key = contents.keys.entry(at: place)?.key, key.hasPrefix(prefix) {
                if let upper, !request.isListed(key, through: upper) { break }
                place = contents.keys.position(after: place)
                let object = ObjectKey(key)
                guard let write = contents.writes[object], isCurrent(write, now) else { continue }
                guard let group = request.commonPrefix(of: key) else {
                    claims.objects.append((object, write))
                    continue
                }
                let common = ObjectKey(group)
                if write.state.isPresent {
                    claims.prefixes.insert(common)
                    claims.thinned[common] = nil
                    place = contents.keys.firstPosition { $0 <= group || $0.hasPrefix(group) }
                } else {
                    if write.state == .unknown { claims.doubtful.append((object, write, common)) }
                    claims.thinned[common] = max(claims.thinned[common] ?? 0, write.number)
                }
            }
            for (prefix, number) in contents.occupied where claims.thinned[prefix] == number {
                claims.thinned[prefix] = nil
            }
            return claims
        }
    }
}

extension ListRequest {
    /// The common prefix that stands for a key on the pages; nil for one that is listed itself.
    func commonPrefix(of key: ByteString) -> ByteString? {
        guard let delimiter, let end = key.bytes.dropFirst(prefix.count).firstIndex(of: delimiter) else { return nil }
        return ByteString(key.bytes[...end])
    }

    /// Whether pages up to the entry `last` tell of a key. nil: none do.
    func isListed(_ key: ByteString, through last: ByteString?) -> Bool {
        guard let last else { return false }
        if key <= last { return true }
        // A common prefix stands for all that is below it.
        return last.hasPrefix(prefix) && commonPrefix(of: last).map { key.hasPrefix($0) } ?? false
    }
}
