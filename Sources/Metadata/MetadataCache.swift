package import Basics
package import ObjectStorage
package import SQLite
import Synchronization

/// The mount's cache of the bucket's tree: answers of the store, with this host's own changes on top.
///
/// Owns the rows of its database, inode numbers among them; sends no requests itself. A million entries cost pages of the
/// file, not heap. All calls are synchronous, may come from any thread and do disk I/O, so never while holding a lock; each
/// is one transaction. In memory are only bounded recollections, each behind a mutex of its own that is never held across I/O
/// or with another. The rows outlive the process. After a crash: the rows are those of some commit, and opening removes
/// pending rows, which only the dead process could have finished, at a cost of their number. A damaged file makes calls throw
/// `.database` with `isCorrupt`: the caller closes, removes and recreates it, since the store has everything but the inode
/// numbers.
///
/// Numbers, not clocks, decide which of two facts is newer: each change of this host takes one from a counter, each request
/// to the store notes the newest (`beginRequest`), and its answer never overwrites an entry that changed after it began. For
/// that to hold, call `update`, `remove` and `rename` after the store has carried the change out, or pass `pending`.
package final class MetadataCache: Sendable {
    package let codec: NameCodec
    private let lifetimes: Mutex<Lifetimes>
    /// How long the store's answer that one name is missing counts, if neither `ttl` nor `absenceTTL` is less.
    package let negativeTTL: Duration
    /// How long a listing may miss a change. Until then a change stays marked as this host's, for the next process
    /// (`remind`). Within this process `OverlaidStore` adds its changes to the listings.
    private let listingLag: Duration

    let database: Database
    let time: any TimeSource
    let sequence = Sequence()
    let keys = DirectoryKeys()
    private let recent = RecentEntries()
    let held = HeldNames()
    /// Directories in which entries have former names.
    let formerNames = Mutex<Set<Int64>>([])
    let recollection = Mutex(Recollection())
    let listings = Mutex<[UInt64: RunningListing]>([:])
    let listingNumbers = Atomic<UInt64>(0)
    /// Set inside a write transaction that moves or removes a directory, so that remembered keys are dropped when it commits.
    let treeChanged = Atomic(false)
    /// Files with changes of this host that the bucket does not have yet.
    private let dirtyFiles = LateBinding<Set<InodeNumber>>()
    /// Files and directories that programs have open.
    private let openInodes = LateBinding<Set<InodeNumber>>()
    let mostBytes = Atomic<Int64>(.max)
    let trimming = Mutex(Trimming())
    /// The number of calls that are about to forget rows.
    let forgetting = Atomic(0)
    /// When `invalidate` was last called.
    let invalidatedAt = Atomic<Int64>(.min)
    /// Counts updates of entries by this host, and calls that forget some.
    let updates = Atomic<UInt64>(0)

    /// Opens the cache over a database that was made with `migrations`.
    ///
    /// Rows that a dead process left pending are removed, or restored to the version they were based on. A database kept
    /// under another codec is emptied, because its kinds and names would be wrong; inode numbers continue. `boot` names the
    /// running system. A database last used under another one that did not end in order may lack its newest rows, this host's
    /// changes among them, so every entry is checked again. With `keepingPending` the rows stay as they are, for a process
    /// that resumes the same mount: the caller must then end each pending row that it has no file for.
    package init(
        database: Database, time: any TimeSource, ttl: Duration, negativeTTL: Duration = .seconds(1),
        listingLag: Duration = .zero, codec: NameCodec = NameCodec(), boot: String? = nil, keepingPending: Bool = false
    ) throws(MetadataError) {
        (self.database, self.time, self.negativeTTL) = (database, time, negativeTTL)
        lifetimes = Mutex(Lifetimes(ttl: ttl))
        self.listingLag = listingLag
        self.codec = codec
        let setting = "\(codec.style.rawValue) \(codec.linkSuffix?.bytes ?? [])"
        try write { (connection) throws(SQLiteError) in
            try Self.adopt(setting, connection)
            if keepingPending {
                try Self.removePendingTombstones(connection)
            } else {
                try connection.run("DELETE FROM unlinked")
                try Self.removePending(connection)
            }
            try self.loadFormerNames(keeping: keepingPending, connection)
            if let boot { try self.begin(under: boot, connection) }
            try self.reap(connection, limit: Self.reapedWithEach)
            // Draws a block now, so that `current` is above every number in the file before the first request begins.
            _ = try self.sequence.take(connection)
        }
    }

    // MARK: Questions

    /// Whether no entry was updated since this one was read. A dirty file updates its entry before it leaves the file table; a
    /// caller that finds no file in the table must therefore read the entry again if this is false.
    package func isCurrent(_ entry: Entry) -> Bool { updates.load(ordering: .acquiring) == entry.updates }

    /// nil when no live entry has the number.
    package func entry(_ ino: InodeNumber) throws(MetadataError) -> Entry? {
        let clock = clock
        if let known = recent[ino.row] { return entry(known.row, name: known.name, in: known.directory, clock) }
        let version = recent.version
        let found: RecentEntries.Known? = try read { (connection) throws(SQLiteError) in
            // In a snapshot: a listing that ends meanwhile must not make the older row count as fresh.
            try connection.snapshot { () throws(SQLiteError) in
                guard let row = try EntryRow.find(connection, ino: ino.row) else { return nil }
                let directory = try DirectoryRow.find(connection, ino: row.parent)
                let name = try self.codec.shownName(of: row.component, beside: self.neighbours(of: row, connection))
                return RecentEntries.Known(row: row, directory: directory, name: row.ino == 1 ? "" : name ?? "")
            }
        }
        guard let found else { return nil }
        recent.insert(found, readAt: version)
        return entry(found.row, name: found.name, in: found.directory, clock)
    }

    /// The cache's answer for a name in a directory. `.unknown` and stale answers are to be checked with the store.
    package func lookup(_ name: ByteString, in parent: InodeNumber) throws(MetadataError) -> LookupAnswer {
        let clock = clock
        guard let meaning = codec.meaning(of: name) else {
            return .absent(freshUntil: Timestamp(nanosecondCount: clock.until(clock.now)))
        }
        if let until = recent.missing(name, in: parent.row), clock.isFresh(until) {
            return .absent(freshUntil: Timestamp(nanosecondCount: until))
        }
        let version = recent.version
        let answer = try read { (connection) throws(SQLiteError) -> LookupAnswer in
            // The directory is read first: if a listing ends between the two reads, its rows are in the second.
            let directory = try DirectoryRow.find(connection, ino: parent.row)
            if let row = try self.find(name, meaning, in: parent.row, connection) {
                let entry = self.entry(row, name: name, in: directory, clock)
                return .present(entry, isFresh: row.isPending || clock.isFresh(entry.freshUntil))
            }
            // A row may have been forgotten since, and then the directory is no longer complete.
            var state = directory
            state.staleAt = try DirectoryRow.find(connection, ino: parent.row).staleAt
            return try self.absence(of: name, meaning, in: parent.row, state, clock, connection)
        }
        if case .absent(let until) = answer {
            recent.insert(missing: name, in: parent.row, until: until.nanosecondCount, readAt: version)
        }
        return answer
    }

    /// The state of a directory; empty for other inode numbers.
    package func directory(_ ino: InodeNumber) throws(MetadataError) -> DirectoryState {
        let clock = clock
        let row = try read { (connection) throws(SQLiteError) in try DirectoryRow.find(connection, ino: ino.row) }
        let until = clock.until(row.freshListing ?? .min)
        return DirectoryState(
            listedAt: row.freshListing.map { Timestamp(nanosecondCount: $0) }, isComplete: row.freshListing != nil,
            isFresh: clock.isFresh(until), freshUntil: Timestamp(nanosecondCount: until), hasMarker: row.hasMarker)
    }

    /// Whether the cache has any entry below a directory, shown or hidden; the bucket may have more.
    package func hasChildren(_ ino: InodeNumber) throws(MetadataError) -> Bool {
        try read { (connection) throws(SQLiteError) in
            let statement = try connection.prepare("SELECT 1 FROM entry WHERE parent = ?1 LIMIT 1")
            try statement.bind(ino.row, at: 1)
            return try statement.step()
        }
    }

    /// The key below the mount's prefix, empty for the root; nil when the entry or a directory above it is gone.
    package func key(of ino: InodeNumber) throws(MetadataError) -> ByteString? {
        if ino == .root { return "" }
        if let known = keys[ino.row] { return known }
        if let row = recent[ino.row]?.row {
            if row.parent == InodeNumber.root.row { return row.component }
            if let parent = keys[row.parent] { return parent + row.component }
        }
        let generation = keys.generation
        return try read { (connection) throws(SQLiteError) in
            try connection.snapshot { () throws(SQLiteError) in
                try self.key(of: ino.row, generation: generation, connection)
            }
        }
    }

    /// The stored headers of the version that the entry shows; nil when they were not read.
    package func metadata(of ino: InodeNumber) throws(MetadataError) -> ObjectMetadata? {
        try read { (connection) throws(SQLiteError) in try self.metadata(of: ino.row, connection) }
    }

    func metadata(of ino: Int64, _ connection: Connection) throws(SQLiteError) -> ObjectMetadata? {
        let statement = try connection.prepare("SELECT fields FROM headers WHERE ino = ?1")
        try statement.bind(ino, at: 1)
        return try statement.step() ? StoredHeaders.decode(statement.blob(0)) : nil
    }

    /// Call before a request to the store is sent; its answer is then recorded `since` this.
    package func beginRequest() -> RequestStart {
        RequestStart(at: Timestamp(nanosecondCount: clock.now), sequence: sequence.current)
    }

    /// How long answers of the store count; zero: not at all. A new value also applies to earlier answers.
    package var ttl: Duration {
        get { lifetimes.withLock { $0.ttl } }
        set {
            lifetimes.withLock { $0.ttl = newValue }
            recent.forgetMissing()
        }
    }

    /// How long the absence of a name counts, whether a listing or an answer about the name shows it; nil: for `ttl`, which is
    /// also the most.
    package var absenceTTL: Duration? {
        get { lifetimes.withLock { $0.absence } }
        set {
            lifetimes.withLock { $0.absence = newValue }
            recent.forgetMissing()
        }
    }

    private struct Lifetimes {
        var ttl: Duration
        var absence: Duration?
    }

    /// Connects the source of files that have changes of this host beyond the rows. Such a file stays, with the directories
    /// above it, when the store no longer has it: its commit decides. Called inside transactions, so it must not call this
    /// cache.
    package func attach(dirtyFiles tell: @escaping @Sendable () -> Set<InodeNumber>) {
        dirtyFiles.bind(tell)
    }

    /// Connects the source of files and directories that programs have open, and of directories in which names are being
    /// changed: `trim` forgets none of them. A caller that adds to them calls `awaitForgetting` before it reads rows. Called
    /// inside transactions, so it must not call this cache.
    package func attach(openInodes tell: @escaping @Sendable () -> Set<InodeNumber>) {
        openInodes.bind(tell)
    }

    // MARK: Pieces for the extensions

    var dirty: Set<InodeNumber> { dirtyFiles() ?? [] }

    /// Waits until no call forgets rows by an older list of what is in use. True when rows that were read before may be gone.
    @discardableResult
    package func awaitForgetting() -> Bool {
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        guard forgetting.load(ordering: .sequentiallyConsistent) > 0 else { return false }
        // Transactions run one at a time.
        _ = try? write { _ in }
        return true
    }

    var kept: Set<InodeNumber> { openInodes() ?? [] }

    static let reapedWithEach = 256

    var clock: Clock {
        var now = time.now().nanosecondCount
        // An answer after an invalidation must have a later time, also within one tick of the clock; but a clock that was set
        // back is followed.
        let invalidated = invalidatedAt.load(ordering: .relaxed)
        if now <= invalidated, now > invalidated - 1_000_000 { now = invalidated + 1 }
        let (ttl, absence) = lifetimes.withLock { ($0.ttl, min($0.absence ?? $0.ttl, $0.ttl)) }
        return Clock(
            now: now, ttl: ttl.nanosecondCount, absenceTTL: absence.nanosecondCount,
            negativeTTL: min(negativeTTL, absence).nanosecondCount,
            updates: updates.load(ordering: .acquiring), listed: recollection.withLock { $0.listed })
    }

    /// Whether every listing begun at `start` includes a change of this host from that time. A time in the future is from
    /// before the clock was set back.
    func isSettled(_ changedAt: Int64, for start: RequestStart) -> Bool {
        let began = start.at.nanosecondCount
        return listingLag == .zero || changedAt <= unsettled(at: began) || changedAt > max(began, clock.now)
    }

    var listingsLag: Bool { listingLag > .zero }

    /// A listing begun at `time` may miss changes since then.
    func unsettled(at time: Int64) -> Int64 { time - min(listingLag.nanosecondCount, max(0, time)) }

    func read<Result>(
        _ body: (Connection) throws(SQLiteError) -> Result
    ) throws(MetadataError) -> Result {
        do { return try database.read(body) } catch { throw .database(error) }
    }

    /// One write transaction, which changes no more than `change` names.
    @discardableResult
    func write<Result>(
        _ change: RecentEntries.Change = .everything, _ body: (Connection) throws(SQLiteError) -> Result
    ) throws(MetadataError) -> Result {
        do {
            return try database.write { (connection) throws(SQLiteError) in
                let result: Result
                do throws(SQLiteError) {
                    result = try recent.writing(change) { () throws(SQLiteError) in
                        try connection.transaction { () throws(SQLiteError) in try body(connection) }
                    }
                } catch {
                    sequence.didRollBack()
                    throw error
                }
                if treeChanged.exchange(false, ordering: .relaxed) { keys.removeAll() }
                // A checkpoint syncs the log: after a power cut no number of the block is handed out again.
                if sequence.didCommit() { try connection.execute("PRAGMA wal_checkpoint(PASSIVE)") }
                return result
            }
        } catch {
            throw .database(error)
        }
    }

    /// Walks to the root. With `generation` it uses remembered keys and adds to them.
    func key(of ino: Int64, generation: UInt64?, _ connection: Connection) throws(SQLiteError) -> ByteString? {
        var pieces: [(ino: Int64, component: ByteString)] = []
        var key: ByteString = ""
        var current = ino
        // A key has at most a few thousand bytes; more steps mean a damaged file.
        while current != 1, pieces.count < 4096 {
            if generation != nil, let known = keys[current] {
                key = known
                break
            }
            guard let row = try EntryRow.find(connection, ino: current) else { return nil }
            pieces.append((current, row.component))
            current = row.parent
        }
        for piece in pieces.reversed() {
            key += piece.component
            if let generation, piece.component.last == UInt8(ascii: "/") {
                keys.insert(key, for: piece.ino, generation: generation)
            }
        }
        return key
    }

    func entry(_ row: EntryRow, name: ByteString, in directory: DirectoryRow, _ clock: Clock) -> Entry {
        return Entry(
            ino: InodeNumber(row: row.ino), parent: InodeNumber(row: row.parent), component: row.component, name: name,
            attributes: row.attributes, checkedAt: Timestamp(nanosecondCount: row.checkedAt),
            freshUntil: Timestamp(nanosecondCount: clock.freshUntil(row, in: directory)),
            headersAt: row.headersAt.map { Timestamp(nanosecondCount: $0) }, isPending: row.isPending,
            updates: clock.updates)
    }
}

extension InodeNumber {
    /// The number as the database holds it.
    var row: Int64 { Int64(bitPattern: rawValue) }

    init(row: Int64) { self.init(rawValue: UInt64(bitPattern: row)) }
}

extension Duration {
    var nanosecondCount: Int64 {
        let (seconds, attoseconds) = components
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        if overflow { return seconds < 0 ? .min : .max }
        let (sum, carried) = whole.addingReportingOverflow(attoseconds / 1_000_000_000)
        return carried ? (seconds < 0 ? .min : .max) : sum
    }
}

extension DirectoryRow {
    /// When the newest complete listing began that is still valid.
    var freshListing: Int64? {
        guard let listedAt, listedAt > staleAt ?? .min else { return nil }
        return listedAt
    }
}
