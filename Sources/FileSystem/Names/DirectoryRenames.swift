import Basics
import Synchronization

/// Renames of directories that were tried or are being shown, and those that an earlier process had begun. The mutexes are
/// leaves.
/// After a crash: empty; recovery restores what the next process needs from the journal.
final class DirectoryRenames: Sendable {
    private struct Pair: Hashable {
        let from: ByteString
        /// nil where only the deletion of the sources was left.
        let to: ByteString?
    }

    private let tried = Mutex<Set<Pair>>([])
    private let completed = Mutex<Set<Pair>>([])
    private let switching = Atomic<Int>(0)

    /// This process or the one before it has begun the rename and not finished it: objects at the new keys may be copies of this
    /// mount.
    func noteTried(from: ByteString, to: ByteString) { tried.withLock { _ = $0.insert(Pair(from: from, to: to)) } }

    func forgetTried(from: ByteString, to: ByteString) { tried.withLock { _ = $0.remove(Pair(from: from, to: to)) } }

    func wasTried(from: ByteString, to: ByteString) -> Bool {
        tried.withLock { $0.contains(Pair(from: from, to: to)) }
    }

    /// The process before this one has begun the rename, and recovery has completed it.
    func noteCompleted(from: ByteString, to: ByteString?) {
        completed.withLock { _ = $0.insert(Pair(from: from, to: to)) }
    }

    var haveCompleted: Bool { completed.withLock { !$0.isEmpty } }

    /// Whether recovery has completed the rename. If the new directory `isThere`, also if only the deletion of the sources was
    /// left.
    func wasCompleted(from: ByteString, to: ByteString, isThere: Bool) -> Bool {
        completed.withLock { completed in
            completed.contains(Pair(from: from, to: to)) || isThere && completed.contains(Pair(from: from, to: nil))
        }
    }

    /// From here to `endSwitch` entries may show the versions of the copies before the open files below do.
    func beginSwitch() { switching.add(1, ordering: .sequentiallyConsistent) }

    func endSwitch() { switching.subtract(1, ordering: .sequentiallyConsistent) }

    var isSwitching: Bool { switching.load(ordering: .sequentiallyConsistent) != 0 }
}
