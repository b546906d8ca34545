import Synchronization

/// The hard quota on local disk that clean blocks and staged bytes share, counted in bytes and taken before writing.
///
/// Clean bytes give way: when a reservation does not fit, the ledger asks the reclaimer (the block cache) to evict and
/// tries again. It also keeps a floor of free space on the file system. Locked by its own mutex, a leaf; the reclaimer
/// runs outside the lock, on the caller's thread, and must not call `reserve`.
package final class SpaceLedger: Sendable {
    private struct State {
        var used: Int64 = 0
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
        if take(bytes) { return true }
        guard evicting, let reclaim = state.withLock({ $0.reclaimer }) else { return false }
        reclaim(max(bytes, used + bytes - limit, floor + bytes - freeSpace()))
        return take(bytes)
    }

    /// Gives back bytes whose data is gone from the disk.
    package func release(_ bytes: Int64) {
        state.withLock { state in
            state.used -= bytes
            precondition(state.used >= 0, "more disk space released than reserved")
        }
    }

    /// Counts bytes already on disk when the cache opens; may exceed the limit, which then drains first.
    package func adopt(_ bytes: Int64) { state.withLock { $0.used += bytes } }

    private func take(_ bytes: Int64) -> Bool {
        guard freeSpace() - bytes >= floor else { return false }
        return state.withLock { state in
            guard state.used + bytes <= limit else { return false }
            state.used += bytes
            return true
        }
    }
}
