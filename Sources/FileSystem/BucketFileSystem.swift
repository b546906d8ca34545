package import Basics
package import Blocks
package import Commits
package import Journaling
package import Logging
package import Metadata
package import ObjectStorage
package import Staging
import Synchronization

/// A bucket as a POSIX tree. Serves the kernel's requests from the metadata cache, the block cache, staging and the store.
///
/// Names and attributes are in the metadata cache; `ActiveFiles` holds the newer state of open and dirty files. LockPlaces.swift
/// has the locks in their order, which debug builds check. Mutexes are leaves, and never held across I/O or an await. The object
/// lives as long as the mount.
package final class BucketFileSystem: FileSystemOperations {
    /// The lower layers, created by the command.
    package struct Rooms: Sendable {
        package var metadata: MetadataCache
        package var blocks: BlockCache
        package var staging: StagingArea
        package var journal: Journal
        package var store: any ObjectStore
        package var uploads: UploadLimiter
        /// Buffers for the file system's own reads. Not the pool of reply buffers: a request may hold one of those while it waits
        /// for such a read.
        package var buffers: BufferPool
        package var pool: WorkerPool
        package var time: any TimeSource
        package var logger: Logger

        package init(
            metadata: MetadataCache, blocks: BlockCache, staging: StagingArea, journal: Journal,
            store: any ObjectStore, uploads: UploadLimiter, buffers: BufferPool, pool: WorkerPool, time: any TimeSource,
            logger: Logger
        ) {
            (self.metadata, self.blocks, self.staging, self.journal) = (metadata, blocks, staging, journal)
            self.store = store
            (self.uploads, self.buffers, self.pool, self.time, self.logger) = (uploads, buffers, pool, time, logger)
        }
    }

    let policy: MountPolicy
    private let commitOptionsBox: Mutex<CommitOptions>
    /// For files that begin to change now.
    var commitOptions: CommitOptions { commitOptionsBox.withLock { $0 } }
    /// The largest file that fits into the parts of one upload, in bytes.
    private let largestOfParts: Atomic<Int64>
    /// The largest file that can be stored, in bytes.
    var largestFile: Int64 {
        let capabilities = store.capabilities
        return min(
            capabilities.largestObject, capabilities.limits.largestFile, largestOfParts.load(ordering: .relaxed))
    }
    /// The names that programs see; nil for all.
    let filter: KeyFilter?
    let rooms: Rooms
    /// The store, with `watch` around each request.
    let store: any ObjectStore
    let watch: StoreWatch
    let files = ActiveFiles()
    let handles: HandleTable
    let listings: DirectoryListings
    let lookups: SharedFlights<LookupKey, Entry?>
    let uploads: UploadQueue
    /// Held while a close is acknowledged on the thread of the kernel's request.
    let acknowledgingNow = TaskGate()
    let jobs: JobQueue
    let space: SpaceRelief
    /// The recent lookups of unknown names in each directory.
    let recentMisses = Mutex(LRU<InodeNumber, Misses>(capacity: 4096))
    let refusals = Mutex(Refusals())
    /// Targets of symbolic links.
    let targets = Mutex(LRU<InodeNumber, LinkTarget>(capacity: 4096))
    let namespace = KeyGate(.namespace)
    let names = KeyGate(.names)
    /// Names that a call makes, moves or removes.
    let nameClaims = Claims<Place>(.name(0))
    /// Inodes that a call is unlinking or replacing. The call checks which handles are open and saves the bytes that they need;
    /// `open` waits for its end, then looks the name up again.
    let namesBeingRemoved = Claims<InodeNumber>(.leaving)
    let formers = FormerInodes()
    let pendingDeletions: PendingDeletions
    /// Deletions of unlinked objects share it; a commit to the key of such an object holds it alone.
    let deletions = TaskGate(.deletions)
    let recoverableFiles = RecoverableFiles()
    let copies = Copies([:])
    let directoryRenames = DirectoryRenames()
    /// Whether a task is removing names from a metadata cache that exceeds its share.
    let isTrimming = Atomic(false)
    /// The last error of each file, for `pailfs explain` and `user.pailfs.lasterror`.
    let lastErrors = Mutex(LRU<InodeNumber, LastError>(capacity: 4096))
    /// The inodes of opened objects, by key: the headers of a GET go into their entries.
    let openedKeys = Mutex(LRU<ObjectKey, InodeNumber>(capacity: 4096))
    let kernel: KernelView
    /// When a HEAD found that a directory has no marker, whose headers `attrs=exact` shows.
    let markersMissing = Mutex(LRU<InodeNumber, Timestamp>(capacity: 16_384))
    /// The usage that the store reports, for statfs.
    let usage = Mutex(KnownUsage())
    /// Counts the reads of programs, for the figures of the mount.
    let reads = ReadCounts()
    /// Returns all figures of the mount as text. The command provides it.
    private let figures = LateBinding<ByteString>()

    var metadata: MetadataCache { rooms.metadata }
    var time: any TimeSource { rooms.time }

    /// `generation` counts the processes that have served this mount, one after the other.
    package init(
        rooms: Rooms, policy: MountPolicy, commitOptions: CommitOptions, generation: UInt32 = 0,
        openFiles: (any OpenFileLog)? = nil, backing kernel: (any BackingKernel)? = nil
    ) {
        handles = HandleTable(generation: generation, log: openFiles)
        let backing = policy.readOnly ? kernel : nil
        self.kernel = KernelView(
            reads: backing.map { kernel in
                KernelReads(kernel, logger: rooms.logger) { [blocks = rooms.blocks] in blocks.takeBack($0) }
            })
        self.rooms = rooms
        self.policy = policy
        commitOptionsBox = Mutex(commitOptions)
        largestOfParts = Atomic(commitOptions.largestSize(for: rooms.store.capabilities))
        let bare = rooms.store
        filter = bare.capabilities.limits.filter
        watch = StoreWatch(pool: rooms.pool, time: rooms.time, logger: rooms.logger) {
            do throws(ObjectStoreError) { try await bare.checkAccess() } catch { return error }
            return nil
        }
        store = InterceptedStore(bare, watch)
        pendingDeletions = PendingDeletions()
        listings = DirectoryListings(
            metadata: rooms.metadata, store: store, pendingDeletions: pendingDeletions, pool: rooms.pool
        ) { [handles] directory in
            handles.openDirectories.count { $0 == directory } == 1
        }
        lookups = SharedFlights(pool: rooms.pool)
        uploads = UploadQueue(pool: rooms.pool, time: rooms.time) { [journal = rooms.journal] in journal.flush() }
        jobs = JobQueue(
            store: InterceptedStore(bare, LastRequests(watch: watch)), journal: rooms.journal, pool: rooms.pool,
            time: rooms.time, logger: rooms.logger)
        space = SpaceRelief(staging: rooms.staging, files: files, time: rooms.time)
        rooms.metadata.attach(dirtyFiles: { [files] in Set(files.dirty.map(\.ino)) })
        rooms.metadata.attach(openInodes: { [files, handles, nameClaims] in
            Set(files.all.map(\.ino)).union(handles.openDirectories).union(nameClaims.all.map(\.parent))
        })
        giveRootATime()
    }

    /// The top directory has no object: in a new cache its times are those of the first mount.
    private func giveRootATime() {
        guard var root = try? metadata.entry(.root), root.attributes.mtime == .epoch else { return }
        (root.attributes.mtime, root.attributes.ctime) = (time.now(), time.now())
        try? metadata.update(.root, root.attributes, pending: false)
    }

    /// Sets the size of the parts of uploads, in bytes. Files that are being written keep theirs.
    package func setPartSize(_ size: Int64) {
        let largest = commitOptionsBox.withLock { options in
            options.partSize = size
            return options.largestSize(for: store.capabilities)
        }
        largestOfParts.store(largest, ordering: .relaxed)
    }

    /// Connects the kernel's notifier, once the mount has one.
    package func attach(_ notifier: any KernelNotifier) { kernel.attach(notifier) }

    /// Connects the function that answers `user.pailfs.stats`.
    package func attach(figures tell: @escaping @Sendable () -> ByteString) { figures.bind(tell) }

    /// All figures of the mount; nil while no function is attached. Reads the journal.
    var figuresText: ByteString? { figures() }

    /// Stores the headers of a GET in the object's entry: from then on `stat` shows exact attributes. Called by the block cache.
    package func learn(_ info: ObjectInfo, of key: ObjectKey) {
        guard let ino = openedKeys.withLock({ $0.peek(key) }), let entry = try? metadata.entry(ino),
            !entry.attributes.headersKnown
        else { return }
        var attributes = entry.attributes
        AttributeCodec.decode(info.metadata, into: &attributes)
        let isKept = try? metadata.recordHeaders(
            ino, for: info.version.etag, attributes, metadata: info.metadata)
        guard isKept == true else { return }
        let learned = attributes
        files.find(ino)?.state.withLock { state in
            guard state.attributes.version?.etag == info.version.etag else { return }
            state.learn(learned)
        }
    }

    /// Makes the kernel drop its pages of an object. Programs may have read damaged bytes of this version.
    package func forgetPages(of key: ObjectKey, _ version: ObjectVersion) {
        guard let ino = openedKeys.withLock({ $0.peek(key) }), let entry = try? metadata.entry(ino),
            entry.attributes.version?.etag == version.etag
        else { return }
        kernel.forgetPages(of: ino)
        kernel.notifier?.invalidate(ino)
    }

    // MARK: Answers

    /// An answer from memory or the metadata cache.
    func now<Value>(_ body: () throws(FileSystemError) -> Value) -> Outcome<Value> {
        do throws(FileSystemError) { return .success(try body()) } catch { return .ready(.failure(error)) }
    }

    /// An answer that may wait.
    func later<Value: Sendable>(
        _ body: @escaping @Sendable () async throws(FileSystemError) -> Value
    ) -> Outcome<Value> {
        .pending {
            await CallDeadline.run {
                do throws(FileSystemError) { return .success(try await body()) } catch { return .failure(error) }
            }
        }
    }

    /// The metadata cache's answer, or its error in POSIX terms.
    func cached<Value>(_ body: (MetadataCache) throws(MetadataError) -> Value) throws(FileSystemError) -> Value {
        do { return try body(rooms.metadata) } catch { throw FileSystemError(error) }
    }

    /// The store's answer, or its error in POSIX terms.
    func remote<Value>(
        _ body: (any ObjectStore) async throws(ObjectStoreError) -> Value
    ) async throws(FileSystemError) -> Value {
        do { return try await body(store) } catch { throw FileSystemError(error) }
    }

    /// Writes to the journal, or throws its error in POSIX terms.
    func journalled(_ body: (Journal) throws(JournalingError) -> Void) throws(FileSystemError) {
        do { try body(rooms.journal) } catch { throw FileSystemError(error) }
    }

    func entry(_ ino: InodeNumber) throws(FileSystemError) -> Entry {
        guard let entry = try cached({ metadata throws(MetadataError) in try metadata.entry(ino) }) else {
            throw FileSystemError(.stale, "inode \(ino) is no longer in the bucket")
        }
        return entry
    }

    /// The object's key below the mount's prefix.
    func key(of ino: InodeNumber) throws(FileSystemError) -> ObjectKey {
        guard let bytes = try cached({ metadata throws(MetadataError) in try metadata.key(of: ino) }) else {
            throw FileSystemError(.stale, "inode \(ino) is no longer in the bucket")
        }
        guard !bytes.isEmpty else {
            throw FileSystemError(.notPermitted, "the top directory of the mount is not an object")
        }
        return ObjectKey(bytes)
    }

    func requireWritable() throws(FileSystemError) {
        if policy.readOnly { throw FileSystemError(.readOnly, "mounted read-only") }
    }

    /// Keeps the reason for `user.pailfs.lasterror`. Returns the key of the object that the file had last.
    @discardableResult
    func keep(_ error: FileSystemError, _ operation: String, _ ino: InodeNumber) -> ObjectKey? {
        let last = LastError(operation: operation, error: error, at: time.now())
        // Programs ask by name, and once the object was replaced the name leads to another inode.
        let (successor, base) =
            files.find(ino)?.state.withLock { ($0.life.successor, $0.life.object?.key) } ?? (nil, nil)
        lastErrors.withLock { _ = $0.insert(last, for: successor ?? ino) }
        return base
    }

    /// Keeps the reason for `user.pailfs.lasterror` and logs it with the path.
    func remember(_ error: FileSystemError, _ operation: String, _ ino: InodeNumber) {
        let base = keep(error, operation, ino)
        let path = ((try? metadata.key(of: ino)) ?? base?.bytes)?.description ?? "inode \(ino)"
        rooms.logger.warning(
            "operation failed", metadata: ["op": "\(operation)", "key": "\(path)", "reason": "\(error.reason)"])
    }
}

/// An operation on a file that failed.
struct LastError: Sendable {
    let operation: String
    let error: FileSystemError
    let at: Timestamp

    var text: String { "\(operation): \(error.reason)" }

    /// Whether it keeps the file from being stored: a callback is made for a file that is stored.
    var keepsFileUnstored: Bool { operation != Self.callback }

    static let callback = "callback"
}

/// The target of one version of a symbolic link.
struct LinkTarget: Sendable {
    let etag: ETag?
    let text: ByteString
    let askedAt: Timestamp
}

/// Counts of answered reads.
struct ReadCounts: ~Copyable, Sendable {
    /// Reads answered from local data.
    let hits = Atomic<Int>(0)
    /// Reads that had to wait, for the store or for another task.
    let misses = Atomic<Int>(0)
    /// The bytes of both.
    let bytes = Atomic<Int>(0)
}

/// A name in a directory.
struct LookupKey: Hashable, Sendable {
    let parent: InodeNumber
    let name: ByteString
}
