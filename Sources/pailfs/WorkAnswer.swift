import Basics
import Synchronization

/// Carries a result from a task to the thread that waits for it; locked by its own mutex.
final class WorkAnswer<Value: Sendable>: Sendable {
    let value = Mutex<Value?>(nil)
    let arrived = Semaphore()
}
