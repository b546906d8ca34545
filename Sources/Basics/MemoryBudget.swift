import Synchronization

/// The one bound on heap memory that holds object bytes: every buffer is borrowed from it and given back.
///
/// Fair: waiters are served in order, so a large request is not starved by small ones. Locked by its own mutex, a leaf.
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
        var cancelled: Set<UInt64> = []
    }

    /// In bytes.
    package let limit: Int
    private let state = Mutex(State())

    package init(limit: Int) { self.limit = limit }

    /// Bytes borrowed now.
    package var used: Int { state.withLock { $0.used } }

    /// Whether somebody waits for bytes to come back.
    package var hasWaiters: Bool { state.withLock { !$0.waiters.isEmpty } }

    /// Takes `bytes` if they are free and nobody waits.
    package func tryReserve(_ bytes: Int) -> Bool {
        state.withLock { state in
            guard state.waiters.isEmpty, state.used + bytes <= limit else { return false }
            state.used += bytes
            return true
        }
    }

    /// Takes `bytes`, waiting for others to give back. More than `limit` counts as `limit`, so a request always ends.
    package func reserve(_ bytes: Int) async throws(CancellationError) {
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
                if let answer { continuation.resume(returning: answer) }
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
