import ObjectStorage
import SQLite
import Synchronization

/// Removes rows: subtrees a bounded piece at a time, and the pending rows of a dead process.
extension MetadataCache {
    /// Continues to remove the rows below removed directories; true when none are left. Every write removes a few of them;
    /// after the removal of a large tree, call this in the background until it returns true.
    package func reap() throws(MetadataError) -> Bool {
        try write { (connection) throws(SQLiteError) in try self.reap(connection, limit: 4096) }
    }

    /// Deletes a live row. The rows below a directory are out of sight at once and are reaped later.
    func delete(_ row: EntryRow, _ connection: Connection) throws(SQLiteError) {
        try keepNames(beside: row, connection)
        try moveFormerNames(of: row.ino, to: nil, connection)
        try Self.deleteRow(row, connection)
        try connection.run("DELETE FROM headers WHERE ino = ?1", row.ino)
        guard row.attributes.kind == .directory else { return }
        try supersedeListings(below: row, isRemoval: true, connection)
        treeChanged.store(true, ordering: .relaxed)
        try connection.run("INSERT OR IGNORE INTO orphan VALUES (?1)", row.ino)
    }

    static func deleteRow(_ row: EntryRow, _ connection: Connection) throws(SQLiteError) {
        try connection.run("DELETE FROM entry WHERE parent = ?1 AND component = ?2", row.parent, row.component)
    }

    /// Removes up to `limit` rows of directories that are gone; true when none are left.
    @discardableResult
    func reap(_ connection: Connection, limit: Int) throws(SQLiteError) -> Bool {
        var rest = limit
        while rest > 0 {
            guard let directory = try Self.firstOrphan(connection) else { return true }
            let removed = try Self.reapChildren(of: directory, limit: rest, connection)
            rest -= removed + 1
            if rest > 0 {
                try connection.run("DELETE FROM directory WHERE ino = ?1", directory)
                if formerNames.withLock({ $0.remove(directory) != nil }) {
                    try connection.run("DELETE FROM former WHERE parent = ?1", directory)
                }
                try connection.run("DELETE FROM orphan WHERE ino = ?1", directory)
                recollection.withLock { $0.forgetListings(of: directory) }
            }
        }
        return try Self.firstOrphan(connection) == nil
    }

    private static func firstOrphan(_ connection: Connection) throws(SQLiteError) -> Int64? {
        let statement = try connection.prepare("SELECT ino FROM orphan LIMIT 1")
        return try statement.step() ? statement.int64(0) : nil
    }

    private static func reapChildren(
        of directory: Int64, limit: Int, _ connection: Connection
    ) throws(SQLiteError) -> Int {
        var rows: [EntryRow] = []
        do {
            let statement = try connection.prepare("SELECT * FROM entry WHERE parent = ?1 LIMIT ?2")
            try statement.bind(directory, at: 1)
            try statement.bind(Int64(limit), at: 2)
            while try statement.step() { rows.append(EntryRow(statement)) }
        }
        for row in rows {
            try deleteRow(row, connection)
            try connection.run("DELETE FROM headers WHERE ino = ?1", row.ino)
            if row.attributes.kind == .directory {
                try connection.run("INSERT OR IGNORE INTO orphan VALUES (?1)", row.ino)
            }
        }
        guard rows.count < limit else { return rows.count }
        return rows.count + (try deleteTombstones(of: directory, limit: limit - rows.count, connection))
    }

    private static func deleteTombstones(
        of directory: Int64, limit: Int, _ connection: Connection
    ) throws(SQLiteError) -> Int {
        try connection.run(
            """
            DELETE FROM tombstone WHERE parent = ?1 AND component IN
                (SELECT component FROM tombstone WHERE parent = ?1 LIMIT ?2)
            """, directory, Int64(limit))
        return connection.changes
    }

    // MARK: At opening

    /// Empties a cache that was kept under another `setting`.
    static func adopt(_ setting: String, _ connection: Connection) throws(SQLiteError) {
        let statement = try connection.prepare("SELECT value FROM setting WHERE name = 'codec'")
        let known = try statement.step() ? statement.text(0) : nil
        statement.reset()
        guard known != setting else { return }
        if known != nil {
            try connection.execute(
                """
                DELETE FROM entry WHERE ino <> 1;
                DELETE FROM tombstone;
                DELETE FROM directory;
                DELETE FROM headers;
                DELETE FROM orphan;
                DELETE FROM former;
                """)
        }
        try connection.run("INSERT OR REPLACE INTO setting VALUES ('codec', ?1)", setting)
    }

    /// Distrusts everything when the last process did not end in order and the system was restarted since: in WAL mode with
    /// `synchronous=NORMAL` a power cut loses the newest commits (sqlite.org/pragma.html#pragma_synchronous).
    func begin(under boot: String, _ connection: Connection) throws(SQLiteError) {
        let statement = try connection.prepare("SELECT value FROM setting WHERE name = 'boot'")
        let last = try statement.step() ? statement.text(0) : nil
        statement.reset()
        if let last, last != boot, !last.isEmpty {
            let now = clock.now
            invalidatedAt.store(now, ordering: .relaxed)
            try connection.run("INSERT OR REPLACE INTO setting VALUES ('distrusted', ?1)", "\(now)")
        }
        if last != boot { try connection.run("INSERT OR REPLACE INTO setting VALUES ('boot', ?1)", boot) }
    }

    /// Marks an orderly end of the process: all its rows are on disk once the database is closed.
    package func endInOrder() throws(MetadataError) {
        try write { (connection) throws(SQLiteError) in
            try connection.run("UPDATE setting SET value = '' WHERE name = 'boot'")
        }
    }

    /// Undoes changes that a dead process had not committed: entries that never were in the bucket are removed, others get
    /// back the version they had, to be checked again. Their directories count as not listed.
    static func removePending(_ connection: Connection) throws(SQLiteError) {
        var rows: [EntryRow] = []
        do {
            let statement = try connection.prepare("SELECT * FROM entry WHERE ours = 9223372036854775807")
            while try statement.step() { rows.append(EntryRow(statement)) }
        }
        for var row in rows {
            try forgetListing(of: row.parent, connection)
            try connection.run("DELETE FROM headers WHERE ino = ?1", row.ino)
            guard let version = row.attributes.version, !row.isMoved || row.attributes.kind == .directory else {
                try deleteRow(row, connection)
                if row.attributes.kind == .directory {
                    try connection.run("INSERT OR IGNORE INTO orphan VALUES (?1)", row.ino)
                }
                continue
            }
            row.attributes = Attributes(
                kind: row.attributes.kind, size: row.attributes.kind == .directory ? 0 : version.size,
                mtime: version.modified, version: version, storageClass: row.attributes.storageClass)
            (row.checkedAt, row.ours, row.isMoved) = (0, nil, false)
            try row.put(connection)
        }
        try removePendingTombstones(connection)
    }

    /// Deletes tombstones of removals that a dead process had not carried out, so that the store is asked again. Those of
    /// files that programs still have open stay pending.
    static func removePendingTombstones(_ connection: Connection) throws(SQLiteError) {
        let statement = try connection.prepare(
            """
            SELECT parent FROM tombstone WHERE ours = 9223372036854775807 AND NOT EXISTS (
                SELECT 1 FROM unlinked WHERE parent = tombstone.parent AND component = tombstone.component)
            """)
        var parents: [Int64] = []
        while try statement.step() { parents.append(statement.int64(0)) }
        statement.reset()
        for parent in parents { try forgetListing(of: parent, connection) }
        try connection.run(
            """
            DELETE FROM tombstone WHERE ours = 9223372036854775807 AND NOT EXISTS (
                SELECT 1 FROM unlinked WHERE parent = tombstone.parent AND component = tombstone.component)
            """)
    }

    private static func forgetListing(of directory: Int64, _ connection: Connection) throws(SQLiteError) {
        try connection.run("UPDATE directory SET listed_at = NULL WHERE ino = ?1", directory)
    }
}
