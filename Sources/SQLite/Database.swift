import Basics
import CSQLite3
import Synchronization

import var Glibc.F_OK
import func Glibc.access
import func Glibc.unlink

/// A database file: one connection that writes, some that read beside it (WAL), lent to one thread at a time.
///
/// The closures need their error spelled, as Swift does not infer it:
/// `try database.read { (connection) throws(SQLiteError) in … }`. Any thread may call; calls wait for a free connection and do
/// disk I/O, so they are for the threads of libfuse and of `WorkerPool`, never for a task elsewhere, and never while holding a
/// lock. Do not nest `read` and `write` of one database: the inner call can wait for the outer one for ever. Every commit is
/// atomic; with `.full` it has reached the disk when `write` returns, with `.normal` a power cut may lose the newest commits
/// but never damages the file.
package final class Database: Sendable {
    package enum Location: Sendable, Hashable {
        case file(String)
        /// Lives as long as the `Database`; read and written through one connection.
        case memory
        /// The same, with the pages beyond `Options.cacheSize` in a temporary file of SQLite.
        case temporary

        var path: String {
            switch self {
            case .file(let path): path
            case .memory: ":memory:"
            case .temporary: ""
            }
        }
    }

    package enum Synchronous: String, Sendable {
        /// For caches: a power cut may lose the newest commits.
        case normal = "NORMAL"
        /// For journals: a commit that returned survives a power cut.
        case full = "FULL"
    }

    package struct Options: Sendable {
        package var synchronous = Synchronous.normal
        /// Connections that read at the same time; with 0 readers take turns with the writer.
        package var readers = 4
        /// How long to wait for a lock that another process holds.
        package var busyTimeout = Duration.seconds(5)
        /// Bytes of pages that each connection caches.
        package var cacheSize = 2 << 20
        /// Bytes of the file that are read through a memory map; a disk error there is a SIGBUS.
        package var memoryMap = 0
        /// Whether a new file can give free pages back to the disk (`shrink`).
        package var shrinks = false
        /// Whether SQLite makes checkpoints automatically; otherwise the caller makes them (`Connection.checkpoint`).
        package var checkpointsItself = true
        /// Whether a file that was found damaged is refused the next time it is opened, so that a cache is built anew even if
        /// the damage does not show at once.
        package var remembersDamage = false
        /// The mark of this program's files (`PRAGMA application_id`), which another program's file lacks.
        package var application: Int32 = 0
        /// Called once, with the error, when the disk turns out to be read-only. A temporary copy then has the whole content,
        /// and calls use it from then on, the failed one included. If this is nil, such calls fail.
        package var whenReadOnly: (@Sendable (SQLiteError) -> Void)?

        package init() {}
    }

    /// The sources of connections for calls.
    struct Lenders {
        var writer: Lender
        var readers: Lender
        /// The database file and its log, as they were opened; nil for a database without a file.
        var files: [FileIdentity?]?
    }

    let location: Location
    let options: Options
    /// A leaf: calls use a lender outside it.
    let lenders: Mutex<Lenders>
    /// The path of a file that marks the database as damaged.
    private let damageMark: String?

    /// Opens or creates the database and brings it to the newest schema: script `n` leads from version `n` to `n + 1`.
    ///
    /// Throws: `.corrupt` when the file is no database or another program's, `.newerSchema` when its version is above the
    /// number of `migrations`.
    package init(
        _ location: Location, options: Options = Options(), migrations: [String] = []
    ) throws(SQLiteError) {
        (self.location, self.options) = (location, options)
        damageMark = options.remembersDamage && location != .memory ? location.path + Self.damageSuffix : nil
        if let damageMark, access(damageMark, F_OK) == 0 {
            throw SQLiteError(.corrupt, message: "\(location.path) is damaged")
        }
        let first = try Connection(location, options: options)
        try migrate(first, with: migrations, name: location.path, application: options.application)
        // A file that was made without it is rewritten, once. On a full disk it stays without.
        if options.shrinks, try first.number("PRAGMA auto_vacuum") == 0 {
            try? first.execute("PRAGMA auto_vacuum = INCREMENTAL; VACUUM")
        }
        lenders = Mutex(try Self.lenders(first, location, options))
    }

    /// Lends a reading connection. Each statement sees the newest commit; `snapshot` makes several see the same one.
    package func read<Result>(
        _ body: (Connection) throws(SQLiteError) -> Result
    ) throws(SQLiteError) -> Result {
        try lend(writing: false, body)
    }

    /// Lends the writing connection, outside a transaction: each statement commits by itself.
    package func write<Result>(
        _ body: (Connection) throws(SQLiteError) -> Result
    ) throws(SQLiteError) -> Result {
        let writer = lenders.withLock { $0.writer }
        do throws(SQLiteError) { return try lend(writing: true, body) } catch {
            guard error.kind == .readOnly, let whenReadOnly = options.whenReadOnly else { throw error }
            if try leaveDisk(with: writer) { whenReadOnly(error) }
            guard lenders.withLock({ $0.writer !== writer }) else { throw error }
            return try lend(writing: true, body)
        }
    }

    /// Runs one statement that returns no rows on the writing connection, with `values` for its parameters from 1 on.
    package func run<each Value: Bindable>(_ sql: StaticString, _ values: repeat each Value) throws(SQLiteError) {
        try write { (connection) throws(SQLiteError) in try connection.run(sql, repeat each values) }
    }

    /// Lends the writing connection in a transaction, which an error rolls back.
    package func transaction<Result>(
        _ body: (Connection) throws(SQLiteError) -> Result
    ) throws(SQLiteError) -> Result {
        try write { (connection) throws(SQLiteError) in
            try connection.transaction { () throws(SQLiteError) in try body(connection) }
        }
    }

    /// Waits until every connection is back and closes them; later calls throw `.closed`.
    package func close() {
        let used = lenders.withLock { [$0.readers, $0.writer] }
        for lender in used { lender.close() }
    }

    /// Deletes a database that is not open, with its write-ahead log; a missing one is no error.
    package static func remove(_ path: String) {
        for suffix in ["", "-wal", "-shm", damageSuffix] { unlink(path + suffix) }
    }

    private static let damageSuffix = "-damaged"

    /// Lends a connection of the present lender. A call that waited for one while the file was replaced starts again: a
    /// commit to the old file would be lost.
    private func lend<Result>(
        writing: Bool, _ body: (Connection) throws(SQLiteError) -> Result
    ) throws(SQLiteError) -> Result {
        while true {
            let lender = lender(writing: writing)
            do throws(SQLiteError) {
                return try noting { () throws(SQLiteError) in
                    try lender.lend { (connection) throws(SQLiteError) in
                        guard self.lender(writing: writing) === lender else {
                            throw SQLiteError(.closed, message: "the file was replaced")
                        }
                        return try body(connection)
                    }
                }
            } catch {
                guard error.kind == .closed, self.lender(writing: writing) !== lender else { throw error }
            }
        }
    }

    private func lender(writing: Bool) -> Lender { lenders.withLock { writing ? $0.writer : $0.readers } }

    private func noting<Result>(_ body: () throws(SQLiteError) -> Result) throws(SQLiteError) -> Result {
        do { return try body() } catch {
            if error.isCorrupt, let damageMark {
                // Without the mark the damage is found again in use.
                _ = try? File(damageMark, .readWrite, create: .ifMissing)
            }
            throw error
        }
    }
}

private func migrate(
    _ connection: Connection, with scripts: [String], name: String, application: Int32
) throws(SQLiteError) {
    try connection.transaction { () throws(SQLiteError) in
        let version = Int(try connection.number("PRAGMA user_version"))
        if application != 0, try connection.number("PRAGMA application_id") == 0 {
            try connection.execute("PRAGMA application_id = \(application)")
        }
        guard version <= scripts.count, version >= 0 else {
            throw SQLiteError(
                .newerSchema(found: version, known: scripts.count),
                message: """
                    \(name) was written by a newer version of this program (schema \(version), known \(scripts.count)); \
                    use that version, or another cache directory
                    """)
        }
        for script in scripts[version...] { try connection.execute(script) }
        if version < scripts.count { try connection.execute("PRAGMA user_version = \(scripts.count)") }
    }
}
