import Basics
import Journaling
import Metadata
import Synchronization

/// Files that could not be stored under their names: for `pailfs recover`, for the end of the mount, and for the handles of
/// earlier processes. The mutexes are leaves.
/// After a crash: empty; the next process finds the rows in the journal and the bytes in `staging/`.
final class RecoverableFiles: Sendable {
    private let rows = Mutex<[IntentID: FileIntent]>([:])
    private let broken = Mutex<[(id: IntentID, file: UnstoredFile)]>([])
    private let beside = Mutex<[UnstoredFile]>([])
    private let interruptedInodes = Mutex<Set<InodeNumber>>([])
    /// The most conflict files that the end of the mount names.
    private static let mostNamed = 1000

    /// Files of earlier processes that were not acknowledged, and those that lost a conflict: `pailfs recover` decides on them.
    var all: [IntentID: FileIntent] { rows.withLock { $0 } }

    var count: Int { rows.withLock { $0.count } }

    func keep(_ id: IntentID, _ intent: FileIntent) { rows.withLock { $0[id] = intent } }

    /// Takes a file out while the caller works on it, so that no other call does.
    func take(_ id: IntentID) -> FileIntent? { rows.withLock { $0.removeValue(forKey: id) } }

    /// An acknowledged file cannot be stored, as after another host's change of the object below. Its row is kept.
    func noteBroken(_ id: IntentID, _ file: UnstoredFile) { broken.withLock { $0.append((id, file)) } }

    /// The bytes of an acknowledged file are in a conflict file.
    func noteBeside(_ file: UnstoredFile) {
        beside.withLock { if $0.count < Self.mostNamed { $0.append(file) } }
    }

    /// Files that were acknowledged and cannot be stored under their names.
    var unstored: [UnstoredFile] {
        broken.withLock { $0 }.filter { broken in rows.withLock { $0[broken.id] != nil } }.map(\.file)
            + beside.withLock { $0 }
    }

    /// The handles of an earlier process fail from now on: what was written by them is not known.
    func noteInterrupted(_ ino: InodeNumber) { interruptedInodes.withLock { _ = $0.insert(ino) } }

    func isInterrupted(_ ino: InodeNumber) -> Bool { interruptedInodes.withLock { $0.contains(ino) } }
}
