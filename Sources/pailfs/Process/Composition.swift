import Basics
import Blocks
import Commits
import FileSystem
import FuseBridge
import Glibc
import HTTP
import Journaling
import Logging
import Metadata
import ObjectStorage
import SQLite
import Settings
import Staging
import Synchronization

/// Passes attributes of objects from GETs of the block cache to the file system, which is made after it. Locks: a leaf.
private final class InfoListener: Sendable {
    private struct Listener {
        weak var fileSystem: BucketFileSystem?
    }

    private let listener = Mutex(Listener())

    func attach(_ fileSystem: BucketFileSystem) { listener.withLock { $0.fileSystem = fileSystem } }

    func hear(_ info: ObjectInfo, of key: ObjectKey) {
        listener.withLock { $0.fileSystem }?.learn(info, of: key)
    }

    func hearOfDamage(_ version: ObjectVersion, of key: ObjectKey) {
        listener.withLock { $0.fileSystem }?.forgetPages(of: key, version)
    }
}

/// Everything that one mount is made of, put together in the order in which it can fail: the store first, then the cache
/// directory, then what lives in it.
///
/// Owns all of it for the life of the process. After a crash the next mount with the same directories continues with their
/// contents.
final class Composition: Sendable {
    let session: FuseSession
    private let fileSystem: BucketFileSystem
    private let meter = RequestMeter()
    private let traffic = HTTPTraffic()
    private let ledger: SpaceLedger
    let pool: WorkerPool
    private let control = Mutex<ControlServer?>(nil)
    private let metrics = Mutex<MetricsServer?>(nil)
    private let throttle: Throttle
    private let uploads: UploadLimiter
    private let entries: MetadataCache
    private let directories: LocalDirectories
    private let watch: DirectoryWatch
    private let journal: Journal
    private let metadata: Database
    private let index: Database
    let store: any ObjectStore
    let blocks: BlockCache
    let buffers: BufferPool
    private let own: BufferPool
    private let replies: BufferPool

    /// With `held`, the mount belongs to a holder; if it exists already, it is taken over with all its open files. `process` is
    /// the process that other processes know the mount by.
    init(
        _ request: MountRequest, mountpoint: Mountpoint, held: HeldConnection? = nil, record: Int32 = -1,
        process: pid_t, logger: Logger
    ) throws(CommandError) {
        let takesOver = held?.isTakenOver ?? false
        let settings = request.settings
        if !takesOver { try LocalDirectories.require(request, outside: mountpoint) }
        let time = SystemTime()
        pool = WorkerPool(threads: 16, name: "pailfs-work")
        throttle = Self.throttle(settings)
        uploads = UploadLimiter(limit: settings.uploads)
        store = try Self.openStore(
            request, checked: !takesOver, pool: pool, meter: meter, traffic: traffic, throttle: throttle, time: time,
            logger: logger)

        let cache = try LocalDirectories(request, mountpoint: mountpoint, process: process)
        let place = cache.place
        directories = cache
        if !takesOver, let danger = place.directories.lazy.compactMap({ LocalDirectories.exposed($0) }).first {
            Entry.warn("other users can change the cache: \(danger); set cache-dir to a directory of your own")
        }
        journal = try cache.journal(environment: request.environment)
        let lag = store.capabilities.listingLag
        (metadata, entries) = try cache.cache("meta.db", migrations: MetadataCache.migrations, logger: logger) {
            [journal] (database) throws(SQLiteError) in
            do throws(MetadataError) {
                return try MetadataCache(
                    database: database, time: time, ttl: settings.ttl, listingLag: lag, codec: Self.names(settings),
                    boot: journal.boot, keepingPending: takesOver)
            } catch {
                guard case .database(let cause) = error else {
                    throw SQLiteError(.misuse, message: error.description)
                }
                throw cause
            }
        }
        entries.remind(store)
        entries.limit = LocalDirectories.metadataShare(of: settings.cacheSize)
        let unlinked = Orphan.all(in: entries)
        // The work of an earlier process is recovered before anything else uses the bucket.
        let plan = try Self.recover(
            journal, cache, store: store, settings, isRestart: takesOver,
            waiting: Set(unlinked.compactMap(\.job)), pool: pool, time: time, logger: logger)
        // Replies have a budget of their own, and so have the file system's own reads: a reply may wait for a commit or a
        // removal, and those for a fetch. With one budget, a request could hold the memory for which the request it waits for is
        // waiting.
        let memory = Self.memory(settings)
        let (forReplies, forOwn) = (memory / 4, min(memory / 8, 32 << 20))
        replies = BufferPool(budget: MemoryBudget(limit: forReplies))
        own = BufferPool(budget: MemoryBudget(limit: forOwn))
        buffers = BufferPool(budget: MemoryBudget(limit: memory - forReplies - forOwn))
        ledger = cache.ledger(limit: settings.cacheSize, floor: settings.freeSpace, time: time)
        // Cached blocks can be evicted for writes; a disk without free space would only show by ENOSPC.
        if !takesOver, !settings.readOnly, let free = try? Directory.space(at: place.state).free,
            let lack = LocalDirectories.lack(of: free, at: place.state, settings)
        {
            Entry.warn("writes can fail with ENOSPC: \(lack.message)")
        }
        let listener = InfoListener()
        let staging: StagingArea
        (index, blocks) = try cache.cache("blocks.db", migrations: BlockCache.migrations, logger: logger) {
            [ledger, pool, store, buffers] (database) throws(SQLiteError) in
            try BlockCache(
                directory: place.blocks, database: database, ledger: ledger, buffers: buffers, store: store,
                pool: pool, time: time, options: Self.blockOptions(settings), logger: logger,
                lent: held?.backedInodes.map(\.file) ?? [],
                onDamage: { key, version in listener.hearOfDamage(version, of: key) },
                onInfo: { key, info in listener.hear(info, of: key) })
        }
        do {
            staging = try StagingArea(
                directory: place.staging, ledger: ledger, time: time,
                kept: plan.stagedNames.union(unlinked.compactMap(\.staging)),
                lastKnown: journal.lastKnownFile)
        } catch { throw cache.unusable("\(error)") }
        if !takesOver, staging.orphans.files > 0 {
            let place = place.orphans
            let files = StatusText.count(staging.orphans.files, "file")
            Entry.warn(
                "the journal does not know \(files) of acknowledged or unfinished bytes in \(place); copy them out with "
                    + "\"cp \(place)/* DIRECTORY\", then delete them there")
        }
        fileSystem = BucketFileSystem(
            rooms: BucketFileSystem.Rooms(
                metadata: entries, blocks: blocks, staging: staging, journal: journal, store: store,
                uploads: uploads, buffers: own, pool: pool, time: time, logger: logger),
            policy: Self.policy(request), commitOptions: Self.commitOptions(settings),
            generation: held?.generation ?? 0, openFiles: held, backing: held)
        listener.attach(fileSystem)
        do {
            try Self.recover(plan, unlinked, openFiles: takesOver ? held?.openFiles : nil, fileSystem, pool)
        } catch { throw cache.unusable("\(error)") }
        if !takesOver, journal.isCopy { Self.warnOfCopy(place, withheld: plan.withheld.count) }
        let invalidator = KernelInvalidator()
        fileSystem.attach(invalidator)
        session = FuseSession(
            fileSystem, on: mountpoint, options: Self.mountOptions(request), pool: pool, buffers: replies,
            invalidator: invalidator, held: held, record: record, time: time, logger: logger)
        watch = DirectoryWatch(
            cache,
            DirectoryWatch.Contents(
                databases: [metadata, index], blocks: blocks, journal: journal, staging: staging,
                fileSystem: fileSystem), logger: logger)
    }

    /// Starts to answer commands about this mount, and serves its metrics where the options ask for it. Throws when the place of
    /// the metrics cannot be used, unless this worker takes the mount over; without the control socket the mount serves all the
    /// same.
    func listen(
        _ request: MountRequest, mountpoint: Mountpoint, process: pid_t, threshold: LogThreshold, logger: Logger
    ) throws(CommandError) {
        var service = service(request, mountpoint: mountpoint, process: process)
        service.live = LiveSettings(
            request, directory: place.state, level: threshold, ledger: ledger, uploads: uploads, throttle: throttle,
            limits: traffic.limits, metadata: entries, fileSystem: fileSystem)
        let figures = MountFigures(
            identity: service.identity, fileSystem: fileSystem, blocks: blocks, meter: meter, throttle: throttle,
            limits: traffic.limits, ledger: ledger, failures: session.failures)
        fileSystem.attach(figures: { ByteString(figures.text) })
        if let place = request.settings.metrics {
            do throws(CommandError) {
                let server = try MetricsServer(at: place) { figures.text }
                metrics.withLock { $0 = server }
            } catch {
                guard session.takesOver else { throw error }
                logger.warning("the metrics cannot be served", metadata: ["reason": "\(error.message)"])
            }
        }
        ControlPlace.removeDead()
        do throws(FileError) {
            let server = try ControlServer(at: ControlPlace(of: mountpoint, process: process), service, logger: logger)
            control.withLock { $0 = server }
        } catch {
            logger.warning(
                "commands such as \"pailfs status\" cannot reach this mount", metadata: ["reason": "\(error)"])
        }
    }

    /// The answers to commands.
    func service(_ request: MountRequest, mountpoint: Mountpoint, process: pid_t) -> ControlService {
        let identity = ControlService.Identity(
            url: request.url, mountpoint: mountpoint.path, pid: process, since: SystemTime().now(),
            durable: request.settings.durable == .local ? "local" : "remote", readOnly: request.settings.readOnly,
            place: place)
        return ControlService(
            identity: identity, asked: request, fileSystem: fileSystem, blocks: blocks,
            figures: ControlService.Figures(
                meter: meter, traffic: traffic, throttle: throttle, ledger: ledger,
                memory: [buffers.budget, own.budget, replies.budget], prices: store.capabilities.prices),
            pool: pool)
    }

    private var place: DirectoryPair { directories.place }

    /// The files whose present state the bucket does not have, and how many bytes of them have to be sent yet.
    var unsent: (files: Int, bytes: Int64) { fileSystem.unsent }

    /// Without a session: stores the remaining files, and returns those that could not be stored.
    func finish() -> [UnstoredFile] {
        WorkAnswer.wait(on: pool) { [fileSystem] in await fileSystem.shutDown() }
    }

    /// Stores the remaining files for a command: names those that could not be stored, and throws.
    func finishOrFail() throws(CommandError) {
        let unstored = finish()
        guard !unstored.isEmpty else { return }
        Entry.sayUnstored(unstored.map { "\($0.path) (\($0.reason))" })
        throw CommandError(
            "\(StatusText.count(unstored.count, "file")) of an earlier mount could not be stored; "
                + "their bytes stay in \(place.state)")
    }

    /// After the session's end: writes cached data to disk and releases the directories.
    func close() {
        control.withLock { $0.take() }?.stop()
        metrics.withLock { $0.take() }?.stop()
        watch.stop()
        blocks.close()
        index.close()
        // Closes the journal before the metadata cache: a file stored from now on keeps its row, for the next process. If a row
        // were deleted while the metadata cache could not record the new version, that process would use the version before.
        journal.close()
        metadata.close()
    }

    /// Closes for a process that exits right afterwards, even if parts of it still run.
    func close(within duration: Duration) {
        let closed = Semaphore()
        startThread(name: "close") { [self] in
            close()
            closed.signal()
        }
        _ = closed.wait(for: duration)
    }

    // MARK: settings of each part

    private static func mountOptions(_ request: MountRequest) -> MountOptions {
        var options = MountOptions(source: request.url)
        options.allowOther = request.settings.allowOther
        options.readOnly = request.settings.readOnly
        options.kernelFlags = request.settings.kernelFlags
        options.lockPath = MountRecord.directory + "/mounting"
        options.handed = request.handed
        return options
    }

    private static func policy(_ request: MountRequest) -> MountPolicy {
        let settings = request.settings
        var policy = MountPolicy(uid: settings.uid ?? geteuid(), gid: settings.gid ?? getegid())
        policy.fileMode = settings.fileMode
        policy.directoryMode = settings.directoryMode
        policy.readOnly = settings.readOnly
        policy.attributes = settings.attributes == .exact ? .exact : .listing
        policy.conflict =
            switch settings.conflict {
            case .keep: .keep
            case .overwrite: .overwrite
            case .fail: .fail
            }
        // Where headers are fetched anyway, links are read from them, too.
        policy.linksInHeaders =
            settings.symlinks == .metadata || settings.symlinks != .off && settings.attributes == .exact
        policy.nativeLinks = settings.symlinks == .native
        policy.durability = settings.durable == .local ? .local : .remote
        if settings.timeout > .zero { policy.spaceTimeout = settings.timeout }
        if let size = settings.size { policy.capacity = size }
        policy.hostName = hostName
        policy.prefix = request.prefix
        policy.headerRules = settings.headerRules
        if !settings.readOnly { policy.contentTypes = settings.contentTypes }
        return policy
    }

    private static var hostName: String {
        var bytes = [CChar](repeating: 0, count: 256)
        let status = gethostname(&bytes, bytes.count - 1)
        let name = String(decoding: bytes.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        return status == 0 && !name.isEmpty ? name : "localhost"
    }

    private static func commitOptions(_ settings: MountSettings) -> CommitOptions {
        var options = CommitOptions()
        options.partSize = settings.partSize
        options.uploadsPerFile = min(options.uploadsPerFile, settings.uploads)
        return options
    }

    private static func names(_ settings: MountSettings) -> NameCodec {
        NameCodec(
            style: settings.names == .raw ? .raw : .escaped,
            linkSuffix: [.objects, .native].contains(settings.symlinks) ? NameCodec.rcloneLinkSuffix : nil)
    }

    private static func blockOptions(_ settings: MountSettings) -> BlockOptions {
        var options = BlockOptions()
        options.readAhead = settings.readAhead
        options.verifies = settings.checksums == .verify
        return options
    }

    /// The option memory, but at most half of the control group's limit.
    private static func memory(_ settings: MountSettings) -> Int {
        Int(min(settings.memory, max(32 << 20, (MemoryLimit.bytes ?? .max) / 2)))
    }
}
