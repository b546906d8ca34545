import Synchronization

/// Holds a function that an object calls but that is set only after the object was made. The object's owner binds the
/// function once, before other threads call it; the mutex is a leaf and is not held during a call.
///
/// The function is in a struct of its own. A mutex whose whole value is a function adds a wrapper to it at each read, since a
/// generic accessor takes it out and puts it back: each call would take longer than the one before, until the thread's stack
/// overflows.
package final class LateBinding<Answer: Sendable>: Sendable {
    private struct Binding {
        var tell: (@Sendable () -> Answer)?
    }

    private let binding = Mutex(Binding())

    package init() {}

    package func bind(_ tell: @escaping @Sendable () -> Answer) {
        binding.withLock { $0.tell = tell }
    }

    /// Calls the function and returns its answer; nil when no function is bound.
    package func callAsFunction() -> Answer? {
        let bound = binding.withLock { $0 }
        return bound.tell?()
    }
}
