import ObjectStorage
import Synchronization

/// Asks a store until it is away once, and then fails at once.
///
/// For work that nobody can wait for through many deadlines, and that is tried again anyway. Lives as long as that work; the
/// mutex is a leaf.
final class FirstOutage: Interceptor {
    private let outage = Mutex<ObjectStoreError?>(nil)

    func intercept<Answer: Sendable>(
        _ context: RequestContext, settle: Settlement<Answer>?, _ attempt: () async throws(ObjectStoreError) -> Answer
    ) async throws(ObjectStoreError) -> Answer {
        if let error = outage.withLock({ $0 }) { throw error }
        do throws(ObjectStoreError) { return try await attempt() } catch {
            if [.unreachable, .timedOut].contains(error.kind) { outage.withLock { $0 = error } }
            throw error
        }
    }
}
