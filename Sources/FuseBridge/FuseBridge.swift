import Basics
import CFuse3
import CLinux
import FileSystem
import Logging
import Metadata

/// Turns kernel requests into calls of the file system and its answers into replies.
///
/// Makes no policy. Holds no state of its own but the requests that wait and the recent truncations that the kernel may not have
/// processed yet; all other state belongs to the file system. Called on libfuse's threads, which never wait here: `.pending` work
/// goes to the worker pool. A signal that ends the caller cancels requests that only read. Lives as long as the session that
/// passes it to libfuse as user data.
final class FuseBridge: Sendable {
    let fileSystem: any FileSystemOperations
    let buffers: BufferPool
    let time: any TimeSource
    let logger: Logger
    let pending = PendingRequests()
    let failures = FailureCounts()
    let cuts: RecentCuts
    private let pool: WorkerPool

    init(
        _ fileSystem: any FileSystemOperations, pool: WorkerPool, buffers: BufferPool, time: any TimeSource,
        logger: Logger
    ) {
        (self.fileSystem, self.pool, self.buffers, self.time) = (fileSystem, pool, buffers, time)
        self.logger = logger
        cuts = RecentCuts(time: time)
    }

    /// The bridge that the request belongs to.
    static func of(_ request: fuse_req_t?) -> FuseBridge {
        guard let request, let context = fuse_req_userdata(request) else { fatalError("libfuse passed no request") }
        return Unmanaged<FuseBridge>.fromOpaque(context).takeUnretainedValue()
    }

    typealias Reply<Value> = @Sendable (consuming FuseRequest, Value) -> Void

    /// Replies with the outcome: on this thread if it is ready, otherwise from the worker pool. `isHeard` is false when the
    /// caller does not wait for the answer.
    func answer<Value: Sendable>(
        _ request: consuming FuseRequest, _ outcome: Outcome<Value>, isHeard: @autoclosure () -> Bool = true,
        _ reply: @escaping Reply<Value>
    ) {
        switch outcome {
        case .ready(.success(let value)): reply(request, value)
        case .ready(.failure(let error)): request.fail(error)
        case .pending(let work): answerLater(request, work, isHeard: isHeard(), reply)
        }
    }

    /// Replies with the result of `work`, which runs on the worker pool. If `isHeard` is false, replies at once; `work` goes on,
    /// or is cancelled if it only reads.
    func answerLater<Value: Sendable>(
        _ request: consuming FuseRequest, _ work: @escaping @Sendable () async -> Result<Value, FileSystemError>,
        isHeard: Bool = true, _ reply: @escaping Reply<Value>
    ) {
        // The pointer is only compared and handed back to libfuse; the request itself moves into `waiting`.
        nonisolated(unsafe) let handle = request.handle
        let waiting = PendingRequest(request)
        pending.insert(waiting, for: handle)
        fuse_req_interrupt_func(handle, Self.interrupted, Unmanaged.passUnretained(self).toOpaque())
        waiting.run(
            as: pool.start { [self] in
                let result = await CurrentCall.$caller.withValue(waiting) { await work() }
                pending.remove(waiting, for: handle)
                if let request = waiting.take() {
                    switch result {
                    case .success(let value): reply(request, value)
                    case .failure(let error): request.fail(error)
                    }
                }
                pending.end()
            })
        if !isHeard { pending.giveUp(waiting, for: handle) }
    }

    /// Carries out work that no request waits for, such as releasing a handle that the kernel did not take.
    func finish(_ outcome: Outcome<Void>) {
        guard case .pending(let work) = outcome else { return }
        pending.begin()
        pool.start { [self] in
            if case .failure(let error) = await work() {
                logger.warning("clean-up failed", metadata: ["reason": "\(error.reason)"])
            }
            pending.end()
        }
    }

    /// fuse_req_interrupt_func(3)'s callback. libfuse keeps the request's memory until it returns, answered or not.
    private static let interrupted: fuse_interrupt_func_t = { request, context in
        guard let request, let context else { return }
        // The kernel reports every signal, also that of a timer which the program handles. Programs do not expect EINTR from a
        // file, so only a signal that ends the program counts.
        guard CallingThread(of: request).isDying else { return }
        Unmanaged<FuseBridge>.fromOpaque(context).takeUnretainedValue().pending.giveUp(request)
    }
}
