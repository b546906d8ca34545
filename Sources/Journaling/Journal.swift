package import Basics
import SQLite
import Synchronization

/// The durable intents of one mount: `journal.db` in its cache directory.
///
/// A row is written before the act it speaks of, and staged bytes are flushed before the row that acknowledges them; what each
/// row means and what a crash beside it leaves is said at the records. Owns the database; asks no store. A write that
/// returned outlives the process; one that was to be `flushed` outlives the machine's power too, and so does whatever was
/// written before it. Writers that come together share one transaction and one flush: the first of them carries the
/// others' changes out (`lead`), while they wait. Any thread may call; calls do disk I/O and block, so never under a lock.
/// An error means that nothing of the call's changes is there, and is the caller's to tell its program. After a flush that
/// failed the disk may have lost rows that were written before, and the next flush would not tell: everything is written
/// to the database file anew before another row is taken, and while that fails, so does every write.
package final class Journal: Sendable {
    private final class Ticket: Sendable {
        enum Outcome: Sendable {
            case done(SQLiteError?)
            /// The leader has left: this one carries on.
            case lead
        }

        let changes: [JournalChange]
        let flush: JournalFlush
        let outcome = Mutex<Outcome?>(nil)
        let isOver = Semaphore()

        init(_ changes: [JournalChange], _ flush: JournalFlush) { (self.changes, self.flush) = (changes, flush) }

        func end(_ outcome: Outcome) {
            self.outcome.withLock { $0 = outcome }
            isOver.signal()
        }

        func wait() -> Outcome {
            isOver.wait()
            return outcome.withLock { $0.take() } ?? .lead
        }
    }

    private struct Queue {
        var waiting: [Ticket] = []
        var isLed = false
    }

    /// The running system, to tell rows that a power cut may have made untrue.
    package let boot: String
    /// The last file that an earlier process wrote down: those up to here that have no row are done with.
    package let lastKnownFile: IntentID
    /// Whether the directory is a copy of the one that the journal was made in; see `JournalHome`. An earlier mount of the copy that
    /// went through with `claim` has made it an original.
    package let isCopy: Bool
    /// How many writes share a flush that is not urgent.
    private static let mostUnflushed = 32
    let path: String
    let database: Database
    private let queue = Mutex(Queue())
    private let lastID: Atomic<Int64>
    /// Set by a flush that failed, until everything was written anew. Touched inside the database's writes alone.
    private let isDoubtful = Atomic(false)
    /// Writes since the last flush that are not to be without one for long. Touched by the leader, but for `settle`.
    private let unflushed = Atomic(0)
    private let stop: StopPoint?
    private let passages = Atomic<Int>(0)

    /// Opens or creates the journal. Never replaces one that cannot be read: it may be all there is of somebody's bytes.
    package init(path: String, stop: StopPoint? = nil) throws(JournalingError) {
        self.path = path
        var options = Database.Options()
        options.synchronous = .full
        options.readers = 0
        options.checkpointsItself = false
        options.application = JournalSchema.application
        try Self.refuseLost(path)
        do throws(SQLiteError) {
            database = try Database(.file(path), options: options, migrations: JournalSchema.migrations)
            // All of it is looked at before a byte of it is changed.
            try database.read(JournalSchema.check)
            let numbers = try database.read(JournalSchema.numbers)
            lastKnownFile = IntentID(rawValue: numbers.file)
            lastID = Atomic(numbers.any)
            // Whatever a disk that failed has lost of an earlier process's writes is written again by this.
            try database.write { (connection) throws(SQLiteError) in
                try connection.checkpoint(emptying: true)
                do throws(SQLiteError) { try JournalSchema.takeHeadroom(connection) } catch {
                    // The process that goes on with a mount on a full disk cannot ask for more than there is.
                    guard error.kind == .full else { throw error }
                }
            }
        } catch { throw .journal(path: path, error) }
        do throws(FileError) { _ = try File(path + Self.madeSuffix, .readWrite, create: .ifMissing) } catch {
            throw .file(error)
        }
        isCopy = Self.isCopy(at: path)
        // On a read-only disk nothing is stored from it.
        if !isCopy, Self.home(of: path) != JournalHome(of: Directory.parent(of: path)) { try? Self.claim(path) }
        self.stop = stop
        boot = Self.currentBoot
    }

    /// The name of the running system; empty where it has none. /proc/sys/kernel/random/boot_id
    package static var currentBoot: String {
        let bytes = (try? File("/proc/sys/kernel/random/boot_id").read(atMost: 64)) ?? []
        return String(decoding: bytes.prefix { $0 > 0x20 }, as: UTF8.self)
    }

    /// SQLite takes a file without bytes, or none, for a new one: that the journal was made, and so has had more, stands beside
    /// it.
    private static func refuseLost(_ path: String) throws(JournalingError) {
        let (size, wasMade): (Int64?, Bool)
        do throws(FileError) {
            (size, wasMade) = (
                try LocalFileStatus(of: path)?.size, try LocalFileStatus(of: path + madeSuffix) != nil
            )
        } catch { throw .file(error) }
        guard wasMade, size ?? 0 < leastSize else { return }
        let message = size.map { "the file was cut to \($0) bytes" } ?? "the file is missing"
        throw .journal(path: path, SQLiteError(.corrupt, message: message))
    }

    /// Whether there is a journal in a cache directory, or was one.
    package static func exists(at path: String) -> Bool {
        [path, path + madeSuffix].contains { (try? LocalFileStatus(of: $0)) ?? nil != nil }
    }

    /// From now on the journal is that of the directory it is in.
    package func claim() throws(JournalingError) {
        do throws(FileError) { try Self.claim(path) } catch { throw .file(error) }
    }

    /// Where it was made; nil where that is not known.
    private static func home(of path: String) -> JournalHome? {
        (try? File(path + madeSuffix).read(atMost: 256)).flatMap { JournalHome(String(decoding: $0, as: UTF8.self)) }
    }

    package static func isCopy(at path: String) -> Bool {
        home(of: path).map { JournalHome(of: Directory.parent(of: path)).isElsewhere(than: $0) } ?? false
    }

    /// The same for one that is not open.
    package static func claim(_ path: String) throws(FileError) {
        let home = JournalHome(of: Directory.parent(of: path))
        try File.writeAtomically(Array(home.text.utf8), to: path + madeSuffix)
    }

    /// Of the file next to the journal that says that there was one, and where (`JournalHome`).
    static let madeSuffix = "-made"
    /// Bytes of SQLite's smallest page.
    static let leastSize: Int64 = 512

    /// Everything there is.
    package func contents() throws(JournalingError) -> JournalContents {
        do { return try database.read(JournalSchema.contents) } catch { throw .write(error) }
    }

    /// The jobs that have not ended, the oldest first, each with how many objects it moves.
    package func jobs() throws(JournalingError) -> [(id: IntentID, intent: JobIntent, items: Int)] {
        do { return try database.read(JournalSchema.jobs) } catch { throw .write(error) }
    }

    /// The bytes of a small file that were acknowledged beside its row; nil when they are in `staging/`.
    package func content(of file: IntentID) throws(JournalingError) -> [UInt8]? {
        do {
            return try database.read { (connection) throws(SQLiteError) in
                try JournalSchema.content(of: file, connection)
            }
        } catch { throw .write(error) }
    }

    /// A number for a new row.
    package func newID() -> IntentID { IntentID(rawValue: lastID.add(1, ordering: .relaxed).newValue) }

    /// Makes all of `changes` or none; see the type for `flushed`.
    package func write(_ changes: [JournalChange], flushed: Bool) throws(JournalingError) {
        try write(changes, flushed ? .now : .never)
    }

    /// Makes all of `changes` or none.
    package func write(_ changes: [JournalChange], _ flush: JournalFlush) throws(JournalingError) {
        guard !changes.isEmpty else { return }
        pass(.before, changes)
        let ticket = Ticket(changes, flush)
        let leads = queue.withLock { queue in
            queue.waiting.append(ticket)
            defer { queue.isLed = true }
            return !queue.isLed
        }
        if leads { lead() }
        var outcome = ticket.wait()
        if case .lead = outcome {
            lead()
            outcome = ticket.wait()
        }
        if case .done(let error?) = outcome { throw .write(error) }
        pass(.after, changes)
    }

    /// Flushes what was to be flushed soon: for whoever has nothing more to write for now.
    package func flush() {
        guard unflushed.load(ordering: .relaxed) > 0 else { return }
        // What fails here is no caller's: the next start settles what a power cut took back.
        try? database.write { (connection) throws(SQLiteError) in
            guard unflushed.load(ordering: .relaxed) > 0 else { return }
            do throws(SQLiteError) {
                try connection.checkpoint(emptying: false)
                unflushed.store(0, ordering: .relaxed)
            } catch {
                if error.isLostWrite { isDoubtful.store(true, ordering: .relaxed) }
            }
        }
    }

    /// Closes the database; later writes fail.
    package func close() {
        try? database.write { (connection) throws(SQLiteError) in try connection.checkpoint(emptying: true) }
        database.close()
    }

    // MARK: Group commit

    /// Carries out what waits now, the leader's own changes among it, and passes the lead on.
    private func lead() {
        let batch = queue.withLock { queue in
            defer { queue.waiting = [] }
            return queue.waiting
        }
        let soon = batch.count { $0.flush == .soon }
        do throws(SQLiteError) {
            let isFlushed =
                unflushed.load(ordering: .relaxed) + soon >= Self.mostUnflushed
                || batch.contains { $0.flush == .now }
            try carryOut(batch.flatMap(\.changes), isFlushed: isFlushed, soon: soon)
            for ticket in batch { ticket.end(.done(nil)) }
        } catch {
            // One of them may be the reason: each by itself then, so that nobody suffers for another.
            for ticket in batch {
                guard batch.count > 1 else {
                    ticket.end(.done(error))
                    continue
                }
                do throws(SQLiteError) {
                    try carryOut(ticket.changes, isFlushed: ticket.flush != .never)
                    ticket.end(.done(nil))
                } catch { ticket.end(.done(error)) }
            }
        }
        let next = queue.withLock { queue in
            queue.isLed = !queue.waiting.isEmpty
            return queue.waiting.first
        }
        next?.end(.lead)
    }

    /// `soon` callers want theirs flushed soon.
    private func carryOut(_ changes: [JournalChange], isFlushed: Bool, soon: Int = 0) throws(SQLiteError) {
        try database.write { (connection) throws(SQLiteError) in
            if isDoubtful.load(ordering: .relaxed) { try renew(connection) }
            do throws(SQLiteError) {
                try commit(changes, isFlushed: isFlushed, connection)
                // Here, where nobody else writes: who flushes takes the count with what it counts.
                if isFlushed {
                    unflushed.store(0, ordering: .relaxed)
                } else {
                    unflushed.add(soon, ordering: .relaxed)
                }
            } catch {
                if error.isLostWrite {
                    isDoubtful.store(true, ordering: .relaxed)
                    // At once, if it works: a crash would find the rows of the transaction that failed.
                    try? renew(connection)
                }
                throw error
            }
            guard connection.loggedPages >= JournalSchema.longestLog else { return }
            // The rows are safe in the log all the same.
            do throws(SQLiteError) { try connection.checkpoint(emptying: false) } catch {
                if error.isLostWrite { isDoubtful.store(true, ordering: .relaxed) }
            }
        }
    }

    private func renew(_ connection: Connection) throws(SQLiteError) {
        try connection.checkpoint(emptying: true)
        try JournalSchema.takeHeadroom(connection)
        isDoubtful.store(false, ordering: .relaxed)
    }

    private func commit(
        _ changes: [JournalChange], isFlushed: Bool, _ connection: Connection
    ) throws(SQLiteError) {
        try connection.synchronise(isFlushed ? .full : .normal)
        try connection.transaction { () throws(SQLiteError) in
            for change in changes { try JournalSchema.apply(change, connection) }
        }
    }

    // MARK: Stop points

    private func pass(_ side: StopPoint.Side, _ changes: [JournalChange]) {
        guard let stop, stop.side == side, changes.contains(where: { $0.name == stop.step }) else { return }
        if passages.add(1, ordering: .relaxed).newValue == stop.count { StopPoint.crash() }
    }
}
