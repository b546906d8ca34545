import Basics
import ObjectStorage
import Synchronization

/// Bounds the transfers in flight for a whole mount, as `UploadSlots` decides. A cancelled task stops waiting. The lock is a
/// leaf.
package final class UploadLimiter: Sendable {
    private typealias Room = Monitor<State, UploadSlots.ID, Bool>

    private struct State {
        var slots: UploadSlots
        var lastFile: UInt64 = 0

        /// Gives free slots to waiting transfers. Returns the requests that have got one.
        @discardableResult
        mutating func admit(_ queue: inout Room.Queue) -> Set<UploadSlots.ID> {
            let granted = Set(slots.grant())
            if !granted.isEmpty { queue.answer { granted.contains($0) ? true : nil } }
            return granted
        }
    }

    /// A slot that is taken.
    struct Slot: Sendable {
        fileprivate let id: UploadSlots.ID
    }

    /// A waiting transfer gets true with its slot, or false when it is withdrawn.
    private let state: Room

    /// `limit` is the most there may be; the store may be able to take less for a while.
    package init(limit: Int) { state = Room(State(slots: UploadSlots(most: limit))) }

    /// Changes how many there may be; transfers in flight continue.
    package func setLimit(_ limit: Int) {
        state.change { state, queue in
            state.slots.setMost(limit)
            state.admit(&queue)
        }
    }

    /// Slots taken now.
    package var used: Int { state.withLock { $0.slots.used } }

    /// Slots there are now.
    package var limit: Int { state.withLock { $0.slots.limit } }

    /// A number for a file whose transfers will ask for slots.
    func newFile() -> UInt64 {
        state.withLock { state in
            state.lastFile += 1
            return state.lastFile
        }
    }

    /// Takes a slot, waiting for one.
    func acquire(for file: UInt64) async throws(CancellationError) -> Slot {
        var slot = Slot(id: 0)
        let isGranted = await state.wait(whenCancelled: false) { state, queue in
            let id = state.slots.request(for: file)
            slot = Slot(id: id)
            return state.admit(&queue).contains(id) ? .answer(true) : .wait(id)
        } leaving: { state, _, id in
            _ = state.slots.cancel(id)
        }
        guard isGranted else { throw CancellationError() }
        return slot
    }

    /// Ends the waiting of a file's transfers, as if their tasks had been cancelled: the commit has failed.
    func withdraw(_ file: UInt64) {
        state.change { state, queue in
            let cancelled = Set(state.slots.cancelAll(of: file))
            queue.answer { cancelled.contains($0) ? false : nil }
        }
    }

    /// Gives a slot back.
    func release(_ slot: Slot, _ ending: UploadSlots.Ending) {
        state.change { state, queue in
            state.slots.release(slot.id, ending)
            state.admit(&queue)
        }
    }
}

extension UploadSlots.Ending {
    /// Whether an error that is left after the store's own retries shows that the store can take less.
    init(_ error: CommitError) {
        guard case .store(let error) = error else {
            self = .other
            return
        }
        switch error.kind {
        case .throttled, .timedOut, .serverFault, .interrupted: self = .slowedDown
        default: self = .other
        }
    }
}
