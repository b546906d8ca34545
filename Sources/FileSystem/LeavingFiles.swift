import Basics
import Metadata
import Synchronization

/// Files whose names are about to go, by an unlink or because another file takes the name. What open handles need of them is
/// seen to before the object goes, so nobody may come to have one open meanwhile: who wants to waits, and finds then what the
/// name leads to.
///
/// The mutex is a leaf; whoever waits holds no gate.
final class LeavingFiles: Sendable {
    private let gates = Mutex<[InodeNumber: TaskGate]>([:])

    /// To be called before it is looked who has the file open. Throws EINTR.
    func begin(_ ino: InodeNumber) async throws(FileSystemError) {
        while true {
            let other = gates.withLock { gates -> TaskGate? in
                if let other = gates[ino] { return other }
                let gate = TaskGate()
                _ = gate.tryEnter(alone: true)
                gates[ino] = gate
                return nil
            }
            guard let other else { return }
            try await wait(other)
        }
    }

    /// The name is gone, or stays.
    func end(_ ino: InodeNumber) { gates.withLock { $0.removeValue(forKey: ino) }?.leave(alone: true) }

    /// To be asked when one has the file open.
    func contains(_ ino: InodeNumber) -> Bool { gates.withLock { $0[ino] != nil } }

    /// Comes back when the name is gone, or stays. Throws EINTR.
    func wait(_ ino: InodeNumber) async throws(FileSystemError) {
        if let gate = gates.withLock({ $0[ino] }) { try await wait(gate) }
    }

    private func wait(_ gate: TaskGate) async throws(FileSystemError) {
        do { try await gate.enter() } catch { throw .interrupted }
        gate.leave()
    }
}
