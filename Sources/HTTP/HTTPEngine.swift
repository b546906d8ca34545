package import Basics
import Synchronization

/// Sends HTTP/1.1 requests over a pool of kept connections, on one thread of its own.
///
/// Bodies stream both ways through the caller's source and sink, which run on that thread. Nothing is retried, followed or
/// decoded. Any number of tasks may call at once; past the connection limits requests wait in order. The engine lives
/// as long as it is referenced; its thread and connections end with it.
package final class HTTPEngine: Sendable {
    private let loop: TransferLoop
    private let stallTimeout: Duration

    /// `traffic` counts the bytes of bodies.
    package init(_ options: HTTPOptions = HTTPOptions(), traffic: HTTPTraffic = HTTPTraffic()) {
        stallTimeout = options.stallTimeout
        loop = TransferLoop(options, traffic)
        startThread(name: "pailfs-http") { [loop] in loop.run() }
    }

    deinit { loop.close() }

    /// Sends `request` with `body` and returns the answer, whatever its status.
    ///
    /// `bodyUse` decides where the body of the answer goes: by default to `sink` when the status is 2xx, and into the response
    /// otherwise or without a sink. A body shorter than its Content-Length is `.interrupted`. Cancelling the task ends the
    /// transfer, unless the request may change something and all of it was sent: then the engine waits for its answer, two
    /// seconds at most. Neither source nor sink is used after this returns. `RequestTimeout` shortens the time limits. A request
    /// with a longer `stallTimeout` than the engine's ends earlier when the origin does not answer HEAD requests meanwhile.
    package func execute(
        _ request: HTTPRequest, body: (any ByteSource)? = nil, sink: (any ByteSink)? = nil,
        bodyUse: @escaping @Sendable (HTTPResponse) -> BodyUse = { $0.isSuccess ? .deliver : .collect }
    ) async throws(HTTPError) -> HTTPResponse {
        try Self.validate(request)
        var request = request
        if let limit = RequestTimeout.current {
            request.stallTimeout = min(request.stallTimeout ?? limit, limit)
            request.connectTimeout = limit
        }
        let submission = Submission(request, source: body, sink: sink, bodyUse: bodyUse)
        guard request.stallTimeout ?? .zero > stallTimeout else { return try await run(submission).get() }
        async let _: Void = watch(submission)
        let result = await run(submission)
        return try result.get()
    }

    private func run(_ submission: Submission) async -> Result<HTTPResponse, HTTPError> {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                submission.continuation.withLock { $0 = continuation }
                loop.submit(submission)
            }
        } onCancel: {
            loop.cancel(submission)
        }
    }

    /// Watches a request whose answer may take longer than others', as the server works on it: ends it when the server does not
    /// answer a HEAD either. Returns when the request has ended.
    private func watch(_ submission: Submission) async {
        var question = HTTPRequest(.head, submission.request.origin, target: "/")
        question.avoidsProxy = submission.request.avoidsProxy
        while true {
            do {
                try await SystemTime().sleep(for: stallTimeout / 8)
                _ = try await execute(question)
            } catch let error as HTTPError {
                guard error.kind == .timedOut || error.kind == .unreachable else { continue }
                return loop.forsake(submission)
            } catch { return }
        }
    }

    /// A line break in a header would let the author of its value add other headers.
    private static func validate(_ request: HTTPRequest) throws(HTTPError) {
        for field in request.headers.fields {
            guard (field.name + field.value).utf8.allSatisfy({ $0 >= 32 && $0 != 127 || $0 == 9 }) else {
                throw HTTPError(.invalidRequest, "the header \(field.name) holds a control character")
            }
        }
        guard request.target.utf8.first == UInt8(ascii: "/"), request.target.utf8.allSatisfy({ 33..<127 ~= $0 }) else {
            throw HTTPError(.invalidRequest, "the request target is not percent-encoded")
        }
    }
}
