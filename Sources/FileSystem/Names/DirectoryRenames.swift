import Basics
import Synchronization

/// Renames of directories that were tried or are being shown, and those that an earlier process had begun. The mutexes are
/// leaves; a crash loses it, and the journal tells the next process what it needs of it.
final class DirectoryRenames: Sendable {
    private struct Pair: Hashable {
        let from: ByteString
        /// nil where only the deletion of the sources was left.
        let to: ByteString?
    }

    private let tried = Mutex<Set<Pair>>([])
    private let completed = Mutex<Set<Pair>>([])
    private let switching = Atomic<Int>(0)

    /// Begun by this process or the one before it, and not come to its end: what is at the new keys may be copies of ours.
    func noteTried(from: ByteString, to: ByteString) { tried.withLock { _ = $0.insert(Pair(from: from, to: to)) } }

    func forgetTried(from: ByteString, to: ByteString) { tried.withLock { _ = $0.remove(Pair(from: from, to: to)) } }

    func wasTried(from: ByteString, to: ByteString) -> Bool {
        tried.withLock { $0.contains(Pair(from: from, to: to)) }
    }

    /// Begun by the process before this one, and completed when this one took up its journal.
    func noteCompleted(from: ByteString, to: ByteString?) {
        completed.withLock { _ = $0.insert(Pair(from: from, to: to)) }
    }

    var haveCompleted: Bool { completed.withLock { !$0.isEmpty } }

    /// Whether it was; with `isThere`, the new directory, also where only the deletion of the sources was left to do.
    func wasCompleted(from: ByteString, to: ByteString, isThere: Bool) -> Bool {
        completed.withLock { completed in
            completed.contains(Pair(from: from, to: to)) || isThere && completed.contains(Pair(from: from, to: nil))
        }
    }

    /// From here to `endSwitch` rows may tell the versions of the copies before the open files below do.
    func beginSwitch() { switching.add(1, ordering: .sequentiallyConsistent) }

    func endSwitch() { switching.subtract(1, ordering: .sequentiallyConsistent) }

    var isSwitching: Bool { switching.load(ordering: .sequentiallyConsistent) != 0 }
}
