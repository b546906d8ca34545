import Basics
import Synchronization

/// Counts who changes the cache's files right now, so that its end can wait for their rows.
///
/// The mutex is a leaf. Once closed, nobody begins any more: what leaves or enters a file after the last rows are written
/// would be found at the next start as blocks that do not match their checksums.
final class ChangesUnderWay: Sendable {
    private struct State {
        var count = 0
        var isClosed = false
    }

    private let state = Mutex(State())
    private let allEnded = Semaphore()

    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// Whether the caller may change files; it calls `end` afterwards, when the rows are queued.
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

    /// Refuses changes from now on, and waits at most `duration` for those that have begun. Call once.
    func close(waiting duration: Duration) {
        let isIdle = state.withLock { state in
            state.isClosed = true
            return state.count == 0
        }
        if !isIdle { _ = allEnded.wait(for: duration) }
    }
}
