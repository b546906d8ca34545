package import Basics
import SQLite
import Synchronization

/// The durable intents of one mount: `journal.db` in its cache directory.
///
/// A row is written before the act that it records, and staged bytes are flushed before the row that acknowledges them; the
/// types of the records document each row and the state after a crash. Owns the database; sends no requests. A write that
/// returned survives the end of the process; a `flushed` one also survives a power cut, with all earlier writes. Concurrent
/// writers share one transaction and one flush: the first of them carries out the others' changes (`lead`), while they wait.
/// Any thread may call; calls do disk I/O and block, so never under a lock. After an error none of the call's changes is
/// there, and the caller must report it to its program. After a failed flush the disk may have lost earlier rows, and the
/// next flush would not report that. So everything is written to the database file again before another row is accepted, and
/// while that fails, so does every write.
package final class Journal: Sendable {
    private final class Ticket: Sendable {
        enum Outcome: Sendable {
            case done(SQLiteError?)
            /// The former leader has left: this ticket's caller leads.
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

    /// The running boot: after another one, a power cut may have made rows untrue.
    package let boot: String
    /// The last file that an earlier process recorded: files up to this number without a row are finished.
    package let lastKnownFile: IntentID
    /// Whether the directory is a copy of the one that the journal was made in; see `JournalHome`. After an earlier mount of
    /// the copy has called `claim`, it is an original.
    package let isCopy: Bool
    /// How many writes share a flush that is not urgent.
    private static let mostUnflushed = 32
    let path: String
    let database: Database
    private let queue = Mutex(Queue())
    private let lastID: Atomic<Int64>
    /// Set by a failed flush, until everything was written again. Accessed only inside writes of the database.
    private let isDoubtful = Atomic(false)
    /// Writes since the last flush that should be flushed soon. Accessed by the leader, and by `flush`.
    private let unflushed = Atomic(0)
    private let stop: StopPoint?
    private let passages = Atomic<Int>(0)

    /// Opens or creates the journal. Never replaces one that cannot be read: it may be the only record of a user's bytes.
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
            // The whole file is checked before any byte of it is changed.
            try database.read(JournalSchema.check)
            let numbers = try database.read(JournalSchema.numbers)
            lastKnownFile = IntentID(rawValue: numbers.file)
            lastID = Atomic(numbers.any)
            // Rewrites earlier writes that a failing disk may have lost.
            try database.write { (connection) throws(SQLiteError) in
                try connection.checkpoint(emptying: true)
                do throws(SQLiteError) { try JournalSchema.takeHeadroom(connection) } catch {
                    // A process that resumes a mount on a full disk must do with the space that is left.
                    guard error.kind == .full else { throw error }
                }
            }
        } catch { throw .journal(path: path, error) }
        do throws(FileError) { _ = try File(path + Self.madeSuffix, .readWrite, create: .ifMissing) } catch {
            throw .file(error)
        }
        isCopy = Self.isCopy(at: path)
        // On a read-only disk no file is committed from the journal.
        if !isCopy, Self.home(of: path) != JournalHome(of: Directory.parent(of: path)) { try? Self.claim(path) }
        self.stop = stop
        boot = Self.currentBoot
    }

    /// The id of the running boot; empty where the system has none. /proc/sys/kernel/random/boot_id
    package static var currentBoot: String {
        let bytes = (try? File("/proc/sys/kernel/random/boot_id").read(atMost: 64)) ?? []
        return String(decoding: bytes.prefix { $0 > 0x20 }, as: UTF8.self)
    }

    /// SQLite takes an empty or missing file for a new one. A file beside the journal records that it was made, and so must
    /// have content.
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

    /// Whether a cache directory has a journal, or had one.
    package static func exists(at path: String) -> Bool {
        [path, path + madeSuffix].contains { (try? LocalFileStatus(of: $0)) ?? nil != nil }
    }

    /// From now on the journal belongs to the directory that it is in.
    package func claim() throws(JournalingError) {
        do throws(FileError) { try Self.claim(path) } catch { throw .file(error) }
    }

    /// Where the journal was made; nil where that is not known.
    private static func home(of path: String) -> JournalHome? {
        (try? File(path + madeSuffix).read(atMost: 256)).flatMap { JournalHome(String(decoding: $0, as: UTF8.self)) }
    }

    package static func isCopy(at path: String) -> Bool {
        home(of: path).map { JournalHome(of: Directory.parent(of: path)).isElsewhere(than: $0) } ?? false
    }

    /// The same for a journal that is not open.
    package static func claim(_ path: String) throws(FileError) {
        let home = JournalHome(of: Directory.parent(of: path))
        try File.writeAtomically(Array(home.text.utf8), to: path + madeSuffix)
    }

    /// The suffix of the file next to the journal which records that the journal was made, and where (`JournalHome`).
    static let madeSuffix = "-made"
    /// Bytes of SQLite's smallest page.
    static let leastSize: Int64 = 512

    /// All rows.
    package func contents() throws(JournalingError) -> JournalContents {
        do { return try database.read(JournalSchema.contents) } catch { throw .write(error) }
    }

    /// The jobs that have not ended, the oldest first, each with the number of objects it moves.
    package func jobs() throws(JournalingError) -> [(id: IntentID, intent: JobIntent, items: Int)] {
        do { return try database.read(JournalSchema.jobs) } catch { throw .write(error) }
    }

    /// The acknowledged bytes of a small file, kept beside its row; nil when they are in `staging/`.
    package func content(of file: IntentID) throws(JournalingError) -> [UInt8]? {
        do {
            return try database.read { (connection) throws(SQLiteError) in
                try JournalSchema.content(of: file, connection)
            }
        } catch { throw .write(error) }
    }

    /// A number for a new row.
    package func newID() -> IntentID { IntentID(rawValue: lastID.add(1, ordering: .relaxed).newValue) }

    /// Writes all of `changes` or none; see the type for `flushed`.
    package func write(_ changes: [JournalChange], flushed: Bool) throws(JournalingError) {
        try write(changes, flushed ? .now : .never)
    }

    /// Writes all of `changes` or none.
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

    /// Flushes the writes that should be flushed soon: for a caller that has nothing more to write for now.
    package func flush() {
        guard unflushed.load(ordering: .relaxed) > 0 else { return }
        // A failure here is no caller's error: recovery handles what a power cut takes back.
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

    /// Carries out all waiting changes, the leader's own among them, and passes the lead on.
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
            // One of them may be the reason: each is retried by itself, so that it fails alone.
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

    /// `soon` is the number of callers whose writes should be flushed soon.
    private func carryOut(_ changes: [JournalChange], isFlushed: Bool, soon: Int = 0) throws(SQLiteError) {
        try database.write { (connection) throws(SQLiteError) in
            if isDoubtful.load(ordering: .relaxed) { try renew(connection) }
            do throws(SQLiteError) {
                try commit(changes, isFlushed: isFlushed, connection)
                // Here no other thread writes, so a flush resets exactly the writes that it has flushed.
                if isFlushed {
                    unflushed.store(0, ordering: .relaxed)
                } else {
                    unflushed.add(soon, ordering: .relaxed)
                }
            } catch {
                if error.isLostWrite {
                    isDoubtful.store(true, ordering: .relaxed)
                    // Retried at once: a crash would leave the rows of the failed transaction.
                    try? renew(connection)
                }
                throw error
            }
            guard connection.loggedPages >= JournalSchema.longestLog else { return }
            // If this fails, the rows are still safe in the log.
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
