import Basics
import CCurl
import Synchronization

/// The engine's thread: a libcurl multi handle, the transfers in it and the submissions that wait for a connection.
///
/// Tasks reach it through the inbox, a `Mutex` for array operations only, and wake it. Everything else belongs to the thread.
final class TransferLoop: Sendable {
    private struct Inbox {
        var submissions: [Submission] = []
        /// Some submission has been cancelled or forsaken since the last look.
        var hasCancellation = false
        var isClosing = false
    }

    private let options: HTTPOptions
    private let traffic: HTTPTraffic
    private let inbox = Mutex(Inbox())
    // Set once in `init`. curl_multi_wakeup may be called from any thread (libcurl-thread(3)); everything else that uses the
    // handle runs on the loop's thread, which frees it after `close`, when no task is left that submits or cancels.
    private nonisolated(unsafe) let multi: UnsafeMutableRawPointer

    // curl_global_init must not run twice at once, and Swift runs this once.
    private static let libraryIsReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

    init(_ options: HTTPOptions, _ traffic: HTTPTraffic) {
        (self.options, self.traffic) = (options, traffic)
        guard Self.libraryIsReady, let multi = curl_multi_init() else { fatalError("libcurl does not start") }
        self.multi = multi
        _ = curl_shim_multi_set_long(multi, CURLMOPT_MAXCONNECTS, options.maxConnections)
    }

    func submit(_ submission: Submission) {
        inbox.withLock { $0.submissions.append(submission) }
        curl_multi_wakeup(multi)
    }

    func cancel(_ submission: Submission) {
        submission.isCancelled.store(true, ordering: .releasing)
        inbox.withLock { $0.hasCancellation = true }
        curl_multi_wakeup(multi)
    }

    /// Ends a transfer whose server answers no request.
    func forsake(_ submission: Submission) {
        submission.isForsaken.store(true, ordering: .releasing)
        inbox.withLock { $0.hasCancellation = true }
        curl_multi_wakeup(multi)
    }

    /// Ends the thread. Requires: no submission is in flight.
    func close() {
        // Under the lock, so that the loop cannot see the flag and free the handle before the wake-up has returned.
        inbox.withLock { inbox in
            inbox.isClosing = true
            curl_multi_wakeup(multi)
        }
    }

    /// The thread's body; returns after `close`.
    func run() {
        var work = LoopState()
        var limitsEnd = Duration.zero
        while true {
            let (arrived, hasCancellation, isClosing) = inbox.withLock { inbox in
                defer { (inbox.submissions, inbox.hasCancellation) = ([], false) }
                return (inbox.submissions, inbox.hasCancellation, inbox.isClosing)
            }
            if isClosing { break }
            work.waiting += arrived
            if hasCancellation { dropCancelled(&work) }
            startWaiting(&work)
            let now = SystemTime().uptime()
            if now >= limitsEnd {
                work.pacing.follow(traffic.limits)
                limitsEnd = now + .seconds(1)
            }
            work.pacing.resume()
            var running: CInt = 0
            curl_multi_perform(multi, &running)
            finishTransfers(&work)
            startWaiting(&work)
            let pause = min(dropStalled(&work), work.pacing.untilResume ?? .seconds(60))
            curl_multi_poll(multi, nil, 0, CInt(clamping: pause.milliseconds), nil)
        }
        work.idle = []
        curl_multi_cleanup(multi)
    }

    // MARK: The thread's own

    private struct LoopState {
        var waiting: [Submission] = []
        var active: [UnsafeMutableRawPointer: Transfer] = [:]
        var perOrigin: [HTTPOrigin: Int] = [:]
        var idle: [EasyHandle] = []
        var nextLook = Duration.zero
        let pacing = Pacing()
        let sockets = ConnectionSockets()
        /// When a kept connection was found dead: connections made before are not used again.
        var pathLost: Duration?
    }

    private func startWaiting(_ work: inout LoopState) {
        guard !work.waiting.isEmpty, work.active.count < options.maxConnections else { return }
        var kept: [Submission] = []
        for submission in work.waiting {
            let origin = submission.request.origin
            if submission.isCancelled.load(ordering: .acquiring) {
                submission.finish(.failure(Self.cancelled))
            } else if submission.isForsaken.load(ordering: .acquiring) {
                submission.finish(.failure(Self.silence(of: origin)))
            } else if work.active.count < options.maxConnections,
                work.perOrigin[origin, default: 0] < options.maxConnectionsPerOrigin
            {
                start(submission, &work)
            } else {
                kept.append(submission)
            }
        }
        work.waiting = kept
    }

    private func start(_ submission: Submission, _ work: inout LoopState) {
        guard let easy = work.idle.popLast() ?? EasyHandle() else {
            submission.finish(.failure(HTTPError(.local(errno: 12), "no memory for a transfer")))
            return
        }
        let now = SystemTime().uptime()
        let age = work.pathLost.map { now - $0 }
        let transfer = Transfer(
            submission, on: easy, options: options, traffic: traffic, pacing: work.pacing,
            sockets: work.sockets, now: now, connectionAge: age)
        work.nextLook = min(work.nextLook, now + transfer.firstLook)
        work.active[easy.pointer] = transfer
        work.perOrigin[submission.request.origin, default: 0] += 1
        let code = curl_multi_add_handle(multi, easy.pointer)
        if code != CURLM_OK {
            let reason = String(cString: curl_multi_strerror(code))
            finish(transfer, .failure(HTTPError(.invalidRequest, reason)), &work)
        }
    }

    private func finishTransfers(_ work: inout LoopState) {
        var remaining: CInt = 0
        while let message = curl_multi_info_read(multi, &remaining) {
            guard message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle,
                let transfer = work.active[easy]
            else { continue }
            let code = message.pointee.data.result
            // libcurl frees the message when its handle leaves.
            finish(transfer, transfer.result(code), &work)
        }
    }

    private func finish(_ transfer: Transfer, _ result: Result<HTTPResponse, HTTPError>, _ work: inout LoopState) {
        if case .failure(let error) = result, error.kind == .interrupted || error.kind == .timedOut {
            let now = SystemTime().uptime()
            if transfer.hasLostItsPath(now: now) { work.pathLost = now }
        }
        work.pacing.forget(transfer)
        curl_multi_remove_handle(multi, transfer.easy.pointer)
        work.active[transfer.easy.pointer] = nil
        let origin = transfer.submission.request.origin
        let others = work.perOrigin[origin, default: 1] - 1
        work.perOrigin[origin] = others == 0 ? nil : others
        work.idle.append(transfer.easy)
        transfer.submission.finish(result)
    }

    private func dropCancelled(_ work: inout LoopState) {
        // Waiting ones are dropped when they are looked at next.
        work.waiting.removeAll { submission in
            guard submission.isCancelled.load(ordering: .acquiring) else { return false }
            submission.finish(.failure(Self.cancelled))
            return true
        }
        for transfer in Array(work.active.values)
        where transfer.submission.isForsaken.load(ordering: .acquiring) {
            finish(transfer, .failure(Self.silence(of: transfer.submission.request.origin)), &work)
        }
        let now = SystemTime().uptime()
        for transfer in Array(work.active.values)
        where transfer.submission.isCancelled.load(ordering: .acquiring) {
            if transfer.isSent {
                transfer.withdraw(now: now)
                work.nextLook = min(work.nextLook, now + Transfer.patience)
            } else {
                finish(transfer, .failure(Self.cancelled), &work)
            }
        }
    }

    /// Ends transfers without progress for too long, and returns the time until the next check.
    private func dropStalled(_ work: inout LoopState) -> Duration {
        guard !work.active.isEmpty else { return .seconds(60) }
        let now = SystemTime().uptime()
        guard now >= work.nextLook else { return work.nextLook - now }
        var pause = Duration.seconds(1)
        for transfer in Array(work.active.values) {
            let left = transfer.timeLeft(now: now)
            if left > .zero {
                pause = min(pause, left)
            } else {
                let reason = transfer.isWithdrawn ? Self.cancelled : HTTPError(.timedOut, transfer.lateness(now: now))
                finish(transfer, .failure(reason), &work)
            }
        }
        work.nextLook = now + pause
        return pause
    }

    private static let cancelled = HTTPError(.cancelled, "cancelled")

    private static func silence(of origin: HTTPOrigin) -> HTTPError {
        HTTPError(.timedOut, "\(origin): no answer, and none to other requests")
    }
}
