package import Basics
package import Logging
import Synchronization

/// What a mount asked of its store, for `pailfs status` and for tests of request budgets. Its mutex is a leaf.
package final class RequestMeter: Sendable {
    package struct Figures: Sendable {
        package var requests = 0
        package var failures = 0
        /// Tries that followed a failed one.
        package var retries = 0
        package var inFlight = 0
        /// Of requests that succeeded.
        package var latency = Histogram()
    }

    private let figures = Mutex<[ObjectStoreError.Operation: Figures]>([:])

    package init() {}

    package var snapshot: [ObjectStoreError.Operation: Figures] { figures.withLock { $0 } }

    func retries(_ operation: ObjectStoreError.Operation) {
        figures.withLock { $0[operation, default: Figures()].retries += 1 }
    }

    fileprivate func began(_ operation: ObjectStoreError.Operation) {
        figures.withLock { figures in
            figures[operation, default: Figures()].requests += 1
            figures[operation, default: Figures()].inFlight += 1
        }
    }

    fileprivate func ended(_ operation: ObjectStoreError.Operation, after elapsed: Duration, failed: Bool) {
        figures.withLock { figures in
            figures[operation, default: Figures()].inFlight -= 1
            if failed {
                figures[operation, default: Figures()].failures += 1
            } else {
                figures[operation, default: Figures()].latency.record(elapsed)
            }
        }
    }
}

/// Counts and times each request, and writes one debug line for it; what failed keeps its request ID.
package struct Measuring: Interceptor {
    private let meter: RequestMeter
    private let time: any TimeSource
    private let logger: Logger

    package init(_ meter: RequestMeter, time: any TimeSource, logger: Logger) {
        (self.meter, self.time, self.logger) = (meter, time, logger)
    }

    package func intercept<Answer: Sendable>(
        _ context: RequestContext, settle: Settlement<Answer>?, _ attempt: () async throws(ObjectStoreError) -> Answer
    ) async throws(ObjectStoreError) -> Answer {
        let start = time.uptime()
        meter.began(context.operation)
        do throws(ObjectStoreError) {
            let answer = try await attempt()
            let elapsed = time.uptime() - start
            meter.ended(context.operation, after: elapsed, failed: false)
            logger.debug("request", metadata: metadata(context, elapsed))
            return answer
        } catch {
            let elapsed = time.uptime() - start
            meter.ended(context.operation, after: elapsed, failed: true)
            var metadata = metadata(context, elapsed)
            metadata["status"] = error.status.map { "\($0)" }
            metadata["code"] = error.code.map { "\($0)" }
            metadata["request_id"] = error.requestID.map { "\($0)" }
            metadata["reason"] = "\(error.message)"
            logger.debug("request failed", metadata: metadata)
            throw error
        }
    }

    private func metadata(_ context: RequestContext, _ elapsed: Duration) -> Logger.Metadata {
        var metadata: Logger.Metadata = ["op": "\(context.operation.rawValue)", "elapsed": "\(elapsed)"]
        if let key = context.key { metadata["key"] = "\(key)" }
        return metadata
    }
}
