import ObjectStorage

/// A request of the store is a point at which other tasks go on, before and after the store carries it out.
struct Pauses: Interceptor {
    func intercept<Answer: Sendable>(
        _ context: RequestContext, settle: Settlement<Answer>?,
        _ attempt: () async throws(ObjectStoreError) -> Answer
    ) async throws(ObjectStoreError) -> Answer {
        await Task.yield()
        let answer: Result<Answer, ObjectStoreError>
        do throws(ObjectStoreError) { answer = .success(try await attempt()) } catch { answer = .failure(error) }
        await Task.yield()
        return try answer.get()
    }
}
