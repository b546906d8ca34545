import Basics
import Metadata
import ObjectStorage
import SQLite
import TestSupport
import Testing

/// What is known of names stays within its share of the disk, and nothing that matters is forgotten for it.
@Suite(.timeLimit(.minutes(2))) struct TrimmingTests {
    private static let share: Int64 = 8 << 20

    private func longName(_ number: Int) -> ByteString {
        ByteString("\(number)-" + String(repeating: "n", count: 200))
    }

    /// Lists directories of 1,000 files with long names, one after the other. Answers their inode numbers.
    private func walk(_ fixture: CacheFixture, _ directories: Range<Int>) throws -> [InodeNumber] {
        try fixture.list(directories.map { ByteString("d\($0)/") })
        return try directories.map { number in
            let directory = try #require(try fixture.present(ByteString("d\(number)"))).ino
            try fixture.list((0..<1000).map(longName), in: directory)
            fixture.time.advance(by: .seconds(1))
            return directory
        }
    }

    @Test(.rule("space.bound")) func aWalkThroughMoreThanFitsTakesNoMoreThanItsShare() throws {
        let fixture = try CacheFixture(ttl: .seconds(3600))
        fixture.cache.limit = Self.share
        let directories = try walk(fixture, 0..<60)
        // What was learned in the last ten seconds is 4 MB.
        #expect(try fixture.database.size().file <= Self.share + (2 << 20))
        // The newest are all there; the oldest are asked for again.
        let newest = try #require(directories.last)
        #expect(try fixture.names(newest).count == 1000)
        #expect(try fixture.cache.directory(newest).isFresh)
        #expect(try fixture.cache.lookup(longName(1), in: directories[0]) == .unknown)
        #expect(try !fixture.cache.directory(directories[0]).isComplete)
        #expect(try fixture.names().count == 60)
        // And learned.
        try fixture.list((0..<1000).map(longName), in: directories[0])
        #expect(try fixture.names(directories[0]).count == 1000)
    }

    @Test func whatIsNotStoredOrInUseStays() throws {
        let fixture = try CacheFixture(ttl: .seconds(3600))
        let first = try walk(fixture, 0..<3)
        let open = try #require(try fixture.present(longName(5), in: first[0]))
        let pending = try fixture.cache.create("pending", in: first[0], fixture.file(), pending: true)
        fixture.cache.attach(openInodes: { [open.ino, first[1]] })
        fixture.time.advance(by: .seconds(55))
        let stored = try fixture.cache.create("stored", in: first[0], fixture.file("mine"), pending: false)
        fixture.time.advance(by: .seconds(5))
        fixture.cache.limit = 1 << 20
        while try fixture.cache.trim(inNeed: true) {}
        #expect(try Set(fixture.names(first[0])) == [open.name, pending.name, stored.name])
        // A file that was stored is known to the bucket.
        fixture.time.advance(by: .seconds(20))
        while try fixture.cache.trim(inNeed: true) {}
        #expect(try Set(fixture.names(first[0])) == [open.name, pending.name])
        #expect(try fixture.names(first[1]).count == 1000)
        #expect(try fixture.names(first[2]).isEmpty)
        #expect(try fixture.cache.entry(open.ino) != nil)
    }

    @Test func aDirectoryThatIsBeingListedStays() throws {
        let fixture = try CacheFixture(ttl: .seconds(3600))
        let directory = try walk(fixture, 0..<1)[0]
        let ingest = try fixture.cache.beginListing(of: directory)
        try ingest.add(try fixture.page((0..<500).map(longName).sorted(), in: directory, isLast: false))
        fixture.time.advance(by: .seconds(60))
        fixture.cache.limit = 1
        while try fixture.cache.trim() {}
        #expect(try fixture.names(directory).count >= 500)
    }

    /// One directory that does not fit. Its only reader has what came before the last page, or there are others.
    @Test(.rule("space.bound"), arguments: [true, false])
    func whatWasHandedOutIsForgottenWhileTheListingComesIn(isAlone: Bool) throws {
        let fixture = try CacheFixture(ttl: .seconds(3600))
        let directory = try walk(fixture, 0..<1)[0]
        fixture.cache.limit = 1 << 20
        fixture.cache.attach(openInodes: { [directory] })
        let names = (0..<40_000).map(longName).sorted()
        let ingest = try fixture.cache.beginListing(of: directory)
        var largest: Int64 = 0
        for start in stride(from: 0, to: names.count, by: 1000) {
            let isLast = start + 1000 == names.count
            try ingest.add(try fixture.page(Array(names[start..<start + 1000]), in: directory, isLast: isLast))
            if isAlone { ingest.release(before: names[start]) }
            fixture.time.advance(by: .seconds(1))
            largest = max(largest, try fixture.database.size().file)
        }
        // Twice the limit, what is free for new rows, and what comes in within a second or two.
        #expect(isAlone ? largest < 6 << 20 : largest > 12 << 20, "\(largest) bytes")
        #expect((ingest.forgotten != nil) == isAlone)
        try ingest.finish()
        // What was forgotten is not taken for what the store has not.
        #expect(try fixture.cache.directory(directory).isComplete == !isAlone)
        #expect(try (fixture.cache.lookup(names[0], in: directory) == .unknown) == isAlone)
        #expect(try (fixture.cache.lookup("missing", in: directory) == .unknown) == isAlone)
        #expect(try fixture.present(names[names.count - 1], in: directory) != nil)
    }

    @Test func aSmallerShareGivesSpaceBack() throws {
        let fixture = try CacheFixture(ttl: .seconds(3600))
        _ = try walk(fixture, 0..<30)
        fixture.time.advance(by: .seconds(60))
        let before = try fixture.database.size().file
        fixture.cache.limit = 2 << 20
        while try fixture.cache.trim() {}
        let after = try fixture.database.size().file
        #expect(before > 8 << 20 && after <= 4 << 20, "\(before) bytes before, \(after) after")
    }

    @Test func removalsThatEveryListingKnowsOfGoAsWell() throws {
        let fixture = try CacheFixture(ttl: .seconds(1))
        var files: [InodeNumber] = []
        for number in 0..<3000 {
            files.append(try fixture.cache.create(longName(number), in: .root, fixture.file("v"), pending: false).ino)
        }
        for file in files.dropLast() { try fixture.cache.remove(file) }
        if let last = files.last { try fixture.cache.remove(last, pending: true) }
        fixture.time.advance(by: .seconds(60))
        fixture.cache.limit = 1
        while try fixture.cache.trim(inNeed: true) {}
        let size = try fixture.database.size()
        #expect(size.file - size.free < 200_000, "\(size)")
        try fixture.list([longName(1), longName(2999)])
        #expect(try fixture.names() == [longName(1)], "the other is still to be removed")
    }

    /// One that was made before files could be made shorter.
    @Test func anOldFileBecomesOneThatGetsShorter() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("old.db")
        let old = try Database(.file(path), migrations: MetadataCache.migrations)
        try old.write { (connection) throws(SQLiteError) in
            try connection.execute("CREATE TABLE filler (body BLOB)")
            try connection.execute("INSERT INTO filler VALUES (zeroblob(12000000)); DELETE FROM filler")
        }
        try old.shrink(by: 8 << 20)
        #expect(try old.size().file > 8 << 20, "it cannot")
        let fixed = try MetadataCache(database: old, time: ManualTime(), ttl: .seconds(60))
        fixed.limit = 1 << 20
        #expect(try !fixed.trim(inNeed: true), "nor does who waits for that wait for ever")
        old.close()
        var options = Database.Options()
        options.shrinks = true
        let new = try Database(.file(path), options: options, migrations: MetadataCache.migrations)
        try new.write { (connection) throws(SQLiteError) in
            try connection.execute("INSERT INTO filler VALUES (zeroblob(12000000)); DELETE FROM filler")
        }
        try new.shrink(by: 8 << 20)
        #expect(try new.size().file < 8 << 20)
        new.close()
    }

    /// Without a limit nothing is forgotten, and there is nothing to do.
    @Test func withinItsShareNothingGoes() throws {
        let fixture = try CacheFixture(ttl: .seconds(3600))
        let directories = try walk(fixture, 0..<3)
        fixture.time.advance(by: .seconds(60))
        #expect(try !fixture.cache.trim())
        for directory in directories { #expect(try fixture.names(directory).count == 1000) }
    }
}
