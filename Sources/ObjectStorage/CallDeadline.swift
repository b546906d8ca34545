import Basics
import Synchronization

/// The time that one call of a program may wait for a store that does not answer, all its requests together.
///
/// Requests of the call's task draw on it: what each spends in vain is missing for the next one. An answer of the store makes it
/// whole again. Tasks that the call leaves running draw on nothing once it has ended. The mutex is a leaf.
package final class CallDeadline: Sendable {
    /// The call that this task belongs to.
    @TaskLocal static var current: CallDeadline?

    private struct State {
        var isOver = false
        /// Since the last answer.
        var spent = Duration.zero
        var hasTransfer = false
        /// When the last request in vain ended, since the system's start.
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

    /// What a request may spend; nil when the requests before it have spent nothing. `whole` is what a request that moves no
    /// object data has; a call with a transfer has twice that. Throws what has used it up.
    func rest(of whole: Duration, isTransfer: Bool) throws(ObjectStoreError) -> Duration? {
        let (spent, hasTransfer, error) = state.withLock { state in
            (state.isOver ? .zero : state.spent, state.hasTransfer, state.error)
        }
        guard spent > .zero, let error else { return nil }
        let rest = (isTransfer || hasTransfer ? whole * 2 : whole) - spent
        guard rest >= Self.least else { throw error }
        return rest
    }

    /// No request is begun for less.
    private static let least = Duration.milliseconds(50)

    /// A request has got no answer in `duration`, which ends `now`. Of requests at once the time counts once.
    func spend(_ duration: Duration, until now: Duration, isTransfer: Bool, because error: ObjectStoreError) {
        state.withLock { state in
            state.spent += min(duration, max(.zero, now - state.last))
            state.last = now
            state.hasTransfer = state.hasTransfer || isTransfer
            state.error = error
        }
    }

    /// The store has answered.
    func refill() { state.withLock { state in (state.spent, state.hasTransfer, state.error) = (.zero, false, nil) } }
}
