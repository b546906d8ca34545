import Basics

/// The rules of freshness at one moment. Times are nanoseconds since 1970.
///
/// Taken before the rows that they are applied to are read: what a listing has covered by then is in the rows.
struct Clock {
    let now: Int64
    let ttl: Int64
    let negativeTTL: Int64
    /// How many updates there had been (`Entry.updates`).
    let updates: UInt64
    let listed: Recollection.Listed

    /// When knowledge from `checkedAt` stops to count.
    func until(_ checkedAt: Int64) -> Int64 { Self.add(checkedAt, ttl) }
    func negativeUntil(_ checkedAt: Int64) -> Int64 { Self.add(checkedAt, negativeTTL) }

    /// What was learned later than this was learned before the clock was set back.
    var latest: Int64 { Self.add(now, ttl) }

    /// Whether something that counts until `limit` counts now. What was learned more than a ttl in the future was
    /// learned before the clock was set back.
    func isFresh(until limit: Int64, lifetime: Int64) -> Bool {
        now < limit && limit <= Self.add(now, Self.add(lifetime, lifetime))
    }

    func isFresh(_ limit: Timestamp) -> Bool { isFresh(until: limit.nanosecondCount, lifetime: ttl) }
    func isFresh(_ limit: Int64) -> Bool { isFresh(until: limit, lifetime: ttl) }

    /// When an entry stops to be fresh, from the newest of what was learned of it.
    func freshUntil(_ row: EntryRow, in directory: DirectoryRow) -> Int64 {
        // Ours is right until others say otherwise, and the root is always there.
        if row.isPending || row.ino == 1 { return until(now) }
        let stale = max(row.staleAt ?? .min, directory.staleAt ?? .min)
        let covered = listed.at(row.parent, row.component, through: row.component, latest: latest)
        var newest = Int64.min
        // What was learned before the clock was set back must not hide what was learned since.
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
