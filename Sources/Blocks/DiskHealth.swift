import Basics
import Logging
import Synchronization

/// Whether the cache disk takes writes. After a failure the disk is not used for `retryInterval`, then tried again. A failure
/// is logged once until the disk has worked again. Its mutex is a leaf.
final class DiskHealth: Sendable {
    private struct State {
        var retryAt: Duration?
        var isLogged = false
    }

    private let time: any TimeSource
    private let retryInterval: Duration
    private let logger: Logger
    private let state = Mutex(State())

    init(time: any TimeSource, retryInterval: Duration, logger: Logger) {
        (self.time, self.retryInterval, self.logger) = (time, retryInterval, logger)
    }

    var isFailing: Bool { state.withLock { $0.retryAt != nil } }

    var isUsable: Bool {
        let now = time.uptime()
        return state.withLock { $0.retryAt.map { now >= $0 } ?? true }
    }

    func failed(_ error: any Error, doing act: String) {
        let now = time.uptime()
        let isNews = state.withLock { state in
            state.retryAt = now + retryInterval
            defer { state.isLogged = true }
            return !state.isLogged
        }
        if isNews {
            logger.warning(
                "the disk of cache-dir is full or fails; blocks are cached in memory until it works again",
                metadata: ["op": "\(act)", "error": "\(error)"])
        }
    }

    func worked() {
        let isNews = state.withLock { state in
            defer { state = State() }
            return state.isLogged
        }
        if isNews { logger.info("the disk of cache-dir works again") }
    }
}
