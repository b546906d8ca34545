import Basics
import Synchronization

/// Carries a result from a task to the thread that waits for it. Locks: its own mutex.
final class WorkAnswer<Value: Sendable>: Sendable {
    private let value = Mutex<Value?>(nil)
    private let arrived = Semaphore()

    /// Runs `work` on the pool. A caller that stops waiting can cancel the returned task.
    @discardableResult
    func begin(on pool: WorkerPool, _ work: @escaping @Sendable () async -> Value) -> Task<Void, Never> {
        pool.start { [self] in
            let value = await work()
            self.value.withLock { $0 = value }
            arrived.signal()
        }
    }

    /// Waits for the result up to `limit`, or without one; nil when it has not come.
    func wait(for limit: Duration?) -> Value? {
        guard let limit else {
            arrived.wait()
            return value.withLock { $0 }
        }
        return arrived.wait(for: limit) ? value.withLock { $0 } : nil
    }

    /// The result of `work`, run on the pool.
    static func wait(on pool: WorkerPool, _ work: @escaping @Sendable () async -> Value) -> Value {
        let answer = WorkAnswer()
        answer.begin(on: pool, work)
        answer.arrived.wait()
        guard let value = answer.value.withLock({ $0 }) else { preconditionFailure("the work ended without an answer") }
        return value
    }

    /// Waits for `work` that may throw.
    static func wait<Success: Sendable, Failure: Error>(
        on pool: WorkerPool, _ work: @escaping @Sendable () async throws(Failure) -> Success
    ) throws(Failure) -> Success where Value == Result<Success, Failure> {
        try wait(on: pool) { () async -> Value in
            do throws(Failure) { return .success(try await work()) } catch { return .failure(error) }
        }.get()
    }
}
