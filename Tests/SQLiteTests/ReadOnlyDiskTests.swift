import SQLite
import Synchronization
import TestSupport
import Testing

/// A cache whose disk takes no more writes.
@Suite struct ReadOnlyDiskTests {
    @Test func aCopyTakesThePlaceOfTheFile() throws {
        let directory = try TemporaryDirectory()
        let told = Mutex(0)
        var options = Database.Options()
        options.whenReadOnly = { _ in told.withLock { $0 += 1 } }
        let database = try Database(
            .file(directory.path + "/a.db"), options: options, migrations: ["CREATE TABLE t (a INTEGER)"])
        try database.run("INSERT INTO t VALUES (1)")
        // As SQLite answers on such a disk.
        var isRefused = true
        for value in 2...3 {
            try database.transaction { (connection) throws(SQLiteError) in
                if isRefused {
                    isRefused = false
                    throw SQLiteError(.readOnly, message: "the disk is read-only")
                }
                try connection.run("INSERT INTO t VALUES (?1)", Int64(value))
            }
        }
        let count = try database.read { (connection) throws(SQLiteError) in
            let statement = try connection.prepare("SELECT count(*) FROM t")
            return try statement.step() ? statement.int64(0) : 0
        }
        #expect(count == 3)
        #expect(told.withLock { $0 } == 1)
        database.close()
        // The file is as it was.
        let again = try Database(.file(directory.path + "/a.db"), migrations: ["CREATE TABLE t (a INTEGER)"])
        let kept = try again.read { (connection) throws(SQLiteError) in
            let statement = try connection.prepare("SELECT count(*) FROM t")
            return try statement.step() ? statement.int64(0) : 0
        }
        #expect(kept == 1)
    }
}
