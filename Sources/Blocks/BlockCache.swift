package import Basics
package import Logging
package import ObjectStorage
package import SQLite
import Synchronization

/// Clean bytes of object versions, on disk and in memory; the only way to read an object.
///
/// Owns `directory`, one sparse file for each version with the bytes at their own offsets, and the index that says which
/// of them are there. It never holds a byte that was not committed and may lose any of them: a block counts as present
/// only with a row that names it, and as right only with a matching checksum. Every byte on disk is reserved in the
/// `SpaceLedger` first; when that runs short the chunks used longest ago go. A disk that is full or failing is left
/// alone, and a quarter of the memory budget stands in.
///
/// Locks: the index's connections come first (`CachedObject` is locked inside a transaction, never the reverse), then
/// `CachedObject`, then this module's other mutexes, all leaves. After a crash files without a row are removed and
/// unsettled files shrink to what their rows name.
package final class BlockCache: Sendable {
    struct Identity: Hashable {
        let key: ObjectKey
        let etag: ETag
        let size: Int64

        init(_ key: ObjectKey, _ version: ObjectVersion) { (self.key, etag, size) = (key, version.etag, version.size) }
    }

    private struct Instance {
        weak var object: CachedObject?
    }

    private struct State {
        var instances: [Identity: Instance] = [:]
        /// Opened lately. Kept, so that the next open of the same version does not check its blocks anew.
        var recent: [CachedObject] = []
        /// Objects with rows to write.
        var queued: [CachedObject] = []
        /// Files that no object uses any more, as long as rows name them.
        var abandoned: Set<Int64> = []
        /// Calls of `flush` under way.
        var flushes = 0
        var isFlushScheduled = false
        /// The earliest time of the next flush, since the system's start.
        var nextFlush = Duration.zero
        var isClosed = false
    }

    /// Objects kept, with their open files, after the last reference to them.
    private static let recentLimit = 128
    /// Objects with rows to write that start a flush at once.
    private static let queueLimit = 256
    /// How long `close` waits for received fetches and for changes of files that have begun. A disk that hangs must not hold
    /// it up for good.
    private static let endPatience = Duration.seconds(5)

    let directory: String
    /// The unit in which the file system of `directory` allocates.
    let unit: DiskUnit
    let index: BlockIndex
    let ledger: SpaceLedger
    let buffers: BufferPool
    let store: HedgedReads
    let pool: WorkerPool
    let time: any TimeSource
    let options: BlockOptions
    let logger: Logger
    let onInfo: @Sendable (ObjectKey, ObjectInfo) -> Void
    let onDamage: @Sendable (ObjectKey, ObjectVersion) -> Void
    let disk: DiskHealth
    let shelf: MemoryShelf
    let changes = ChangesUnderWay()
    private let state = Mutex(State())
    /// The checksums in answers to HEAD, by version.
    let checksums = Mutex(LRU<Identity, [CheckedPart]>(capacity: 1024))
    private let counters = Mutex(BlockStatistics())
    /// How often each file is lent, by file number. Read inside `CachedObject`'s mutex.
    private let lent: Mutex<[Int64: Int]>
    private let stored = Atomic<Int64>(0)
    private let currentEpoch: Atomic<Int64>
    /// Whether staging files are on another disk, as the first of them has shown.
    let isApart = Atomic(false)

    /// Opens the cache in `directory`, which is created if need be. `database` is the cache's own; a corrupt one throws, and
    /// the caller starts over with a new one.
    ///
    /// `onInfo` gets the object's headers of each GET. `onDamage` is called when readers may have had damaged bytes of a
    /// version. Both run on a thread of `pool`. `lent` are files that an earlier process had lent and that were not given
    /// back. Reads the index's sums and settles files that were being written when the last process died; removes stray files
    /// in the background.
    package init(
        directory: String, database: Database, ledger: SpaceLedger, buffers: BufferPool, store: any ObjectStore,
        pool: WorkerPool, time: any TimeSource, options: BlockOptions = BlockOptions(), logger: Logger,
        lent: [Int64] = [], onDamage: @escaping @Sendable (ObjectKey, ObjectVersion) -> Void = { _, _ in },
        onInfo: @escaping @Sendable (ObjectKey, ObjectInfo) -> Void
    ) throws(SQLiteError) {
        (self.directory, self.ledger, self.buffers) = (directory, ledger, buffers)
        self.store = HedgedReads(store, time: time)
        (self.pool, self.time, self.options, self.logger, self.onInfo) = (pool, time, options, logger, onInfo)
        self.onDamage = onDamage
        index = BlockIndex(database: database)
        disk = DiskHealth(time: time, retryInterval: options.diskRetryInterval, logger: logger)
        shelf = MemoryShelf(limit: buffers.budget.limit / 4, passingLimit: buffers.budget.limit / 2)
        do throws(FileError) { try Directory.create(directory) } catch {
            disk.failed(error, doing: "open")
        }
        unit = DiskUnit(of: directory)
        self.lent = Mutex(Dictionary(lent.map { ($0, 1) }) { $0 + $1 })
        try Self.settle(index, directory: directory, unit: unit, except: Set(lent))
        let totals = try index.totals()
        currentEpoch = Atomic(totals.newestUse + 1)
        ledger.adopt(totals.bytes)
        stored.store(totals.bytes, ordering: .relaxed)
        state.withLock { $0.nextFlush = time.uptime() + options.flushInterval }
        ledger.setReclaimer { [weak self] bytes in self?.reclaim(bytes) }
        buffers.budget.addReclaimer { [weak self] _ in
            // A prefetch, too, asks the budget for memory, but is not worth the blocks on the shelf.
            if let self, self.buffers.budget.hasWaiters { shelf.clear() }
        }
        pool.start { [weak self] in self?.removeStrays() }
    }

    /// The version's one shared instance. No I/O.
    package func open(_ key: ObjectKey, _ version: ObjectVersion) -> CachedObject {
        let object = instance(key, version)
        let dropped: CachedObject? = state.withLock { state in
            if let place = state.recent.lastIndex(where: { $0 === object }) {
                state.recent.remove(at: place)
                state.recent.append(object)
                return nil
            }
            state.recent.append(object)
            return state.recent.count > Self.recentLimit ? state.recent.removeFirst() : nil
        }
        // The object is released here, outside the lock that its deinit takes.
        withExtendedLifetime(dropped) {}
        return object
    }

    /// Bytes of disk that blocks may take, together with staged bytes.
    package var capacity: Int64 { ledger.limit }

    /// What the cache holds and has done.
    package func statistics() -> BlockStatistics {
        var statistics = counters.withLock { $0 }
        statistics.storedBytes = stored.load(ordering: .relaxed)
        statistics.shelvedBytes = shelf.bytes
        statistics.hedges = store.hedges
        statistics.isDiskFailing = disk.isFailing
        return statistics
    }

    /// Evicts the blocks of every version of `key` that the index knows now, except the versions in `kept`. Open readers
    /// still get the blocks that are left. Reads the index; the rest happens in the background.
    package func forget(_ key: ObjectKey, except kept: [ObjectVersion] = []) {
        evict((try? index.versions(of: key)) ?? [], of: key) { version in kept.contains { $0.etag == version.etag } }
    }

    /// Evicts the blocks of one version in the same way, if the index has any, unless `isUsed` returns true.
    package func forget(_ key: ObjectKey, _ version: ObjectVersion, unless isUsed: () -> Bool) {
        let known = ((try? index.versions(of: key)) ?? []).filter { $0.etag == version.etag }
        evict(known, of: key) { _ in isUsed() }
    }

    private func evict(_ known: [ObjectVersion], of key: ObjectKey, unless isKept: (ObjectVersion) -> Bool) {
        let versions = known.filter { !isKept($0) }
        guard !versions.isEmpty else { return }
        pool.start { [self] in
            let dropped = state.withLock { state in
                let dropped = state.recent.filter { $0.key == key && versions.contains($0.version) }
                state.recent.removeAll { $0.key == key && versions.contains($0.version) }
                return dropped
            }
            for version in versions { evictAll(of: instance(key, version)) }
            withExtendedLifetime(dropped) {}
        }
    }

    /// Evicts until at most `bytes` of disk are used by blocks. Does I/O in proportion to the evicted bytes.
    package func prune(to bytes: Int64) {
        let excess = stored.load(ordering: .relaxed) - bytes
        if excess > 0 { reclaim(excess, atLeast: 0) }
        flush()
    }

    /// Waits for received fetches and for changes of files, writes the queued rows and cancels every fetch. Blocks that are
    /// here can still be read. Call once, before the database is closed. Blocks for seconds where the disk is slow.
    package func close() {
        let end = time.uptime() + Self.endPatience
        settle(until: end)
        changes.close(waiting: max(.zero, end - time.uptime()))
        flush()
        let instances = state.withLock { state in
            state.isClosed = true
            defer { (state.recent, state.queued) = ([], []) }
            return (state.instances.values.compactMap(\.object), state.recent)
        }
        for object in instances.0 { object.cancelFetches() }
    }

    /// Waits for fetches whose bytes are here and not yet on disk.
    private func settle(until end: Duration) {
        let never = Semaphore()
        while state.withLock({ $0.instances.values.compactMap(\.object) }).contains(where: \.isLanding),
            time.uptime() < end
        {
            _ = never.wait(for: .milliseconds(5))
        }
    }

    // MARK: Files lent to others

    /// Records the loan in the index. Returns whether that succeeded.
    func noteLoan(of file: Int64) -> Bool {
        do throws(SQLiteError) {
            try index.noteLoan(of: file)
            return true
        } catch {
            disk.failed(error, doing: "index")
            return false
        }
    }

    func lend(_ file: Int64) { lent.withLock { $0[file, default: 0] += 1 } }

    func isLent(_ file: Int64?) -> Bool { file.map { file in lent.withLock { $0[file] != nil } } ?? false }

    /// Ends one loan that `CachedObject.lend` began.
    package func takeBack(_ file: Int64) {
        lent.withLock { lent in
            let times = (lent[file] ?? 1) - 1
            lent[file] = times > 0 ? times : nil
        }
    }

    // MARK: Instances

    func instance(_ key: ObjectKey, _ version: ObjectVersion) -> CachedObject {
        let fresh = CachedObject(key, version, cache: self)
        return state.withLock { state in
            let identity = Identity(key, version)
            if let known = state.instances[identity]?.object { return known }
            state.instances[identity] = Instance(object: fresh)
            return fresh
        }
    }

    /// The deinit of an instance. A new instance may have taken its place already.
    func forgetInstance(of key: ObjectKey, _ version: ObjectVersion) {
        let successor: CachedObject? = state.withLock { state in
            let identity = Identity(key, version)
            let successor = state.instances[identity]?.object
            if successor == nil { state.instances[identity] = nil }
            return successor
        }
        // If this is the last reference, its deinit must not run under the lock.
        withExtendedLifetime(successor) {}
    }

    // MARK: Rows

    func storedFile(_ key: ObjectKey, _ version: ObjectVersion) -> BlockIndex.StoredFile? {
        do throws(SQLiteError) {
            // Read before the rows: they may be deleted meanwhile.
            let abandoned = state.withLock { $0.abandoned }
            return try index.load(key, version).flatMap { abandoned.contains($0.id) ? nil : $0 }
        } catch {
            disk.failed(error, doing: "index")
            return nil
        }
    }

    func path(of file: Int64) -> String { directory + "/" + String(file, radix: 16) }

    /// The number of the version's file, whose row is there and unsettled when this returns.
    func claimFile(_ key: ObjectKey, _ version: ObjectVersion) throws(FileError) -> Int64 {
        do throws(SQLiteError) {
            // A file of that name can only be a stray of an index that was lost.
            var before: Set<Int64> = []
            let id = try index.claimFile(key, version) {
                before = state.withLock { $0.abandoned }
                return before
            } prepare: { id in
                try? File.remove(path(of: id))
            }
            removeAbandoned(before)
            return id
        } catch {
            throw FileError(errno: 5, operation: "write the index of the cache in", path: "\(directory) (\(error))")
        }
    }

    func enqueueIfNeeded(_ object: CachedObject) {
        if object.state.withLock({ $0.needsQueueing() }) { enqueue(object) }
    }

    /// Keeps `object`, which has rows to write, until the next flush.
    func enqueue(_ object: CachedObject) {
        enum Next { case nothing, now, later(Duration) }
        let now = time.uptime()
        let next: Next = state.withLock { state in
            if state.isClosed { return .nothing }
            state.queued.append(object)
            if state.queued.count == Self.queueLimit { return .now }
            defer { state.isFlushScheduled = true }
            return state.isFlushScheduled ? .nothing : .later(state.nextFlush - now)
        }
        switch next {
        case .nothing: break
        case .now: pool.start { [self] in flush() }
        case .later(let delay):
            pool.start { [self] in
                if delay > .zero { try? await time.sleep(for: delay) }
                let next = time.uptime() + options.flushInterval
                state.withLock { state in (state.isFlushScheduled, state.nextFlush) = (false, next) }
                flush()
            }
        }
    }

    /// Writes all queued rows in one transaction, so that the next process finds the blocks. Rows that another caller has
    /// taken from the queue are written when this returns, too.
    package func flush() {
        let isIdle = state.withLock { state in
            if state.queued.isEmpty, state.abandoned.isEmpty, state.flushes == 0 { return true }
            state.flushes += 1
            return false
        }
        if isIdle { return }
        defer { state.withLock { $0.flushes -= 1 } }
        // Kept until their rows are committed: the next instance of an object reads them.
        var objects: [CachedObject] = []
        var written: [(object: CachedObject, chunks: Set<Int>)] = []
        do throws(SQLiteError) {
            try writeRows {
                objects = state.withLock { state in
                    defer { state.queued = [] }
                    return state.queued
                }
                return objects.compactMap { object in
                    guard let taken = object.state.withLock({ $0.takeChanges() }) else { return nil }
                    written.append((object, taken.chunks))
                    return taken.changes
                }
            }
        } catch {
            disk.failed(error, doing: "index")
            for (object, chunks) in written {
                object.state.withLock { $0.changed.formUnion(chunks) }
                enqueueIfNeeded(object)
            }
            return
        }
        withExtendedLifetime(objects) {}
    }

    /// Writes the rows that `changes` returns inside the transaction, and removes the abandoned files. Those belong to no
    /// object and no longer count against the quota. If the transaction fails, the next one deletes their rows.
    private func writeRows(_ changes: () -> [BlockIndex.Changes]) throws(SQLiteError) {
        var leaving: Set<Int64> = []
        try index.write {
            let rows = changes()
            // Inside the transaction, too: after a failed one another caller could claim the rows.
            leaving = state.withLock { state in
                state.abandoned.formUnion(rows.lazy.filter(\.drops).map(\.file))
                return state.abandoned
            }
            return rows.filter { !$0.drops } + leaving.map { BlockIndex.Changes(file: $0, drops: true) }
        }
        removeAbandoned(leaving)
    }

    /// No row names these files any more.
    private func removeAbandoned(_ files: Set<Int64>) {
        if files.isEmpty { return }
        for file in files { try? File.remove(path(of: file)) }
        state.withLock { $0.abandoned.subtract(files) }
    }

    /// Removes the file that `leave` returns, with its rows, and releases the bytes it was charged for. Returns those bytes.
    func drop(_ leave: () -> (file: Int64, freed: Int64)?) -> Int64 {
        var left: (file: Int64, freed: Int64)?
        do throws(SQLiteError) {
            // Inside the transaction no other caller claims the rows.
            try writeRows {
                left = leave()
                return left.map { [BlockIndex.Changes(file: $0.file, drops: true)] } ?? []
            }
        } catch {
            // The rows no longer count, and the next write deletes them.
            disk.failed(error, doing: "index")
            if let left { try? File.remove(path(of: left.file)) }
        }
        guard let left else { return 0 }
        release(left.freed)
        return left.freed
    }

    // MARK: Space

    /// The current epoch of uses. It grows with each fetch that lands, so reads of cached data write no rows.
    var epoch: Int64 { currentEpoch.load(ordering: .relaxed) }
    func nextEpoch() -> Int64 { currentEpoch.wrappingAdd(1, ordering: .relaxed).newValue }

    func reserve(_ bytes: Int64) -> Bool {
        guard bytes == 0 || ledger.reserve(bytes, evicting: true) else { return false }
        stored.wrappingAdd(bytes, ordering: .relaxed)
        return true
    }

    func release(_ bytes: Int64) {
        if bytes == 0 { return }
        ledger.release(bytes)
        stored.wrappingSubtract(bytes, ordering: .relaxed)
    }

    /// Counts bytes as blocks that another caller has reserved in the ledger.
    func takeOver(_ bytes: Int64) { stored.wrappingAdd(bytes, ordering: .relaxed) }

    // MARK: Figures

    func count(_ change: (inout BlockStatistics) -> Void) { counters.withLock { change(&$0) } }
}
