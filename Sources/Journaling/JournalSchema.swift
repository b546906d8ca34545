import Basics
import Digests
import FoundationEssentials
import SQLite

/// The journal's tables: a row's facts are JSON in `body`, which sqlite3(1) shows to people, and a line with its CRC-32C:
/// SQLite has no checksums, and a row with a damaged key would look valid. Rows of an earlier version have none.
enum JournalSchema {
    /// "pail" in ASCII, and j.
    static let application: Int32 = 0x7061_696a
    /// Pages that the log grows to before a checkpoint.
    static let longestLog = 256

    static let migrations = [
        """
        CREATE TABLE file (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL) STRICT;
        CREATE TABLE upload (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
        CREATE TABLE part (
            upload INTEGER NOT NULL REFERENCES upload ON DELETE CASCADE, number INTEGER NOT NULL, body TEXT NOT NULL,
            PRIMARY KEY (upload, number)) STRICT, WITHOUT ROWID;
        CREATE TABLE job (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
        CREATE TABLE item (
            job INTEGER NOT NULL REFERENCES job ON DELETE CASCADE, number INTEGER NOT NULL, body TEXT NOT NULL,
            PRIMARY KEY (job, number)) STRICT, WITHOUT ROWID;
        CREATE TABLE headroom (body BLOB) STRICT;
        """,
        """
        CREATE TABLE content (file INTEGER PRIMARY KEY REFERENCES file ON DELETE CASCADE, body BLOB NOT NULL) STRICT;
        """,
        "ALTER TABLE content ADD COLUMN checksum INTEGER",
    ]

    static func apply(_ change: JournalChange, _ connection: Connection) throws(SQLiteError) {
        switch change {
        case .file(let id, let intent):
            try connection.run(
                "INSERT INTO file VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET body = ?2", id.rawValue,
                row(RowText(intent).bytes, id.rawValue))
        case .content(let id, let bytes?):
            try connection.run(
                "INSERT INTO content VALUES (?1, ?2, ?3) ON CONFLICT (file) DO UPDATE SET body = ?2, checksum = ?3",
                id.rawValue, bytes, Int64(checksum(bytes, id.rawValue)))
        case .content(let id, nil): try connection.run("DELETE FROM content WHERE file = ?1", id.rawValue)
        case .endFile(let id): try connection.run("DELETE FROM file WHERE id = ?1", id.rawValue)
        case .upload(let id, let record):
            try connection.run(
                "INSERT INTO upload VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET body = ?2", id.rawValue,
                try encode(record, id.rawValue))
        case .part(let upload, let part):
            // An upload that has ended meanwhile takes no more parts.
            try connection.run(
                """
                INSERT OR REPLACE INTO part SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM upload WHERE id = ?1)
                """, upload.rawValue, Int64(part.number), try encode(part, upload.rawValue, Int64(part.number)))
        case .endUpload(let id): try connection.run("DELETE FROM upload WHERE id = ?1", id.rawValue)
        case .job(let id, let intent, let items):
            try connection.run(
                "INSERT OR REPLACE INTO job VALUES (?1, ?2)", id.rawValue, try encode(intent, id.rawValue))
            for (number, item) in items.enumerated() {
                try connection.run(
                    "INSERT INTO item VALUES (?1, ?2, ?3)", id.rawValue, Int64(number),
                    try encode(item, id.rawValue, Int64(number)))
            }
        case .advance(let id, let intent):
            try connection.run("UPDATE job SET body = ?2 WHERE id = ?1", id.rawValue, try encode(intent, id.rawValue))
        case .endJob(let id): try connection.run("DELETE FROM job WHERE id = ?1", id.rawValue)
        }
    }

    static func contents(_ connection: Connection) throws(SQLiteError) -> JournalContents {
        var contents = JournalContents()
        try rows("SELECT id, 0, body FROM file", connection) { (id, _, body) throws(SQLiteError) in
            contents.files[IntentID(rawValue: id)] = try decode(body, id)
        }
        try rows("SELECT id, 0, body FROM upload", connection) { (id, _, body) throws(SQLiteError) in
            contents.uploads[IntentID(rawValue: id)] = JournalContents.Upload(record: try decode(body, id))
        }
        try rows("SELECT upload, number, body FROM part", connection) { (id, number, body) throws(SQLiteError) in
            contents.uploads[IntentID(rawValue: id)]?.parts[Int(number)] = try decode(body, id, number)
        }
        try rows("SELECT id, 0, body FROM job", connection) { (id, _, body) throws(SQLiteError) in
            contents.jobs[IntentID(rawValue: id)] = JournalContents.Job(intent: try decode(body, id), items: [])
        }
        try rows("SELECT job, number, body FROM item ORDER BY job, number", connection) {
            (id, number, body) throws(SQLiteError) in
            contents.jobs[IntentID(rawValue: id)]?.items.append(try decode(body, id, number))
        }
        return contents
    }

    /// Reads every row, and throws `.corrupt` when one is not as it was written.
    static func check(_ connection: Connection) throws(SQLiteError) {
        try connection.check()
        _ = try contents(connection)
        let statement = try connection.prepare("SELECT file FROM content")
        var files: [IntentID] = []
        while try statement.step() { files.append(IntentID(rawValue: statement.int64(0))) }
        for file in files { _ = try content(of: file, connection) }
    }

    /// The bytes that are kept beside the row of a file.
    static func content(of file: IntentID, _ connection: Connection) throws(SQLiteError) -> [UInt8]? {
        let statement = try connection.prepare("SELECT body, checksum FROM content WHERE file = ?1")
        try statement.bind(file.rawValue, at: 1)
        guard try statement.step() else { return nil }
        let bytes = statement.blob(0)
        guard statement.isNull(1) || statement.int64(1) == Int64(checksum(bytes, file.rawValue)) else {
            throw SQLiteError(
                .corrupt, message: "the bytes kept for file \(file.rawValue) do not match their checksum")
        }
        return bytes
    }

    /// The rows that can be read, in the tables' order and, after a damaged place, in the reverse order.
    static func salvage(_ connection: Connection) -> (JournalContents, small: [IntentID: [UInt8]], lost: [String]) {
        var contents = JournalContents()
        var small: [IntentID: [UInt8]] = [:]
        var lost: Set<String> = []
        func take(
            _ what: String, _ sql: StaticString, _ body: (Int64, Int64, [UInt8]) throws(SQLiteError) -> Void
        ) {
            do throws(SQLiteError) {
                try rows(sql, connection) { (id, number, text) throws(SQLiteError) in
                    do throws(SQLiteError) { try body(id, number, text) } catch {
                        lost.insert("\(what) \(id): \(error.message)")
                    }
                }
            } catch { lost.insert("\(what)s: \(error.message)") }
        }
        func file(_ id: Int64, _ number: Int64, _ body: [UInt8]) throws(SQLiteError) {
            contents.files[IntentID(rawValue: id)] = try decode(body, id)
        }
        func upload(_ id: Int64, _ number: Int64, _ body: [UInt8]) throws(SQLiteError) {
            contents.uploads[IntentID(rawValue: id)] = JournalContents.Upload(record: try decode(body, id))
        }
        func job(_ id: Int64, _ number: Int64, _ body: [UInt8]) throws(SQLiteError) {
            contents.jobs[IntentID(rawValue: id)] = JournalContents.Job(intent: try decode(body, id), items: [])
        }
        take("file", "SELECT id, 0, body FROM file ORDER BY id", file)
        take("file", "SELECT id, 0, body FROM file ORDER BY id DESC", file)
        take("upload", "SELECT id, 0, body FROM upload ORDER BY id", upload)
        take("upload", "SELECT id, 0, body FROM upload ORDER BY id DESC", upload)
        take("job", "SELECT id, 0, body FROM job ORDER BY id", job)
        take("job", "SELECT id, 0, body FROM job ORDER BY id DESC", job)
        // By the numbers of the files: even where the table cannot be scanned, some of its rows may be found.
        for id in contents.files.keys {
            do throws(SQLiteError) { small[id] = try content(of: id, connection) } catch {
                lost.insert("the small content of file \(id.rawValue): \(error.message)")
            }
        }
        return (contents, small, lost.sorted())
    }

    /// The jobs, and the number of items of each.
    static func jobs(
        _ connection: Connection
    ) throws(SQLiteError) -> [(id: IntentID, intent: JobIntent, items: Int)] {
        var jobs: [(id: IntentID, intent: JobIntent, items: Int)] = []
        try rows(
            "SELECT id, (SELECT count(*) FROM item WHERE job = id), body FROM job ORDER BY id", connection
        ) { (id, items, body) throws(SQLiteError) in
            jobs.append((IntentID(rawValue: id), try decode(body, id), Int(items)))
        }
        return jobs
    }

    /// Makes the log as long as it gets between two checkpoints, and the file as much longer, so that on a full disk rows can
    /// still be ended and files removed. The log keeps its length, and checkpoints start it over (sqlite.org/wal.html,
    /// section 2.3).
    static func takeHeadroom(_ connection: Connection) throws(SQLiteError) {
        try connection.synchronise(.normal)
        try connection.execute(
            """
            INSERT INTO headroom VALUES (zeroblob(\(300 * 4096)));
            DELETE FROM headroom;
            """)
    }

    /// The highest number that any file ever had, and the highest number of all rows in use.
    static func numbers(_ connection: Connection) throws(SQLiteError) -> (file: Int64, any: Int64) {
        let statement = try connection.prepare(
            """
            SELECT file, max(file, ifnull((SELECT max(id) FROM upload), 0), ifnull((SELECT max(id) FROM job), 0))
            FROM (SELECT ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'file'), 0) AS file)
            """)
        return try statement.step() ? (statement.int64(0), statement.int64(1)) : (0, 0)
    }

    private static func rows(
        _ sql: StaticString, _ connection: Connection,
        _ body: (Int64, Int64, [UInt8]) throws(SQLiteError) -> Void
    ) throws(SQLiteError) {
        let statement = try connection.prepare(sql)
        while try statement.step() {
            try body(statement.int64(0), statement.int64(1), Array(statement.text(2).utf8))
        }
    }

    /// The checksum of a row's content and of its place.
    private static func checksum(_ bytes: [UInt8], _ id: Int64, _ number: Int64 = 0) -> UInt32 {
        var crc = CRC32C()
        crc.update(bytes)
        crc.update(Array(" \(id) \(number)".utf8))
        return crc.value
    }

    private static func encode(_ value: some Encodable, _ id: Int64, _ number: Int64 = 0) throws(SQLiteError) -> String
    {
        do { return row(Array(try JSONEncoder().encode(value)), id, number) } catch {
            throw SQLiteError(.misuse, message: "a journal row cannot be written: \(error)")
        }
    }

    private static func row(_ facts: [UInt8], _ id: Int64, _ number: Int64 = 0) -> String {
        String(decoding: facts, as: UTF8.self) + "\n" + String(checksum(facts, id, number), radix: 16)
    }

    private static func decode<Value: Decodable>(_ body: [UInt8], _ id: Int64, _ number: Int64 = 0) throws(SQLiteError)
        -> Value
    {
        // This program's JSON is one line.
        let facts = body.prefix { $0 != UInt8(ascii: "\n") }
        if facts.count < body.count {
            let sum = String(checksum(Array(facts), id, number), radix: 16)
            guard body.dropFirst(facts.count + 1).elementsEqual(sum.utf8) else {
                throw SQLiteError(.corrupt, message: "a journal row does not match its checksum")
            }
        }
        do { return try JSONDecoder().decode(Value.self, from: Data(facts)) } catch {
            throw SQLiteError(.corrupt, message: "a journal row cannot be read: \(error)")
        }
    }
}
