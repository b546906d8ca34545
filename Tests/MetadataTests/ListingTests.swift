import Basics
import Metadata
import ObjectStorage
import TestSupport
import Testing

@Suite struct ListingTests {
    @Test func completeListingAnswersNamesWithinItsTTL() throws {
        let fixture = try CacheFixture()
        #expect(try fixture.cache.lookup("a", in: .root) == .unknown)
        try fixture.list(["a", "d/", "z"])
        #expect(try fixture.isFresh("a") == true)
        #expect(try fixture.present("d")?.attributes.kind == .directory)
        #expect(try fixture.isAbsent("b"))
        #expect(try fixture.cache.directory(.root).isFresh)
        fixture.time.advance(by: .seconds(60))
        #expect(try fixture.isFresh("a") == false)
        #expect(try fixture.cache.lookup("b", in: .root) == .unknown)
        #expect(try fixture.cache.directory(.root).isComplete)
        #expect(try !fixture.cache.directory(.root).isFresh)
    }

    /// Whoever asks while the page with the name is taken in.
    @Test func aNameThatAListingBringsIsAbsentAtNoTime() async throws {
        let fixture = try CacheFixture()
        let names = (0..<400).map { ByteString("\($0)/") }
        try fixture.list(names)
        for name in names {
            let directory = try #require(try fixture.present(name.dropLast(1))).ino
            async let asked = {
                while true {
                    switch try fixture.cache.lookup("a", in: directory) {
                    case .unknown: continue
                    case .absent: return false
                    case .present: return true
                    }
                }
            }()
            try fixture.list(["a"], in: directory)
            let isPresent = try await asked
            #expect(isPresent, "\(name)")
        }
    }

    @Test func freshnessSurvivesARemount() throws {
        var fixture = try CacheFixture()
        try fixture.list(["a", "d/"])
        let ino = try fixture.present("a")?.ino
        fixture.time.advance(by: .seconds(59))
        try fixture.reopen()
        #expect(try fixture.isFresh("a") == true)
        #expect(try fixture.present("a")?.ino == ino)
        #expect(try fixture.isAbsent("b"))
    }

    @Test(arguments: [true, false])
    func aBootThatDidNotEndInOrderLeavesNothingFresh(isOrderly: Bool) throws {
        var fixture = try CacheFixture()
        try fixture.reopen(boot: "one")
        try fixture.list(["a", "d/"])
        let ino = try fixture.present("a")?.ino
        if isOrderly { try fixture.cache.endInOrder() }
        fixture.time.advance(by: .seconds(1))
        try fixture.reopen(boot: "two")
        #expect(try fixture.isFresh("a") == isOrderly)
        #expect(try fixture.present("a")?.ino == ino)
        #expect(try fixture.cache.directory(.root).isFresh == isOrderly)
        // What is learned from now on counts, also for the process after this one.
        fixture.time.advance(by: .seconds(1))
        try fixture.list(["a", "d/"])
        #expect(try fixture.isFresh("a") == true)
        try fixture.reopen(boot: "two")
        #expect(try fixture.isFresh("a") == true)
    }

    @Test func ttlOfZeroNeverTrustsButKeepsKnowledge() throws {
        let fixture = try CacheFixture(ttl: .zero)
        try fixture.list(["a"])
        #expect(try fixture.isFresh("a") == false)
        #expect(try fixture.cache.lookup("b", in: .root) == .unknown)
        let entry = try fixture.cache.create("mine", in: .root, fixture.file(), pending: true)
        #expect(entry.isPending)
        #expect(try fixture.isFresh("mine") == true)
    }

    @Test func answersTellUntilWhenTheyCount() throws {
        let fixture = try CacheFixture()
        let start = fixture.time.now()
        try fixture.list(["a"])
        fixture.time.advance(by: .seconds(10))
        #expect(try fixture.present("a")?.freshUntil == start + .seconds(60))
        #expect(try fixture.cache.lookup("b", in: .root) == .absent(freshUntil: start + .seconds(60)))
        #expect(try fixture.cache.directory(.root).freshUntil == start + .seconds(60))
    }

    @Test func aClockThatIsSetBackFreezesNoDirectory() throws {
        let fixture = try CacheFixture()
        try fixture.list(["a", "b", "c"])
        fixture.time.setWallClock(fixture.time.now() + .seconds(-86_400))
        #expect(try !fixture.cache.directory(.root).isFresh)
        #expect(try fixture.isFresh("a") == false)
        let start = fixture.cache.beginRequest()
        let c = try fixture.cache.recordRemote("c", in: .root, fixture.file("v2"), metadata: nil, since: start)
        #expect(c?.attributes.version?.etag == ETag("v2"))
        #expect(try fixture.isFresh("c") == true)
        try fixture.list(["a", "d"])
        #expect(try fixture.names() == ["a", "d"])
        #expect(try fixture.cache.directory(.root).isFresh)
        #expect(try fixture.isFresh("a") == true)
        #expect(try fixture.isAbsent("b"))
    }

    @Test(arguments: [Duration.zero, .seconds(60)])
    func aMissingNameIsBelievedNoLongerThanAnythingElse(ttl: Duration) throws {
        let fixture = try CacheFixture(ttl: ttl)
        try fixture.cache.recordAbsent("a", in: .root, since: fixture.cache.beginRequest())
        #expect(try fixture.isAbsent("a") == (ttl > .zero))
    }

    @Test func relistingKeepsInodesUpdatesVersionsAndDropsWhatIsGone() throws {
        let fixture = try CacheFixture()
        try fixture.list(["a", "b", "c", "d/"])
        let before = try fixture.cache.children(of: .root, after: nil, limit: 10)
        #expect(
            try fixture.cache.recordHeaders(
                before[0].ino, for: ETag("v1"), fixture.file("v1"), metadata: ObjectMetadata(contentType: "text/plain"))
        )
        fixture.time.advance(by: .seconds(61))
        try fixture.list(["a", "c", "d/"])
        let after = try fixture.cache.children(of: .root, after: nil, limit: 10)
        #expect(after.map(\.ino) == [before[0].ino, before[2].ino, before[3].ino])
        #expect(after[0].attributes.mode == 0o640)
        #expect(try fixture.cache.metadata(of: before[0].ino)?.contentType == "text/plain")
        #expect(try fixture.cache.entry(before[1].ino) == nil)
        fixture.time.advance(by: .seconds(61))
        try fixture.list(["a", "c", "d/"], etag: "v2")
        let changed = try fixture.cache.entry(before[0].ino)?.attributes
        #expect(changed?.version?.etag == ETag("v2"))
        #expect(changed?.mode == nil && changed?.headersKnown == false)
        #expect(try fixture.cache.metadata(of: before[0].ino) == nil)
    }

    @Test func pagesCoverTheirRangeAndBreakingOffMarksNothingComplete() throws {
        let fixture = try CacheFixture()
        try fixture.list(["a", "b", "m", "z"])
        fixture.time.advance(by: .seconds(61))
        let ingest = try fixture.cache.beginListing(of: .root)
        #expect(ingest.frontier == "")
        try ingest.add(fixture.page(["a", "c", "k/"], isLast: false))
        #expect(try fixture.names() == ["a", "c", "k", "m", "z"])
        #expect(try fixture.isFresh("a") == true, "what the page covered is fresh while the listing runs")
        #expect(try fixture.isAbsent("b"))
        #expect(try fixture.isFresh("m") == false)
        #expect(try fixture.cache.lookup("n", in: .root) == .unknown)
        try ingest.finish()
        #expect(try !fixture.cache.directory(.root).isFresh)
        try ingest.add(fixture.page(["n"]))
        #expect(ingest.frontier == nil)
        try ingest.finish()
        #expect(try fixture.names() == ["a", "c", "k", "n"])
        #expect(try fixture.cache.directory(.root).isFresh)
    }

    @Test func emptyPageBeforeTheLastTellsNothing() throws {
        let fixture = try CacheFixture()
        try fixture.list(["a"])
        fixture.time.advance(by: .seconds(61))
        let ingest = try fixture.cache.beginListing(of: .root)
        try ingest.add(ListingPage(next: ListingCursor("x")))
        #expect(try fixture.names() == ["a"])
        try ingest.add(ListingPage())
        try ingest.finish()
        #expect(try fixture.names() == [])
    }

    @Test func prefixRepeatedOnTheNextPageIsOneDirectory() throws {
        let fixture = try CacheFixture()
        let ingest = try fixture.cache.beginListing(of: .root)
        try ingest.add(fixture.page(["a", "d/"], isLast: false))
        let ino = try fixture.present("d")?.ino
        try ingest.add(fixture.page(["d/", "d0", "e"]))
        try ingest.finish()
        #expect(try fixture.names() == ["a", "d", "d0", "e"])
        #expect(try fixture.present("d")?.ino == ino)
    }

    @Test func frontierWaitsForTheDirectoryThatCouldTakeTheName() throws {
        let fixture = try CacheFixture()
        let ingest = try fixture.cache.beginListing(of: .root)
        try ingest.add(fixture.page(["Z", "a", "a-1", "a-2"], isLast: false))
        #expect(ingest.frontier == "a")
        try ingest.add(fixture.page(["a-3", "a.rclonelink", "a.txt"], isLast: false))
        #expect(ingest.frontier == "a")
        try ingest.add(fixture.page(["a/", "a0"], isLast: false))
        #expect(ingest.frontier == "a0", "a0/ may come")
        #expect(try fixture.names() == ["Z", "a%%file", "a-1", "a-2", "a-3", "a%%link", "a.txt", "a", "a0"])
        let final = try fixture.cache.children(of: .root, after: "a.txt", before: ingest.frontier, limit: 9)
        #expect(final.map(\.name) == ["a"])
    }

    @Test func markerOfADirectoryIsNoEntryUnlessItHasBytes() throws {
        let fixture = try CacheFixture()
        try fixture.list(["d/"])
        let ino = try #require(try fixture.present("d")?.ino)
        #expect(try fixture.cache.directory(ino).hasMarker == nil)
        try fixture.list(["", "x"], in: ino)
        #expect(try fixture.cache.directory(ino).hasMarker == true)
        #expect(try fixture.names(ino) == ["x"])
        #expect(try fixture.present("d")?.attributes.version?.etag == ETag("v1"))
        fixture.time.advance(by: .seconds(61))
        let ingest = try fixture.cache.beginListing(of: ino)
        let own = ListedObject(key: ObjectKey("d/"), version: fixture.version("full", size: 9))
        try ingest.add(ListingPage(objects: [own]))
        try ingest.finish()
        #expect(try fixture.names(ino) == ["%%file"])
        #expect(try fixture.present("%%file", in: ino)?.attributes.size == 9)
        #expect(try fixture.cache.key(of: try #require(try fixture.present("%%file", in: ino)).ino) == "d/")
        #expect(try fixture.cache.directory(ino).hasMarker == false)
        #expect(try fixture.present("d")?.attributes.version == nil)
    }

    @Test func oursStandsAgainstAnOlderListingAndYieldsToANewerOne() throws {
        let fixture = try CacheFixture()
        try fixture.list(["a", "b", "c"])
        let older = try fixture.cache.beginListing(of: .root)
        let a = try #require(try fixture.present("a")).ino
        let b = try #require(try fixture.present("b")).ino
        try fixture.cache.update(a, fixture.file("mine"), pending: false)
        try fixture.cache.remove(b)
        try fixture.cache.create("n", in: .root, fixture.file("mine"), pending: false)
        try older.add(fixture.page(["a", "b", "c"]))
        try older.finish()
        #expect(try fixture.names() == ["a", "c", "n"])
        #expect(try fixture.present("a")?.attributes.version?.etag == ETag("mine"))
        try fixture.list(["a", "b", "c"], etag: "theirs")
        #expect(try fixture.names() == ["a", "b", "c"])
        #expect(try fixture.present("a")?.attributes.version?.etag == ETag("theirs"))
        #expect(try fixture.present("a")?.ino == a)
        #expect(try fixture.present("b")?.ino != b, "removed and made again is a new file")
    }

    @Test func pendingEntryStandsAgainstEveryListing() throws {
        let fixture = try CacheFixture()
        try fixture.list(["a", "d/"])
        let d = try #require(try fixture.present("d")).ino
        try fixture.cache.create("n", in: d, fixture.file(), pending: true)
        let a = try #require(try fixture.present("a")).ino
        try fixture.cache.update(a, fixture.file("v1", size: 99), pending: true)
        try fixture.list([])
        #expect(try fixture.names() == ["a", "d"], "the directory holds something of ours")
        #expect(try fixture.present("a")?.attributes.size == 99)
        #expect(try fixture.present("n", in: d)?.isPending == true)
    }

    @Test func firstListingAfterOurCommitAdoptsTheStoresTimeAndKeepsHeaders() throws {
        let fixture = try CacheFixture()
        let ino = try fixture.cache.create("a", in: .root, fixture.file(), pending: true).ino
        var attributes = fixture.file("v1")
        attributes.version?.modified = fixture.time.now()
        try fixture.cache.update(ino, attributes, metadata: ObjectMetadata(user: ["k": "v"]), pending: false)
        try fixture.list(["a"])
        let entry = try #require(try fixture.cache.entry(ino))
        #expect(entry.attributes.mode == 0o640 && entry.attributes.mtime == attributes.mtime)
        #expect(entry.attributes.version == fixture.version("v1"))
        #expect(try fixture.cache.metadata(of: ino)?.user == ["k": "v"])
    }

    @Test func laterListingStandsAgainstAnEarlierOneThatEndsAfterIt() throws {
        let fixture = try CacheFixture()
        let earlier = try fixture.cache.beginListing(of: .root)
        fixture.time.advance(by: .seconds(1))
        try fixture.list(["b"], etag: "new")
        try earlier.add(fixture.page(["a", "b"], etag: "old"))
        try earlier.finish()
        #expect(try fixture.names() == ["b"])
        #expect(try fixture.present("b")?.attributes.version?.etag == ETag("new"))
    }

    /// `d/`, `e/` and `d/sub/`.
    private static func directories() throws -> (CacheFixture, d: InodeNumber, e: InodeNumber, sub: InodeNumber) {
        let fixture = try CacheFixture()
        try fixture.list(["d/", "e/"])
        let d = try #require(try fixture.present("d")).ino
        let e = try #require(try fixture.present("e")).ino
        try fixture.list(["sub/"], in: d)
        let sub = try #require(try fixture.present("sub", in: d)).ino
        return (fixture, d, e, sub)
    }

    @Test func listingOfARenamedOrRemovedDirectoryIsSuperseded() throws {
        let (fixture, d, e, sub) = try Self.directories()
        let first = try fixture.cache.beginListing(of: sub)
        let second = try fixture.cache.beginListing(of: e)
        try fixture.cache.rename(d, to: .root, "moved/")
        try fixture.cache.rename(d, to: .root, "d/")
        #expect(throws: MetadataError.superseded) { try first.add(ListingPage()) }
        try fixture.cache.remove(e)
        #expect(throws: MetadataError.superseded) { try second.add(ListingPage()) }
    }

    @Test(arguments: ["out", "in", "away"])
    func aDeepListingIsSupersededByWhatIsRenamedBelowIt(move: String) throws {
        let (fixture, d, e, sub) = try Self.directories()
        let (deep, other) = (
            try fixture.cache.beginListing(of: d, isDeep: true), try fixture.cache.beginListing(of: d)
        )
        switch move {
        case "out": try fixture.cache.rename(sub, to: .root, "sub/")
        case "in": try fixture.cache.rename(e, to: sub, "e/")
        default: try fixture.cache.remove(sub)
        }
        // What is removed has no other key: only its own listing ends.
        #expect(deep.isSuperseded == (move != "away"))
        #expect(!other.isSuperseded)
    }

    @Test func keyOutsideTheDirectoryIsRefused() throws {
        let fixture = try CacheFixture()
        try fixture.list(["d/"])
        let ingest = try fixture.cache.beginListing(of: try #require(try fixture.present("d")).ino)
        let object = ListedObject(key: ObjectKey("x"), version: fixture.version("v"))
        #expect(throws: MetadataError.foreignKey) { try ingest.add(ListingPage(objects: [object])) }
    }

    @Test func listingOfOneNameSettlesThatName() throws {
        let fixture = try CacheFixture()
        let ingest = try fixture.cache.beginListing(of: .root, .prefix("ab"))
        try ingest.add(fixture.page(["ab", "abc/"]))
        try ingest.finish()
        #expect(try fixture.isFresh("ab") == true)
        #expect(try fixture.isAbsent("abd"))
        #expect(try fixture.cache.lookup("a", in: .root) == .unknown)
        #expect(try !fixture.cache.directory(.root).isComplete)
    }

    @Test func manyRowsThatTheStoreLostGoAPieceAtATime() throws {
        let fixture = try CacheFixture()
        let names = (0..<5000).map { ByteString("f\($0 + 10000)") }
        try fixture.list(names + ["z/"])
        #expect(try fixture.names().count == 5001)
        fixture.time.advance(by: .seconds(61))
        try fixture.list(["f10000", "f14999"])
        #expect(try fixture.names() == ["f10000", "f14999"])
    }
}
