import Basics
import Glibc
import SQLite
import Synchronization
import TestSupport
import Testing

/// A database whose files another program removes while it is used.
@Suite struct RestoredFileTests {
    let directory: TemporaryDirectory
    var path: String { directory.path("cache/a.db") }

    init() throws {
        directory = try TemporaryDirectory()
        try Directory.create(directory.path("cache"))
    }

    private static let schema = ["CREATE TABLE t (a INTEGER)"]

    private func open() throws -> Database {
        var options = Database.Options()
        (options.readers, options.shrinks, options.application) = (2, true, 7)
        return try Database(.file(path), options: options, migrations: Self.schema)
    }

    private static func count(_ database: Database) throws -> Int64 {
        try database.read { (connection) throws(SQLiteError) in
            let statement = try connection.prepare("SELECT count(*) FROM t")
            return try statement.step() ? statement.int64(0) : 0
        }
    }

    @Test(arguments: ["", "a.db", "a.db-wal"])
    func whatIsRemovedIsMadeAnewWithAllThatItHeld(_ name: String) throws {
        let database = try open()
        try database.run("INSERT INTO t VALUES (1)")
        #expect(database.isInPlace)
        Directory.removeTree(directory.path("cache/" + name))
        #expect(!database.isInPlace)
        try database.run("INSERT INTO t VALUES (2)")
        #expect(try Self.count(database) == 2)
        if name == "" {
            #expect(throws: SQLiteError.self) { try database.restore() }
            try Directory.create(directory.path("cache"))
        }
        try database.restore()
        #expect(database.isInPlace)
        try database.run("INSERT INTO t VALUES (3)")
        #expect(try Self.count(database) == 3)
        database.close()
        let next = try open()
        #expect(try Self.count(next) == 3)
        let leaves = try next.read { (connection) throws(SQLiteError) in
            let statement = try connection.prepare("PRAGMA auto_vacuum")
            return try statement.step() ? statement.int64(0) : 0
        }
        #expect(leaves == 2, "the new file can shrink, too")
        next.close()
    }

    @Test func callsGoOnMeanwhile() async throws {
        let database = try open()
        try database.run("INSERT INTO t VALUES (0)")
        let isOver = Flag()
        let readers = (0..<2).map { _ in
            Task.detached {
                var seen: Int64 = 0
                while !isOver.value.load(ordering: .relaxed) {
                    let now = try Self.count(database)
                    #expect(now >= seen, "no commit is lost")
                    seen = now
                }
            }
        }
        let writer = Task.detached {
            var written: Int64 = 1
            while !isOver.value.load(ordering: .relaxed) {
                try database.run("INSERT INTO t VALUES (1)")
                written += 1
            }
            return written
        }
        for _ in 0..<20 {
            Directory.removeTree(directory.path("cache"))
            try Directory.create(directory.path("cache"))
            try database.restore()
        }
        isOver.value.store(true, ordering: .relaxed)
        for reader in readers { try await reader.value }
        let written = try await writer.value
        #expect(try Self.count(database) == written)
        database.close()
    }

    private final class Flag: Sendable {
        let value = Atomic(false)
    }
}
