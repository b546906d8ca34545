import Basics
import Foundation
import SQLite
import Synchronization
import TestSupport
import Testing

@Suite struct DatabaseTests {
    let directory: TemporaryDirectory
    var path: String { directory.path("test.db") }

    init() throws { directory = try TemporaryDirectory() }

    func open(readers: Int = 2, schema: [String] = ["CREATE TABLE item (id INTEGER PRIMARY KEY, name BLOB, note TEXT)"])
        throws -> Database
    {
        var options = Database.Options()
        options.readers = readers
        return try Database(.file(path), options: options, migrations: schema)
    }

    func names(_ database: Database) throws -> [Int64] {
        try database.read { (connection) throws(SQLiteError) in
            let statement = try connection.prepare("SELECT id FROM item ORDER BY id")
            var found: [Int64] = []
            while try statement.step() { found.append(statement.int64(0)) }
            return found
        }
    }

    @Test func valuesComeBackAsTheyWereBound() throws {
        let database = try open()
        let name = ByteString([0, 0xff, 0x2f])
        try database.run("INSERT INTO item VALUES (?1, ?2, ?3)", Int64.min, name, "käse\u{0}!")
        try database.read { (connection) throws(SQLiteError) in
            let statement = try connection.prepare("SELECT id, name, note FROM item WHERE name = ?1")
            try statement.bind(name)
            #expect(try statement.step())
            #expect(statement.int64(0) == .min)
            #expect(statement.bytes(1) == name)
            #expect(statement.blob(1) == [0, 0xff, 0x2f])
            #expect(statement.text(2) == "käse\u{0}!")
            #expect(statement.withBlob(1) { $0.byteCount } == 3)
            #expect(try !statement.step())
        }
    }

    @Test func nullAndEmptyDiffer() throws {
        let database = try open()
        try database.write { (connection) throws(SQLiteError) in
            try connection.run("INSERT INTO item VALUES (1, ?1, ?2)", ByteString(""), "")
            try connection.run("INSERT INTO item VALUES (2, ?1, ?2)", ByteString?.none, String?.none)
        }
        try database.read { (connection) throws(SQLiteError) in
            let statement = try connection.prepare("SELECT name, note FROM item ORDER BY id")
            #expect(try statement.step())
            #expect(statement.optionalBlob(0) == [])
            #expect(statement.optionalText(1) == "")
            #expect(try statement.step())
            #expect(statement.optionalBytes(0) == nil)
            #expect(statement.optionalText(1) == nil)
            #expect(statement.optionalInt64(0) == nil)
            #expect(statement.text(1) == "")
        }
    }

    @Test func anErrorRollsTheTransactionBack() throws {
        let database = try open()
        #expect(throws: SQLiteError.self) {
            try database.transaction { (connection) throws(SQLiteError) in
                try connection.run("INSERT INTO item (id) VALUES (1)")
                try connection.run("INSERT INTO item (id) VALUES (1)")
            }
        }
        #expect(try names(database) == [])
    }

    @Test func aBrokenConstraintNamesItself() throws {
        let database = try open()
        let error = try #require(
            throws: SQLiteError.self,
            performing: {
                try database.write { (connection) throws(SQLiteError) in
                    try connection.run("INSERT INTO item (id) VALUES (1)")
                    try connection.run("INSERT INTO item (id) VALUES (1)")
                }
            })
        #expect(error.kind == .constraint)
        #expect(error.code == 19)
        #expect(error.extendedCode == 1555)
        #expect(error.sql == "INSERT INTO item (id) VALUES (1)")
        #expect(error.description.contains("item.id"))
    }

    @Test func aStatementMayBeUsedInsideItself() throws {
        let database = try open()
        try database.write { (connection) throws(SQLiteError) in
            for id in 1...3 { try connection.run("INSERT INTO item (id) VALUES (?1)", Int64(id)) }
        }
        let pairs = try database.read { (connection) throws(SQLiteError) in
            var pairs = 0
            func each(_ body: () throws(SQLiteError) -> Void) throws(SQLiteError) {
                let statement = try connection.prepare("SELECT id FROM item")
                while try statement.step() { try body() }
            }
            try each { () throws(SQLiteError) in try each { pairs += 1 } }
            return pairs
        }
        #expect(pairs == 9)
    }

    @Test func bindingsDoNotLeakIntoTheNextUse() throws {
        let database = try open()
        try database.read { (connection) throws(SQLiteError) in
            for expected in [Int64?.some(7), nil] {
                let statement = try connection.prepare("SELECT ?1")
                if let expected { try statement.bind(expected, at: 1) }
                #expect(try statement.step())
                #expect(statement.optionalInt64(0) == expected)
            }
        }
    }

    @Test func aReaderSeesTheOldStateUntilTheCommit() throws {
        let database = try open()
        try database.transaction { (connection) throws(SQLiteError) in
            try connection.run("INSERT INTO item (id) VALUES (1)")
            let seen = try database.read { (reader) throws(SQLiteError) in
                let statement = try reader.prepare("SELECT count(*) FROM item")
                return try statement.step() ? statement.int64(0) : -1
            }
            #expect(seen == 0)
        }
        #expect(try names(database) == [1])
    }

    @Test func aSnapshotStaysWhileOthersWrite() throws {
        let database = try open()
        try database.read { (reader) throws(SQLiteError) in
            try reader.snapshot { () throws(SQLiteError) in
                func count() throws(SQLiteError) -> Int64 {
                    let statement = try reader.prepare("SELECT count(*) FROM item")
                    return try statement.step() ? statement.int64(0) : -1
                }
                #expect(try count() == 0)
                try database.run("INSERT INTO item (id) VALUES (1)")
                #expect(try count() == 0)
            }
        }
    }

    @Test func readersCannotWrite() throws {
        let database = try open()
        let error = try #require(
            throws: SQLiteError.self,
            performing: {
                try database.read { (connection) throws(SQLiteError) in
                    try connection.run("INSERT INTO item (id) VALUES (1)")
                }
            })
        #expect(error.kind == .readOnly)
    }

    @Test func migrationsRunOnceAndInOrder() throws {
        let first = "CREATE TABLE item (id INTEGER PRIMARY KEY)"
        let second = "INSERT INTO item VALUES (1); INSERT INTO item VALUES (2)"
        try open(schema: [first]).close()
        for _ in 0..<2 {
            let database = try open(schema: [first, second])
            #expect(try names(database) == [1, 2])
            database.close()
        }
    }

    @Test func aFailedMigrationLeavesTheOldSchema() throws {
        let first = "CREATE TABLE item (id INTEGER PRIMARY KEY)"
        try open(schema: [first]).close()
        #expect(throws: SQLiteError.self) { try open(schema: [first, "INSERT INTO item VALUES (1); nonsense"]) }
        #expect(try names(open(schema: [first])) == [])
    }

    @Test func aNewerSchemaIsRefusedWithARemedy() throws {
        try open(schema: ["CREATE TABLE item (id INTEGER)", "CREATE TABLE other (id INTEGER)"]).close()
        let error = try #require(throws: SQLiteError.self, performing: { try open() })
        #expect(error.kind == .newerSchema(found: 2, known: 1))
        #expect(!error.isCorrupt)
        #expect(error.description.contains("newer version"))
    }

    @Test func aFileThatIsNoDatabaseIsCorruptAndCanBeReplaced() throws {
        try Data(repeating: 0x41, count: 8192).write(to: URL(fileURLWithPath: path))
        let error = try #require(throws: SQLiteError.self, performing: { try open() })
        #expect(error.isCorrupt)
        Database.remove(path)
        #expect(try names(open()) == [])
    }

    @Test func aDamagedPageIsCorrupt() throws {
        let database = try open()
        try database.transaction { (connection) throws(SQLiteError) in
            for id in 0..<2000 {
                try connection.run("INSERT INTO item (id, note) VALUES (?1, ?2)", Int64(id), "some text to fill pages")
            }
        }
        database.close()
        let file = try #require(FileHandle(forUpdatingAtPath: path))
        try file.seek(toOffset: 4096 * 2)
        try file.write(contentsOf: Data(repeating: 0xee, count: 4096 * 8))
        try file.close()
        let error = try #require(throws: SQLiteError.self, performing: { _ = try names(open()) })
        #expect(error.isCorrupt)
    }

    @Test func aFullDiskIsVisibleAndTheDatabaseGoesOn() throws {
        let database = try open()
        let error = try #require(
            throws: SQLiteError.self,
            performing: {
                try database.write { (connection) throws(SQLiteError) in
                    // The same code as a full disk gives: the file may not grow past this many pages.
                    try connection.execute("PRAGMA max_page_count = 4")
                    try connection.transaction { () throws(SQLiteError) in
                        for _ in 0..<100 {
                            try connection.run(
                                "INSERT INTO item (name) VALUES (?1)", [UInt8](repeating: 1, count: 4000))
                        }
                    }
                }
            })
        #expect(error.kind == .full)
        #expect(try names(database) == [])
    }

    @Test func damageFoundInUseIsRememberedUntilTheFileIsRemoved() throws {
        var options = Database.Options()
        options.remembersDamage = true
        let schema = ["CREATE TABLE item (id INTEGER PRIMARY KEY, name BLOB)"]
        let database = try Database(.file(path), options: options, migrations: schema)
        for _ in 0..<100 { try database.run("INSERT INTO item (name) VALUES (?1)", [UInt8](repeating: 1, count: 4000)) }
        database.close()
        let file = try File(path, .readWrite)
        try file.write([UInt8](repeating: 0xff, count: 200_000), at: 100_000)
        let damaged = try Database(.file(path), options: options, migrations: schema)
        let error = try #require(throws: SQLiteError.self, performing: { try names(damaged) })
        #expect(error.isCorrupt)
        damaged.close()
        let again = try #require(
            throws: SQLiteError.self,
            performing: { try Database(.file(path), options: options, migrations: schema) })
        #expect(again.isCorrupt)
        Database.remove(path)
        #expect(try names(try Database(.file(path), options: options, migrations: schema)) == [])
    }

    @Test func anotherProgramsDatabaseIsRefused() throws {
        var options = Database.Options()
        options.application = 5
        try open().close()
        // One of ours that is older than the mark.
        try Database(.file(path), options: options, migrations: ["ignored"]).close()
        options.application = 6
        let error = try #require(
            throws: SQLiteError.self,
            performing: { try Database(.file(path), options: options, migrations: ["ignored"]) })
        #expect(error.isCorrupt)
    }

    @Test func aMissingDirectoryIsNamed() throws {
        let error = try #require(
            throws: SQLiteError.self, performing: { try Database(.file(directory.path("none/x.db"))) })
        #expect(error.kind == .cannotOpen)
        #expect(error.description.contains("/none/x.db"))
    }

    @Test func aClosedDatabaseSaysSo() throws {
        let database = try open()
        database.close()
        database.close()
        let error = try #require(throws: SQLiteError.self, performing: { try names(database) })
        #expect(error.kind == .closed)
        let writing = try #require(throws: SQLiteError.self, performing: { try database.write { _ in } })
        #expect(writing.kind == .closed)
    }

    @Test func aDatabaseInMemoryReadsWhatItWrote() throws {
        let database = try Database(.memory, migrations: ["CREATE TABLE item (id INTEGER)"])
        try database.run("INSERT INTO item VALUES (3)")
        #expect(try names(database) == [3])
    }

    @Test func manyThreadsReadAndWriteAtOnce() throws {
        let database = try open(readers: 3)
        let failures = Mutex<[String]>([])
        let done = Semaphore()
        for thread in 0..<8 {
            startThread(name: "test") {
                defer { done.signal() }
                do {
                    for round in 0..<50 {
                        let id = Int64(thread * 1000 + round)
                        try database.run("INSERT INTO item (id) VALUES (?1)", id)
                        let found = try database.read { (connection) throws(SQLiteError) in
                            let statement = try connection.prepare("SELECT id FROM item WHERE id = ?1")
                            try statement.bind(id)
                            return try statement.step()
                        }
                        if !found { failures.withLock { $0.append("\(id) is missing") } }
                    }
                } catch { failures.withLock { $0.append("\(error)") } }
            }
        }
        for _ in 0..<8 { done.wait() }
        #expect(failures.withLock { $0 } == [])
        #expect(try names(database).count == 400)
    }
}
