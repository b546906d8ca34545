package import Basics
package import Logging
import Synchronization

/// Counts of a mount's requests to its store, for `pailfs status` and for tests of request budgets. Locks: the mutex is a leaf.
package final class RequestMeter: Sendable {
    package struct Figures: Sendable {
        package var requests = 0
        package var failures = 0
        /// Tries that followed a failed one.
        package var retries = 0
        package var inFlight = 0
        /// Failures by HTTP status or, where no answer came, by the kind of the error.
        package var failuresByStatus: [String: Int] = [:]
        /// Bytes of bodies that were sent, in tries that succeeded.
        package var sentBytes: Int64 = 0
        /// Times of requests that succeeded.
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

    fileprivate func succeeded(_ context: RequestContext, after elapsed: Duration) {
        change(context.operation) { figures in
            figures.inFlight -= 1
            figures.latency.record(elapsed)
            if context.operation != .get { figures.sentBytes += context.bytes }
        }
    }

    fileprivate func failed(_ operation: ObjectStoreError.Operation, _ error: ObjectStoreError) {
        let status = error.status.map { "\($0)" } ?? error.kind.name
        change(operation) { figures in
            figures.inFlight -= 1
            figures.failures += 1
            figures.failuresByStatus[status, default: 0] += 1
        }
    }

    private func change(_ operation: ObjectStoreError.Operation, _ body: (inout Figures) -> Void) {
        figures.withLock { body(&$0[operation, default: Figures()]) }
    }
}

extension ObjectStoreError.Kind {
    /// The kind without its associated value.
    fileprivate var name: String { String("\(self)".prefix { $0 != "(" }) }
}

/// Counts and times each request, and writes one debug line for it; the line of a failure has its request ID.
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
            meter.succeeded(context, after: elapsed)
            logger.debug("request", metadata: metadata(context, elapsed))
            return answer
        } catch {
            let elapsed = time.uptime() - start
            meter.failed(context.operation, error)
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
