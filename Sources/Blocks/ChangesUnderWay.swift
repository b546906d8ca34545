import Basics
import Synchronization

/// Counts the threads that change the cache's files right now, so that `BlockCache.close` can wait for their rows.
///
/// The mutex is a leaf. After `close` no change may begin: blocks that enter or leave a file after the last rows are written
/// would not match their checksums at the next start.
final class ChangesUnderWay: Sendable {
    private struct State {
        var count = 0
        var isClosed = false
    }

    private let state = Mutex(State())
    private let allEnded = Semaphore()

    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// Whether the caller may change files. It then calls `end` when the rows are queued.
    func begin() -> Bool {
        state.withLock { state in
            if state.isClosed { return false }
            state.count += 1
            return true
        }
    }

    func end() {
        let isLast = state.withLock { state in
            state.count -= 1
            return state.isClosed && state.count == 0
        }
        if isLast { allEnded.signal() }
    }

    /// Refuses changes from now on, and waits at most `duration` for those under way. Call once.
    func close(waiting duration: Duration) {
        let isIdle = state.withLock { state in
            state.isClosed = true
            return state.count == 0
        }
        if !isIdle { _ = allEnded.wait(for: duration) }
    }
}
