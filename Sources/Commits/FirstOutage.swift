import ObjectStorage
import Synchronization

/// Sends requests to a store until one gets no answer; later ones fail at once.
///
/// For work that cannot wait through many deadlines, and that is retried anyway. Lives as long as that work; the mutex is a leaf.
final class FirstOutage: Interceptor {
    private let outage: Mutex<ObjectStoreError?>

    /// With `known` the store is away from the start.
    init(known: ObjectStoreError? = nil) { outage = Mutex(known) }

    func intercept<Answer: Sendable>(
        _ context: RequestContext, settle: Settlement<Answer>?, _ attempt: () async throws(ObjectStoreError) -> Answer
    ) async throws(ObjectStoreError) -> Answer {
        if let error = outage.withLock({ $0 }) { throw error }
        do throws(ObjectStoreError) { return try await attempt() } catch {
            if error.isOfSilence { outage.withLock { $0 = error } }
            throw error
        }
    }
}

extension ObjectStoreError {
    /// Whether the store did not answer within the whole deadline.
    var isOfSilence: Bool { [.unreachable, .interrupted, .timedOut].contains(kind) }
}
