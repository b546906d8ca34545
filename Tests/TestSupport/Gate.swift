import Synchronization

/// A door that tasks wait at until a test opens it: puts concurrent things in an order.
///
/// Locked by its own mutex; waiters are resumed outside it. A cancelled waiter passes at once.
package final class Gate: Sendable {
    private struct Waiter {
        let id: Int
        let continuation: CheckedContinuation<Void, Never>
    }

    private struct Watcher {
        let arrivals: Int
        let continuation: CheckedContinuation<Void, Never>
    }

    private struct State {
        var isOpen = false
        var passes = 0
        var arrivals = 0
        var nextID = 0
        var waiters: [Waiter] = []
        var watchers: [Watcher] = []
        var cancelled: Set<Int> = []
    }

    private let state = Mutex(State())

    package init() {}

    /// How many came to the gate so far, waiting or passed.
    package var arrivals: Int { state.withLock { $0.arrivals } }

    /// Waits until the gate is open or a pass is given.
    package func pass() async {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in arrive(Waiter(id: id, continuation: continuation)) }
        } onCancel: {
            let waiter: Waiter? = state.withLock { state in
                guard let index = state.waiters.firstIndex(where: { $0.id == id }) else {
                    state.cancelled.insert(id)
                    return nil
                }
                return state.waiters.remove(at: index)
            }
            waiter?.continuation.resume()
        }
    }

    /// Lets everybody through, now and later.
    package func open() {
        let waiters = state.withLock { state in
            state.isOpen = true
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.continuation.resume() }
    }

    /// Lets one through: the one that waits longest, or the next to come.
    package func letOnePass() {
        let waiter: Waiter? = state.withLock { state in
            if state.waiters.isEmpty {
                state.passes += 1
                return nil
            }
            return state.waiters.removeFirst()
        }
        waiter?.continuation.resume()
    }

    /// Returns as soon as `count` have come to the gate in all.
    package func waitForArrivals(_ count: Int = 1) async {
        await withCheckedContinuation { continuation in
            let enough = state.withLock { state in
                if state.arrivals >= count { return true }
                state.watchers.append(Watcher(arrivals: count, continuation: continuation))
                return false
            }
            if enough { continuation.resume() }
        }
    }

    private func arrive(_ waiter: Waiter) {
        let (passes, watchers) = state.withLock { state in
            state.arrivals += 1
            let arrivals = state.arrivals
            let satisfied = state.watchers.filter { $0.arrivals <= arrivals }
            state.watchers.removeAll { $0.arrivals <= arrivals }
            if state.isOpen || state.cancelled.remove(waiter.id) != nil { return (true, satisfied) }
            if state.passes > 0 {
                state.passes -= 1
                return (true, satisfied)
            }
            state.waiters.append(waiter)
            return (false, satisfied)
        }
        if passes { waiter.continuation.resume() }
        for watcher in watchers { watcher.continuation.resume() }
    }
}
