import Synchronization

/// Lets tasks wait until something has changed. A leaf lock; waiters are resumed outside it.
package final class ChangeSignal: Sendable {
    private struct State {
        var changes: UInt64 = 0
        var nextID: UInt64 = 0
        var waiters: [UInt64: CheckedContinuation<Void, Never>] = [:]
    }

    private let state = Mutex(State())

    package init() {}

    /// How many changes there were.
    package var changes: UInt64 { state.withLock { $0.changes } }

    package func change() {
        let waiters = state.withLock { state in
            state.changes += 1
            defer { state.waiters = [:] }
            return state.waiters
        }
        for waiter in waiters.values { waiter.resume() }
    }

    /// Returns when there were more changes than `seen`, or when the task is cancelled and `cancellable`.
    package func wait(after seen: UInt64, cancellable: Bool) async {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if state.changes != seen || (cancellable && Task.isCancelled) { return true }
                    state.waiters[id] = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            guard cancellable else { return }
            state.withLock { $0.waiters.removeValue(forKey: id) }?.resume()
        }
    }
}
