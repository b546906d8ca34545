import Basics
import ObjectStorage
import SQLite

extension BlockCache {
    /// The scripts for `Database.init(migrations:)`. No other module uses the database.
    ///
    /// `settled` is 0 while a file may hold blocks that no row names yet; the next start frees their space.
    /// The index on `used` covers eviction order and the sum of sizes.
    package static let migrations: [String] = [
        """
        CREATE TABLE files(
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            key BLOB NOT NULL,
            etag TEXT NOT NULL,
            size INTEGER NOT NULL,
            modified INTEGER NOT NULL,
            modified_nanoseconds INTEGER NOT NULL,
            settled INTEGER NOT NULL,
            UNIQUE(key, etag, size)
        );
        CREATE INDEX files_unsettled ON files(id) WHERE settled = 0;
        CREATE TABLE chunks(
            file INTEGER NOT NULL,
            chunk INTEGER NOT NULL,
            present BLOB NOT NULL,
            checksums BLOB NOT NULL,
            bytes INTEGER NOT NULL,
            used INTEGER NOT NULL,
            PRIMARY KEY(file, chunk)
        ) WITHOUT ROWID;
        CREATE INDEX chunks_used ON chunks(used, bytes);
        """,
        // Whether a file was ever lent: `ObjectState.wasLent`.
        "ALTER TABLE files ADD COLUMN lent INTEGER NOT NULL DEFAULT 0;",
        // The CRCs of the blocks as the store sent them (`BlockSums.encoded`), and whether the version was compared with its
        // checksum.
        """
        ALTER TABLE chunks ADD COLUMN sums BLOB NOT NULL DEFAULT x'';
        ALTER TABLE files ADD COLUMN judged INTEGER NOT NULL DEFAULT 0;
        """,
    ]
}

/// The rows that say which blocks are on disk. Every call is one statement or transaction and does disk I/O.
struct BlockIndex: Sendable {
    struct ChunkRow {
        var chunk: Int
        var present: BlockSet
        var checksums: [UInt32]
        /// `BlockSums.encoded`; empty for a chunk that an earlier version of this program wrote.
        var sums: [UInt8]
        /// Charged against the quota.
        var bytes: Int64
        var used: Int64
    }

    struct StoredFile {
        var id: Int64
        var isSettled: Bool
        var wasLent: Bool
        var isJudged = false
        var chunks: [ChunkRow]
    }

    /// The row changes of one object.
    struct Changes {
        var file: Int64
        var upserts: [ChunkRow] = []
        var deletes: [Int] = []
        var settles = false
        /// The bytes were compared with the store's checksum, as far as it has one.
        var isJudged = false
        /// No block is left: the row of the file is deleted.
        var drops = false
    }

    /// A chunk to evict, and its place in the order.
    struct Candidate {
        var key: ObjectKey
        var version: ObjectVersion
        var file: Int64
        var chunk: Int
        var used: Int64
    }

    let database: Database

    func load(_ key: ObjectKey, _ version: ObjectVersion) throws(SQLiteError) -> StoredFile? {
        try database.read { (connection) throws(SQLiteError) in
            try connection.snapshot { () throws(SQLiteError) -> StoredFile? in
                let statement = try connection.prepare(
                    "SELECT id, settled, lent, judged FROM files WHERE key = ? AND etag = ? AND size = ?")
                try statement.bind(key.bytes, version.etag.text, version.size)
                guard try statement.step() else { return nil }
                let id = statement.int64(0)
                return StoredFile(
                    id: id, isSettled: statement.int64(1) != 0, wasLent: statement.int64(2) != 0,
                    isJudged: statement.int64(3) != 0, chunks: try Self.chunks(of: id, connection))
            }
        }
    }

    /// The file for a version, marked unsettled. Inserts a row if there is none, or if its file is one of those that `drops`
    /// returns, whose rows are deleted. `prepare` runs for a new file before any other caller can see it.
    func claimFile(
        _ key: ObjectKey, _ version: ObjectVersion, dropping drops: () -> Set<Int64>, prepare: (Int64) -> Void
    ) throws(SQLiteError) -> Int64 {
        try database.transaction { (connection) throws(SQLiteError) in
            for file in drops() { try Self.apply(Changes(file: file, drops: true), connection) }
            let known = try connection.prepare("SELECT id FROM files WHERE key = ? AND etag = ? AND size = ?")
            try known.bind(key.bytes, version.etag.text, version.size)
            if try known.step() {
                let id = known.int64(0)
                known.reset()
                try connection.run("UPDATE files SET settled = 0 WHERE id = ?", id)
                return id
            }
            try connection.run(
                """
                INSERT INTO files(key, etag, size, modified, modified_nanoseconds, settled) VALUES(?, ?, ?, ?, ?, 0)
                """, key.bytes, version.etag.text, version.size, version.modified.seconds,
                Int64(version.modified.nanoseconds))
            let id = connection.lastInsertedRowID
            prepare(id)
            return id
        }
    }

    /// Writes the rows that `changes` returns. It runs inside the transaction, so that no older row replaces a newer one.
    func write(_ changes: () -> [Changes]) throws(SQLiteError) {
        try database.transaction { (connection) throws(SQLiteError) in
            for change in changes() { try Self.apply(change, connection) }
        }
    }

    /// Records that the file was lent, for the next process.
    func noteLoan(of file: Int64) throws(SQLiteError) {
        try database.run("UPDATE files SET lent = 1 WHERE id = ?", file)
    }

    func apply(_ changes: Changes) throws(SQLiteError) {
        try database.transaction { (connection) throws(SQLiteError) in try Self.apply(changes, connection) }
    }

    /// Gives a file another key and version if `take`, called inside the transaction, returns true.
    func move(
        _ file: Int64, to key: ObjectKey, _ version: ObjectVersion, take: () -> Bool
    ) throws(SQLiteError) -> Bool {
        try database.transaction { (connection) throws(SQLiteError) in
            let target = try connection.prepare("SELECT id FROM files WHERE key = ? AND etag = ? AND size = ?")
            try target.bind(key.bytes, version.etag.text, version.size)
            // The version has a file of its own already, with its blocks.
            if try target.step() { return false }
            target.reset()
            guard take() else { return false }
            try connection.run(
                "UPDATE files SET key = ?, etag = ?, modified = ?, modified_nanoseconds = ? WHERE id = ?", key.bytes,
                version.etag.text, version.modified.seconds, Int64(version.modified.nanoseconds), file)
            return true
        }
    }

    private static func apply(_ changes: Changes, _ connection: Connection) throws(SQLiteError) {
        for row in changes.upserts {
            try connection.run(
                """
                INSERT INTO chunks(file, chunk, present, checksums, bytes, used, sums) VALUES(?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT DO UPDATE SET present = excluded.present, checksums = excluded.checksums,
                    bytes = excluded.bytes, used = excluded.used, sums = excluded.sums
                """, changes.file, Int64(row.chunk), row.present.bytes, encode(row.checksums), row.bytes, row.used,
                row.sums)
        }
        for chunk in changes.deletes {
            try connection.run("DELETE FROM chunks WHERE file = ? AND chunk = ?", changes.file, Int64(chunk))
        }
        if changes.drops {
            try connection.run("DELETE FROM chunks WHERE file = ?", changes.file)
            try connection.run("DELETE FROM files WHERE id = ?", changes.file)
        } else {
            if changes.settles { try connection.run("UPDATE files SET settled = 1 WHERE id = ?", changes.file) }
            if !changes.upserts.isEmpty {
                let judged: Int64 = changes.isJudged ? 1 : 0
                try connection.run("UPDATE files SET judged = ? WHERE id = ?", judged, changes.file)
            }
        }
    }

    /// The chunks used longest ago, after `last` in that order.
    func oldest(after last: Candidate?, limit: Int) throws(SQLiteError) -> [Candidate] {
        try database.read { (connection) throws(SQLiteError) in
            let statement = try connection.prepare(
                """
                SELECT key, etag, size, modified, modified_nanoseconds, file, chunk, used
                FROM chunks JOIN files ON files.id = chunks.file
                WHERE used >= ?1 AND (used > ?1 OR file > ?2 OR file = ?2 AND chunk > ?3)
                ORDER BY used, file, chunk LIMIT ?4
                """)
            try statement.bind(
                last?.used ?? .min, last?.file ?? -1, last.map { Int64($0.chunk) } ?? -1, Int64(limit))
            var candidates: [Candidate] = []
            while try statement.step() {
                let key = statement.bytes(0)
                if key.isEmpty { continue }
                let modified = Timestamp(seconds: statement.int64(3), nanoseconds: Int32(clamping: statement.int64(4)))
                candidates.append(
                    Candidate(
                        key: ObjectKey(key),
                        version: ObjectVersion(
                            etag: ETag(statement.text(1)), size: statement.int64(2), modified: modified),
                        file: statement.int64(5), chunk: Int(statement.int64(6)), used: statement.int64(7)))
            }
            return candidates
        }
    }

    /// Every version of `key` that has blocks on disk.
    func versions(of key: ObjectKey) throws(SQLiteError) -> [ObjectVersion] {
        try database.read { (connection) throws(SQLiteError) in
            let statement = try connection.prepare(
                "SELECT etag, size, modified, modified_nanoseconds FROM files WHERE key = ?")
            try statement.bind(key.bytes)
            var versions: [ObjectVersion] = []
            while try statement.step() {
                let modified = Timestamp(seconds: statement.int64(2), nanoseconds: Int32(clamping: statement.int64(3)))
                versions.append(
                    ObjectVersion(etag: ETag(statement.text(0)), size: statement.int64(1), modified: modified))
            }
            return versions
        }
    }

    /// Bytes of disk that all rows account for, and the newest use.
    func totals() throws(SQLiteError) -> (bytes: Int64, newestUse: Int64) {
        try database.read { (connection) throws(SQLiteError) in
            let statement = try connection.prepare("SELECT SUM(bytes), MAX(used) FROM chunks")
            return try statement.step() ? (statement.int64(0), statement.int64(1)) : (0, 0)
        }
    }

    /// Files that were being written when the last process ended, with the sizes of their objects.
    func unsettled() throws(SQLiteError) -> [(file: StoredFile, size: Int64)] {
        try database.write { (connection) throws(SQLiteError) in
            let statement = try connection.prepare("SELECT id, size, lent FROM files WHERE settled = 0")
            var files: [(file: StoredFile, size: Int64)] = []
            while try statement.step() {
                let id = statement.int64(0)
                files.append(
                    (
                        StoredFile(
                            id: id, isSettled: false, wasLent: statement.int64(2) != 0,
                            chunks: try Self.chunks(of: id, connection)),
                        statement.int64(1)
                    ))
            }
            return files
        }
    }

    /// Runs `remove` if no row has this number. The transaction keeps other callers from taking the number meanwhile.
    func ifUnknown(_ id: Int64, remove: () -> Void) throws(SQLiteError) {
        try database.transaction { (connection) throws(SQLiteError) in
            let statement = try connection.prepare("SELECT 1 FROM files WHERE id = ?")
            try statement.bind(id)
            if try !statement.step() { remove() }
        }
    }

    func isKnown(_ id: Int64) throws(SQLiteError) -> Bool {
        try database.read { (connection) throws(SQLiteError) in
            let statement = try connection.prepare("SELECT 1 FROM files WHERE id = ?")
            try statement.bind(id)
            return try statement.step()
        }
    }

    private static func chunks(of file: Int64, _ connection: Connection) throws(SQLiteError) -> [ChunkRow] {
        let statement = try connection.prepare(
            "SELECT chunk, present, checksums, bytes, used, sums FROM chunks WHERE file = ?")
        try statement.bind(file)
        var rows: [ChunkRow] = []
        while try statement.step() {
            rows.append(
                ChunkRow(
                    chunk: Int(clamping: statement.int64(0)), present: BlockSet(bytes: statement.blob(1)) ?? .empty,
                    checksums: decode(statement.blob(2)), sums: statement.blob(5), bytes: statement.int64(3),
                    used: statement.int64(4)))
        }
        return rows
    }

    private static func encode(_ checksums: [UInt32]) -> [UInt8] {
        checksums.flatMap { value in (0..<4).map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) } }
    }

    private static func decode(_ bytes: [UInt8]) -> [UInt32] {
        (0..<bytes.count / 4).map { index in
            (0..<4).reduce(0) { $0 | UInt32(bytes[index * 4 + $1]) << ($1 * 8) }
        }
    }
}
