package import Basics
import Synchronization

/// Sends HTTP/1.1 requests over a pool of kept connections, on one thread of its own.
///
/// Bodies stream both ways through the caller's source and sink, which run on that thread. Nothing is retried, followed or
/// decoded. Any number of tasks may call at once; past the connection limits requests wait in order. The engine lives
/// as long as it is referenced; its thread and connections end with it.
package final class HTTPEngine: Sendable {
    private let loop: TransferLoop

    /// What it moves is counted in `traffic`.
    package init(_ options: HTTPOptions = HTTPOptions(), traffic: HTTPTraffic = HTTPTraffic()) {
        loop = TransferLoop(options, traffic)
        startThread(name: "pailfs-http") { [loop] in loop.run() }
    }

    deinit { loop.close() }

    /// Sends `request` with `body` and returns the answer, whatever its status.
    ///
    /// The body of the answer goes where `bodyUse` says: by default to `sink` when the status is 2xx, and into the
    /// response otherwise or without a sink. A body shorter than its Content-Length is `.interrupted`. Cancelling the task
    /// ends the transfer, unless it may change something and all of it was sent: then its answer is waited for, two seconds at
    /// most. Neither source nor sink is used after this returns.
    package func execute(
        _ request: HTTPRequest, body: (any ByteSource)? = nil, sink: (any ByteSink)? = nil,
        bodyUse: @escaping @Sendable (HTTPResponse) -> BodyUse = { $0.isSuccess ? .deliver : .collect }
    ) async throws(HTTPError) -> HTTPResponse {
        try Self.validate(request)
        let submission = Submission(request, source: body, sink: sink, bodyUse: bodyUse)
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                submission.continuation.withLock { $0 = continuation }
                loop.submit(submission)
            }
        } onCancel: {
            loop.cancel(submission)
        }
        return try result.get()
    }

    /// A line break in a header would let its sender write headers of his own.
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
