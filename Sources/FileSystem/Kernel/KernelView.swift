import Basics
import Metadata
import ObjectStorage
import Synchronization

/// The kernel's knowledge of inodes, and the way to notify it. The maps are leaves, and drop the inodes that were used least.
/// After a crash: empty; the kernel gets all of it again.
final class KernelView: Sendable {
    /// nil where programs may write, or the kernel has no passthrough.
    let reads: KernelReads?
    /// The version from which the kernel's page cache of an inode was filled.
    private let versions = Mutex(LRU<InodeNumber, ETag>(capacity: 65536))
    /// The length of a file that the kernel was given last, and to which it cuts reads.
    private let sizes = Mutex(LRU<InodeNumber, Int64>(capacity: 65536))
    private let notifierBox = Mutex<(any KernelNotifier)?>(nil)

    init(reads: KernelReads?) { self.reads = reads }

    /// nil until the mount has one.
    var notifier: (any KernelNotifier)? { notifierBox.withLock { $0 } }

    func attach(_ notifier: any KernelNotifier) { notifierBox.withLock { $0 = notifier } }

    /// The length that the kernel has of a file, in bytes; nil when that is not known here.
    func size(of ino: InodeNumber) -> Int64? { sizes.withLock { $0.peek(ino) } }

    func note(size: Int64, of ino: InodeNumber) { sizes.withLock { _ = $0.insert(size, for: ino) } }

    /// The kernel's pages are those of a version that its own writes have made.
    func note(version: ETag, of ino: InodeNumber) { versions.withLock { _ = $0.insert(version, for: ino) } }

    /// Whether the kernel's pages are of that version. From now on they are, since the kernel reads the missing ones; not so when
    /// the file `isEmptied` first.
    func hasPages(of ino: InodeNumber, version: ETag, isEmptied: Bool) -> Bool {
        versions.withLock { versions in
            let isSame = versions.value(for: ino) == version
            if !isEmptied { versions.insert(version, for: ino) }
            return isSame
        }
    }

    /// The kernel's pages may be of any version.
    func forgetPages(of ino: InodeNumber) { versions.withLock { _ = $0.removeValue(for: ino) } }

    /// Neither the kernel's pages nor its length are known any more.
    func forget(_ ino: InodeNumber) {
        sizes.withLock { _ = $0.removeValue(for: ino) }
        forgetPages(of: ino)
    }
}
