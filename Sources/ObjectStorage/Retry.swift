package import Basics

/// Whether and when a failed request is sent again: pure, an event in, a delay or nothing out.
///
/// Full jitter on an exponential base, as AWS's "Exponential Backoff And Jitter" has it; Retry-After is a floor. A call
/// ends when the next try would begin after its deadline. Transfers have no deadline of their own, since each of their
/// tries ends for lack of progress, but a limited number of tries.
package struct RetryPolicy: Sendable, Hashable {
    /// For requests that move no object data, from the first try on.
    package var deadline = Duration.seconds(30)
    /// Tries of a transfer.
    package var transferTries = 6
    package var firstDelay = Duration.milliseconds(50)
    package var throttledDelay = Duration.milliseconds(500)
    package var longestDelay = Duration.seconds(20)

    package init() {}

    /// How long to wait before try number `tries + 1`, or nil to give up.
    ///
    /// `elapsed` is since the first try began; `random` lies in 0..<1.
    package func delay(
        after error: ObjectStoreError, tries: Int, elapsed: Duration, isTransfer: Bool, random: Double
    ) -> Duration? {
        guard error.isRetryable else { return nil }
        if isTransfer, tries >= transferTries { return nil }
        let base = error.kind == .throttled ? throttledDelay : firstDelay
        let ceiling = min(longestDelay, base * (1 << min(tries, 16)))
        // The lower half stays, so that a storm of retries is never immediate.
        var delay = ceiling * (0.5 + random / 2)
        if let floor = error.retryAfter { delay = max(delay, floor) }
        if !isTransfer, elapsed + delay > deadline { return nil }
        return delay
    }
}

/// Sends failed requests again, as the policy says. A write that is refused after a try without an answer is settled with
/// the store, so that nobody takes our own first try for somebody else's work.
package struct Retrying: Interceptor {
    private let policy: RetryPolicy
    private let time: any TimeSource
    private let meter: RequestMeter?

    /// `meter` counts what is sent again.
    package init(_ policy: RetryPolicy, time: any TimeSource, meter: RequestMeter? = nil) {
        (self.policy, self.time, self.meter) = (policy, time, meter)
    }

    package func intercept<Answer: Sendable>(
        _ context: RequestContext, settle: Settlement<Answer>?, _ attempt: () async throws(ObjectStoreError) -> Answer
    ) async throws(ObjectStoreError) -> Answer {
        let start = time.uptime()
        var tries = 0
        var isInDoubt = false
        while true {
            do throws(ObjectStoreError) { return try await attempt() } catch {
                tries += 1
                // The try before may have done what makes this one fail.
                if isInDoubt, error.mayFollowSuccess, let settle, let answer = await Self.ask(settle) { return answer }
                isInDoubt = isInDoubt || error.leavesDoubt
                let delay = policy.delay(
                    after: error, tries: tries, elapsed: time.uptime() - start, isTransfer: context.isTransfer,
                    random: Double.random(in: 0..<1))
                guard let delay else { throw error }
                do { try await time.sleep(for: delay) } catch {
                    throw ObjectStoreError(
                        .cancelled, context.operation, key: context.key, code: "Cancelled", message: "cancelled")
                }
                meter?.retries(context.operation)
            }
        }
    }

    /// nil also when the store cannot be asked: the refusal stands then.
    private static func ask<Answer>(_ settle: Settlement<Answer>) async -> Answer? {
        do throws(ObjectStoreError) { return try await settle() } catch { return nil }
    }
}

extension ObjectStoreError {
    /// Whether the store may have done what was asked all the same.
    fileprivate var leavesDoubt: Bool {
        switch kind {
        case .interrupted, .timedOut, .serverFault, .malformedAnswer: true
        default: false
        }
    }

    /// Whether a request can fail like this because an earlier try of it succeeded.
    fileprivate var mayFollowSuccess: Bool {
        kind == .preconditionFailed || kind == .noSuchUpload || kind == .notFound && operation == .move
    }
}
