import Basics
import ObjectStorage
import Synchronization

/// Bounds the transfers in flight for a whole mount, as `UploadSlots` decides. Waiting ends with its task. The mutex is a leaf;
/// waiters are resumed outside it.
package final class UploadLimiter: Sendable {
    private struct State {
        var slots: UploadSlots
        var waiters: [UploadSlots.ID: CheckedContinuation<Bool, Never>] = [:]
        /// Granted before anybody waited for it.
        var early: Set<UploadSlots.ID> = []
        var cancelled: Set<UploadSlots.ID> = []
        var lastFile: UInt64 = 0
    }

    /// A slot that is taken.
    struct Slot: Sendable {
        fileprivate let id: UploadSlots.ID
    }

    private let state: Mutex<State>

    /// `limit` is the most there may be; the store may be able to take less for a while.
    package init(limit: Int) { state = Mutex(State(slots: UploadSlots(most: limit))) }

    /// Changes how many there may be; those in flight go on.
    package func setLimit(_ limit: Int) {
        state.withLock { $0.slots.setMost(limit) }
        admit()
    }

    /// Slots taken now.
    package var used: Int { state.withLock { $0.slots.used } }

    /// Slots there are now.
    package var limit: Int { state.withLock { $0.slots.limit } }

    /// A number for a file whose transfers will ask.
    func newFile() -> UInt64 {
        state.withLock { state in
            state.lastFile += 1
            return state.lastFile
        }
    }

    /// Takes a slot, waiting for one.
    func acquire(for file: UInt64) async throws(CancellationError) -> Slot {
        let id = state.withLock { $0.slots.request(for: file) }
        admit()
        let isGranted = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let answer: Bool? = state.withLock { state in
                    if state.early.remove(id) != nil { return true }
                    if state.cancelled.remove(id) != nil { return false }
                    state.waiters[id] = continuation
                    return nil
                }
                if let answer { continuation.resume(returning: answer) }
            }
        } onCancel: {
            let waiter: CheckedContinuation<Bool, Never>? = state.withLock { state in
                guard state.slots.cancel(id) else { return nil }
                guard let waiter = state.waiters.removeValue(forKey: id) else {
                    state.cancelled.insert(id)
                    return nil
                }
                return waiter
            }
            waiter?.resume(returning: false)
        }
        guard isGranted else { throw CancellationError() }
        return Slot(id: id)
    }

    /// Ends the waiting of a file's transfers, as if their tasks had been cancelled: what they were for has failed.
    func withdraw(_ file: UInt64) {
        let waiters = state.withLock { state in
            var waiters: [CheckedContinuation<Bool, Never>] = []
            for id in state.slots.cancelAll(of: file) {
                if let waiter = state.waiters.removeValue(forKey: id) {
                    waiters.append(waiter)
                } else {
                    state.cancelled.insert(id)
                }
            }
            return waiters
        }
        for waiter in waiters { waiter.resume(returning: false) }
    }

    /// Gives a slot back.
    func release(_ slot: Slot, _ ending: UploadSlots.Ending) {
        state.withLock { $0.slots.release(slot.id, ending) }
        admit()
    }

    private func admit() {
        let admitted = state.withLock { state in
            var admitted: [CheckedContinuation<Bool, Never>] = []
            for id in state.slots.grant() {
                if let waiter = state.waiters.removeValue(forKey: id) {
                    admitted.append(waiter)
                } else {
                    state.early.insert(id)
                }
            }
            return admitted
        }
        for waiter in admitted { waiter.resume(returning: true) }
    }
}

extension UploadSlots.Ending {
    /// What an error that the store's own retries have not cured says about how much the store can take.
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
