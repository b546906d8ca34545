import CSQLite3

/// One connection to a database with its prepared statements.
///
/// Lent by `Database` to one thread at a time, for the length of a closure; keep it no longer. Not Sendable, without a lock
/// of its own (SQLITE_OPEN_NOMUTEX). Statements are prepared once and looked up by the address of their literal, so a look-up
/// costs no hashing of SQL.
package final class Connection {
    private struct CachedStatement {
        let handle: OpaquePointer
        var inUse = false
    }

    private let handle: OpaquePointer
    /// Pages in the write-ahead log after the newest commit of this connection, if SQLite does not checkpoint it
    /// automatically.
    package private(set) var loggedPages = 0
    /// The value that the last PRAGMA has set.
    private var synchronous: Database.Synchronous
    private var slots: [UnsafePointer<UInt8>: Int] = [:]
    private var cached: [CachedStatement] = []

    init(_ location: Database.Location, options: Database.Options) throws(SQLiteError) {
        synchronous = options.synchronous
        let path = location.path
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
        var opened: OpaquePointer?
        // Only one process opens a database of this program at a time: the log's index needs no shared memory, and a read
        // needs no lock of the kernel. https://www.sqlite.org/vfs.html#standard_unix_vfses
        let isFile = if case .file = location { true } else { false }
        let status = sqlite3_open_v2(path, &opened, flags, isFile ? "unix-excl" : nil)
        guard status == SQLITE_OK, let opened else {
            // Even a failed open leaves a handle that holds the message and must be closed.
            var error = SQLiteError(status: status, connection: opened, sql: nil)
            error.message = "cannot open \(path): \(error.message)"
            sqlite3_close(opened)
            throw error
        }
        handle = opened
        let (seconds, attoseconds) = options.busyTimeout.components
        sqlite3_busy_timeout(handle, Int32(clamping: seconds * 1000 + attoseconds / 1_000_000_000_000_000))
        // Before the first write, which may be that of closing it.
        if !options.checkpointsItself { sqlite_keep_log_at_close(handle) }
        if options.application != 0 { try requireOurs(options.application, path) }
        try execute(
            """
            \(options.shrinks ? "PRAGMA auto_vacuum = INCREMENTAL;" : "")
            PRAGMA journal_mode = WAL;
            PRAGMA synchronous = \(options.synchronous.rawValue);
            PRAGMA foreign_keys = ON;
            PRAGMA trusted_schema = OFF;
            PRAGMA cache_size = -\(options.cacheSize / 1024);
            PRAGMA mmap_size = \(options.memoryMap);
            PRAGMA journal_size_limit = \(16 << 20);
            """)
        guard !options.checkpointsItself else { return }
        // Replaces SQLite's automatic checkpoint, whose errors are not reported.
        sqlite3_wal_hook(
            handle,
            { context, _, _, pages in
                guard let context else { return SQLITE_OK }
                Unmanaged<Connection>.fromOpaque(context).takeUnretainedValue().loggedPages = Int(pages)
                return SQLITE_OK
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    /// A copy of the whole database that nothing else can open. sqlite3_backup_step
    func temporaryCopy(_ options: Database.Options) throws(SQLiteError) -> Connection {
        let copy = try Connection(.temporary, options: options)
        guard let backup = sqlite3_backup_init(copy.handle, "main", handle, "main") else {
            throw SQLiteError(status: sqlite3_errcode(copy.handle), connection: copy.handle, sql: nil)
        }
        let status = sqlite3_backup_step(backup, -1)
        let end = sqlite3_backup_finish(backup)
        guard status == SQLITE_DONE, end == SQLITE_OK else {
            throw SQLiteError(status: status == SQLITE_DONE ? end : status, connection: copy.handle, sql: nil)
        }
        return copy
    }

    /// From now on each commit returns when the log is on the disk, or leaves that to a later one. Outside a transaction.
    /// https://www.sqlite.org/pragma.html#pragma_synchronous
    package func synchronise(_ wanted: Database.Synchronous) throws(SQLiteError) {
        if wanted == synchronous { return }
        try execute("PRAGMA synchronous = \(wanted.rawValue)")
        synchronous = wanted
    }

    /// Writes the log to the database file and flushes both to the disk; with `emptying` the log ends empty. Outside a
    /// transaction. https://www.sqlite.org/pragma.html#pragma_wal_checkpoint
    package func checkpoint(emptying: Bool) throws(SQLiteError) {
        let statement = try prepare(emptying ? "PRAGMA wal_checkpoint(TRUNCATE)" : "PRAGMA wal_checkpoint(PASSIVE)")
        if try statement.step(), statement.int64(0) != 0 {
            throw SQLiteError(.busy, message: "another connection uses the database")
        }
        loggedPages = 0
    }

    /// The one number that a statement returns; 0 for none.
    func number(_ sql: StaticString) throws(SQLiteError) -> Int64 {
        let statement = try prepare(sql)
        return try statement.step() ? statement.int64(0) : 0
    }

    private func requireOurs(_ application: Int32, _ path: String) throws(SQLiteError) {
        let owner = Int32(truncatingIfNeeded: try number("PRAGMA application_id"))
        guard owner != application else { return }
        // Files of this program that are older than the mark have none.
        let version = try number("PRAGMA user_version")
        let tables = try number("SELECT count(*) FROM sqlite_schema")
        guard owner == 0, version > 0 || tables == 0 else {
            throw SQLiteError(.corrupt, message: "\(path) is another program's database")
        }
    }

    /// Checks the whole file, and throws `.corrupt` when something is wrong with it. Takes time in proportion to its length.
    package func check() throws(SQLiteError) {
        let statement = try prepare("PRAGMA quick_check(1)")
        guard try statement.step(), statement.text(0) == "ok" else {
            throw SQLiteError(.corrupt, message: "damaged: \(statement.text(0))")
        }
    }

    deinit {
        for statement in cached { sqlite3_finalize(statement.handle) }
        // Statements in use keep the connection alive, so nothing is open here and the close cannot be refused.
        sqlite3_close(handle)
    }

    /// The prepared statement for a literal; compiled once for each connection. sqlite3_prepare_v3
    package func prepare(_ sql: StaticString) throws(SQLiteError) -> Statement {
        let key = sql.utf8Start
        if let slot = slots[key] {
            if !cached[slot].inUse {
                cached[slot].inUse = true
                return Statement(handle: cached[slot].handle, connection: self, slot: slot)
            }
            return Statement(handle: try compile(sql, flags: 0), connection: self, slot: nil)
        }
        let handle = try compile(sql, flags: UInt32(SQLITE_PREPARE_PERSISTENT))
        slots[key] = cached.count
        cached.append(CachedStatement(handle: handle, inUse: true))
        return Statement(handle: handle, connection: self, slot: cached.count - 1)
    }

    /// Runs a statement that returns no rows, with `values` for its parameters from 1 on.
    package func run<each Value: Bindable>(
        _ sql: StaticString, _ values: repeat each Value
    ) throws(SQLiteError) {
        let statement = try prepare(sql)
        try statement.bind(repeat each values)
        try statement.run()
    }

    /// Runs a script of any number of statements without parameters. sqlite3_exec
    package func execute(_ script: String) throws(SQLiteError) {
        let status = sqlite3_exec(handle, script, nil, nil, nil)
        if status != SQLITE_OK { throw SQLiteError(status: status, connection: handle, sql: script) }
    }

    /// Runs `body` in a write transaction: all of it, or with an error none. Inside another transaction it becomes part of
    /// that.
    package func transaction<Result>(
        _ body: () throws(SQLiteError) -> Result
    ) throws(SQLiteError) -> Result {
        try within("BEGIN IMMEDIATE", body)
    }

    /// Runs `body` on one state of the database, without the effect of concurrent writes.
    package func snapshot<Result>(
        _ body: () throws(SQLiteError) -> Result
    ) throws(SQLiteError) -> Result {
        try within("BEGIN DEFERRED", body)
    }

    /// Rows the last INSERT, UPDATE or DELETE touched. sqlite3_changes64
    package var changes: Int { Int(sqlite3_changes64(handle)) }

    /// sqlite3_last_insert_rowid
    package var lastInsertedRowID: Int64 { sqlite3_last_insert_rowid(handle) }

    /// sqlite3_get_autocommit
    private var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

    func endUse(of slot: Int) { cached[slot].inUse = false }

    /// Makes readers refuse to write, so that a write through one fails at once and not by contention for a lock.
    func forbidWriting() throws(SQLiteError) { try execute("PRAGMA query_only = ON") }

    private func within<Result>(
        _ begin: StaticString, _ body: () throws(SQLiteError) -> Result
    ) throws(SQLiteError) -> Result {
        if isInTransaction { return try body() }
        try run(begin)
        do {
            let result = try body()
            try run("COMMIT")
            return result
        } catch {
            // Some failures (disk full, I/O) have rolled back already; sqlite.org/lang_transaction.html section 3.
            if isInTransaction { try? run("ROLLBACK") }
            throw error
        }
    }

    private func compile(_ sql: StaticString, flags: UInt32) throws(SQLiteError) -> OpaquePointer {
        var compiled: OpaquePointer?
        let status = sql.utf8Start.withMemoryRebound(to: CChar.self, capacity: sql.utf8CodeUnitCount + 1) {
            sqlite3_prepare_v3(handle, $0, Int32(sql.utf8CodeUnitCount + 1), flags, &compiled, nil)
        }
        guard status == SQLITE_OK, let compiled else {
            throw SQLiteError(status: status, connection: handle, sql: "\(sql)")
        }
        return compiled
    }
}
