import Synchronization

/// The one bound on heap memory that holds object bytes: every buffer is reserved in it and released.
///
/// Fair: waiters are served in order, so a large request is not starved by small ones. A component that keeps bytes only for
/// reuse registers a reclaimer and frees them when a request lacks memory. Locked by its own mutex, a leaf; reclaimers and
/// waiters run outside it.
package final class MemoryBudget: Sendable {
    private struct State {
        var used = 0
        var reclaimers: [@Sendable (Int) -> Void] = []
    }

    private let most: Atomic<Int>
    /// Each waiter waits for a count of bytes, and gets true when they are reserved for it.
    private let state = Monitor<State, Int, Bool>(State())

    package init(limit: Int) { most = Atomic(limit) }

    /// In bytes.
    package var limit: Int { most.load(ordering: .relaxed) }

    /// Changes the limit; reservations above it stay.
    /// Requires: no request is larger than any limit that the budget gets.
    package func setLimit(_ limit: Int) {
        most.store(limit, ordering: .relaxed)
        state.change { state, queue in admitWaiters(&state, &queue) }
    }

    /// Bytes borrowed now.
    package var used: Int { state.withLock { $0.used } }

    /// Whether a request waits for bytes to be released.
    package var hasWaiters: Bool { waiting > 0 }

    /// The number of waiting requests.
    package var waiting: Int { state.change { _, queue in queue.count } }

    /// Registers a function that releases about that many reserved but idle bytes, on the requesting thread. Required order:
    /// bytes become idle first, then their owner checks `hasWaiters`; a request is counted as a waiter first and then calls
    /// the reclaimers. So one of the two always sees the other.
    package func addReclaimer(_ reclaim: @escaping @Sendable (Int) -> Void) {
        state.withLock { $0.reclaimers.append(reclaim) }
    }

    /// Reserves `bytes` if they are free or can be reclaimed, and no request waits.
    package func tryReserve(_ bytes: Int) -> Bool {
        if take(bytes) { return true }
        guard bytes <= limit, !hasWaiters else { return false }
        reclaim(bytes)
        return take(bytes)
    }

    /// Reserves `bytes`, and waits for others to release them. More than `limit` counts as `limit`, so a request always ends.
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

    /// Releases the bytes that `reserve` or `tryReserve` reserved.
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
