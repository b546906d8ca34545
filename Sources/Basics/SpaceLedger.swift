import Synchronization

/// The hard quota on local disk that clean blocks and staged bytes share, counted in bytes and reserved before writing.
///
/// Clean bytes are evicted: when a reservation does not fit, the ledger calls the reclaimer (the block cache) and tries
/// again, unless the full disk is another one. Staged bytes are dirty and stay until they are in the bucket; writers leave a
/// share of the quota to commits, which may need space to free some. Other files in the directory (`overhead`: the databases)
/// count as well. A floor of free space on the file system is kept: it can be exceeded by the bytes that are reserved but not
/// yet written. Locked by its own mutex, a leaf; the reclaimer, `overhead` and `freeSpace` run outside the lock, on the
/// caller's thread, and must not call `reserve`. After a crash: the next process that opens the directory counts its files
/// (`adopt`).
package final class SpaceLedger: Sendable {
    /// The purpose of reserved space.
    package enum Use: Sendable {
        /// Bytes that the bucket has, which are evicted when space is short.
        case clean
        /// Bytes that a program writes.
        case written
        /// Bytes that a commit needs in addition: the commit frees space.
        case committing
    }

    private struct State {
        var used: Int64 = 0
        /// The part of `used` that cannot be evicted.
        var staged: Int64 = 0
        /// All bytes ever reserved and released; differences show the changes meanwhile.
        var reserved: Int64 = 0
        var released: Int64 = 0
        var reclaimer: (@Sendable (Int64) -> Void)?
    }

    /// The space that can be shared now.
    private struct Room {
        /// The most bytes that may be in use.
        var whole: Int64
        /// The most bytes of them that programs may have written.
        var forWriters: Int64
        /// The free bytes.
        var unused: Int64
        /// Whether eviction frees more.
        var isElastic: Bool
    }

    private let most: Atomic<Int64>
    private let least: Atomic<Int64>
    /// Bytes of the limit that writers leave to commits; at most a quarter of the space.
    package let commitShare: Int64
    private let overhead: @Sendable () -> Int64
    private let freeSpace: @Sendable () -> Int64
    private let stagingSpace: (@Sendable () -> Int64)?
    private let state = Mutex(State())

    /// `freeSpace` returns the free bytes of the file system, `stagingSpace` those of the file system of staged bytes if it
    /// is another one, `overhead` the bytes of the limit that other files use.
    package init(
        limit: Int64, floor: Int64, commitShare: Int64 = 0, overhead: @escaping @Sendable () -> Int64 = { 0 },
        freeSpace: @escaping @Sendable () -> Int64, stagingSpace: (@Sendable () -> Int64)? = nil
    ) {
        most = Atomic(limit)
        least = Atomic(floor)
        self.commitShare = commitShare
        (self.overhead, self.freeSpace, self.stagingSpace) = (overhead, freeSpace, stagingSpace)
    }

    /// The most bytes that may be in use, cache, staging and databases together.
    package var limit: Int64 { most.load(ordering: .relaxed) }
    /// Bytes of the file system that stay free.
    package var floor: Int64 { least.load(ordering: .relaxed) }

    /// Changes the limits, and evicts the excess over the new ones; staged bytes above them stay until they are in the
    /// bucket.
    package func setLimits(limit: Int64, floor: Int64) {
        most.store(limit, ordering: .relaxed)
        least.store(floor, ordering: .relaxed)
        let excess = max(used + overhead() - limit, floor - freeSpace())
        if excess > 0, let (reclaim, _) = reclaimer { reclaim(excess) }
    }

    package var used: Int64 { state.withLock { $0.used } }

    /// Bytes of staging files, which cannot be evicted.
    package var staged: Int64 { state.withLock { $0.staged } }

    /// Sets the function that evicts about a number of clean bytes. Called once, when the block cache opens.
    package func setReclaimer(_ reclaim: @escaping @Sendable (Int64) -> Void) {
        state.withLock { $0.reclaimer = reclaim }
    }

    /// The part of the writers' space that staged bytes fill: from 1 on writers have to wait.
    package var pressure: Double {
        let (free, overhead) = (free(for: .written), overhead())
        return state.withLock { state in
            let room = room(for: .written, state, free: free, overhead: overhead)
            return room.forWriters <= 0 ? 1 : Double(state.staged) / Double(room.forWriters)
        }
    }

    /// Reserves `bytes` for new local data, evicting clean data for them if `evicting`; false when there is no space.
    package func reserve(_ bytes: Int64, for use: Use = .clean, evicting: Bool) -> Bool {
        precondition(bytes >= 0, "negative bytes reserved")
        guard bytes <= limit else { return false }
        // Other threads may take the evicted space; as long as eviction frees some it is worth another try.
        for _ in 0..<Self.attempts {
            guard let shortage = take(bytes, use) else { return true }
            guard evicting, shortage.isCurable, let (reclaim, released) = reclaimer else { return false }
            reclaim(max(bytes, shortage.bytes))
            if state.withLock({ $0.released }) == released { return take(bytes, use) == nil }
        }
        return false
    }

    /// Releases bytes whose data was removed from the disk.
    package func release(_ bytes: Int64, of use: Use = .clean) {
        state.withLock { state in
            state.used -= bytes
            if use != .clean { state.staged -= bytes }
            state.released &+= bytes
            precondition(state.used >= 0 && state.staged >= 0, "more disk space released than reserved")
        }
    }

    /// Staged bytes are in the bucket now: they may be evicted.
    package func becomeClean(_ bytes: Int64) {
        state.withLock { state in
            state.staged -= bytes
            precondition(state.staged >= 0, "more staged bytes made clean than there were")
        }
    }

    /// Counts bytes already on disk when the cache opens; they may exceed the limit, and then have to shrink first.
    package func adopt(_ bytes: Int64, as use: Use = .clean) {
        state.withLock { state in
            state.used += bytes
            if use != .clean { state.staged += bytes }
        }
    }

    private static let attempts = 8

    private var reclaimer: (reclaim: @Sendable (Int64) -> Void, released: Int64)? {
        state.withLock { state in state.reclaimer.map { ($0, state.released) } }
    }

    private func free(for use: Use) -> Int64 {
        use == .clean ? freeSpace() : stagingSpace?() ?? freeSpace()
    }

    private func room(for use: Use, _ state: State, free: Int64, overhead: Int64) -> Room {
        let unused = min(limit - overhead - state.used, free - floor)
        // On a disk of their own, staged bytes gain no space from evictions on the other.
        let isApart = use != .clean && stagingSpace != nil
        let most = isApart ? min(limit - overhead, state.staged + free - floor) : state.used + unused
        let whole = max(0, most)
        return Room(
            whole: whole, forWriters: whole - min(commitShare, whole / 4), unused: unused,
            isElastic: !isApart || unused < free - floor)
    }

    /// nil when the bytes are reserved, else how many are missing, and whether eviction can free them.
    private func take(_ bytes: Int64, _ use: Use) -> (bytes: Int64, isCurable: Bool)? {
        let reservedBefore = state.withLock { $0.reserved }
        let (free, overhead) = (free(for: use), overhead())
        return state.withLock { state in
            // Bytes that others reserved since `free` was read are not written yet, so `free` does not show them.
            let room = room(
                for: use, state, free: free - (state.reserved &- reservedBefore), overhead: overhead)
            if use == .written, bytes > room.forWriters - state.staged {
                return (bytes - (room.forWriters - state.staged), false)
            }
            guard bytes <= room.unused else { return (bytes - room.unused, room.isElastic) }
            state.used += bytes
            if use != .clean { state.staged += bytes }
            state.reserved &+= bytes
            return nil
        }
    }
}
