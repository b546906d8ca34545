package import Basics
package import ObjectStorage
package import SQLite
import Synchronization

/// What this mount knows of the bucket's tree: remote knowledge with our own changes laid over it.
///
/// Owns the rows of its database, inode numbers among them; asks the store nothing itself. A million entries cost pages
/// of the file, not heap. All calls are synchronous, may come from any thread and do disk I/O, so never while holding a
/// lock; each is one transaction. In memory are only bounded recollections, each behind a mutex of its own that is never
/// held across I/O or with another. The rows outlive the process; a crash leaves the state of some commit, and opening
/// removes what only the dead process knew how to finish (pending rows), at a cost of their number. A damaged file makes
/// calls throw `.database` with `isCorrupt`: the caller closes, removes and recreates it, since all of it can be
/// learned again, inode numbers excepted.
///
/// Who is right is decided by numbers, not clocks: each change of ours takes one from a counter, each request to the
/// store notes the newest (`beginRequest`), and what the request brings never touches what changed after it began. For
/// that to hold, call `update`, `remove` and `rename` after the store has carried the change out, or say `pending`.
package final class MetadataCache: Sendable {
    package let codec: NameCodec
    private let lifetime: Mutex<Duration>
    /// How long the store's word counts that one name is missing, if `ttl` is not less.
    package let negativeTTL: Duration
    /// How long a listing may not know of a change: until it is over, what is ours stays known as ours, for the next process
    /// (`remind`). Nobody here asks for more: of this process's changes the store's listings tell (`OverlaidStore`).
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
    /// Set inside a write transaction that moves or removes a directory, so that remembered keys go when it commits.
    let treeChanged = Atomic(false)
    /// Files with changes of ours that the bucket does not have yet.
    private let dirtyFiles = LateBinding<Set<InodeNumber>>()
    /// Files and directories that programs have open.
    private let openInodes = LateBinding<Set<InodeNumber>>()
    let mostBytes = Atomic<Int64>(.max)
    let trimming = Mutex(Trimming())
    /// How many calls are about to forget rows.
    let forgetting = Atomic(0)
    /// When `invalidate` was last called.
    let invalidatedAt = Atomic<Int64>(.min)
    /// Of entries, by our own doing; also calls that forget some.
    let updates = Atomic<UInt64>(0)

    /// Opens the cache over a database that was made with `migrations`.
    ///
    /// Rows that a dead process left pending are removed, or fall back to the version they started from. A database kept
    /// under another codec is emptied, because its kinds and names would be wrong; inode numbers go on. `boot` names the
    /// running system: a database last used under another one that did not end in order may lack its newest rows, our own
    /// changes among them, and all it knows is asked for again. With `keepingPending` the rows stay as they are, for a
    /// process that goes on with the same mount: the caller settles each that it has nothing of.
    package init(
        database: Database, time: any TimeSource, ttl: Duration, negativeTTL: Duration = .seconds(1),
        listingLag: Duration = .zero, codec: NameCodec = NameCodec(), boot: String? = nil, keepingPending: Bool = false
    ) throws(MetadataError) {
        (self.database, self.time, self.negativeTTL) = (database, time, negativeTTL)
        lifetime = Mutex(ttl)
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

    /// Whether no entry was updated since this one was read. Who leaves off knowing better than the cache updates it first:
    /// then one that finds nobody who does has to be read again.
    package func isCurrent(_ entry: Entry) -> Bool { updates.load(ordering: .acquiring) == entry.updates }

    /// nil when no live entry has the number.
    package func entry(_ ino: InodeNumber) throws(MetadataError) -> Entry? {
        let clock = clock
        if let known = recent[ino.row] { return entry(known.row, name: known.name, in: known.directory, clock) }
        let version = recent.version
        let found: RecentEntries.Known? = try read { (connection) throws(SQLiteError) in
            // A listing may end meanwhile: what it says of the directory does not count for the row of before.
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

    /// What is known of a name in a directory. `.unknown` and stale answers are for the store to settle.
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
            // The directory first: should a listing end between the two reads, its rows are in the second.
            let directory = try DirectoryRow.find(connection, ino: parent.row)
            if let row = try self.find(name, meaning, in: parent.row, connection) {
                let entry = self.entry(row, name: name, in: directory, clock)
                return .present(entry, isFresh: row.isPending || clock.isFresh(entry.freshUntil))
            }
            // A row may have been forgotten since, and then the directory is not known as a whole any more.
            var state = directory
            state.staleAt = try DirectoryRow.find(connection, ino: parent.row).staleAt
            return try self.absence(of: name, meaning, in: parent.row, state, clock, connection)
        }
        if case .absent(let until) = answer {
            recent.insert(missing: name, in: parent.row, until: until.nanosecondCount, readAt: version)
        }
        return answer
    }

    /// What is known of a directory as a whole; for other inode numbers, nothing.
    package func directory(_ ino: InodeNumber) throws(MetadataError) -> DirectoryState {
        let clock = clock
        let row = try read { (connection) throws(SQLiteError) in try DirectoryRow.find(connection, ino: ino.row) }
        let until = clock.until(row.freshListing ?? .min)
        return DirectoryState(
            listedAt: row.freshListing.map { Timestamp(nanosecondCount: $0) }, isComplete: row.freshListing != nil,
            isFresh: clock.isFresh(until), freshUntil: Timestamp(nanosecondCount: until), hasMarker: row.hasMarker)
    }

    /// Whether the cache knows any entry below a directory, shown or hidden; the bucket may have more.
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

    /// The stored headers of the version that the entry shows; nil when they were not seen.
    package func metadata(of ino: InodeNumber) throws(MetadataError) -> ObjectMetadata? {
        try read { (connection) throws(SQLiteError) in try self.metadata(of: ino.row, connection) }
    }

    func metadata(of ino: Int64, _ connection: Connection) throws(SQLiteError) -> ObjectMetadata? {
        let statement = try connection.prepare("SELECT fields FROM headers WHERE ino = ?1")
        try statement.bind(ino, at: 1)
        return try statement.step() ? StoredHeaders.decode(statement.blob(0)) : nil
    }

    /// To be called before a request to the store is sent; its answer is then recorded `since` this.
    package func beginRequest() -> RequestStart {
        RequestStart(at: Timestamp(nanosecondCount: clock.now), sequence: sequence.current)
    }

    /// How long remote knowledge counts; zero: never. A change goes for what is known already, too.
    package var ttl: Duration {
        get { lifetime.withLock { $0 } }
        set {
            lifetime.withLock { $0 = newValue }
            recent.forgetMissing()
        }
    }

    /// Connects who knows the files that have changes of ours beyond what the rows say. What the store no longer has of
    /// them stays, with the directories above: their commit decides. Called inside transactions, so it must not come back here.
    package func attach(dirtyFiles tell: @escaping @Sendable () -> Set<InodeNumber>) {
        dirtyFiles.bind(tell)
    }

    /// Connects who knows the files and directories that programs have open, and those in which names are being changed: nothing
    /// of them is forgotten (`trim`). Whoever adds to them calls `awaitForgetting` before a look at rows. Called inside
    /// transactions, so it must not come back here.
    package func attach(openInodes tell: @escaping @Sendable () -> Set<InodeNumber>) {
        openInodes.bind(tell)
    }

    // MARK: Pieces for the extensions

    var dirty: Set<InodeNumber> { dirtyFiles() ?? [] }

    /// Comes back when no call forgets rows that has not heard of what is in use by now. True when rows that were read before
    /// may be gone.
    @discardableResult
    package func awaitForgetting() -> Bool {
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        guard forgetting.load(ordering: .sequentiallyConsistent) > 0 else { return false }
        // Transactions are one at a time.
        _ = try? write { _ in }
        return true
    }

    var kept: Set<InodeNumber> { openInodes() ?? [] }

    static let reapedWithEach = 256

    var clock: Clock {
        var now = time.now().nanosecondCount
        // What is learned after an invalidation has to be later than it, also within one tick of the clock; but a clock
        // that was set back is believed.
        let invalidated = invalidatedAt.load(ordering: .relaxed)
        if now <= invalidated, now > invalidated - 1_000_000 { now = invalidated + 1 }
        return Clock(
            now: now, ttl: ttl.nanosecondCount, negativeTTL: min(negativeTTL, ttl).nanosecondCount,
            updates: updates.load(ordering: .acquiring), listed: recollection.withLock { $0.listed })
    }

    /// Whether any listing begun at `start` knows of a change of ours from that time. One from the future was made before the
    /// clock was set back.
    func isSettled(_ changedAt: Int64, for start: RequestStart) -> Bool {
        let began = start.at.nanosecondCount
        return listingLag == .zero || changedAt <= unsettled(at: began) || changedAt > max(began, clock.now)
    }

    var listingsLag: Bool { listingLag > .zero }

    /// Changes since then may be unknown to a listing begun at `time`.
    func unsettled(at time: Int64) -> Int64 { time - min(listingLag.nanosecondCount, max(0, time)) }

    func read<Result>(
        _ body: (Connection) throws(SQLiteError) -> Result
    ) throws(MetadataError) -> Result {
        do { return try database.read(body) } catch { throw .database(error) }
    }

    /// One write transaction, which changes no more than it says.
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
                // A checkpoint syncs the log: after a power cut no number of the block can be given out again.
                if sequence.didCommit() { try connection.execute("PRAGMA wal_checkpoint(PASSIVE)") }
                return result
            }
        } catch {
            throw .database(error)
        }
    }

    /// Walks to the root. With `generation` it starts from remembered keys and adds to them.
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
    /// As the database holds it.
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
    /// When the newest complete listing began that was not invalidated since.
    var freshListing: Int64? {
        guard let listedAt, listedAt > staleAt ?? .min else { return nil }
        return listedAt
    }
}
