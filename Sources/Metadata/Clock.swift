import Basics

/// The rules of freshness at one moment. Times are nanoseconds since 1970.
///
/// Made before the rows that it is applied to are read, so that the rows include every listing in `listed`.
struct Clock {
    let now: Int64
    let ttl: Int64
    /// How long a listing shows that a name is missing.
    let absenceTTL: Int64
    /// How long an answer about one missing name counts.
    let negativeTTL: Int64
    /// The number of updates so far (`Entry.updates`).
    let updates: UInt64
    let listed: Recollection.Listed

    /// The end of the freshness of an answer from `checkedAt`.
    func until(_ checkedAt: Int64) -> Int64 { Self.add(checkedAt, ttl) }
    func absentUntil(_ listedAt: Int64) -> Int64 { Self.add(listedAt, absenceTTL) }
    func negativeUntil(_ checkedAt: Int64) -> Int64 { Self.add(checkedAt, negativeTTL) }

    /// An answer with a later time is from before the clock was set back.
    var latest: Int64 { Self.add(now, ttl) }

    /// Whether an answer that counts until `limit` counts now. An answer of more than a ttl in the future is from before the
    /// clock was set back.
    func isFresh(until limit: Int64, lifetime: Int64) -> Bool {
        now < limit && limit <= Self.add(now, Self.add(lifetime, lifetime))
    }

    func isFresh(_ limit: Timestamp) -> Bool { isFresh(until: limit.nanosecondCount, lifetime: ttl) }
    func isFresh(_ limit: Int64) -> Bool { isFresh(until: limit, lifetime: ttl) }

    /// The end of an entry's freshness, from the newest answer about it.
    func freshUntil(_ row: EntryRow, in directory: DirectoryRow) -> Int64 {
        // A pending change of this host counts until its commit, and the root always exists.
        if row.isPending || row.ino == 1 { return until(now) }
        let stale = max(row.staleAt ?? .min, directory.staleAt ?? .min)
        let covered = listed.at(row.parent, row.component, through: row.component, latest: latest)
        var newest = Int64.min
        // An answer from before the clock was set back must not hide later answers.
        for learned in [row.checkedAt, directory.listedAt ?? .min, covered ?? .min]
        where learned > stale && learned <= latest {
            newest = max(newest, learned)
        }
        return newest == .min ? .min : until(newest)
    }

    private static func add(_ left: Int64, _ right: Int64) -> Int64 {
        let (sum, overflow) = left.addingReportingOverflow(right)
        return overflow ? (right < 0 ? .min : .max) : sum
    }
}
