package import Basics
import Blocks
import Logging
package import Metadata
import Synchronization

/// FUSE passthrough: the kernel reads an open file from another file by itself. Any thread, at any time.
package protocol BackingKernel: Sendable {
    /// Whether passthrough was negotiated when the mount began, and the open handles are known.
    var allowsBacking: Bool { get }
    /// Registers a file with the kernel, and returns the kernel's number of it. Throws its errno.
    func enter(_ file: File) throws(FileError) -> Int32
    /// Unregisters a file. No handle will be opened on it any more.
    func leave(_ backing: Int32)
    /// Notes for the next process that the kernel reads handles of `ino` from a file of the cache; false where there is no room
    /// for the note.
    func note(_ backing: BackedInode) -> Bool
    func forget(_ ino: InodeNumber)
    /// The notes of earlier processes.
    var backedInodes: [BackedInode] { get }
}

/// An inode whose handles the kernel reads from a file of the block cache.
package struct BackedInode: Sendable, Hashable {
    package let ino: InodeNumber
    /// The block cache's number of the file.
    package let file: Int64
    /// The kernel's number of the file.
    package let backing: Int32

    package init(ino: InodeNumber, file: Int64, backing: Int32) {
        (self.ino, self.file, self.backing) = (ino, file, backing)
    }
}

/// How the kernel reads the open files of a read-only mount: from replies of pailfs or, when all bytes of the object are on the
/// disk and verified, from the block file itself.
///
/// All handles of an inode have to be of one kind while any is open (fuse-passthrough, linux/fs/fuse/iomode.c), so the first one
/// decides. Where programs may write there is no passthrough: pailfs would have to refuse a writer while readers have the block
/// file. A handle counts from before the kernel has it until its release, which the kernel sends when it has let go. The mutex is
/// a leaf, except that notes for the next process are written under it.
/// After a crash: the notes stay. The next process keeps the block files as they are, and opens with the same numbers.
final class KernelReads: Sendable {
    /// How a handle's reads are served.
    enum Kind: Sendable {
        /// By pailfs, past the kernel's page cache; allowed beside every other kind.
        case direct
        /// By pailfs, through the kernel's page cache.
        case cached
        case backed(Int32)

        var backing: Int32? { if case .backed(let backing) = self { backing } else { nil } }
    }

    private enum Use {
        case cached(handles: Int)
        case backed(BackedInode, handles: Int)
    }

    /// The smallest object for passthrough, in bytes: one request of the kernel brings as much.
    static let smallest: Int64 = 1 << 20

    private let kernel: any BackingKernel
    private let takeBack: @Sendable (Int64) -> Void
    private let logger: Logger
    private let isRefused = Atomic(false)
    private let uses: Mutex<[InodeNumber: Use]>

    /// `takeBack` returns a lent file to the block cache.
    init(_ kernel: any BackingKernel, logger: Logger, takeBack: @escaping @Sendable (Int64) -> Void) {
        (self.kernel, self.logger, self.takeBack) = (kernel, logger, takeBack)
        uses = Mutex(
            Dictionary(kernel.backedInodes.map { ($0.ino, Use.backed($0, handles: 0)) }) { first, _ in first })
    }

    /// Inodes that are read from block files now.
    var backedCount: Int {
        uses.withLock { uses in uses.values.count { if case .backed = $0 { true } else { false } } }
    }

    /// Decides for one more handle of `ino`; `lend` borrows the block file, where that is possible.
    func open(_ ino: InodeNumber, direct: Bool, lend: () -> LentFile?) -> Kind {
        let isFirst = uses.withLock { $0[ino] == nil }
        let offer = isFirst && !direct ? self.offer(ino, lend) : nil
        let kind: Kind = uses.withLock { uses in
            if let kind = Self.join(&uses[ino], direct: direct) { return kind }
            if direct { return .direct }
            guard let offer, kernel.note(offer) else {
                uses[ino] = .cached(handles: 1)
                return .cached
            }
            uses[ino] = .backed(offer, handles: 1)
            return .backed(offer.backing)
        }
        if let offer, kind.backing != offer.backing { end(offer) }
        return kind
    }

    /// A handle that an earlier process opened.
    func adopt(_ ino: InodeNumber, isBacked: Bool, direct: Bool) -> Kind {
        // A backed handle without a note binds no other handle to its kind.
        let direct = direct || isBacked
        return uses.withLock { uses in
            if let kind = Self.join(&uses[ino], direct: direct) { return kind }
            if direct { return .direct }
            uses[ino] = .cached(handles: 1)
            return .cached
        }
    }

    /// Adds a handle to those of an inode; nil when it is the first that counts.
    private static func join(_ use: inout Use?, direct: Bool) -> Kind? {
        switch use {
        case .backed(let inode, let handles):
            use = .backed(inode, handles: handles + 1)
            return .backed(inode.backing)
        case .cached(let handles):
            if direct { return .direct }
            use = .cached(handles: handles + 1)
            return .cached
        case nil: return nil
        }
    }

    func close(_ ino: InodeNumber, _ kind: Kind) {
        let ended: BackedInode? = uses.withLock { uses in
            switch (kind, uses[ino]) {
            case (.cached, .cached(let handles)):
                uses[ino] = handles > 1 ? .cached(handles: handles - 1) : nil
                return nil
            case (.backed, .backed(let inode, let handles)):
                guard handles <= 1 else {
                    uses[ino] = .backed(inode, handles: handles - 1)
                    return nil
                }
                uses[ino] = nil
                kernel.forget(ino)
                return inode
            default: return nil
            }
        }
        if let ended { end(ended) }
    }

    /// Borrows the block file of a whole object and registers it with the kernel; nil where that is not possible.
    private func offer(_ ino: InodeNumber, _ lend: () -> LentFile?) -> BackedInode? {
        guard !isRefused.load(ordering: .relaxed), kernel.allowsBacking, let lent = lend() else { return nil }
        do throws(FileError) {
            return BackedInode(ino: ino, file: lent.number, backing: try kernel.enter(lent.file))
        } catch {
            takeBack(lent.number)
            // Later tries would fail as well: pailfs lacks the privilege, or the cache directory is on a stacked file system.
            isRefused.store(true, ordering: .relaxed)
            logger.info(
                "the kernel cannot read from the cache by itself; pailfs reads for it", metadata: ["reason": "\(error)"]
            )
            return nil
        }
    }

    private func end(_ inode: BackedInode) {
        kernel.leave(inode.backing)
        takeBack(inode.file)
    }
}
