import Basics

/// Runs the same work once for all callers that ask for it while it runs.
///
/// The work runs as a task of its own, so a caller that is interrupted does not end it for the others. The lock is a leaf.
final class SharedFlights<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private let pool: WorkerPool
    /// The keys of the running work. A waiting task waits for one of them.
    private let flights = Monitor<Set<Key>, Key, Result<Value, FileSystemError>>([])

    init(pool: WorkerPool) { self.pool = pool }

    /// The result of `work` for `key`, begun by this caller or an earlier one; `.interrupted` when this task is cancelled.
    func value(
        for key: Key, _ work: @escaping @Sendable () async -> Result<Value, FileSystemError>
    ) async throws(FileSystemError) -> Value {
        var isNew = false
        let result = await flights.wait(whenCancelled: .failure(.interrupted)) { flights, _ in
            isNew = flights.insert(key).inserted
            return .wait(key)
        } onceWaiting: {
            if isNew { pool.start { self.land(key, await work()) } }
        }
        return try result.get()
    }

    private func land(_ key: Key, _ result: Result<Value, FileSystemError>) {
        flights.change { flights, queue in
            flights.remove(key)
            queue.answer { $0 == key ? result : nil }
        }
    }
}

extension FileSystemError {
    static let interrupted = FileSystemError(.interrupted, "interrupted by a signal")
}
