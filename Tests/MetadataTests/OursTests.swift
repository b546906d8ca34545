import Basics
import Metadata
import ObjectStorage
import SQLite
import TestSupport
import Testing

@Suite struct OursTests {
    @Test func ourChangesKeepACompleteDirectoryComplete() throws {
        let fixture = try CacheFixture()
        try fixture.list(["a", "b"])
        try fixture.cache.create("c", in: .root, fixture.file("x"), pending: false)
        try fixture.cache.remove(try #require(try fixture.present("a")).ino)
        try fixture.cache.rename(try #require(try fixture.present("b")).ino, to: .root, "e")
        #expect(try fixture.names() == ["c", "e"])
        #expect(try fixture.cache.directory(.root).isFresh)
        for gone in ["a", "b", "d"] as [ByteString] { #expect(try fixture.isAbsent(gone)) }
    }

    @Test func anEntryReadBeforeAnUpdateIsNotCurrent() throws {
        let fixture = try CacheFixture()
        let created = try fixture.cache.create("a", in: .root, fixture.file("x"), pending: true)
        let before = try #require(try fixture.cache.entry(created.ino))
        #expect(fixture.cache.isCurrent(before))
        try fixture.cache.update(created.ino, fixture.file("y"), pending: false)
        #expect(!fixture.cache.isCurrent(before))
        #expect(fixture.cache.isCurrent(try #require(try fixture.cache.entry(created.ino))))
    }

    @Test func aDirectoryHasTheTimeOfWhatCameOrWentInIt() throws {
        let fixture = try CacheFixture()
        var marked = fixture.folder
        marked.version = fixture.version("m", size: 0)
        let ino = try fixture.cache.create("d/", in: .root, marked, pending: false).ino
        let before = try #require(try fixture.cache.entry(ino)?.attributes)
        var file = fixture.file()
        (file.mtime, file.ctime) = (Timestamp(seconds: 1), Timestamp(seconds: 9_000, nanoseconds: 5))
        try fixture.cache.create("a", in: ino, file, pending: true)
        #expect(try fixture.cache.entry(ino)?.attributes == before)
        try fixture.cache.create("b", in: ino, file, pending: true, dating: true)
        var expected = before
        (expected.mtime, expected.ctime) = (file.ctime, file.ctime)
        #expect(try fixture.cache.entry(ino)?.attributes == expected)
        try fixture.cache.date(ino, Timestamp(seconds: 9_001))
        (expected.mtime, expected.ctime) = (Timestamp(seconds: 9_001), Timestamp(seconds: 9_001))
        #expect(try fixture.cache.entry(ino)?.attributes == expected)
        let pending = try fixture.cache.create("p/", in: .root, fixture.folder, pending: true).ino
        try fixture.cache.date(pending, Timestamp(seconds: 9_002))
        #expect(try fixture.cache.entry(pending)?.isPending == true)
    }

    @Test func newDirectoryNeedsNoListing() throws {
        let fixture = try CacheFixture()
        let ino = try fixture.cache.create("d/", in: .root, fixture.folder, pending: true).ino
        #expect(try fixture.cache.directory(ino).isFresh)
        #expect(try fixture.cache.directory(ino).hasMarker == false)
        #expect(try fixture.isAbsent("x", in: ino))
        var marked = fixture.folder
        marked.version = fixture.version("m", size: 0)
        try fixture.cache.update(ino, marked, pending: false)
        #expect(try fixture.cache.directory(ino).hasMarker == true)
    }

    @Test func createRefusesWhatExistsAndWhatDoesNotFit() throws {
        let fixture = try CacheFixture()
        let a = try fixture.cache.create("a", in: .root, fixture.file(), pending: true).ino
        #expect(throws: MetadataError.exists(a)) {
            try fixture.cache.create("a", in: .root, fixture.file(), pending: true)
        }
        #expect(throws: MetadataError.notDirectory(a)) {
            try fixture.cache.create("b", in: a, fixture.file(), pending: true)
        }
        #expect(throws: MetadataError.invalidName) {
            try fixture.cache.create("b/", in: .root, fixture.file(), pending: true)
        }
        #expect(throws: MetadataError.invalidName) {
            try fixture.cache.create("b.rclonelink", in: .root, fixture.file(), pending: true)
        }
    }

    @Test func ownRemovalIsKnownAsLongAsTheListing() throws {
        let fixture = try CacheFixture()
        try fixture.list([])
        fixture.time.advance(by: .seconds(59))
        let ino = try fixture.cache.create("a", in: .root, fixture.file("v"), pending: false).ino
        try fixture.cache.remove(ino)
        #expect(try fixture.isAbsent("a"))
        fixture.time.advance(by: .seconds(60))
        #expect(try fixture.cache.lookup("a", in: .root) == .unknown)
        let start = fixture.cache.beginRequest()
        let back = try fixture.cache.recordRemote("a", in: .root, fixture.file("w"), metadata: nil, since: start)
        #expect(back != nil && back?.ino != ino)
    }

    @Test func ownRemovalDoesNotVouchForADirectoryNeverSeen() throws {
        let fixture = try CacheFixture()
        let ino = try fixture.cache.create("a", in: .root, fixture.file("v"), pending: false).ino
        try fixture.cache.remove(ino)
        #expect(try fixture.cache.lookup("a", in: .root) == .unknown)
    }

    @Test func pendingRemovalStandsUntilSettled() throws {
        let fixture = try CacheFixture()
        try fixture.list(["a", "d/"])
        try fixture.cache.remove(try #require(try fixture.present("a")).ino, pending: true)
        fixture.time.advance(by: .seconds(1000))
        try fixture.list(["a", "d/"])
        #expect(try fixture.isAbsent("a"))
        #expect(try fixture.names() == ["d"])
        try fixture.cache.endRemoval(of: "a", in: .root)
        try fixture.list(["a", "d/"])
        #expect(try fixture.names() == ["a", "d"])
    }

    @Test func answersOfRequestsBegunBeforeOurChangeAreIgnored() throws {
        let fixture = try CacheFixture()
        let start = fixture.cache.beginRequest()
        let a = try fixture.cache.create("a", in: .root, fixture.file("mine"), pending: false)
        let seen = try fixture.cache.recordRemote("a", in: .root, fixture.file("old"), metadata: nil, since: start)
        #expect(seen?.attributes.version?.etag == ETag("mine"))
        try fixture.cache.recordAbsent("a", in: .root, since: start)
        #expect(try fixture.cache.recordGone(a.ino, since: start) == false)
        #expect(try fixture.present("a")?.ino == a.ino)
        try fixture.cache.remove(a.ino)
        #expect(try fixture.cache.recordRemote("a", in: .root, fixture.file("old"), metadata: nil, since: start) == nil)
        #expect(try fixture.present("a") == nil)
    }

    @Test func negativeAnswerCountsForItsOwnTime() throws {
        let fixture = try CacheFixture()
        try fixture.cache.recordAbsent("a", in: .root, since: fixture.cache.beginRequest())
        #expect(try fixture.isAbsent("a"))
        fixture.time.advance(by: .seconds(1))
        #expect(try fixture.cache.lookup("a", in: .root) == .unknown)
    }

    @Test func absenceOfListedDirectoriesCountsForItsOwnTime() throws {
        let fixture = try CacheFixture()
        fixture.cache.absenceTTL = .seconds(2)
        try fixture.list(["a"])
        #expect(try fixture.isAbsent("b"))
        fixture.time.advance(by: .seconds(2))
        #expect(try fixture.cache.lookup("b", in: .root) == .unknown)
        #expect(try fixture.present("a") != nil)
        fixture.cache.absenceTTL = nil
        #expect(try fixture.isAbsent("b"))
    }

    @Test func headersBelongToTheirVersionAlone() throws {
        let fixture = try CacheFixture()
        try fixture.list(["a"])
        let ino = try #require(try fixture.present("a")).ino
        let metadata = ObjectMetadata(contentType: "text/plain", user: ["mode": "33188", "ünï": "ä"])
        #expect(try !fixture.cache.recordHeaders(ino, for: ETag("v0"), fixture.file("v0"), metadata: metadata))
        #expect(try fixture.cache.metadata(of: ino) == nil)
        #expect(try fixture.cache.recordHeaders(ino, for: ETag("v1"), fixture.file("v1"), metadata: metadata))
        #expect(try fixture.cache.metadata(of: ino) == metadata)
        #expect(try fixture.cache.entry(ino)?.attributes.mtime.nanoseconds == 7)
        fixture.time.advance(by: .seconds(61))
        #expect(try fixture.isFresh("a") == false)
        try fixture.cache.recordUnchanged(ino, ETag("v1"), since: fixture.cache.beginRequest())
        #expect(try fixture.isFresh("a") == true)
    }

    @Test func headOfAMarkerGivesTheDirectoryItsAttributes() throws {
        let fixture = try CacheFixture()
        try fixture.list(["d/"])
        let ino = try #require(try fixture.present("d")).ino
        fixture.time.advance(by: .seconds(1))
        var marked = Attributes(kind: .directory, mode: 0o750, mtime: Timestamp(seconds: 5), headersKnown: true)
        marked.version = fixture.version("m", size: 0)
        let start = fixture.cache.beginRequest()
        try fixture.cache.recordRemote("d/", in: .root, marked, metadata: ObjectMetadata(), since: start)
        #expect(try fixture.cache.directory(ino).hasMarker == true)
        let seen = Attributes(kind: .directory, mtime: fixture.time.now())
        fixture.time.advance(by: .seconds(1))
        try fixture.cache.recordRemote("d/", in: .root, seen, metadata: nil, since: fixture.cache.beginRequest())
        #expect(try fixture.cache.entry(ino)?.attributes == marked)
        #expect(try fixture.cache.metadata(of: ino) != nil)
    }

    @Test func renameOfADirectoryTakesItsTreeAlong() throws {
        let fixture = try CacheFixture()
        try fixture.list(["d/", "e/"])
        let d = try #require(try fixture.present("d")).ino
        try fixture.list(["sub/", "x"], in: d)
        let sub = try #require(try fixture.present("sub", in: d)).ino
        try fixture.list(["y"], in: sub)
        let y = try #require(try fixture.present("y", in: sub)).ino
        #expect(try fixture.cache.key(of: y) == "d/sub/y")
        #expect(throws: MetadataError.intoItself) { try fixture.cache.rename(d, to: sub, "d/") }
        #expect(throws: MetadataError.invalidName) { try fixture.cache.rename(d, to: .root, "n") }
        let e = try #require(try fixture.present("e")).ino
        let moved = try fixture.cache.rename(d, to: e, "n/")
        #expect(moved.ino == d && moved.parent == e && moved.name == "n")
        #expect(try fixture.cache.key(of: y) == "e/n/sub/y")
        #expect(try fixture.isAbsent("d"))
        #expect(try fixture.isFresh("y", in: sub) == true)
        #expect(try fixture.isAbsent("z", in: sub))
    }

    @Test func renameReplacesItsTargetAndKeepsTheInode() throws {
        let fixture = try CacheFixture()
        try fixture.list([])
        let a = try fixture.cache.create("a", in: .root, fixture.file(), pending: true).ino
        let b = try fixture.cache.create("b", in: .root, fixture.file("b"), pending: false).ino
        try fixture.cache.rename(a, to: .root, "b")
        #expect(try fixture.present("b")?.ino == a)
        #expect(try fixture.present("b")?.isPending == true)
        #expect(try fixture.cache.entry(b) == nil)
        #expect(try fixture.isAbsent("a"))
    }

    @Test func removedTreeLeavesNothingBehind() throws {
        let fixture = try CacheFixture()
        try fixture.list(["d/"])
        let d = try #require(try fixture.present("d")).ino
        try fixture.list((0..<3000).map { ByteString("f\($0)") } + ["sub/"], in: d)
        let sub = try #require(try fixture.present("sub", in: d)).ino
        try fixture.list(["x", "y"], in: sub)
        let x = try #require(try fixture.present("x", in: sub)).ino
        try fixture.cache.remove(try #require(try fixture.present("y", in: sub)).ino)
        try fixture.cache.remove(d)
        #expect(try fixture.cache.key(of: x) == nil)
        while try !fixture.cache.reap() {}
        for table in CountedTable.allCases { #expect(try table.count(fixture.database) == table.expected, "\(table)") }
    }

    enum CountedTable: CaseIterable {
        case entry, tombstone, directory, orphan
        /// The root, the tombstone of `d/`, the root's listing.
        var expected: Int64 { self == .orphan ? 0 : 1 }
        func count(_ database: Database) throws -> Int64 {
            try database.read { (connection) throws(SQLiteError) in
                let statement =
                    switch self {
                    case .entry: try connection.prepare("SELECT count(*) FROM entry")
                    case .tombstone: try connection.prepare("SELECT count(*) FROM tombstone")
                    case .directory: try connection.prepare("SELECT count(*) FROM directory")
                    case .orphan: try connection.prepare("SELECT count(*) FROM orphan")
                    }
                return try statement.step() ? statement.int64(0) : -1
            }
        }
    }

    @Test func agreedTombstonesGo() throws {
        let fixture = try CacheFixture()
        try fixture.list(["a", "b"])
        try fixture.cache.remove(try #require(try fixture.present("a")).ino)
        let older = try fixture.cache.beginListing(of: .root)
        try fixture.cache.remove(try #require(try fixture.present("b")).ino)
        try older.add(fixture.page(["b"]))
        try older.finish()
        #expect(try CountedTable.tombstone.count(fixture.database) == 1)
        try fixture.list([])
        #expect(try CountedTable.tombstone.count(fixture.database) == 0)
    }

    @Test func pendingEntriesOfADeadProcessGoOrFallBack() throws {
        var fixture = try CacheFixture()
        try fixture.list(["a", "gone"])
        let a = try #require(try fixture.present("a")).ino
        try fixture.cache.create("new", in: .root, fixture.file(), pending: true)
        try fixture.cache.update(a, fixture.file("v1", size: 99), pending: true)
        try fixture.cache.remove(try #require(try fixture.present("gone")).ino, pending: true)
        try fixture.reopen()
        #expect(try fixture.cache.lookup("new", in: .root) == .unknown)
        #expect(try fixture.cache.lookup("gone", in: .root) == .unknown)
        #expect(try fixture.present("a")?.ino == a)
        #expect(try fixture.isFresh("a") == false)
        #expect(try fixture.present("a")?.attributes.size == 99, "the version it started from was that long")
        #expect(try fixture.cache.directory(.root).isComplete == false)
    }

    @Test func pendingEntryThatMovedDoesNotFallBackToAVersionOfItsOldName() throws {
        var fixture = try CacheFixture()
        try fixture.list(["a"])
        let a = try #require(try fixture.present("a")).ino
        try fixture.cache.update(a, fixture.file("v1", size: 99), pending: true)
        try fixture.cache.rename(a, to: .root, "b")
        try fixture.cache.update(a, fixture.file("v1", size: 100), pending: true)
        try fixture.reopen()
        #expect(try fixture.present("b") == nil)
    }

    @Test func inodeNumbersAreNeverGivenOutTwice() throws {
        var fixture = try CacheFixture()
        var seen: Set<InodeNumber> = [.root]
        for round in 0..<5 {
            for index in 0..<10 {
                let entry = try fixture.cache.create(
                    ByteString("\(round)-\(index)"), in: .root, fixture.file(), pending: true)
                #expect(seen.insert(entry.ino).inserted)
                if index.isMultiple(of: 2) { try fixture.cache.remove(entry.ino) }
            }
            try fixture.reopen()
        }
    }

    @Test func invalidationAsksTheStoreAgainAndKeepsOurs() throws {
        let fixture = try CacheFixture()
        try fixture.list(["a", "d/"])
        let d = try #require(try fixture.present("d")).ino
        try fixture.list(["x"], in: d)
        try fixture.cache.create("mine", in: d, fixture.file(), pending: true)
        try fixture.cache.invalidate(try #require(try fixture.present("a")).ino, subtree: false)
        #expect(try fixture.isFresh("a") == false)
        #expect(try fixture.isFresh("d") == true)
        try fixture.cache.invalidate(.root, subtree: true)
        #expect(try fixture.isFresh("d") == false)
        #expect(try fixture.isFresh("x", in: d) == false)
        #expect(try fixture.isFresh("mine", in: d) == true)
        #expect(try fixture.cache.lookup("y", in: d) == .unknown)
        #expect(try !fixture.cache.directory(d).isComplete)
        try fixture.list(["a", "d/"])
        try fixture.list(["x"], in: d)
        #expect(try fixture.isFresh("x", in: d) == true)
        #expect(try fixture.isFresh("a") == true)
    }

    @Test(.timeLimit(.minutes(5))) func invalidationOfADamagedTreeEnds() throws {
        let fixture = try CacheFixture()
        try fixture.list(["d/"])
        let d = try #require(try fixture.present("d")).ino
        try fixture.list(["x", "e/"], in: d)
        let e = try #require(try fixture.present("e", in: d)).ino
        let (upper, lower) = (Int64(d.rawValue), Int64(e.rawValue))
        try fixture.database.run("UPDATE entry SET parent = ?2 WHERE ino = ?1", upper, lower)
        try fixture.cache.invalidate(d, subtree: true)
        #expect(try fixture.isFresh("x", in: d) == false)
    }

    @Test func anotherCodecStartsOverWithNewInodeNumbers() throws {
        var fixture = try CacheFixture()
        try fixture.list(["a.rclonelink"])
        let old = try #require(try fixture.present("a"))
        #expect(old.attributes.kind == .symlink)
        try fixture.reopen(codec: NameCodec(linkSuffix: nil))
        #expect(try fixture.cache.lookup("a", in: .root) == .unknown)
        try fixture.list(["a.rclonelink"])
        #expect(try fixture.present("a.rclonelink")?.attributes.kind == .file)
        #expect(try fixture.present("a.rclonelink")?.ino != old.ino)
    }

    @Test func neighboursTakeTurnsForThePlainName() throws {
        let fixture = try CacheFixture()
        try fixture.list(["a", "a.rclonelink", "a/", "b", "b.rclonelink"])
        #expect(try fixture.names() == ["a%%file", "a%%link", "a", "b", "b%%link"])
        #expect(try fixture.present("a")?.attributes.kind == .directory)
        #expect(try fixture.present("a%%file")?.component == "a")
        #expect(try fixture.present("b%%link")?.component == "b.rclonelink")
        #expect(try fixture.isAbsent("b%%file"))
        #expect(try fixture.cache.component(toCreate: "a%%file", .file, in: .root) == "a")
        #expect(throws: MetadataError.invalidName) {
            try fixture.cache.component(toCreate: "c%%file", .file, in: .root)
        }
        try fixture.cache.remove(try #require(try fixture.present("a")).ino)
        #expect(try fixture.present("a")?.component == "a")
        // A program may have read the name in a listing.
        #expect(try fixture.present("a%%file")?.component == "a")
        for limit in 1...5 {
            var names: [ByteString] = []
            var last: ByteString?
            while let page = Optional(try fixture.cache.children(of: .root, after: last, limit: limit)), !page.isEmpty {
                names += page.map(\.name)
                last = page.last?.component
            }
            #expect(names == ["a", "a%%link", "b", "b%%link"])
        }
        try fixture.cache.remove(try #require(try fixture.present("a")).ino)
        #expect(try fixture.isAbsent("a%%file"))
    }

    @Test func longNamesAreFoundByTheirAbbreviation() throws {
        let fixture = try CacheFixture()
        let long = ByteString(repeatElement(UInt8(ascii: "x"), count: 400))
        let edge = ByteString(repeatElement(UInt8(ascii: "y"), count: 252))
        try fixture.list([long, long + "/", edge])
        let names = try fixture.names()
        #expect(names[2] == edge && names[0].count == 219 && names[0] != names[1])
        for (name, component) in zip(names, [long, long + "/", edge]) {
            #expect(try fixture.present(name)?.component == component)
        }
        #expect(try fixture.cache.key(of: try #require(try fixture.present(names[1])).ino) == long + "/")
        try fixture.cache.create(edge + "/", in: .root, fixture.folder, pending: true)
        let beside = try #require(try fixture.names().first { $0.count == 219 && $0.first == UInt8(ascii: "y") })
        #expect(try fixture.present(beside)?.component == edge)
        #expect(try fixture.present(edge)?.component == edge + "/")
    }

    @Test func rawNamesHideAndCount() throws {
        var fixture = try CacheFixture()
        try fixture.reopen(codec: NameCodec(style: .raw))
        try fixture.list(["/", ".", "a", "a/", "b%%file"])
        #expect(try fixture.names() == ["a", "b%%file"])
        #expect(try fixture.cache.children(of: .root, after: nil, limit: 1).map(\.name) == ["a"])
        #expect(try fixture.cache.hiddenComponents(of: .root, limit: 10) == [".", "/", "a"])
        #expect(try fixture.cache.hiddenCount(of: .root) == 3)
        #expect(try fixture.cache.hasChildren(.root))
    }
}
