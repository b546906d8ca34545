package import Basics
import Synchronization

/// A clock that stands still until a test turns it. Sleepers wake when their time has come.
///
/// Locked by its own mutex; sleepers are resumed outside it.
package final class ManualTime: TimeSource {
    private struct Sleeper {
        let id: Int
        let deadline: Duration
        let continuation: CheckedContinuation<Bool, Never>
    }

    private struct Watcher {
        let sleepers: Int
        let continuation: CheckedContinuation<Void, Never>
    }

    private struct State {
        var now: Timestamp
        var uptime = Duration.seconds(1000)
        var nextID = 0
        var sleepers: [Sleeper] = []
        var watchers: [Watcher] = []
        var cancelled: Set<Int> = []
    }

    private let state: Mutex<State>

    /// Starts at 2023-11-14T22:13:20Z unless told otherwise.
    package init(_ now: Timestamp = Timestamp(seconds: 1_700_000_000)) { state = Mutex(State(now: now)) }

    package func now() -> Timestamp { state.withLock { $0.now } }
    package func uptime() -> Duration { state.withLock { $0.uptime } }

    /// How long it is until the next task wakes; nil while no task sleeps.
    package var untilNextWake: Duration? {
        state.withLock { state in state.sleepers.map(\.deadline).min().map { $0 - state.uptime } }
    }

    /// How many tasks sleep now.
    package var sleepers: Int { state.withLock { $0.sleepers.count } }

    /// Turns both clocks forward and wakes those whose time has come, the earliest first.
    package func advance(by duration: Duration) {
        let woken = state.withLock { state in
            state.now = state.now + duration
            state.uptime += duration
            let woken = state.sleepers.filter { $0.deadline <= state.uptime }.sorted { $0.deadline < $1.deadline }
            state.sleepers.removeAll { $0.deadline <= state.uptime }
            return woken
        }
        for sleeper in woken { sleeper.continuation.resume(returning: true) }
    }

    /// Sets the wall clock alone, as an administrator may.
    package func setWallClock(_ now: Timestamp) { state.withLock { $0.now = now } }

    /// Returns as soon as `count` tasks sleep.
    package func waitForSleepers(_ count: Int = 1) async {
        await withCheckedContinuation { continuation in
            let enough = state.withLock { state in
                if state.sleepers.count >= count { return true }
                state.watchers.append(Watcher(sleepers: count, continuation: continuation))
                return false
            }
            if enough { continuation.resume() }
        }
    }

    package func sleep(for duration: Duration) async throws(CancellationError) {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        let finished = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in fallAsleep(id, for: duration, continuation) }
        } onCancel: {
            let sleeper: Sleeper? = state.withLock { state in
                guard let index = state.sleepers.firstIndex(where: { $0.id == id }) else {
                    state.cancelled.insert(id)
                    return nil
                }
                return state.sleepers.remove(at: index)
            }
            sleeper?.continuation.resume(returning: false)
        }
        if !finished { throw CancellationError() }
    }

    private func fallAsleep(_ id: Int, for duration: Duration, _ continuation: CheckedContinuation<Bool, Never>) {
        let (answer, watchers): (Bool?, [Watcher]) = state.withLock { state in
            if state.cancelled.remove(id) != nil { return (false, []) }
            if duration <= .zero { return (true, []) }
            state.sleepers.append(
                Sleeper(id: id, deadline: state.uptime + duration, continuation: continuation))
            let count = state.sleepers.count
            let satisfied = state.watchers.filter { $0.sleepers <= count }
            state.watchers.removeAll { $0.sleepers <= count }
            return (nil, satisfied)
        }
        if let answer { continuation.resume(returning: answer) }
        for watcher in watchers { watcher.continuation.resume() }
    }
}
