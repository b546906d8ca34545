package import Basics
import Synchronization

/// How fast the bodies of all transfers of an engine may move each way, together, in bytes a second. Any thread sets them; engines
/// follow within a second. The mutex is a leaf.
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

    /// What holds now; nil sets no limit.
    package var upload: Int64? { state.withLock { $0.upload }.rateNow }
    package var download: Int64? { state.withLock { $0.download }.rateNow }
}
