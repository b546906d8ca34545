import Basics
import Synchronization

/// Bounds the requests in flight, transfers and others apart, and halves the bound for a while when the store asks for less.
///
/// Waiting is first come, first served and ends with the task. Its mutex is a leaf.
package final class Throttle: Interceptor {
    private struct State {
        /// Slots kept back since the store said it has enough.
        var withheld = 0
    }

    private let transfers: MemoryBudget
    private let others: MemoryBudget
    private let state = Mutex(State())

    package init(transfers: Int, others: Int) {
        self.transfers = MemoryBudget(limit: max(1, transfers))
        self.others = MemoryBudget(limit: max(1, others))
    }

    /// Changes how many transfers there may be; those in flight go on.
    package func setTransfers(_ limit: Int) { transfers.setLimit(max(1, limit)) }

    /// Requests that wait for their turn now.
    package var waiting: Int { transfers.waiting + others.waiting }

    package func intercept<Answer: Sendable>(
        _ context: RequestContext, settle: Settlement<Answer>?, _ attempt: () async throws(ObjectStoreError) -> Answer
    ) async throws(ObjectStoreError) -> Answer {
        let slots = context.isTransfer ? transfers : others
        do { try await slots.reserve(1) } catch {
            throw ObjectStoreError(
                .cancelled, context.operation, key: context.key, code: "Cancelled", message: "cancelled")
        }
        defer { slots.release(1) }
        do throws(ObjectStoreError) {
            let answer = try await attempt()
            giveBack()
            return answer
        } catch {
            if error.kind == .throttled { withhold() }
            throw error
        }
    }

    /// Takes a transfer slot out of use, down to a quarter of them.
    private func withhold() {
        state.withLock { state in
            guard state.withheld < transfers.limit * 3 / 4, transfers.tryReserve(1) else { return }
            state.withheld += 1
        }
    }

    /// A request went through: one slot comes back.
    private func giveBack() {
        let returns = state.withLock { state in
            guard state.withheld > 0 else { return false }
            state.withheld -= 1
            return true
        }
        if returns { transfers.release(1) }
    }
}
