package import Basics

/// Whether and when a failed request is sent again: pure; takes an event and returns a delay or nil.
///
/// Full jitter on an exponential base, as AWS's "Exponential Backoff And Jitter" has it; Retry-After is a floor. A program waits
/// for a request that moves no object data: it is tried often, without a limit of tries, until its deadline and a quarter of it
/// are over, so that a store that was away for the whole deadline gets more than one try when it is back. A transfer may take as
/// long as bytes move: it ends when its tries are used up and the deadline is spent without progress, or twice the deadline is.
package struct RetryPolicy: Sendable, Hashable {
    /// How long a request is tried without progress. The transport gives up a try that is silent for so long.
    package var deadline = Duration.seconds(30)
    /// Least number of tries of a transfer, unless it is silent for too long.
    package var transferTries = 6
    package var firstDelay = Duration.milliseconds(50)
    package var throttledDelay = Duration.milliseconds(500)
    package var longestDelay = Duration.seconds(20)

    package init() {}

    /// How long to wait before try number `tries + 1`, or nil to give up.
    ///
    /// `elapsed` is since the first try began, of a transfer without the time in which it may have moved; `last` is how long the
    /// last try took; `random` lies in 0..<1.
    package func delay(
        after error: ObjectStoreError, tries: Int, elapsed: Duration, last: Duration = .zero, isTransfer: Bool,
        random: Double
    ) -> Duration? {
        guard error.isRetryable, !error.isOfOvertakenUpload, !error.isOfUntoldVersion else { return nil }
        // A try that was silent for the whole deadline would be so again.
        let limit = isTransfer ? deadline * 2 : error.kind == .timedOut ? deadline : deadline * 5 / 4
        if isTransfer, tries >= transferTries, elapsed >= deadline { return nil }
        // Bytes may move in each try, and no try succeed.
        if isTransfer, tries >= transferTries * 8 { return nil }
        let base = error.kind == .throttled ? throttledDelay : firstDelay
        // The delay after a long outage must still leave several tries.
        let ceiling = min(longestDelay, deadline / (isTransfer ? 6 : 10), base * (1 << min(tries, 16)))
        // At least half of the delay is kept, so that a storm of retries is never immediate.
        var delay = ceiling * (0.5 + random / 2)
        if let floor = error.retryAfter { delay = max(delay, floor) }
        // If no connection can be made, the next try takes as long as the last one, and would end too late.
        let rest = limit - elapsed - (error.kind == .unreachable && last > .seconds(1) ? last : .zero)
        if delay <= rest { return delay }
        // The last try is made at the end of the time, unless the store asks for a longer wait.
        guard rest >= firstDelay, error.retryAfter.map({ $0 <= rest }) ?? true else { return nil }
        return rest
    }

    /// How long a further try may be silent; `elapsed` as for `delay`.
    func silence(afterTries elapsed: Duration, isTransfer: Bool) -> Duration {
        max((isTransfer ? deadline * 2 : deadline * 5 / 4) - elapsed, deadline / 8)
    }
}

/// Sends failed requests again, as the policy says. If a write is refused after a try without an answer, the store is asked for
/// the outcome: this mount's own first try must not count as another client's write.
package struct Retrying: Interceptor {
    /// Whether requests of this task are sent once: for trials, whose failure has no consequence.
    @TaskLocal package static var isOff = false

    private let policy: RetryPolicy
    private let time: any TimeSource
    private let meter: RequestMeter?

    /// `meter` counts the retries.
    package init(_ policy: RetryPolicy, time: any TimeSource, meter: RequestMeter? = nil) {
        (self.policy, self.time, self.meter) = (policy, time, meter)
    }

    package func intercept<Answer: Sendable>(
        _ context: RequestContext, settle: Settlement<Answer>?, _ attempt: () async throws(ObjectStoreError) -> Answer
    ) async throws(ObjectStoreError) -> Answer {
        guard let call = CallDeadline.current else { return try await carryOut(context, policy, settle, attempt) }
        let rest = try call.rest(of: policy.deadline * 5 / 4, isTransfer: context.isTransfer)
        var policy = policy
        if let rest { policy.deadline = min(policy.deadline, context.isTransfer ? rest * 2 / 5 : rest * 4 / 5) }
        let began = time.uptime()
        let result = await within(rest.map { _ in policy.deadline }) { () async -> Result<Answer, ObjectStoreError> in
            do throws(ObjectStoreError) {
                return .success(try await carryOut(context, policy, settle, attempt))
            } catch { return .failure(error) }
        }
        switch result {
        case .success: call.refill()
        case .failure(let error) where error.isRetryable:
            // Bytes may have moved for longer before the silence.
            let longest = context.isTransfer ? policy.deadline * 2 : policy.deadline * 5 / 4
            let now = time.uptime()
            call.spend(min(now - began, longest), until: now, isTransfer: context.isTransfer, because: error)
        case .failure(let error): if error.status != nil { call.refill() }
        }
        return try result.get()
    }

    /// Runs `body`; a request in it waits without progress no longer than `limit`.
    private func within<Value>(_ limit: Duration?, _ body: () async -> Value) async -> Value {
        guard let limit, limit < RequestTimeout.current ?? policy.deadline else { return await body() }
        return await RequestTimeout.$current.withValue(limit) { await body() }
    }

    private func carryOut<Answer>(
        _ context: RequestContext, _ policy: RetryPolicy, _ settle: Settlement<Answer>?,
        _ attempt: () async throws(ObjectStoreError) -> Answer
    ) async throws(ObjectStoreError) -> Answer {
        let start = time.uptime()
        var tries = 0
        var isInDoubt = false
        var still = Duration.zero
        while true {
            let began = time.uptime()
            // A try near the end of the time must not have the whole deadline again.
            let spent = context.isTransfer ? still : began - start
            let rest = tries == 0 ? nil : policy.silence(afterTries: spent, isTransfer: context.isTransfer)
            let result = await within(rest) { () async -> Result<Answer, ObjectStoreError> in
                do throws(ObjectStoreError) { return .success(try await attempt()) } catch { return .failure(error) }
            }
            do throws(ObjectStoreError) { return try result.get() } catch {
                tries += 1
                let last = time.uptime() - began
                still += stillness(of: error, after: last, policy)
                // The try before may have succeeded and so make this one fail; or the request has succeeded, with an answer that
                // lacks the version.
                let isToAsk = isInDoubt && error.mayFollowSuccess || error.isOfUntoldVersion
                if isToAsk, let settle {
                    // A call has one deadline; here the time that a transfer has not used of its own is available.
                    let asked = context.isTransfer ? time.uptime() - still + policy.deadline * 5 / 4 : start
                    if let answer = try await ask(settle, policy, since: asked) { return answer }
                }
                isInDoubt = isInDoubt || error.leavesDoubt
                let delay = policy.delay(
                    after: error, tries: tries, elapsed: context.isTransfer ? still : time.uptime() - start, last: last,
                    isTransfer: context.isTransfer, random: Double.random(in: 0..<1))
                guard let delay, !Self.isOff else { throw error }
                still += delay
                do { try await time.sleep(for: delay) } catch {
                    throw ObjectStoreError(
                        .cancelled, context.operation, key: context.key, code: "Cancelled", message: "cancelled")
                }
                meter?.retries(context.operation)
            }
        }
    }

    /// The time of a failed try in which surely no bytes moved: all of a short try, the silence at the end of a long one. A try
    /// may also have waited for its turn.
    private func stillness(of error: ObjectStoreError, after length: Duration, _ policy: RetryPolicy) -> Duration {
        if error.kind == .timedOut { return min(length, policy.deadline) }
        if length < policy.deadline { return length }
        // No connection was made, which takes time as well.
        return error.kind == .unreachable ? policy.deadline / 3 : .zero
    }

    /// Asks the store for the outcome; nil when the write is not this mount's. Retried while the store does not answer. If it
    /// never does, the outcome is unknown, and the missing answer is thrown: a refusal must not hide a write that may have
    /// happened.
    private func ask<Answer>(
        _ settle: Settlement<Answer>, _ policy: RetryPolicy, since start: Duration
    ) async throws(ObjectStoreError) -> Answer? {
        var tries = 0
        while true {
            let began = time.uptime()
            do throws(ObjectStoreError) { return try await settle() } catch {
                guard error.isRetryable else { return nil }
                tries += 1
                let delay = policy.delay(
                    after: error, tries: tries, elapsed: time.uptime() - start, last: time.uptime() - began,
                    isTransfer: false, random: Double.random(in: 0..<1))
                guard let delay else { throw error }
                do { try await time.sleep(for: delay) } catch {
                    throw ObjectStoreError(.cancelled, .head, code: "Cancelled", message: "cancelled")
                }
            }
        }
    }
}

extension ObjectStoreError {
    /// Whether the store may have carried out the request all the same.
    var leavesDoubt: Bool {
        switch kind {
        case .interrupted, .timedOut, .serverFault, .malformedAnswer: true
        default: false
        }
    }

    /// Whether a request can fail like this because an earlier try of it has succeeded.
    fileprivate var mayFollowSuccess: Bool {
        switch kind {
        case .preconditionFailed, .noSuchUpload: true
        case .conflict: operation == .completeUpload
        case .notFound: operation == .move || operation == .delete
        default: false
        }
    }
}
