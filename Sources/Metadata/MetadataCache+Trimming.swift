import Basics
import SQLite
import Synchronization

/// Keeps the file within its share of the local disk: answers of the store can be requested again.
extension MetadataCache {
    /// Where the next search for rows to forget begins, in the order of directories and components. Rows that are added
    /// behind it are met in the next round.
    struct Trimming {
        var directory: Int64 = 0
        var component: ByteString = ""
        /// Whether a row was forgotten since the round began.
        var hasForgotten = false
        /// No row could be forgotten in a whole round: no other round begins before this.
        var pausesUntil: Int64 = .min
    }

    private enum Step {
        case forgot, nothing
        /// The round is over, and has forgotten some rows or none.
        case ended, endedInVain
    }

    /// Rows examined in one step.
    private static let rowsEach = 4096
    /// Rows of the last seconds are about to be used; where space is short, only those of the last second are spared.
    private static let (youngest, youngestInNeed): (Int64, Int64) = (10_000_000_000, 1_000_000_000)
    private static let pause: Int64 = 1_000_000_000
    /// Bytes of free pages that are left for new rows, and that are returned to the file system at a time.
    private static let slack: Int64 = 2 << 20
    private static let shrinkage: Int64 = 1 << 20

    /// The most bytes that the file should take.
    package var limit: Int64 {
        get { mostBytes.load(ordering: .relaxed) }
        set { mostBytes.store(newValue, ordering: .relaxed) }
    }

    /// Whether the file takes more than `limit`.
    package var isTooLong: Bool { (try? database.size().file > limit) ?? false }

    /// While the file is longer than `limit`, forgets rows of files. Spares rows that wait for their commit, that are seconds
    /// old, and those of a directory that is being listed or in use. Once the file is twice as long, the rows that the only
    /// reader of a running listing has read are forgotten, too. Directories stay, for programs that work in them. The next
    /// use of a thinned directory asks the store again.
    ///
    /// A step of some milliseconds; false when there was nothing to do, or nothing more that could be done. With `inNeed` a
    /// caller waits for the space: the search goes on until it has found some.
    @discardableResult
    package func trim(inNeed: Bool = false) throws(MetadataError) -> Bool {
        var size: Database.Size
        var isShorter = false
        do {
            size = try database.size()
            guard size.file > limit else { return false }
            if size.free > Self.slack {
                try database.shrink(by: Self.shrinkage)
                // A file that was created without auto_vacuum does not shrink.
                let now = try database.size()
                (isShorter, size) = (now.file < size.file, now)
            }
            guard size.file - size.free > limit - Self.slack else { return isShorter }
        } catch { throw .database(error) }
        let isUrgent = inNeed || size.file / 2 > limit
        let now = clock.now
        // A pause that ends later is from before the clock was set back.
        let pauses = trimming.withLock { $0.pausesUntil > now && $0.pausesUntil <= now + Self.pause }
        if pauses { return isShorter }
        // Rows that were too young in this round may be old enough in the next.
        var rounds = inNeed ? 2 : 1
        while rounds > 0 {
            switch try forget(sparing: isUrgent ? Self.youngestInNeed : Self.youngest, isUrgent: isUrgent) {
            case .forgot: return true
            case .nothing where inNeed: break
            case .nothing: return isShorter
            case .ended where !inNeed: return isShorter
            case .ended, .endedInVain: rounds -= 1
            }
        }
        trimming.withLock { $0.pausesUntil = now + Self.pause }
        return isShorter
    }

    private func forget(sparing youngest: Int64, isUrgent: Bool) throws(MetadataError) -> Step {
        // From here on a caller that takes a row in use either waits (`awaitForgetting`), or is in `kept` below.
        forgetting.add(1, ordering: .sequentiallyConsistent)
        defer { forgetting.subtract(1, ordering: .sequentiallyConsistent) }
        // A caller that has read an entry before must check that it is still there (`isCurrent`).
        defer { updates.add(1, ordering: .sequentiallyConsistent) }
        return try write { (connection) throws(SQLiteError) in
            atomicMemoryFence(ordering: .sequentiallyConsistent)
            let now = self.clock.now
            let (used, lag) = (self.kept, now - self.unsettled(at: now))
            let listings = self.listings.withLock { Dictionary(grouping: $0.values, by: \.directory) }
            var released: [Int64: ByteString?] = [:]
            self.invalidatedAt.store(now, ordering: .relaxed)
            var place = self.trimming.withLock { $0 }
            let rows = try Self.rows(after: place, connection)
            var thinned: Set<Int64> = []
            var known: (directory: Int64, listedAt: Int64)?
            for row in rows {
                if row.mustStay || used.contains(InodeNumber(row: row.ino)) { continue }
                if let running = listings[row.directory] {
                    guard isUrgent else { continue }
                    if released[row.directory] == nil {
                        released[row.directory] = .some(running.count == 1 ? running[0].forget() : nil)
                    }
                    guard let end = released[row.directory] ?? nil, row.component < end else { continue }
                } else if used.contains(InodeNumber(row: row.directory)) {
                    continue
                }
                let listedAt: Int64
                if let known, known.directory == row.directory {
                    listedAt = known.listedAt
                } else {
                    listedAt = try DirectoryRow.find(connection, ino: row.directory).listedAt ?? .min
                    known = (row.directory, listedAt)
                }
                let learned = max(row.checkedAt, listedAt)
                // A page that was listed before a change of this host may still be on its way here.
                let age = row.isOurs ? Self.youngest + lag : youngest
                if learned > now - age, learned <= now { continue }
                try connection.run(
                    "DELETE FROM entry WHERE parent = ?1 AND component = ?2", row.directory, row.component)
                try connection.run("DELETE FROM headers WHERE ino = ?1", row.ino)
                thinned.insert(row.directory)
            }
            for directory in thinned {
                try Self.markStale(directory, now, connection)
                self.recollection.withLock { $0.forgetListings(of: directory) }
            }
            place.hasForgotten = place.hasForgotten || !thinned.isEmpty
            if rows.count == Self.rowsEach, let last = rows.last {
                (place.directory, place.component) = (last.directory, last.component)
                self.trimming.withLock { [place] in $0 = place }
                return thinned.isEmpty ? .nothing : .forgot
            }
            self.trimming.withLock { $0 = Trimming() }
            let hasForgotten = try Self.forgetRemovals(from: now - Self.youngest - lag, connection)
            if hasForgotten || !thinned.isEmpty { return .forgot }
            return place.hasForgotten ? .ended : .endedInVain
        }
    }

    /// Deletes some tombstones of removals that were carried out before `time`, which every listing includes. False when
    /// there are none.
    private static func forgetRemovals(from time: Int64, _ connection: Connection) throws(SQLiteError) -> Bool {
        try connection.run(
            """
            DELETE FROM tombstone WHERE (parent, component) IN
                (SELECT parent, component FROM tombstone WHERE ours < ?1 AND removed_at <= ?2 LIMIT ?3)
            """, pendingChange, time, Int64(rowsEach))
        return connection.changes > 0
    }

    private struct Candidate {
        let directory: Int64
        let component: ByteString
        let ino: Int64
        /// A directory, or a pending change.
        let mustStay: Bool
        let isOurs: Bool
        let checkedAt: Int64
    }

    private static func rows(after place: Trimming, _ connection: Connection) throws(SQLiteError) -> [Candidate] {
        let statement = try connection.prepare(
            """
            SELECT parent, component, ino, kind, ours, checked_at FROM entry
            WHERE (parent, component) > (?1, ?2) ORDER BY parent, component LIMIT ?3
            """)
        try statement.bind(place.directory, at: 1)
        try statement.bind(place.component, at: 2)
        try statement.bind(Int64(rowsEach), at: 3)
        var rows: [Candidate] = []
        while try statement.step() {
            rows.append(
                Candidate(
                    directory: statement.int64(0), component: statement.bytes(1), ino: statement.int64(2),
                    mustStay: statement.int64(3) == EntryKind.directory.rawValue
                        || statement.optionalInt64(4) == pendingChange,
                    isOurs: !statement.isNull(4), checkedAt: statement.int64(5)))
        }
        return rows
    }
}
