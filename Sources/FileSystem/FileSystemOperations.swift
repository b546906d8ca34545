package import Basics
package import Metadata

/// The kernel's requests in POSIX terms, without FUSE's types, as the bridge makes them.
///
/// The bridge calls from any of its threads, and no call waits for the network: an answer that needs more than memory, one
/// indexed read or a cached block comes back as `.pending` work, which the bridge runs on the worker pool.
package protocol FileSystemOperations: Sendable {
    /// Looks `name` up. A missing name is `.success` with a nil status, and with the time for which the kernel may cache that.
    /// Each success with an inode counts as one reference until `forget`.
    func lookup(_ name: ByteString, in parent: InodeNumber) -> Outcome<EntryReply>
    /// Gives back `count` references.
    func forget(_ ino: InodeNumber, count: UInt64)
    func attributes(_ ino: InodeNumber, handle: HandleID?) -> Outcome<AttributeReply>
    func setAttributes(
        _ ino: InodeNumber, to change: AttributeChange, handle: HandleID?
    ) -> Outcome<AttributeReply>

    func readLink(_ ino: InodeNumber) -> Outcome<ByteString>
    func symlink(
        _ name: ByteString, in parent: InodeNumber, target: ByteString, caller: Caller
    ) -> Outcome<EntryReply>
    func makeDirectory(
        _ name: ByteString, in parent: InodeNumber, mode: UInt16, caller: Caller
    ) -> Outcome<EntryReply>
    func removeDirectory(_ name: ByteString, in parent: InodeNumber) -> Outcome<Void>
    func unlink(_ name: ByteString, in parent: InodeNumber) -> Outcome<Void>
    func rename(
        _ name: ByteString, in parent: InodeNumber, to newName: ByteString, in newParent: InodeNumber, noReplace: Bool
    ) -> Outcome<Void>
    /// Whether an earlier process has begun this rename of a directory and this one has completed it. The old name may lead to
    /// something else by now.
    func hasCompletedRename(
        _ name: ByteString, in parent: InodeNumber, to newName: ByteString, in newParent: InodeNumber
    ) -> Bool

    func open(_ ino: InodeNumber, flags: OpenFlags) -> Outcome<OpenReply>
    func create(
        _ name: ByteString, in parent: InodeNumber, mode: UInt16, flags: OpenFlags, caller: Caller
    ) -> Outcome<CreateReply>
    /// Reads into `buffer` from its start and answers how many bytes; fewer than `count` only at the end of the file.
    func read(
        _ ino: InodeNumber, handle: HandleID, at offset: Int64, count: Int, into buffer: Buffer
    ) -> Outcome<Int>
    /// Writes at `offset`, or without one at the current end of the file (O_APPEND, which a program may set and clear while the
    /// file is open; pages written through a mapping always have an offset). The caller may reuse `bytes` as soon as this
    /// returns: `.pending` work holds a copy.
    func write(_ ino: InodeNumber, handle: HandleID, at offset: Int64?, bytes: RawSpan) -> Outcome<Int>
    /// Clears the set-user-ID and set-group-ID bits of an open file, before a write by a caller that may not keep them.
    func dropPrivileges(of ino: InodeNumber)
    /// close(2) of one descriptor of the handle. `ifGoingOn` says whether the program may continue with another descriptor; it is
    /// called only where that matters.
    func flush(_ ino: InodeNumber, handle: HandleID, ifGoingOn: () -> Bool) -> Outcome<Void>
    func sync(_ ino: InodeNumber, handle: HandleID, dataOnly: Bool) -> Outcome<Void>
    /// Releases the handle: its last descriptor is closed.
    func release(_ ino: InodeNumber, handle: HandleID) -> Outcome<Void>
    /// fallocate(2); `mode` has Linux's FALLOC_FL_ bits.
    func allocate(_ ino: InodeNumber, handle: HandleID, range: ByteRange, mode: Int32) -> Outcome<Void>
    /// lseek(2) with SEEK_DATA or SEEK_HOLE: the next offset of that kind at or after `offset`.
    func seek(_ ino: InodeNumber, handle: HandleID, from offset: Int64, to kind: SeekKind) -> Outcome<Int64>

    /// copy_file_range(2): returns how many bytes of `source` are in `target` now. `.notSupported` leaves the copy to the caller,
    /// which then reads and writes.
    func copyRange(from source: FileRange, to target: FileRange, count: Int64) -> Outcome<Int64>

    func openDirectory(_ ino: InodeNumber) -> Outcome<HandleID>
    /// Appends entries after the position `offset` (0 is the start) until `reply` refuses one or the directory ends.
    /// With `attributes`, each appended entry but `.` and `..` counts as one reference, as a lookup would.
    func readDirectory(
        _ ino: InodeNumber, handle: HandleID, from offset: UInt64, attributes: Bool, into reply: any DirectoryReply
    ) -> Outcome<Void>
    func releaseDirectory(_ ino: InodeNumber, handle: HandleID)
    func syncDirectory(_ ino: InodeNumber) -> Outcome<Void>

    func statistics() -> Outcome<FileSystemStatistics>
    func extendedAttribute(_ name: ByteString, of ino: InodeNumber) -> Outcome<ByteString>
    /// `room` is how many bytes of names the caller can take; 0 asks how many there are (listxattr(2)).
    func extendedAttributes(of ino: InodeNumber, room: Int) -> Outcome<[ByteString]>
    func setExtendedAttribute(
        _ name: ByteString, of ino: InodeNumber, to value: ByteString, mode: ExtendedAttributeMode
    ) -> Outcome<Void>
    func removeExtendedAttribute(_ name: ByteString, of ino: InodeNumber) -> Outcome<Void>

    /// Whether programs have files or directories open.
    var hasOpenHandles: Bool { get }

    /// Commits everything that is not committed. Called after the last kernel request. Returns the files that could not be
    /// stored, and those that are not stored at `end`, a time of `TimeSource.uptime`.
    func shutDown(by end: @escaping @Sendable () -> Duration?) async -> [UnstoredFile]
}

extension FileSystemOperations {
    /// Commits everything, however long that takes.
    package func shutDown() async -> [UnstoredFile] { await shutDown { nil } }
}

/// A call's answer: now, or by work that may wait.
package enum Outcome<Value: Sendable>: Sendable {
    case ready(Result<Value, FileSystemError>)
    /// Run exactly once, on the worker pool. Cancelling its task means the caller was interrupted by a signal.
    case pending(@Sendable () async -> Result<Value, FileSystemError>)

    package static func success(_ value: Value) -> Outcome { .ready(.success(value)) }
    package static func failure(_ kind: FileSystemError.Kind, _ reason: String) -> Outcome {
        .ready(.failure(FileSystemError(kind, reason)))
    }

    /// The answer, for a caller that already runs on the worker pool.
    package func value() async -> Result<Value, FileSystemError> {
        switch self {
        case .ready(let result): result
        case .pending(let work): await work()
        }
    }
}

/// The program that waits for a call.
package protocol WaitingCaller: Sendable {
    /// The program was killed and its request is answered: no program gets the result. Work that has begun runs to its end.
    var isGone: Bool { get }
}

/// The call that a task works on.
package enum CurrentCall {
    /// nil where no program waits, or where it makes no difference.
    @TaskLocal package static var caller: (any WaitingCaller)?
}

/// An open file or directory.
package struct HandleID: RawRepresentable, Hashable, Sendable {
    package let rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// A place in an open file.
package struct FileRange: Sendable, Hashable {
    package var ino: InodeNumber
    package var handle: HandleID
    package var offset: Int64

    package init(ino: InodeNumber, handle: HandleID, offset: Int64) {
        (self.ino, self.handle, self.offset) = (ino, handle, offset)
    }
}

/// The process that makes a request.
package struct Caller: Sendable, Hashable {
    package var uid: UInt32
    package var gid: UInt32
    /// The process's umask; the kernel has applied it to `mode` already unless FUSE_CAP_DONT_MASK was negotiated.
    package var umask: UInt16

    package init(uid: UInt32, gid: UInt32, umask: UInt16 = 0) { (self.uid, self.gid, self.umask) = (uid, gid, umask) }
}

/// stat(2)'s fields, complete.
package struct FileStatus: Sendable, Hashable {
    package var ino: InodeNumber
    package var kind: EntryKind
    /// Permission bits, 0o7777.
    package var mode: UInt16
    package var links: UInt32
    package var uid: UInt32
    package var gid: UInt32
    /// In bytes.
    package var size: Int64
    package var accessed: Timestamp
    package var modified: Timestamp
    package var changed: Timestamp
    /// Preferred I/O size in bytes.
    package var blockSize: Int32

    package init(
        ino: InodeNumber, kind: EntryKind, mode: UInt16, links: UInt32, uid: UInt32, gid: UInt32, size: Int64,
        accessed: Timestamp, modified: Timestamp, changed: Timestamp, blockSize: Int32
    ) {
        (self.ino, self.kind, self.mode, self.links, self.uid, self.gid) = (ino, kind, mode, links, uid, gid)
        (self.size, self.accessed, self.modified, self.changed) = (size, accessed, modified, changed)
        self.blockSize = blockSize
    }
}

package struct EntryReply: Sendable, Hashable {
    /// nil: the name does not exist.
    package var status: FileStatus?
    /// How long the kernel may use the name, and the attributes, without asking.
    package var entryTimeout: Duration
    package var attributeTimeout: Duration

    package init(status: FileStatus?, entryTimeout: Duration, attributeTimeout: Duration) {
        (self.status, self.entryTimeout, self.attributeTimeout) = (status, entryTimeout, attributeTimeout)
    }
}

package struct AttributeReply: Sendable, Hashable {
    package var status: FileStatus
    package var timeout: Duration

    package init(status: FileStatus, timeout: Duration) { (self.status, self.timeout) = (status, timeout) }
}

/// setattr: the fields to change; nil stays.
package struct AttributeChange: Sendable, Hashable {
    package var mode: UInt16?
    package var uid: UInt32?
    package var gid: UInt32?
    package var size: Int64?
    package var accessed: Timestamp?
    package var modified: Timestamp?
    /// Whether the change clears a file's set-user-ID and set-group-ID bits.
    package var dropsPrivileges = false

    package init() {}
}

package struct OpenFlags: Sendable, Hashable {
    package var reads: Bool
    package var writes: Bool
    package var truncate: Bool
    package var exclusive: Bool
    /// O_DIRECT: bypasses the page cache.
    package var direct: Bool
    /// With `truncate`: whether that clears the file's set-user-ID and set-group-ID bits.
    package var dropsPrivileges = false

    package init(
        reads: Bool, writes: Bool, truncate: Bool = false, exclusive: Bool = false, direct: Bool = false
    ) {
        (self.reads, self.writes, self.truncate) = (reads, writes, truncate)
        (self.exclusive, self.direct) = (exclusive, direct)
    }
}

package struct OpenReply: Sendable, Hashable {
    package var handle: HandleID
    /// Whether the kernel's page cache was filled from the version that this handle reads.
    package var keepCache: Bool
    package var direct: Bool
    /// The kernel's number of the backing file from which it reads this handle by itself.
    package var backing: Int32?

    package init(handle: HandleID, keepCache: Bool, direct: Bool, backing: Int32? = nil) {
        (self.handle, self.keepCache, self.direct, self.backing) = (handle, keepCache, direct, backing)
    }
}

package struct CreateReply: Sendable, Hashable {
    package var entry: EntryReply
    package var open: OpenReply

    package init(entry: EntryReply, open: OpenReply) { (self.entry, self.open) = (entry, open) }
}

package enum SeekKind: Sendable { case data, hole }
package enum ExtendedAttributeMode: Sendable { case createOrReplace, create, replace }

/// Takes directory entries until it is full.
package protocol DirectoryReply: AnyObject, Sendable {
    /// False when the entry did not fit; it is not part of the reply then.
    func append(_ entry: DirectoryEntry) -> Bool
}

package struct DirectoryEntry: Sendable {
    package var name: ByteString
    /// ino, kind and, for a reply with attributes, everything else.
    package var status: FileStatus
    /// The position after this entry, to continue from.
    package var offset: UInt64
    package var entryTimeout: Duration
    package var attributeTimeout: Duration
    /// The kind of the entry is not known: a lookup of the name determines it.
    package var isKindOpen: Bool

    package init(
        name: ByteString, status: FileStatus, offset: UInt64, entryTimeout: Duration, attributeTimeout: Duration,
        isKindOpen: Bool = false
    ) {
        (self.name, self.status, self.offset) = (name, status, offset)
        (self.entryTimeout, self.attributeTimeout, self.isKindOpen) = (entryTimeout, attributeTimeout, isKindOpen)
    }
}

/// statvfs(3)'s figures, in bytes.
package struct FileSystemStatistics: Sendable, Hashable {
    package var capacity: Int64
    package var available: Int64
    package var longestName: Int
    /// The number of files, where the store counts them; otherwise 0.
    package var files: Int64 = 0

    package init(capacity: Int64, available: Int64, longestName: Int) {
        (self.capacity, self.available, self.longestName) = (capacity, available, longestName)
    }
}

/// A file whose bytes are on this host but not in the bucket.
package struct UnstoredFile: Sendable, Hashable {
    package var path: ByteString
    package var reason: String

    package init(path: ByteString, reason: String) { (self.path, self.reason) = (path, reason) }
}

/// Notifications that the file system sends to the kernel unasked. The bridge sends them from its own threads; no request waits
/// for these while it holds a kernel lock that they need.
package protocol KernelNotifier: Sendable {
    /// The kernel's pages and attributes of the inode are outdated.
    func invalidate(_ ino: InodeNumber)
    /// Only the kernel's attributes of the inode are outdated.
    func invalidateAttributes(of ino: InodeNumber)
    /// The name is gone or leads to another inode.
    func invalidate(_ name: ByteString, in parent: InodeNumber)
    /// Returns when the kernel has processed all notifications about the inode so far. Waits for reads of the inode that have
    /// begun.
    ///
    /// Locks: none.
    /// Throws: if the task is cancelled first.
    func awaitInvalidation(of ino: InodeNumber) async throws(CancellationError)
    /// The same, and for names in `parent`. Kernel requests must not call this: a request may hold the directory lock that the
    /// invalidation of a name waits for, or a file lock that the holder of that directory lock waits for.
    func awaitInvalidation(of ino: InodeNumber, namesIn parent: InodeNumber) async throws(CancellationError)
}
