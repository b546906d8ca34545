package import Basics
import Synchronization

/// Bounds the requests in flight: those that send, those that fetch and all others, each in a lane of its own, so that none waits
/// for another kind; and the requests of all kinds that begin a second. Halves a lane's bound for a while when the store
/// throttles.
///
/// Waiting is first come, first served and ends with the task. Locks: the mutexes of the lanes are leaves.
package final class Throttle: Interceptor {
    private let sends: Lane
    private let fetches: Lane
    private let others: Lane
    private let rate: RequestRate

    package init(sends: Int, fetches: Int, others: Int, time: any TimeSource = SystemTime()) {
        (self.sends, self.fetches, self.others) = (Lane(sends), Lane(fetches), Lane(others))
        rate = RequestRate(time)
    }

    /// Changes how many requests may begin a second; those that wait keep their turn.
    package func setRate(_ schedule: RateSchedule) { rate.set(schedule) }

    /// Changes the bounds of transfers each way; those in flight go on.
    package func setLimits(sends: Int, fetches: Int) {
        self.sends.setLimit(sends)
        self.fetches.setLimit(fetches)
    }

    /// Requests that wait for their turn now.
    package var waiting: Int { sends.waiting + fetches.waiting + others.waiting + rate.waiting }

    /// The bound of requests a second now; nil if there is none.
    package var requestsPerSecond: Int64? { rate.limit }

    package func intercept<Answer: Sendable>(
        _ context: RequestContext, settle: Settlement<Answer>?, _ attempt: () async throws(ObjectStoreError) -> Answer
    ) async throws(ObjectStoreError) -> Answer {
        let lane =
            switch context.direction {
            case .send: sends
            case .fetch: fetches
            case nil: others
            }
        do {
            try await lane.enter()
            do { try await rate.turn() } catch {
                lane.leave(succeeded: false)
                throw error
            }
        } catch {
            throw ObjectStoreError(
                .cancelled, context.operation, key: context.key, code: "Cancelled", message: "cancelled")
        }
        do throws(ObjectStoreError) {
            let answer = try await attempt()
            lane.leave()
            return answer
        } catch {
            if error.kind == .throttled { lane.leaveThrottled() } else { lane.leave(succeeded: false) }
            throw error
        }
    }
}

/// The requests of one kind. A slot is withheld by not being released.
private final class Lane: Sendable {
    private struct State {
        /// Slots withheld since the store has throttled: always fewer than all, so that requests get through.
        var withheld = 0
    }

    private let slots: MemoryBudget
    private let state = Mutex(State())

    init(_ limit: Int) { slots = MemoryBudget(limit: max(1, limit)) }

    var waiting: Int { slots.waiting }

    private var mostWithheld: Int { slots.limit * 3 / 4 }

    func setLimit(_ limit: Int) {
        slots.setLimit(max(1, limit))
        let surplus = state.withLock { state in
            let surplus = max(0, state.withheld - mostWithheld)
            state.withheld -= surplus
            return surplus
        }
        for _ in 0..<surplus { slots.release(1) }
    }

    func enter() async throws(CancellationError) { try await slots.reserve(1) }

    /// A request has ended. If it succeeded, a withheld slot is released with its own.
    func leave(succeeded: Bool = true) {
        let returns = state.withLock { state in
            guard succeeded, state.withheld > 0 else { return false }
            state.withheld -= 1
            return true
        }
        if returns { slots.release(1) }
        slots.release(1)
    }

    /// The store has throttled the request: its slot is withheld, until only a quarter of the slots is left.
    func leaveThrottled() {
        let isWithheld = state.withLock { state in
            guard state.withheld < mostWithheld else { return false }
            state.withheld += 1
            return true
        }
        if !isWithheld { slots.release(1) }
    }
}
