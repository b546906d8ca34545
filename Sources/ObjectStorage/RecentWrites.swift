package import Basics
import Synchronization

/// The recent writes and deletes at a store whose listings lag behind (`Capabilities.listingLag`), for as long as they may.
///
/// Owned by the store that records them, in memory alone: a later process gets them from the code that has persisted them
/// (`remember`). Locks: a leaf, held while the records in one listing page's range are read. Bounded: past `capacity` the oldest
/// are dropped, and listings are trusted for those keys again.
package final class RecentWrites: Sendable {
    /// The state of a key.
    enum State: Sendable, Hashable {
        case present(ListedObject)
        /// A copy's answer has only the ETag.
        case replaced(ETag)
        case absent
        /// A write's answer was lost, or another client wrote first, or a change from elsewhere was reported.
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
        /// The local time at which the state became known.
        let at: Timestamp
        /// When the request was sent: an object with a time before that is older.
        let began: Timestamp
        /// Distinguishes this write of the key from the next.
        let number: UInt64
        /// The version that listings may still show, as far as it is known.
        var outdated: ObjectVersion?

        /// Whether a listed object is the one from before the write. The same content, written again, has another time.
        func replaces(_ listed: ObjectVersion) -> Bool {
            guard let outdated, outdated.etag == listed.etag else { return false }
            return listed.modified.seconds <= outdated.modified.seconds
        }
    }

    /// The records that a listing page has to agree with.
    struct Claims: Sendable {
        var objects: [(key: ObjectKey, write: Write)] = []
        /// Common prefixes with something below them.
        var prefixes: Set<ObjectKey> = []
        /// Keys that may make such a prefix: their state is unknown.
        var doubtful: [(key: ObjectKey, write: Write, prefix: ObjectKey)] = []
        /// Common prefixes below which a key was, or may have been, removed and no key is known; with the number of the newest
        /// such removal.
        var thinned: [ObjectKey: UInt64] = [:]
        /// Those of them that were found empty a moment ago.
        var empty: Set<ObjectKey> = []
        /// Whole trees that an earlier process deleted.
        var gone: [(prefix: ByteString, at: Timestamp)] = []

        var isEmpty: Bool { objects.isEmpty && prefixes.isEmpty && doubtful.isEmpty && thinned.isEmpty && gone.isEmpty }
    }

    private struct Contents {
        var writes: [ObjectKey: Write] = [:]
        var keys = SortedIndex<ByteString, Void>()
        /// In the order of their times; entries whose key was written again since are skipped.
        var queue: ArraySlice<(key: ObjectKey, number: UInt64)> = []
        var count: UInt64 = 0
        var witnesses = Witnesses(capacity: mostPrefixes)
        /// Common prefixes below which nothing was found when this was the newest removal there.
        var empty = LRU<ObjectKey, (number: UInt64, at: Timestamp)>(capacity: mostPrefixes)
        /// In the order of their times.
        var gone: [(prefix: ByteString, at: Timestamp)] = []
        var clock = StoreClock()

        /// Visits in order the keys with a prefix that are not `isPast`, as long as `visit` returns true. The keys that are
        /// `isPast` come first.
        func walk(
            _ prefix: ByteString, past isPast: (ByteString) -> Bool = { _ in false },
            _ visit: (ObjectKey, Write) -> Bool
        ) {
            var place = keys.firstPosition { $0 < prefix || isPast($0) }
            while let key = keys.entry(at: place)?.key, key.hasPrefix(prefix) {
                place = keys.position(after: place)
                if let write = writes[ObjectKey(key)], !visit(ObjectKey(key), write) { return }
            }
        }
    }

    private static let mostPrefixes = 1 << 13
    private static let mostTrees = 1 << 10
    /// The share of the lag for which a prefix counts as empty, although another client may have written below it.
    private static let shareOfEmptiness = 10

    /// How long listings may lag behind.
    package let lag: Duration
    /// Most keys with a record.
    package let capacity: Int
    private let time: any TimeSource
    private let contents = Mutex(Contents())

    package init(lag: Duration, time: any TimeSource, capacity: Int = 1 << 16) {
        (self.lag, self.time, self.capacity) = (lag, time, capacity)
    }

    var now: Timestamp { time.now() }

    /// Records the result of a write that began at `began`. `told` is the store's time at its answer.
    func note(_ key: ObjectKey, _ state: State, since began: Timestamp, told: Timestamp? = nil) {
        insert(key, state, at: time.now(), since: began, told: told)
    }

    /// Records that the state of a key is unknown.
    func doubt(_ key: ObjectKey) { note(key, .unknown, since: time.now()) }

    /// Records a write of an earlier process at that time; nil: a delete, which for a key with a slash at its end covers all keys
    /// below it. Does nothing where the key has a newer record.
    package func remember(_ key: ObjectKey, _ object: ListedObject?, at: Timestamp) {
        if object == nil, key.bytes.hasSuffix("/") {
            contents.withLock { contents in
                contents.gone.append((key.bytes, at))
                if contents.gone.count > Self.mostTrees { contents.gone.removeFirst() }
            }
        }
        if let known = self[key], known.at >= at { return }
        insert(key, object.map { .present($0) } ?? .absent, at: at, since: at)
    }

    /// Another client may have changed the object at a key, and those below a key that ends in a slash or is empty: their state
    /// is unknown until a HEAD. Trees that an earlier process deleted may have objects again, too.
    func distrust(_ key: ByteString) {
        let isPrefix = key.isEmpty || key.hasSuffix("/")
        contents.withLock { contents in
            contents.gone.removeAll { key.hasPrefix($0.prefix) || isPrefix && $0.prefix.hasPrefix(key) }
        }
        let keys = isPrefix ? self.keys(below: key) : [ObjectKey(key)]
        for key in keys { doubt(key) }
    }

    private func keys(below prefix: ByteString) -> [ObjectKey] {
        let now = time.now()
        return contents.withLock { contents in
            var keys: [ObjectKey] = []
            contents.walk(prefix) { key, write in
                if isCurrent(write, now) { keys.append(key) }
                return true
            }
            return keys
        }
    }

    private func insert(
        _ key: ObjectKey, _ state: State, at: Timestamp, since began: Timestamp, told: Timestamp? = nil
    ) {
        let now = time.now()
        contents.withLock { contents in
            contents.count += 1
            if let told { contents.clock.learn(told, at: now) }
            var write = Write(state: state, at: at, began: began, number: contents.count)
            if let known = contents.writes[key], isCurrent(known, now) {
                write.outdated = known.outdated
                if case .present(let object) = known.state, state != .unknown, object.version.modified != .epoch {
                    write.outdated = object.version
                }
            }
            if contents.writes.updateValue(write, forKey: key) == nil { contents.keys.replace(key.bytes, with: ()) }
            if state.isPresent { contents.witnesses.add(key.bytes) } else { contents.witnesses.remove(key.bytes) }
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

    /// A time in the future comes from a clock that was set back since.
    private func isCurrent(_ write: Write, _ now: Timestamp) -> Bool { isCurrent(write.at, now) }
    private func isCurrent(_ at: Timestamp, _ now: Timestamp) -> Bool { at <= now && now - at < lag }

    subscript(_ key: ObjectKey) -> Write? {
        let now = time.now()
        return contents.withLock { $0.writes[key] }.flatMap { isCurrent($0, now) ? $0 : nil }
    }

    /// Records the store's answer about a key with a record: it holds until the record expires, unless the key was written after
    /// `write`. Listings that show `outdated` are not trusted.
    func settle(_ key: ObjectKey, _ write: Write, _ state: State, outdated: ObjectVersion? = nil) {
        contents.withLock { contents in
            guard let known = contents.writes[key], known.number == write.number else { return }
            contents.writes[key] = Write(
                state: state, at: known.at, began: known.began, number: known.number,
                outdated: outdated ?? known.outdated)
        }
    }

    /// Whether a listed object may be newer than a write or delete that began at `moment`.
    func mayBe(_ listed: ObjectVersion, since moment: Timestamp) -> Bool {
        contents.withLock { $0.clock.mayBe(listed.modified, since: moment) }
    }

    // MARK: Keys below prefixes

    /// Records keys that the store has shown.
    func sight(_ keys: [ObjectKey]) {
        contents.withLock { contents in
            for key in keys where contents.writes[key]?.state.isPresent ?? true { contents.witnesses.add(key.bytes) }
        }
    }

    /// Records that the key did not exist.
    func miss(_ key: ObjectKey) { contents.withLock { $0.witnesses.remove(key.bytes) } }

    /// Records that no key was below a prefix after the removal of that number.
    func noteEmpty(_ prefix: ObjectKey, since number: UInt64) {
        let now = time.now()
        contents.withLock { _ = $0.empty.insert((number, now), for: prefix) }
    }

    /// The number of recorded keys with a prefix, up to `most`.
    func count(below prefix: ByteString, upTo most: Int) -> Int {
        contents.withLock { contents in
            var count = 0
            contents.walk(prefix) { _, _ in
                count += 1
                return count < most
            }
            return count
        }
    }

    /// Whether there is a recorded key past the entry `last` that a listing may have to add.
    func mayAdd(to request: ListRequest, after last: ByteString?) -> Bool {
        let now = time.now()
        return contents.withLock { contents in
            var isAdding = false
            contents.walk(request.prefix, past: { request.isListed($0, through: last) }) { _, write in
                isAdding = isCurrent(write, now) && write.state != .absent
                return !isAdding
            }
            return isAdding
        }
    }

    /// The records of the keys that a listing page covers: those after `lower`, up to `upper` (nil: to the end).
    func claims(on request: ListRequest, after lower: ByteString?, through upper: ByteString?) -> Claims {
        let now = time.now()
        return contents.withLock { contents in
            var claims = Claims()
            if contents.writes.isEmpty && contents.gone.isEmpty { return claims }
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
            for (prefix, number) in claims.thinned {
                if contents.witnesses.isOccupied(prefix.bytes) {
                    claims.thinned[prefix] = nil
                } else if let empty = contents.empty.peek(prefix), empty.number == number,
                    empty.at <= now, (now - empty.at) * Self.shareOfEmptiness < lag
                {
                    claims.empty.insert(prefix)
                }
            }
            contents.gone.removeAll { !isCurrent($0.at, now) }
            claims.gone = contents.gone.filter { $0.prefix.hasPrefix(prefix) || prefix.hasPrefix($0.prefix) }
            return claims
        }
    }
}

extension ListRequest {
    /// The common prefix that replaces a key on the pages; nil for a key that is listed itself.
    func commonPrefix(of key: ByteString) -> ByteString? {
        guard let delimiter, let end = key.bytes.dropFirst(prefix.count).firstIndex(of: delimiter) else { return nil }
        return ByteString(key.bytes[...end])
    }

    /// Whether the pages up to the entry `last` cover a key. nil: none do.
    func isListed(_ key: ByteString, through last: ByteString?) -> Bool {
        guard let last else { return false }
        if key <= last { return true }
        // A common prefix covers all keys below it.
        return last.hasPrefix(prefix) && commonPrefix(of: last).map { key.hasPrefix($0) } ?? false
    }
}
