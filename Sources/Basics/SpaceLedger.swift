import Synchronization

/// The hard quota on local disk that clean blocks and staged bytes share, counted in bytes and taken before writing.
///
/// Clean bytes give way: when a reservation does not fit, the ledger asks the reclaimer (the block cache) to evict and
/// tries again. It also keeps a floor of free space on the file system. The limit is exact; the floor can be passed by as
/// much as is reserved but not yet written. Locked by its own mutex, a leaf; the reclaimer and `freeSpace` run outside the
/// lock, on the caller's thread, and must not call `reserve`.
package final class SpaceLedger: Sendable {
    private struct State {
        var used: Int64 = 0
        /// Everything ever reserved and released; differences tell what happened meanwhile.
        var reserved: Int64 = 0
        var released: Int64 = 0
        var reclaimer: (@Sendable (Int64) -> Void)?
    }

    /// Most bytes that may be in use, cache and staging together.
    package let limit: Int64
    /// Bytes of the file system that stay free.
    package let floor: Int64
    private let freeSpace: @Sendable () -> Int64
    private let state = Mutex(State())

    /// `freeSpace` answers how many bytes the file system has free now.
    package init(limit: Int64, floor: Int64, freeSpace: @escaping @Sendable () -> Int64) {
        (self.limit, self.floor, self.freeSpace) = (limit, floor, freeSpace)
    }

    package var used: Int64 { state.withLock { $0.used } }

    /// Who evicts clean bytes when asked for a number of them. Set once, when the block cache opens.
    package func setReclaimer(_ reclaim: @escaping @Sendable (Int64) -> Void) {
        state.withLock { $0.reclaimer = reclaim }
    }

    /// Takes `bytes` for new local data, evicting clean data for them if `evicting`; false when there is no room.
    package func reserve(_ bytes: Int64, evicting: Bool) -> Bool {
        precondition(bytes >= 0, "negative bytes reserved")
        guard bytes <= limit else { return false }
        // Others may take what was evicted for us; as long as eviction yields something it is worth another try.
        for _ in 0..<Self.attempts {
            guard let shortage = take(bytes) else { return true }
            guard evicting, let (reclaim, released) = reclaimer else { return false }
            reclaim(max(bytes, shortage))
            if state.withLock({ $0.released }) == released { return take(bytes) == nil }
        }
        return false
    }

    /// Gives back bytes whose data is gone from the disk.
    package func release(_ bytes: Int64) {
        state.withLock { state in
            state.used -= bytes
            state.released &+= bytes
            precondition(state.used >= 0, "more disk space released than reserved")
        }
    }

    /// Counts bytes already on disk when the cache opens; may exceed the limit, which then drains first.
    package func adopt(_ bytes: Int64) { state.withLock { $0.used += bytes } }

    private static let attempts = 8

    private var reclaimer: (reclaim: @Sendable (Int64) -> Void, released: Int64)? {
        state.withLock { state in state.reclaimer.map { ($0, state.released) } }
    }

    /// nil when the bytes are taken, else how many are missing.
    private func take(_ bytes: Int64) -> Int64? {
        let reservedBefore = state.withLock { $0.reserved }
        let free = freeSpace()
        return state.withLock { state in
            // What others reserved since the look at the disk is not written yet, and is not in `free`.
            let available = free - (state.reserved &- reservedBefore)
            let shortage = max(bytes - (limit - state.used), bytes - (available - floor))
            guard shortage <= 0 else { return shortage }
            state.used += bytes
            state.reserved &+= bytes
            return nil
        }
    }
}
