import Basics
import Logging
import ObjectStorage
import Synchronization

/// Whether the store answers at all. While it does not, known entries and listings count although they have expired.
///
/// Intercepts the requests of the file system itself. A request that was tried until its deadline without an answer begins an
/// outage. A request that the store could not serve begins one if a probe fails as well: its failure may be about one object,
/// or one part of the bucket. Any answer ends the outage, and a probe asks for one every second.
///
/// If there is an outage at the end of the mount, every later request fails at once with its error. A request from before the
/// end begins one only if a probe fails as well: the store may have come back since. The mutex is a leaf.
final class StoreWatch: Interceptor {
    private struct State {
        /// The error that began the outage; nil if there is none.
        var outage: ObjectStoreError?
        var isEnding = false
    }

    private let state = Mutex(State())
    /// How many requests of files and jobs the store has carried out.
    private let carriedOut = Atomic<Int>(0)
    private let pool: WorkerPool
    private let time: any TimeSource
    private let logger: Logger
    private let probe: @Sendable () async -> ObjectStoreError?

    /// `probe` sends the store a request, and returns the error if it fails.
    init(
        pool: WorkerPool, time: any TimeSource, logger: Logger, probe: @escaping @Sendable () async -> ObjectStoreError?
    ) {
        (self.pool, self.time, self.logger, self.probe) = (pool, time, logger, probe)
    }

    var isAway: Bool { state.withLock { $0.outage != nil } }

    /// The error of every later request; nil until the mount ends during an outage.
    var verdict: ObjectStoreError? { state.withLock { $0.isEnding ? $0.outage : nil } }

    /// Grows as long as the store carries requests out.
    var answers: Int { carriedOut.load(ordering: .relaxed) }

    fileprivate func noteAnswer() { carriedOut.add(1, ordering: .relaxed) }

    fileprivate var isEnding: Bool { state.withLock { $0.isEnding } }

    /// To be called when the mount ends. Asks the store once more if it is away: it may have come back since it was last asked.
    func end() async {
        if isAway, await probe().map({ !$0.isOutage }) ?? true { answered() }
        state.withLock { $0.isEnding = true }
    }

    func intercept<Answer: Sendable>(
        _ context: RequestContext, settle: Settlement<Answer>?, _ attempt: () async throws(ObjectStoreError) -> Answer
    ) async throws(ObjectStoreError) -> Answer {
        if let verdict { throw verdict }
        let wasEnding = isEnding
        do throws(ObjectStoreError) {
            let answer = try await attempt()
            noteAnswer()
            answered()
            return answer
        } catch {
            if !error.isOutage {
                if error.status != nil { answered() }
            } else if isAway || error.status == nil && wasEnding == isEnding {
                lost(error)
            } else if let reason = await probe(), reason.isOutage {
                lost(reason)
            }
            throw error
        }
    }

    fileprivate func lost(_ error: ObjectStoreError) {
        let begins = state.withLock { state in
            defer { state.outage = state.outage ?? error }
            return state.outage == nil
        }
        guard begins else { return }
        logger.warning(
            "the store does not answer; the mount serves what it has cached", metadata: ["reason": "\(error)"])
        pool.start { [self] in
            while isAway, !isEnding {
                do { try await time.sleep(for: .seconds(1)) } catch { return }
                if let error = await probe(), error.isOutage { continue }
                answered()
            }
        }
    }

    private func answered() {
        let ends = state.withLock { state in
            defer { if !state.isEnding { state.outage = nil } }
            return state.outage != nil && !state.isEnding
        }
        if ends { logger.info("the store answers again") }
    }
}

/// Intercepts the requests of unfinished jobs. While the mount lives these begin no outage: each is about one key, and is
/// retried. Those sent at its end can begin one, and fail at once during one.
struct LastRequests: Interceptor {
    let watch: StoreWatch

    func intercept<Answer: Sendable>(
        _ context: RequestContext, settle: Settlement<Answer>?, _ attempt: () async throws(ObjectStoreError) -> Answer
    ) async throws(ObjectStoreError) -> Answer {
        if let verdict = watch.verdict { throw verdict }
        let wasEnding = watch.isEnding
        do throws(ObjectStoreError) {
            let answer = try await attempt()
            watch.noteAnswer()
            return answer
        } catch {
            if wasEnding, error.isOutage, error.status == nil { watch.lost(error) }
            throw error
        }
    }
}

extension ObjectStoreError {
    /// Whether the store did not answer or could not serve. A completion without a version is no outage: the store has answered
    /// it.
    fileprivate var isOutage: Bool {
        switch kind {
        case .unreachable, .interrupted, .timedOut, .serverFault, .throttled: !isOfUntoldVersion
        default: false
        }
    }
}
