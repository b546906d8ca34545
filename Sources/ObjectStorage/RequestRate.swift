import Basics
import Synchronization

/// Lets requests begin at a bounded rate, in the order in which they come. Locks: the mutex is a leaf.
///
/// Each request takes the next free turn and sleeps until then; the turn of a request that is cancelled meanwhile stays unused.
final class RequestRate: Sendable {
    private struct State {
        var schedule = RateSchedule.unlimited
        /// When the next request may begin.
        var next = Duration.zero
        var waiting = 0
    }

    private let state = Mutex(State())
    private let time: any TimeSource

    init(_ time: any TimeSource) { self.time = time }

    func set(_ schedule: RateSchedule) { state.withLock { $0.schedule = schedule } }

    var limit: Int64? { state.withLock { $0.schedule }.rateNow }
    var waiting: Int { state.withLock { $0.waiting } }

    /// Returns when the request may begin.
    func turn() async throws(CancellationError) {
        guard let limit else { return }
        let now = time.uptime()
        let wait = state.withLock { state in
            // A tenth of a second's requests may come at once after a pause.
            let begin = max(state.next, now - .milliseconds(100))
            state.next = begin + .seconds(1) / Double(limit)
            return begin - now
        }
        guard wait > .zero else { return }
        state.withLock { $0.waiting += 1 }
        defer { state.withLock { $0.waiting -= 1 } }
        do { try await time.sleep(for: wait) } catch { throw CancellationError() }
    }
}
