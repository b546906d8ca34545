package import Basics
import Synchronization

/// The rate limits for the bodies of all transfers of an engine together, each way, in bytes a second. Any thread sets them;
/// engines apply them within a second. Locks: the mutex is a leaf.
package final class TrafficLimits: Sendable {
    private struct State {
        var upload = RateSchedule.unlimited
        var download = RateSchedule.unlimited
    }

    private let state = Mutex(State())

    package init() {}

    package func set(upload: RateSchedule, download: RateSchedule) {
        state.withLock { $0 = State(upload: upload, download: download) }
    }

    /// The present limits; nil if there is none.
    package var upload: Int64? { state.withLock { $0.upload }.rateNow }
    package var download: Int64? { state.withLock { $0.download }.rateNow }
}
