import Basics
import Blocks
import Commits
import FileSystem
import Journaling
import Logging
import Metadata
import ObjectStorage
import SQLite
import Staging
import Synchronization
import TestSupport

/// A file system on a store in memory, used by paths as the kernel would use it for a program: names are looked up one by
/// one, inode numbers and handles go in, nothing else is known. `remount` throws everything away but the directory on disk.
final class MountedTree {
    let store: MemoryStore
    /// What the file system is given: the store in memory, unless a test says otherwise.
    private let front: any ObjectStore
    /// The process that is mounted now, as far as the store is concerned.
    private var life = Life()
    let time: ManualTime
    let pool: WorkerPool
    private let directory: TemporaryDirectory
    private let capacity: Int64
    private let ttl: Duration
    private let codec: NameCodec
    private let listener = Listener()
    private(set) var system: BucketFileSystem
    private(set) var rooms: BucketFileSystem.Rooms
    /// Of the caches.
    private var databases: [Database]
    var policy: MountPolicy
    private var commitOptions = CommitOptions()
    private var generation: UInt32 = 0
    private var dead: [BucketFileSystem] = []
    private let openFiles = OpenFiles()
    let caller = Caller(uid: 1000, gid: 100)

    struct Failure: Error, Equatable, CustomStringConvertible {
        let kind: FileSystemError.Kind
        let reason: String
        var description: String { "\(kind): \(reason)" }
        static func == (left: Failure, right: Failure) -> Bool { left.kind == right.kind }
    }

    init(
        capabilities: Capabilities = Capabilities(), ttl: Duration = .seconds(60), capacity: Int64 = 1 << 30,
        deliverySize: Int = 64 << 10, over front: (any ObjectStore)? = nil,
        durability: MountPolicy.Durability = .remote, partSize: Int64 = CommitOptions().partSize,
        codec: NameCodec = NameCodec(), pool: WorkerPool = WorkerPool(threads: 4, name: "test"),
        time: ManualTime = ManualTime()
    ) throws {
        (self.pool, self.time) = (pool, time)
        store = MemoryStore(capabilities: capabilities, time: time, deliverySize: deliverySize)
        self.front = front ?? store
        directory = try TemporaryDirectory()
        self.capacity = capacity
        policy = MountPolicy(uid: 0, gid: 0)
        (self.ttl, self.codec) = (ttl, codec)
        policy.hostName = "here"
        policy.durability = durability
        commitOptions.partSize = partSize
        let journal = try Journal(path: directory.path("journal.db"))
        (rooms, databases) = try Self.open(
            directory.path, listener, Self.lasting(self.front, life, time), journal, kept: [], time, pool, ttl,
            capacity,
            codec: codec)
        system = BucketFileSystem(rooms: rooms, policy: policy, commitOptions: commitOptions, openFiles: openFiles)
        listener.system.withLock { [system] in $0.system = system }
    }

    /// A process that has ended has no descriptors: those of all tests together would pass the limit of the one that runs them.
    deinit {
        rooms.blocks.close()
        crash()
    }

    /// What the kernel has open, in place of the memory that the processes of a mount share.
    private final class OpenFiles: OpenFileLog {
        private let files = Mutex<[HandleID: InodeNumber]>([:])

        var all: [(handle: HandleID, ino: InodeNumber)] { files.withLock { $0.map { ($0.key, $0.value) } } }

        func opened(_ handle: HandleID, of ino: InodeNumber) { files.withLock { $0[handle] = ino } }

        func closed(_ handle: HandleID) { files.withLock { _ = $0.removeValue(forKey: handle) } }

        private let listings = Mutex<[HandleID: (offset: UInt64, component: ByteString)]>([:])

        func listed(_ handle: HandleID, _ offset: UInt64, _ component: ByteString) {
            listings.withLock { $0[handle] = (offset, component) }
        }

        func unlisted(_ handle: HandleID) { listings.withLock { _ = $0.removeValue(forKey: handle) } }

        func listing(of handle: HandleID) -> (offset: UInt64, component: ByteString)? {
            listings.withLock { $0[handle] }
        }
    }

    /// The block cache is made before the file system that it tells what it learns.
    private final class Listener: Sendable {
        struct Reference { weak var system: BucketFileSystem? }
        let system = Mutex(Reference())
    }

    private static func open(
        _ path: String, _ listener: Listener, _ store: any ObjectStore, _ journal: Journal, kept: Set<String>,
        _ time: ManualTime, _ pool: WorkerPool, _ ttl: Duration, _ capacity: Int64,
        codec: NameCodec, keepingPending: Bool = false
    ) throws -> (rooms: BucketFileSystem.Rooms, databases: [Database]) {
        let database = try Database(.file(path + "/meta.db"), migrations: MetadataCache.migrations)
        let index = try Database(.file(path + "/blocks.db"), migrations: BlockCache.migrations)
        let metadata = try MetadataCache(
            database: database, time: time, ttl: ttl, negativeTTL: .seconds(1),
            listingLag: store.capabilities.listingLag, codec: codec, keepingPending: keepingPending)
        metadata.remind(store)
        let ledger = SpaceLedger(limit: capacity, floor: 0, commitShare: capacity / 4) { .max }
        let buffers = BufferPool(budget: MemoryBudget(limit: 64 << 20))
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let blocks = try BlockCache(
            directory: path + "/blocks", database: index, ledger: ledger, buffers: buffers, store: store,
            pool: pool, time: time, options: BlockOptions(), logger: logger,
            onInfo: { key, info in listener.system.withLock { $0.system }?.learn(info, of: key) })
        let staging = try StagingArea(
            directory: path + "/staging", ledger: ledger, time: time, kept: kept, lastKnown: journal.lastKnownFile)
        let rooms = BucketFileSystem.Rooms(
            metadata: metadata, blocks: blocks, staging: staging, journal: journal, store: store,
            uploads: UploadLimiter(limit: 8), buffers: buffers, pool: pool, time: time, logger: logger)
        return (rooms, [database, index])
    }

    /// Runs SQL on the metadata cache, besides the process that has it open.
    func executeInMetadata(_ script: String) throws {
        let database = try Database(.file(directory.path("meta.db")), migrations: MetadataCache.migrations)
        defer { database.close() }
        try database.write { (connection) throws(SQLiteError) in try connection.execute(script) }
    }

    /// Ends the mount as an orderly unmount does, and mounts again.
    func remount() async throws {
        let unstored = await system.shutDown()
        guard unstored.isEmpty else { throw Failure(kind: .inputOutput, reason: "\(unstored)") }
        try await mountAgain()
    }

    /// The process dies and another one goes on with the mount; `meanwhile` is done to the cache directory.
    func restart(meanwhile: (String) throws -> Void = { _ in }) async throws {
        crash()
        // A process that is killed cleans nothing up.
        dead.append(system)
        try meanwhile(directory.path)
        try await mountAgain(isRestart: true)
    }

    /// What a process asks of the store ends with it, though its tasks go on here.
    private struct Life: Interceptor {
        final class State: Sendable { let isOver = Mutex(false) }
        let state = State()

        func intercept<Answer: Sendable>(
            _ context: RequestContext, settle: Settlement<Answer>?,
            _ attempt: () async throws(ObjectStoreError) -> Answer
        ) async throws(ObjectStoreError) -> Answer {
            try check(context)
            let answer = try await attempt()
            try check(context)
            return answer
        }

        private func check(_ context: RequestContext) throws(ObjectStoreError) {
            guard state.isOver.withLock({ $0 }) else { return }
            throw ObjectStoreError(.cancelled, context.operation, key: context.key, message: "the process is gone")
        }
    }

    /// Kills the process: nothing is ended in order, and nothing more is written or sent.
    func crash() {
        // What is asked of the store after the journal is closed was written down before, and on its way.
        rooms.journal.close()
        for database in databases { database.close() }
        life.state.isOver.withLock { $0 = true }
    }

    /// The store as one process has it.
    private static func lasting(_ front: any ObjectStore, _ life: Life, _ time: ManualTime) -> any ObjectStore {
        let store = InterceptedStore(front, life)
        let lag = front.capabilities.listingLag
        return lag > .zero ? OverlaidStore(store, RecentWrites(lag: lag, time: time)) : store
    }

    /// A process that is killed between what it has settled at the store and what its caches are told of that.
    func dieAtStart() async throws {
        crash()
        dead.append(system)
        let journal = try Journal(path: directory.path("journal.db"))
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        _ = try await Recovery(
            store: InterceptedStore(front, Life()), journal: journal, isRestart: true, time: time, logger: logger
        ).run()
        journal.close()
    }

    /// A new process on the same cache directory, which settles first what the one before left. With `isRestart` the mount
    /// was there all the time, and programs have their files open.
    func mountAgain(isRestart: Bool = false) async throws {
        life.state.isOver.withLock { $0 = true }
        rooms.journal.close()
        rooms.blocks.close()
        for database in databases { database.close() }
        life = Life()
        let store = Self.lasting(front, life, time)
        let journal = try Journal(path: directory.path("journal.db"))
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let unlinked = isRestart ? try unlinkedFiles() : []
        let recovery = Recovery(
            store: store, journal: journal, isRestart: isRestart, waiting: Set(unlinked.compactMap(\.job)), time: time,
            logger: logger)
        let plan = policy.readOnly ? try recovery.look() : try await recovery.run()
        (rooms, databases) = try Self.open(
            directory.path, listener, store, journal, kept: plan.stagedNames.union(unlinked.compactMap(\.staging)),
            time, pool, ttl, capacity, codec: codec, keepingPending: isRestart)
        if isRestart { generation += 1 }
        system = BucketFileSystem(
            rooms: rooms, policy: policy, commitOptions: commitOptions, generation: generation, openFiles: openFiles)
        listener.system.withLock { [system] in $0.system = system }
        try await system.recover(plan, unlinked: unlinked, openFiles: isRestart ? openFiles.all : nil)
    }

    /// Open files without a name that the process before this one has left word of.
    private func unlinkedFiles() throws -> [Orphan] {
        let database = try Database(.file(directory.path("meta.db")), migrations: MetadataCache.migrations)
        defer { database.close() }
        return Orphan.all(
            in: try MetadataCache(
                database: database, time: time, ttl: ttl, negativeTTL: .seconds(1), codec: codec,
                keepingPending: true))
    }

    func run<Value: Sendable>(_ outcome: Outcome<Value>) async throws(Failure) -> Value {
        let result: Result<Value, FileSystemError>
        switch outcome {
        case .ready(let answer): result = answer
        case .pending(let work): result = await pool.start(work).value
        }
        switch result {
        case .success(let value): return value
        case .failure(let error): throw Failure(kind: error.kind, reason: error.reason)
        }
    }

    // MARK: Paths

    func find(_ path: String) async throws(Failure) -> FileStatus {
        var status: FileStatus?
        var ino = InodeNumber.root
        for name in path.split(separator: "/") {
            if let status, status.kind != .directory { throw Failure(kind: .notDirectory, reason: path) }
            status = try await run(system.lookup(ByteString(String(name)), in: ino)).status
            guard let status else { throw Failure(kind: .notFound, reason: path) }
            ino = status.ino
        }
        return try await run(system.attributes(ino, handle: nil)).status
    }

    func parent(of path: String) async throws(Failure) -> (InodeNumber, ByteString) {
        let parts = path.split(separator: "/").map(String.init)
        guard let name = parts.last else { throw Failure(kind: .invalid, reason: "no name") }
        let directory = try await find(parts.dropLast().joined(separator: "/"))
        guard directory.kind == .directory else { throw Failure(kind: .notDirectory, reason: path) }
        return (directory.ino, ByteString(name))
    }

    /// Opens as open(2) with O_CREAT when `create`.
    func open(
        _ path: String, _ flags: OpenFlags, create: Bool = false
    ) async throws(Failure) -> (InodeNumber, HandleID) {
        let (parent, name) = try await parent(of: path)
        if let status = try await run(system.lookup(name, in: parent)).status {
            if create, flags.exclusive { throw Failure(kind: .exists, reason: path) }
            if status.kind == .directory { throw Failure(kind: .isDirectory, reason: path) }
            return (status.ino, try await run(system.open(status.ino, flags: flags)).handle)
        }
        guard create else { throw Failure(kind: .notFound, reason: path) }
        let reply = try await run(system.create(name, in: parent, mode: 0o640, flags: flags, caller: caller))
        guard let ino = reply.entry.status?.ino else { throw Failure(kind: .inputOutput, reason: "no inode") }
        return (ino, reply.open.handle)
    }

    /// With `ifGoingOn` the program has another descriptor still, which is gone when this returns.
    func close(_ file: (InodeNumber, HandleID), ifGoingOn: Bool = false) async throws(Failure) {
        let flushed = await Result { () async throws(Failure) in
            try await run(system.flush(file.0, handle: file.1) { ifGoingOn })
        }
        try await run(system.release(file.0, handle: file.1))
        try flushed.get()
    }

    func append(_ file: (InodeNumber, HandleID), _ bytes: [UInt8]) async throws(Failure) {
        _ = try await run(system.write(file.0, handle: file.1, at: nil, bytes: bytes.span.bytes))
    }

    func write(_ file: (InodeNumber, HandleID), _ bytes: [UInt8], at offset: Int64) async throws(Failure) {
        var done = 0
        while done < bytes.count {
            let piece = Array(bytes[done..<min(bytes.count, done + 1 << 20)])
            let outcome = system.write(file.0, handle: file.1, at: offset + Int64(done), bytes: piece.span.bytes)
            done += try await run(outcome)
        }
    }

    func read(_ file: (InodeNumber, HandleID), at offset: Int64, count: Int) async throws(Failure) -> [UInt8] {
        guard let buffer = rooms.buffers.tryBorrow(max(1, count)) else {
            throw Failure(kind: .inputOutput, reason: "no buffer")
        }
        let length = try await run(system.read(file.0, handle: file.1, at: offset, count: count, into: buffer))
        return buffer.prefix(length).bytes
    }

    func store(_ path: String, _ bytes: [UInt8]) async throws(Failure) {
        let file = try await open(path, OpenFlags(reads: false, writes: true, truncate: true), create: true)
        try await write(file, bytes, at: 0)
        try await close(file)
    }

    func load(_ path: String) async throws(Failure) -> [UInt8] {
        let file = try await open(path, OpenFlags(reads: true, writes: false))
        var bytes: [UInt8] = []
        var failure: Failure?
        do {
            while true {
                let piece = try await read(file, at: Int64(bytes.count), count: 1 << 17)
                if piece.isEmpty { break }
                bytes += piece
            }
        } catch { failure = error }
        try await close(file)
        if let failure { throw failure }
        return bytes
    }

    func makeDirectory(_ path: String) async throws(Failure) {
        let (parent, name) = try await parent(of: path)
        _ = try await run(system.makeDirectory(name, in: parent, mode: 0o750, caller: caller))
    }

    func removeDirectory(_ path: String) async throws(Failure) {
        let (parent, name) = try await parent(of: path)
        try await run(system.removeDirectory(name, in: parent))
    }

    func unlink(_ path: String) async throws(Failure) {
        let (parent, name) = try await parent(of: path)
        try await run(system.unlink(name, in: parent))
    }

    func rename(_ path: String, to newPath: String) async throws(Failure) {
        let (parent, name) = try await parent(of: path)
        let (newParent, newName) = try await self.parent(of: newPath)
        try await run(system.rename(name, in: parent, to: newName, in: newParent, noReplace: false))
    }

    func symlink(_ path: String, _ target: String) async throws(Failure) {
        let (parent, name) = try await parent(of: path)
        _ = try await run(system.symlink(name, in: parent, target: ByteString(target), caller: caller))
    }

    func readLink(_ path: String) async throws(Failure) -> String {
        try await run(system.readLink(try await find(path).ino)).description
    }

    func change(_ path: String, _ edit: (inout AttributeChange) -> Void) async throws(Failure) {
        var change = AttributeChange()
        edit(&change)
        _ = try await run(system.setAttributes(try await find(path).ino, to: change, handle: nil))
    }

    func names(_ path: String) async throws(Failure) -> [String] {
        let ino = try await find(path).ino
        let handle = try await run(system.openDirectory(ino))
        var names: [String] = []
        var offset: UInt64 = 0
        while true {
            let reply = SmallReply(capacity: 7)
            try await run(
                system.readDirectory(ino, handle: handle, from: offset, attributes: true, into: reply))
            let entries = reply.entries
            guard let last = entries.last else { break }
            names += entries.map { $0.name.description }
            offset = last.offset
        }
        system.releaseDirectory(ino, handle: handle)
        return names.filter { $0 != "." && $0 != ".." }.sorted()
    }
}

extension MountedTree {
    /// Lets the clock go on until it is cancelled, for what waits a while.
    func advancingTime() -> Task<Void, Never> { time.advancing() }
}

extension ManualTime {
    /// Advances by `pace` for each millisecond of real time until the task is cancelled, however seldom the task runs.
    func advancing(by pace: Duration = .milliseconds(2)) -> Task<Void, Never> {
        Task.detached { [self] in
            let clock = ContinuousClock()
            var last = clock.now
            while !Task.isCancelled {
                try? await Task.sleep(for: .milliseconds(1))
                let now = clock.now
                // A step stays below the shortest deadline of the product.
                advance(by: min(pace * ((now - last) / .milliseconds(1)), max(pace, .milliseconds(100))))
                last = now
            }
        }
    }
}

/// Whether the call comes to a good end.
func succeeded<Value>(_ outcome: Outcome<Value>) async -> Bool {
    if case .success = await outcome.value() { true } else { false }
}

/// A directory reply that takes few entries, so that every listing crosses many replies.
final class SmallReply: DirectoryReply {
    private let capacity: Int
    private let state = Mutex<[DirectoryEntry]>([])

    init(capacity: Int) { self.capacity = capacity }

    var entries: [DirectoryEntry] { state.withLock { $0 } }

    func append(_ entry: DirectoryEntry) -> Bool {
        state.withLock { entries in
            guard entries.count < capacity else { return false }
            entries.append(entry)
            return true
        }
    }
}

extension Result where Failure == MountedTree.Failure {
    init(_ body: () async throws(MountedTree.Failure) -> Success) async {
        do { self = .success(try await body()) } catch { self = .failure(error) }
    }
}
