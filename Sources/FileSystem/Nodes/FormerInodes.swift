import Basics
import Metadata
import ObjectStorage
import Synchronization

/// Inodes whose names calls of this mount have removed or replaced, until the kernel forgets them. A program that has walked a
/// path just before comes to such an inode, and finds what a local disk has there: a file without a name.
///
/// Holds what is known nowhere else any more: attributes, and bytes that were never stored. The mutex is a leaf. A crash
/// empties it, except of what programs have open (`Orphan`): the next process answers ESTALE, and the kernel walks the path
/// again.
final class FormerInodes: Sendable {
    struct Former: Sendable {
        /// As they were when the name went; `file` has newer ones.
        var attributes: Attributes
        /// nil if this mount has not read them.
        let headers: ObjectMetadata?
        /// nil if the file was never stored.
        let key: ObjectKey?
        /// The open file, or the one whose bytes were not stored, if there was one.
        var file: ActiveFile?

        var shown: Attributes { file?.attributes ?? attributes }
    }

    /// The kernel forgets an inode right after its name and its last descriptor, so there are few.
    private static let most = 1024

    private let formers = Mutex(LRU<InodeNumber, Former>(capacity: most))
    /// Saves the mutex to the kernel's many messages about others.
    private let count = Atomic(0)

    /// Returns the oldest one if it had to go for this one.
    func insert(_ former: Former, for ino: InodeNumber) -> Former? {
        formers.withLock { formers in
            defer { count.store(formers.count, ordering: .relaxed) }
            return formers.insert(former, for: ino)?.value
        }
    }

    func find(_ ino: InodeNumber) -> Former? {
        if count.load(ordering: .relaxed) == 0 { return nil }
        return formers.withLock { $0.peek(ino) }
    }

    func change(_ ino: InodeNumber, _ edit: (inout Former) -> Void) {
        formers.withLock { formers in
            guard var former = formers.peek(ino) else { return }
            edit(&former)
            formers.insert(former, for: ino)
        }
    }

    @discardableResult
    func remove(_ ino: InodeNumber) -> Former? {
        if count.load(ordering: .relaxed) == 0 { return nil }
        return formers.withLock { formers in
            defer { count.store(formers.count, ordering: .relaxed) }
            return formers.removeValue(for: ino)
        }
    }

    /// The mount ends.
    func removeAll() { formers.withLock { $0.removeAll() } }
}
