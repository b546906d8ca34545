import ObjectStorage
import Synchronization

/// Counts the requests that the store carried out. Any thread; no lock.
final class AnswerCount: Interceptor {
    private let answers = Atomic<Int>(0)

    var count: Int { answers.load(ordering: .relaxed) }

    func intercept<Answer: Sendable>(
        _ context: RequestContext, settle: Settlement<Answer>?, _ attempt: () async throws(ObjectStoreError) -> Answer
    ) async throws(ObjectStoreError) -> Answer {
        let answer = try await attempt()
        answers.add(1, ordering: .relaxed)
        return answer
    }
}
