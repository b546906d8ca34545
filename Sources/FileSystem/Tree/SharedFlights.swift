import Basics
import Synchronization

/// One run of the same work for everybody who asks while it runs.
///
/// The work runs as a task of its own, so a caller that is interrupted leaves without ending it for the others.
/// Flights live in the mutex, a leaf; nothing is awaited or resumed under it.
final class SharedFlights<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct Flight {
        var waiters: [UInt64: CheckedContinuation<Result<Value, FileSystemError>, Never>] = [:]
    }

    private enum Step { case start, wait, leave }

    private struct State {
        var flights: [Key: Flight] = [:]
        var nextID: UInt64 = 0
        var cancelled: Set<UInt64> = []
    }

    private let pool: WorkerPool
    private let state = Mutex(State())

    init(pool: WorkerPool) { self.pool = pool }

    /// The result of `work` for `key`, begun here or by somebody before; `.interrupted` when this task is cancelled.
    func value(
        for key: Key, _ work: @escaping @Sendable () async -> Result<Value, FileSystemError>
    ) async throws(FileSystemError) -> Value {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let step: Step = state.withLock { state in
                    if state.cancelled.contains(id) { return .leave }
                    let isNew = state.flights[key] == nil
                    state.flights[key, default: Flight()].waiters[id] = continuation
                    return isNew ? .start : .wait
                }
                switch step {
                case .leave: continuation.resume(returning: .failure(.interrupted))
                case .wait: break
                case .start: pool.start { self.land(key, await work()) }
                }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                state.cancelled.insert(id)
                return state.flights[key]?.waiters.removeValue(forKey: id)
            }
            waiter?.resume(returning: .failure(.interrupted))
        }
        state.withLock { _ = $0.cancelled.remove(id) }
        return try result.get()
    }

    private func land(_ key: Key, _ result: Result<Value, FileSystemError>) {
        let flight = state.withLock { $0.flights.removeValue(forKey: key) }
        for waiter in flight?.waiters.values ?? [:].values { waiter.resume(returning: result) }
    }
}

extension FileSystemError {
    static let interrupted = FileSystemError(.interrupted, "interrupted by a signal")
}
