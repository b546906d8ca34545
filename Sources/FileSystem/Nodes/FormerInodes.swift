import Basics
import Metadata
import ObjectStorage
import Synchronization

/// Inodes whose names calls of this mount have removed or replaced, until the kernel forgets them. A program that resolved the
/// path just before gets such an inode, and finds what a local disk has there: a file without a name.
///
/// Holds what is stored nowhere else any more: attributes, and bytes that were never committed. The mutex is a leaf.
/// After a crash: empty, except for files that programs have open (`Orphan`). The next process answers ESTALE, and the kernel
/// resolves the path again.
final class FormerInodes: Sendable {
    struct Former: Sendable {
        /// As they were when the inode lost its name; `file` has newer ones.
        var attributes: Attributes
        /// nil if this mount has not read them.
        let headers: ObjectMetadata?
        /// nil if the file was never stored.
        let key: ObjectKey?
        /// The file, if it was open or had bytes that were not stored.
        var file: ActiveFile?

        var shown: Attributes { file?.attributes ?? attributes }
    }

    /// The kernel forgets an inode right after its name and its last descriptor, so there are few.
    private static let most = 1024

    private let formers = Mutex(LRU<InodeNumber, Former>(capacity: most))
    /// Lets the kernel's many calls about other inodes skip the mutex.
    private let count = Atomic(0)

    /// Adds an inode. Returns the oldest one if that had to go.
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

    /// To be called when the mount ends.
    func removeAll() { formers.withLock { $0.removeAll() } }
}
