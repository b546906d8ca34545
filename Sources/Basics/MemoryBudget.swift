import Synchronization

/// The one bound on heap memory that holds object bytes: every buffer is borrowed from it and given back.
///
/// Fair: waiters are served in order, so a large request is not starved by small ones. Whoever keeps bytes only for reuse
/// registers a reclaimer and gives them up when somebody goes short. Locked by its own mutex, a leaf; reclaimers and
/// waiters run outside it.
package final class MemoryBudget: Sendable {
    private struct State {
        var used = 0
        var reclaimers: [@Sendable (Int) -> Void] = []
    }

    private let most: Atomic<Int>
    /// Who waits wants so many bytes, and hears whether it has them.
    private let state = Monitor<State, Int, Bool>(State())

    package init(limit: Int) { most = Atomic(limit) }

    /// In bytes.
    package var limit: Int { most.load(ordering: .relaxed) }

    /// Changes the limit; who has more keeps it. Only for a budget of which nobody asks for more than any limit it gets.
    package func setLimit(_ limit: Int) {
        most.store(limit, ordering: .relaxed)
        state.change { state, queue in admitWaiters(&state, &queue) }
    }

    /// Bytes borrowed now.
    package var used: Int { state.withLock { $0.used } }

    /// Whether somebody waits for bytes to come back.
    package var hasWaiters: Bool { waiting > 0 }

    /// How many wait.
    package var waiting: Int { state.change { _, queue in queue.count } }

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
        let granted = await state.wait(whenCancelled: false) { state, queue in
            guard queue.isEmpty, state.used + wanted <= limit else { return .wait(wanted) }
            state.used += wanted
            return .answer(true)
        } onceWaiting: {
            reclaim(wanted)
        } leaving: { [self] state, queue, _ in
            admitWaiters(&state, &queue)
        }
        if !granted { throw CancellationError() }
    }

    /// Gives back what `reserve` or `tryReserve` took.
    package func release(_ bytes: Int) {
        state.change { state, queue in
            state.used -= min(bytes, limit)
            precondition(state.used >= 0, "more memory released than reserved")
            admitWaiters(&state, &queue)
        }
    }

    private func take(_ bytes: Int) -> Bool {
        precondition(bytes >= 0, "negative bytes reserved")
        return state.change { state, queue in
            guard queue.isEmpty, bytes <= limit - state.used else { return false }
            state.used += bytes
            return true
        }
    }

    private func reclaim(_ bytes: Int) {
        for reclaim in state.withLock({ $0.reclaimers }) { reclaim(bytes) }
    }

    private func admitWaiters(_ state: inout State, _ queue: inout Monitor<State, Int, Bool>.Queue) {
        while let bytes = queue.first, state.used + bytes <= limit {
            state.used += bytes
            queue.answerFirst(true)
        }
    }
}
