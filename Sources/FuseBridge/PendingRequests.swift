import Basics
import CFuse3
import FileSystem
import Synchronization

/// The requests that are answered later: finds the one that a signal interrupted, and signals when none is left.
///
/// Lives as long as its bridge.
/// Locks: its own mutex, a leaf; a request's task is cancelled outside it. A request is removed before it is replied to, because
/// libfuse reuses the memory of an answered one for the next.
final class PendingRequests: Sendable {
    private struct State {
        var waiting: [fuse_req_t: PendingRequest] = [:]
        /// Requests not replied to yet, and work that no request waits for; at least as many as `waiting` has.
        var active = 0
        var drained: Semaphore?
    }

    private struct Table: @unchecked Sendable {
        // Sendable: the pointers are keys here and never followed.
        var state = State()
    }

    private let table = Mutex(Table())

    func insert(_ request: PendingRequest, for handle: fuse_req_t) {
        table.withLock { table in
            table.state.waiting[handle] = request
            table.state.active += 1
        }
    }

    /// Removes the request, unless libfuse has reused its memory: after a request was given up, the handle may be another's.
    func remove(_ request: PendingRequest, for handle: fuse_req_t) {
        table.withLock { table in
            if table.state.waiting[handle] === request { table.state.waiting[handle] = nil }
        }
    }

    /// Counts work that no request waits for and that must end before the session is destroyed.
    func begin() { table.withLock { $0.state.active += 1 } }

    /// The reply is out, or the work of `begin` is done.
    func end() {
        let drained: Semaphore? = table.withLock { table in
            table.state.active -= 1
            return table.state.active == 0 ? table.state.drained : nil
        }
        drained?.signal()
    }

    /// The caller is dying and needs no answer. A request that changes something is carried out all the same, and the caller may
    /// end before.
    func giveUp(_ handle: fuse_req_t) {
        if let request = table.withLock({ $0.state.waiting[handle] }) { giveUp(request, for: handle) }
    }

    func giveUp(_ request: PendingRequest, for handle: fuse_req_t) {
        if request.endsWithItsCaller { return request.cancel() }
        remove(request, for: handle)
        request.giveUp()
    }

    /// Waits a while for requests to be replied to, and interrupts none. No request may arrive any more.
    func settle(for duration: Duration) {
        let drained = Semaphore()
        let isEmpty = table.withLock { table in
            table.state.drained = drained
            return table.state.active == 0
        }
        if !isEmpty { _ = drained.wait(for: duration) }
    }

    /// Cancels the requests that only read and waits until every request is replied to, or until `isOver`, which is asked ten
    /// times a second; false then. No request may arrive any more.
    func drain(orUntil isOver: () -> Bool) -> Bool {
        let drained = Semaphore()
        let (readers, isEmpty) = table.withLock { table in
            table.state.drained = drained
            return (table.state.waiting.values.filter(\.onlyReads), table.state.active == 0)
        }
        if isEmpty { return true }
        for reader in readers { reader.cancel() }
        while !drained.wait(for: .milliseconds(100)) {
            if isOver() { return false }
        }
        return true
    }
}

/// A request on its way through the worker pool, with the task that works on it.
final class PendingRequest: WaitingCaller {
    private struct State: ~Copyable {
        var request: FuseRequest?
        var task: Task<Void, Never>?
        var isCancelled = false
        var isGivenUp = false

        init(_ request: consuming FuseRequest) { self.request = consume request }
    }

    let onlyReads: Bool
    let endsWithItsCaller: Bool
    private let state: Mutex<State>

    init(_ request: consuming FuseRequest) {
        onlyReads = request.operation.onlyReads
        endsWithItsCaller = request.operation.endsWithItsCaller
        state = Mutex(State(request))
    }

    /// The request, for the code that replies; nil the second time.
    func take() -> FuseRequest? { state.withLock { $0.request.take() } }

    var isGone: Bool { state.withLock { $0.isGivenUp } }

    /// Answers the caller at once; the task goes on.
    func giveUp() {
        state.withLock { state in
            state.isGivenUp = true
            guard let request = state.request.take() else { return }
            state.request = request.givenUp()
        }
    }

    /// Cancels `task` at once if the request was cancelled before the task began.
    func run(as task: Task<Void, Never>) {
        let isCancelled = state.withLock { state in
            state.task = task
            return state.isCancelled
        }
        if isCancelled { task.cancel() }
    }

    func cancel() {
        let task = state.withLock { state in
            state.isCancelled = true
            return state.task
        }
        task?.cancel()
    }
}
