import Basics
import Logging
import ObjectStorage
import Synchronization

/// Whether the store answers at all: while it does not, what is known of it is believed although it has grown old.
///
/// Stands around the requests of the file system itself. One that was tried until its deadline without an answer begins an
/// outage, and so does one that the store could not serve, if it cannot answer a question of its own either: that may be
/// about one object, or one part of the bucket. Any answer ends it, and one question a second asks for that. Its mutex is a
/// leaf.
final class StoreWatch: Interceptor {
    private let isOut = Mutex(false)
    private let pool: WorkerPool
    private let time: any TimeSource
    private let logger: Logger
    private let probe: @Sendable () async -> ObjectStoreError?

    /// `probe` asks the store anything, and tells why it was not answered.
    init(
        pool: WorkerPool, time: any TimeSource, logger: Logger, probe: @escaping @Sendable () async -> ObjectStoreError?
    ) {
        (self.pool, self.time, self.logger, self.probe) = (pool, time, logger, probe)
    }

    var isAway: Bool { isOut.withLock { $0 } }

    func intercept<Answer: Sendable>(
        _ context: RequestContext, settle: Settlement<Answer>?, _ attempt: () async throws(ObjectStoreError) -> Answer
    ) async throws(ObjectStoreError) -> Answer {
        do throws(ObjectStoreError) {
            let answer = try await attempt()
            answered()
            return answer
        } catch {
            if !error.isOutage {
                if error.status != nil { answered() }
            } else if error.status == nil || isAway {
                lost(error)
            } else if let reason = await probe(), reason.isOutage {
                lost(reason)
            }
            throw error
        }
    }

    private func lost(_ error: ObjectStoreError) {
        let begins = isOut.withLock { isOut in
            defer { isOut = true }
            return !isOut
        }
        guard begins else { return }
        logger.warning(
            "the store does not answer; the mount serves what it has cached", metadata: ["reason": "\(error)"])
        pool.start { [self] in
            while isAway {
                do { try await time.sleep(for: .seconds(1)) } catch { return }
                if let error = await probe(), error.isOutage { continue }
                answered()
            }
        }
    }

    private func answered() {
        let ends = isOut.withLock { isOut in
            defer { isOut = false }
            return isOut
        }
        if ends { logger.info("the store answers again") }
    }
}

extension ObjectStoreError {
    /// Whether the store did not answer or could not serve. One that completed an upload without its version did both.
    fileprivate var isOutage: Bool {
        switch kind {
        case .unreachable, .interrupted, .timedOut, .serverFault, .throttled: !isOfUntoldVersion
        default: false
        }
    }
}
