import Synchronization

/// A fair lock that tasks wait for without holding a thread: many share it, or one has it alone.
///
/// A file's gate is shared by writes and taken alone by its commit, truncation and rename, so an object is never made
/// of bytes that changed meanwhile. State lives in the mutex, a leaf; continuations are resumed outside it.
package final class TaskGate: Sendable {
    private struct Waiter {
        let id: UInt64
        let alone: Bool
        let continuation: CheckedContinuation<Bool, Never>
    }

    private struct State {
        /// Sharers inside, or -1 while one is alone.
        var inside = 0
        var nextID: UInt64 = 0
        var waiters: [Waiter] = []
        var cancelled: Set<UInt64> = []

        func admits(alone: Bool) -> Bool { alone ? inside == 0 : inside >= 0 }

        mutating func admit(alone: Bool) { inside = alone ? -1 : inside + 1 }
    }

    private let state = Mutex(State())

    package init() {}

    /// Enters at once, or not at all.
    package func tryEnter(alone: Bool = false) -> Bool {
        state.withLock { state in
            guard state.waiters.isEmpty, state.admits(alone: alone) else { return false }
            state.admit(alone: alone)
            return true
        }
    }

    /// Waits for its turn; throws when the task is cancelled before.
    package func enter(alone: Bool = false) async throws(CancellationError) {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        let entered = await withTaskCancellationHandler {
            await wait(id, alone: alone)
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
        if !entered { throw CancellationError() }
    }

    /// Waits for its turn whether or not the task is cancelled: for steps that must follow one already taken.
    package func enterRegardless(alone: Bool = false) async {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        _ = await wait(id, alone: alone)
    }

    private func wait(_ id: UInt64, alone: Bool) async -> Bool {
        await withCheckedContinuation { continuation in
            let answer: Bool? = state.withLock { state in
                if state.cancelled.contains(id) { return false }
                if state.waiters.isEmpty, state.admits(alone: alone) {
                    state.admit(alone: alone)
                    return true
                }
                state.waiters.append(Waiter(id: id, alone: alone, continuation: continuation))
                return nil
            }
            if let answer { continuation.resume(returning: answer) }
        }
    }

    package func leave(alone: Bool = false) {
        state.withLock { state in
            precondition(alone ? state.inside == -1 : state.inside > 0, "left a gate that was not entered")
            state.inside = alone ? 0 : state.inside - 1
        }
        admitWaiters()
    }

    private func admitWaiters() {
        let admitted: [Waiter] = state.withLock { state in
            var admitted: [Waiter] = []
            while let waiter = state.waiters.first, state.admits(alone: waiter.alone) {
                state.admit(alone: waiter.alone)
                admitted.append(state.waiters.removeFirst())
            }
            return admitted
        }
        for waiter in admitted { waiter.continuation.resume(returning: true) }
    }
}
