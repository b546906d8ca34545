import Basics
import Metadata
import ObjectStorage
import Synchronization

/// What the kernel was told of inodes, and the way to tell it more. The maps are leaves, and lose the inodes that were used
/// least; a crash loses them all, upon which the kernel is told again.
final class KernelView: Sendable {
    /// nil where programs may write, or the kernel has no other way than to ask.
    let reads: KernelReads?
    /// Which version its page cache of an inode was filled from.
    private let versions = Mutex(LRU<InodeNumber, ETag>(capacity: 65536))
    /// What length it was last told of a file, which it cuts reads to.
    private let sizes = Mutex(LRU<InodeNumber, Int64>(capacity: 65536))
    private let notifierBox = Mutex<(any KernelNotifier)?>(nil)

    init(reads: KernelReads?) { self.reads = reads }

    /// nil until the mount has one.
    var notifier: (any KernelNotifier)? { notifierBox.withLock { $0 } }

    func attach(_ notifier: any KernelNotifier) { notifierBox.withLock { $0 = notifier } }

    /// The length of a file that it knows, in bytes; nil when that is not known here.
    func size(of ino: InodeNumber) -> Int64? { sizes.withLock { $0.peek(ino) } }

    func note(size: Int64, of ino: InodeNumber) { sizes.withLock { _ = $0.insert(size, for: ino) } }

    /// Its pages are those of a version that it wrote itself.
    func note(version: ETag, of ino: InodeNumber) { versions.withLock { _ = $0.insert(version, for: ino) } }

    /// Whether its pages are of that version. From now on they are, as it asks for those it does not have; not so when the
    /// file `isEmptied` first.
    func hasPages(of ino: InodeNumber, version: ETag, isEmptied: Bool) -> Bool {
        versions.withLock { versions in
            let isSame = versions.value(for: ino) == version
            if !isEmptied { versions.insert(version, for: ino) }
            return isSame
        }
    }

    /// Its pages may be of anything.
    func forgetPages(of ino: InodeNumber) { versions.withLock { _ = $0.removeValue(for: ino) } }

    /// The same of its length.
    func forget(_ ino: InodeNumber) {
        sizes.withLock { _ = $0.removeValue(for: ino) }
        forgetPages(of: ino)
    }
}
