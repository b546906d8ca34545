import Basics
import Synchronization

/// The time that one call of a program may wait for a store that does not answer, in all its requests together.
///
/// Requests of the call's task draw on it: time spent without an answer is missing for the next request. An answer of the store
/// restores the whole time. Tasks that go on after the call has ended do not draw on it. Locks: the mutex is a leaf.
package final class CallDeadline: Sendable {
    /// The call that this task belongs to.
    @TaskLocal static var current: CallDeadline?

    private struct State {
        var isOver = false
        /// Since the last answer.
        var spent = Duration.zero
        var hasTransfer = false
        /// The time since boot at which the last request without an answer ended.
        var last = Duration.zero
        var error: ObjectStoreError?
    }

    private let state = Mutex(State())

    private init() {}

    /// Runs a call with a deadline of its own.
    package static func run<Value: Sendable>(_ call: @Sendable () async -> Value) async -> Value {
        let deadline = CallDeadline()
        defer { deadline.state.withLock { $0.isOver = true } }
        return await $current.withValue(deadline) { await call() }
    }

    /// The time left for a request; nil when earlier requests have spent none. `whole` is the time of a request that moves no
    /// object data; a call with a transfer has twice that. Throws the error of the last request when the time is used up.
    func rest(of whole: Duration, isTransfer: Bool) throws(ObjectStoreError) -> Duration? {
        let (spent, hasTransfer, error) = state.withLock { state in
            (state.isOver ? .zero : state.spent, state.hasTransfer, state.error)
        }
        guard spent > .zero, let error else { return nil }
        let rest = (isTransfer || hasTransfer ? whole * 2 : whole) - spent
        guard rest >= Self.least else { throw error }
        return rest
    }

    /// No request is begun with less time.
    private static let least = Duration.milliseconds(50)

    /// Counts a request that got no answer in `duration`, which ends `now`. The time of concurrent requests counts once.
    func spend(_ duration: Duration, until now: Duration, isTransfer: Bool, because error: ObjectStoreError) {
        state.withLock { state in
            state.spent += min(duration, max(.zero, now - state.last))
            state.last = now
            state.hasTransfer = state.hasTransfer || isTransfer
            state.error = error
        }
    }

    /// Restores the whole time: the store has answered.
    func refill() { state.withLock { state in (state.spent, state.hasTransfer, state.error) = (.zero, false, nil) } }
}
