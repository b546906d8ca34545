import Synchronization

/// A function that is given after the object that calls it has been made. Whoever owns the binding gives it once, before
/// other threads call; its mutex is a leaf and is not held during a call.
///
/// The function lies in a struct of its own. A mutex whose whole value is a function wraps it once more whenever it is
/// read, since a generic accessor takes it out and puts it back: each call would take longer than the one before, until
/// the thread's stack is full.
package final class LateBinding<Answer: Sendable>: Sendable {
    private struct Binding {
        var tell: (@Sendable () -> Answer)?
    }

    private let binding = Mutex(Binding())

    package init() {}

    package func bind(_ tell: @escaping @Sendable () -> Answer) {
        binding.withLock { $0.tell = tell }
    }

    /// What the function answers; nil where none was given.
    package func callAsFunction() -> Answer? {
        let bound = binding.withLock { $0 }
        return bound.tell?()
    }
}
