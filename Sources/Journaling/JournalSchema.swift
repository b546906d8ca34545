import Basics
import FoundationEssentials
import SQLite

/// The journal's tables: a row's facts are JSON in `body`, which sqlite3(1) shows to people.
enum JournalSchema {
    /// "pail" in ASCII, and j.
    static let application: Int32 = 0x7061_696a
    /// Pages that the log grows to before it is moved to the file.
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
    ]

    static func apply(_ change: JournalChange, _ connection: Connection) throws(SQLiteError) {
        switch change {
        case .file(let id, let intent):
            try connection.run(
                "INSERT INTO file VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET body = ?2", id.rawValue,
                try encode(intent))
        case .content(let id, let bytes?):
            try connection.run(
                "INSERT INTO content VALUES (?1, ?2) ON CONFLICT (file) DO UPDATE SET body = ?2", id.rawValue, bytes)
        case .content(let id, nil): try connection.run("DELETE FROM content WHERE file = ?1", id.rawValue)
        case .endFile(let id): try connection.run("DELETE FROM file WHERE id = ?1", id.rawValue)
        case .upload(let id, let record):
            try connection.run(
                "INSERT INTO upload VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET body = ?2", id.rawValue,
                try encode(record))
        case .part(let upload, let part):
            // An upload that has ended meanwhile takes no more parts.
            try connection.run(
                """
                INSERT OR REPLACE INTO part SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM upload WHERE id = ?1)
                """, upload.rawValue, Int64(part.number), try encode(part))
        case .endUpload(let id): try connection.run("DELETE FROM upload WHERE id = ?1", id.rawValue)
        case .job(let id, let intent, let items):
            try connection.run("INSERT OR REPLACE INTO job VALUES (?1, ?2)", id.rawValue, try encode(intent))
            for (number, item) in items.enumerated() {
                try connection.run(
                    "INSERT INTO item VALUES (?1, ?2, ?3)", id.rawValue, Int64(number), try encode(item))
            }
        case .advance(let id, let intent):
            try connection.run("UPDATE job SET body = ?2 WHERE id = ?1", id.rawValue, try encode(intent))
        case .endJob(let id): try connection.run("DELETE FROM job WHERE id = ?1", id.rawValue)
        }
    }

    static func contents(_ connection: Connection) throws(SQLiteError) -> JournalContents {
        var contents = JournalContents()
        try rows("SELECT id, 0, body FROM file", connection) { (id, _, body) throws(SQLiteError) in
            contents.files[IntentID(rawValue: id)] = try decode(body)
        }
        try rows("SELECT id, 0, body FROM upload", connection) { (id, _, body) throws(SQLiteError) in
            contents.uploads[IntentID(rawValue: id)] = JournalContents.Upload(record: try decode(body))
        }
        try rows("SELECT upload, number, body FROM part", connection) { (id, number, body) throws(SQLiteError) in
            contents.uploads[IntentID(rawValue: id)]?.parts[Int(number)] = try decode(body)
        }
        try rows("SELECT id, 0, body FROM job", connection) { (id, _, body) throws(SQLiteError) in
            contents.jobs[IntentID(rawValue: id)] = JournalContents.Job(intent: try decode(body), items: [])
        }
        try rows("SELECT job, number, body FROM item ORDER BY job, number", connection) {
            (id, _, body) throws(SQLiteError) in
            contents.jobs[IntentID(rawValue: id)]?.items.append(try decode(body))
        }
        return contents
    }

    /// The bytes that are kept beside the row of a file.
    static func content(of file: IntentID, _ connection: Connection) throws(SQLiteError) -> [UInt8]? {
        let statement = try connection.prepare("SELECT body FROM content WHERE file = ?1")
        try statement.bind(file.rawValue, at: 1)
        return try statement.step() ? statement.blob(0) : nil
    }

    /// The rows that can be read, in the tables' order and, from where that breaks off, against it.
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
            contents.files[IntentID(rawValue: id)] = try decode(body)
        }
        func upload(_ id: Int64, _ number: Int64, _ body: [UInt8]) throws(SQLiteError) {
            contents.uploads[IntentID(rawValue: id)] = JournalContents.Upload(record: try decode(body))
        }
        func job(_ id: Int64, _ number: Int64, _ body: [UInt8]) throws(SQLiteError) {
            contents.jobs[IntentID(rawValue: id)] = JournalContents.Job(intent: try decode(body), items: [])
        }
        take("file", "SELECT id, 0, body FROM file ORDER BY id", file)
        take("file", "SELECT id, 0, body FROM file ORDER BY id DESC", file)
        take("upload", "SELECT id, 0, body FROM upload ORDER BY id", upload)
        take("upload", "SELECT id, 0, body FROM upload ORDER BY id DESC", upload)
        take("job", "SELECT id, 0, body FROM job ORDER BY id", job)
        take("job", "SELECT id, 0, body FROM job ORDER BY id DESC", job)
        // By the files' numbers: where the table cannot be walked, some of it may still be found.
        for id in contents.files.keys {
            do throws(SQLiteError) { small[id] = try content(of: id, connection) } catch {
                lost.insert("the bytes beside file \(id.rawValue): \(error.message)")
            }
        }
        return (contents, small, lost.sorted())
    }

    /// The jobs, and how many items each has.
    static func jobs(
        _ connection: Connection
    ) throws(SQLiteError) -> [(id: IntentID, intent: JobIntent, items: Int)] {
        var jobs: [(id: IntentID, intent: JobIntent, items: Int)] = []
        try rows(
            "SELECT id, (SELECT count(*) FROM item WHERE job = id), body FROM job ORDER BY id", connection
        ) { (id, items, body) throws(SQLiteError) in
            jobs.append((IntentID(rawValue: id), try decode(body), Int(items)))
        }
        return jobs
    }

    /// Makes the log as long as it gets between two checkpoints, and the file as much, so that on a full disk rows can
    /// still be ended and files removed. The log keeps its length, and checkpoints start it over (sqlite.org/wal.html,
    /// section 2.3).
    static func takeHeadroom(_ connection: Connection) throws(SQLiteError) {
        try connection.execute(
            """
            PRAGMA synchronous = NORMAL;
            INSERT INTO headroom VALUES (zeroblob(\(300 * 4096)));
            DELETE FROM headroom;
            """)
    }

    /// The highest number that any file ever had, and the highest of all in use.
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

    private static func encode(_ value: some Encodable) throws(SQLiteError) -> String {
        do { return String(decoding: try JSONEncoder().encode(value), as: UTF8.self) } catch {
            throw SQLiteError(.misuse, message: "a journal row cannot be written: \(error)")
        }
    }

    private static func decode<Value: Decodable>(_ body: [UInt8]) throws(SQLiteError) -> Value {
        do { return try JSONDecoder().decode(Value.self, from: Data(body)) } catch {
            throw SQLiteError(.corrupt, message: "a journal row cannot be read: \(error)")
        }
    }
}
