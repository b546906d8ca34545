import Synchronization

/// The one bound on heap memory that holds object bytes: every buffer is borrowed from it and given back.
///
/// Fair: waiters are served in order, so a large request is not starved by small ones. Whoever keeps bytes only for reuse
/// registers a reclaimer and gives them up when somebody goes short. Locked by its own mutex, a leaf; reclaimers and
/// waiters run outside it.
package final class MemoryBudget: Sendable {
    private struct Waiter {
        let id: UInt64
        let bytes: Int
        let continuation: CheckedContinuation<Bool, Never>
    }

    private struct State {
        var used = 0
        var nextID: UInt64 = 0
        var waiters: [Waiter] = []
        /// Requests whose task was cancelled before they could wait.
        var cancelled: Set<UInt64> = []
        var reclaimers: [@Sendable (Int) -> Void] = []
    }

    private let most: Atomic<Int>
    private let state = Mutex(State())

    package init(limit: Int) { most = Atomic(limit) }

    /// In bytes.
    package var limit: Int { most.load(ordering: .relaxed) }

    /// Changes the limit; who has more keeps it. Only for a budget of which nobody asks for more than any limit it gets.
    package func setLimit(_ limit: Int) {
        most.store(limit, ordering: .relaxed)
        admitWaiters()
    }

    /// Bytes borrowed now.
    package var used: Int { state.withLock { $0.used } }

    /// Whether somebody waits for bytes to come back.
    package var hasWaiters: Bool { state.withLock { !$0.waiters.isEmpty } }

    /// How many wait.
    package var waiting: Int { state.withLock { $0.waiters.count } }

    /// Registers who gives back about that many reserved but idle bytes when asked, on the asking thread. The order to
    /// keep: bytes become idle first, then `hasWaiters` is looked at; a waiter is counted first and then asks. So one of
    /// the two always sees the other.
    package func addReclaimer(_ reclaim: @escaping @Sendable (Int) -> Void) {
        state.withLock { $0.reclaimers.append(reclaim) }
    }

    /// Takes `bytes` if they are free, or idle, and nobody waits.
    package func tryReserve(_ bytes: Int) -> Bool {
        if take(bytes) { return true }
        guard bytes <= limit, !hasWaiters else { return false }
        reclaim(bytes)
        return take(bytes)
    }

    /// Takes `bytes`, waiting for others to give back. More than `limit` counts as `limit`, so a request always ends.
    package func reserve(_ bytes: Int) async throws(CancellationError) {
        precondition(bytes >= 0, "negative bytes reserved")
        let wanted = min(bytes, limit)
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        let granted = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let answer: Bool? = state.withLock { state in
                    if state.cancelled.remove(id) != nil { return false }
                    if state.waiters.isEmpty, state.used + wanted <= limit {
                        state.used += wanted
                        return true
                    }
                    state.waiters.append(Waiter(id: id, bytes: wanted, continuation: continuation))
                    return nil
                }
                if let answer {
                    continuation.resume(returning: answer)
                } else {
                    reclaim(wanted)
                }
            }
        } onCancel: {
            let waiter: Waiter? = state.withLock { state in
                guard let index = state.waiters.firstIndex(where: { $0.id == id }) else {
                    state.cancelled.insert(id)
                    return nil
                }
                return state.waiters.remove(at: index)
            }
            waiter?.continuation.resume(returning: false)
            admitWaiters()
        }
        state.withLock { _ = $0.cancelled.remove(id) }
        if !granted { throw CancellationError() }
    }

    /// Gives back what `reserve` or `tryReserve` took.
    package func release(_ bytes: Int) {
        state.withLock { state in
            state.used -= min(bytes, limit)
            precondition(state.used >= 0, "more memory released than reserved")
        }
        admitWaiters()
    }

    private func take(_ bytes: Int) -> Bool {
        precondition(bytes >= 0, "negative bytes reserved")
        return state.withLock { state in
            guard state.waiters.isEmpty, bytes <= limit - state.used else { return false }
            state.used += bytes
            return true
        }
    }

    private func reclaim(_ bytes: Int) {
        for reclaim in state.withLock({ $0.reclaimers }) { reclaim(bytes) }
    }

    private func admitWaiters() {
        let admitted: [Waiter] = state.withLock { state in
            var admitted: [Waiter] = []
            while let waiter = state.waiters.first, state.used + waiter.bytes <= limit {
                state.used += waiter.bytes
                admitted.append(state.waiters.removeFirst())
            }
            return admitted
        }
        for waiter in admitted { waiter.continuation.resume(returning: true) }
    }
}
