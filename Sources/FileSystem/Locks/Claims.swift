import Basics
import Metadata
import Synchronization

/// Locks by value, each held by one call at a time: the names that a call changes, or the files that are losing their names.
///
/// A lock exists while it is held. The mutex is a leaf.
final class Claims<Claimed: Hashable & Sendable>: Sendable {
    private let gates = Mutex<[Claimed: TaskGate]>([:])
    private let place: LockPlace

    init(_ place: LockPlace) { self.place = place }

    /// Waits until no other call holds the claim, and takes it. `place` is where the claim is in the order of locks. Throws
    /// EINTR.
    func begin(_ claimed: Claimed, as place: LockPlace? = nil) async throws(FileSystemError) {
        LockOrder.willWait(for: place ?? self.place)
        defer { LockOrder.hasEntered(place ?? self.place) }
        while true {
            let other = gates.withLock { gates -> TaskGate? in
                if let other = gates[claimed] { return other }
                let gate = TaskGate()
                _ = gate.tryEnter(alone: true)
                gates[claimed] = gate
                return nil
            }
            guard let other else { return }
            try await wait(other)
        }
    }

    func end(_ claimed: Claimed, as place: LockPlace? = nil) {
        LockOrder.hasLeft(place ?? self.place)
        gates.withLock { $0.removeValue(forKey: claimed) }?.leave(alone: true)
    }

    var all: [Claimed] { gates.withLock { Array($0.keys) } }

    func contains(_ claimed: Claimed) -> Bool { gates.withLock { $0[claimed] != nil } }

    /// Waits until no call holds the claim. Throws EINTR.
    func wait(_ claimed: Claimed) async throws(FileSystemError) {
        LockOrder.willWait(for: place)
        if let gate = gates.withLock({ $0[claimed] }) { try await wait(gate) }
    }

    private func wait(_ gate: TaskGate) async throws(FileSystemError) {
        do { try await gate.enter() } catch { throw .interrupted }
        gate.leave()
    }
}

/// A name in its directory, whatever it leads to.
struct Place: Hashable, Sendable {
    let parent: InodeNumber
    let name: ByteString
}
