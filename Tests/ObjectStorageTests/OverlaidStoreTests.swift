import Basics
import ObjectStorage
import TestSupport
import Testing

/// A store whose listings lag behind shows what was written through it all the same (Swift and CSSP).
@Suite(.timeLimit(.minutes(2))) struct OverlaidStoreTests {
    private let time = ManualTime()
    private let base: MemoryStore
    private let store: OverlaidStore

    init() {
        var capabilities = Capabilities()
        (capabilities.listPage, capabilities.listingLag, capabilities.move) = (3, .seconds(30), true)
        base = MemoryStore(capabilities: capabilities, time: time)
        store = OverlaidStore(base, RecentWrites(lag: .seconds(30), time: time))
    }

    private func put(_ key: ObjectKey, _ content: [UInt8]) async throws {
        _ = try await store.put(PutRequest(key), body: MemorySource(content))
    }

    /// Every page of a listing, put together.
    private func all(_ request: ListRequest, of store: any ObjectStore) async throws -> [String] {
        var request = request
        var entries: [String] = []
        while true {
            let page = try await store.list(request)
            let listed = page.objects.map { "\($0.key) \($0.version.etag)" } + page.commonPrefixes.map { "\($0)" }
            entries += listed.sorted()
            guard let next = page.next else { return entries }
            request.cursor = next
        }
    }

    /// What a store that does not lag would list.
    private func truth(_ request: ListRequest) async throws -> [String] {
        let strong = MemoryStore(time: time)
        for key in base.keys { strong.setObject(key, base.content(key) ?? []) }
        return try await all(request, of: strong)
    }

    /// The lag is the longest there can be: no listing ever knows of a write.
    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func listingsAreThoseOfAStoreThatDoesNotLag(seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let names = ["a", "b", "a/", "a/a", "a/b", "a/b/", "a/b/c", "a-b", "b/c/d", "c", "c/", "c/x", "d/e/f/g"]
        func key() -> ObjectKey { ObjectKey(names.randomElement(using: &random) ?? "a") }
        for name in names where Bool.random(using: &random) { base.setObject(ObjectKey(name), Array(name.utf8)) }
        time.advance(by: .seconds(31))
        for step in 0..<120 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<4: try await put(key(), random.bytes(Int.random(in: 0...3, using: &random)))
            case 4..<6: try await store.delete(key(), ifMatch: nil)
            case 6: _ = try await store.deleteMany([key(), key()])
            case 7: _ = try? await store.copy(CopyRequest(CopySource(key()), to: key()))
            case 8: _ = try? await store.move(CopyRequest(CopySource(key()), to: key()))
            default: time.advance(by: .seconds(Int64.random(in: 0...9, using: &random)))
            }
            var request = ListRequest(prefix: ["", "a", "a/", "a/b/", "c/"].randomElement(using: &random) ?? "")
            request.delimiter = Bool.random(using: &random) ? UInt8(ascii: "/") : nil
            request.startAfter = Bool.random(using: &random) ? nil : key().bytes
            request.limit = [nil, 1, 2, 5].randomElement(using: &random) ?? nil
            let (seen, expected) = (try await all(request, of: store), try await truth(request))
            try #require(seen == expected, "seed \(seed) step \(step): \(request)")
        }
    }

    @Test func whatASmallLimitAsksForIsNotHiddenBehindRemovals() async throws {
        for name in ["a", "b", "c", "d"] as [ObjectKey] { base.setObject(name, [1]) }
        time.advance(by: .seconds(31))
        for name in ["a", "b", "c"] as [ObjectKey] { try await store.delete(name, ifMatch: nil) }
        let page = try await store.list(ListRequest(limit: 2))
        #expect(page.objects.map(\.key) == ["d"])
    }

    /// Somebody else's version is told from the one that the listing has not caught up with by asking for the object, once.
    @Test func theObjectIsAskedForWhereTheListingShowsAnotherVersion() async throws {
        let store = OverlaidStore(base, RecentWrites(lag: .seconds(60), time: time))
        _ = try await store.put(PutRequest("a"), body: MemorySource([2]))
        time.advance(by: .seconds(1))
        let theirs = base.setObject("a", [3])
        time.advance(by: .seconds(31))
        base.forgetRequests()
        for _ in 0..<3 {
            let page = try await store.list(ListRequest())
            #expect(page.objects.map(\.version.etag) == [theirs.etag])
        }
        #expect(base.count(.head) == 1)
        base.removeObject("a")
        _ = try? await store.head("a", condition: nil)
        #expect(try await store.list(ListRequest()).objects.isEmpty)
    }

    /// Removed here, made again elsewhere: the object's time is later than the removal.
    @Test func whatSomebodyElseMakesAgainIsSeen() async throws {
        let store = OverlaidStore(base, RecentWrites(lag: .seconds(90), time: time))
        base.setObject("d/a", [1])
        time.advance(by: .seconds(31))
        try await store.delete("d/a", ifMatch: nil)
        time.advance(by: .seconds(7))
        base.setObject("d/a", [2])
        base.forgetRequests()
        for _ in 0..<3 { #expect(try await store.list(ListRequest()).isEmpty) }
        #expect(base.count(.head) == 0, "what the listing shows is older than the removal")
        time.advance(by: .seconds(31))
        for _ in 0..<3 { #expect(try await store.list(ListRequest()).objects.map(\.key) == ["d/a"]) }
        #expect(base.count(.head) == 1)
    }

    /// Of an account a bucket stays, whatever it holds.
    @Test func anEmptiedBucketOfAnAccountStays() async throws {
        var capabilities = base.capabilities
        capabilities.bucketsInKeys = true
        let base = MemoryStore(capabilities: capabilities, time: time)
        base.setObject("bucket/a", [1])
        time.advance(by: .seconds(31))
        let store = OverlaidStore(base, RecentWrites(lag: .seconds(30), time: time))
        try await store.delete("bucket/a", ifMatch: nil)
        base.fault = { operation, _ in
            base.requests.last?.list?.prefix == "" ? nil : ObjectStoreError(.accessDenied, operation, message: "no")
        }
        #expect(try await all(ListRequest(delimiter: UInt8(ascii: "/")), of: store) == ["bucket/"])
    }

    @Test func aWriteWhoseAnswerWasLostIsAskedFor() async throws {
        base.faultAfter = { operation, key in
            operation == .put || operation == .delete
                ? ObjectStoreError(.timedOut, operation, key: key, message: "lost") : nil
        }
        try? await put("d/a", [1])
        #expect(try await all(ListRequest(delimiter: UInt8(ascii: "/")), of: store) == ["d/"])
        #expect(try await all(ListRequest(), of: store).count == 1)
        time.advance(by: .seconds(31))
        try? await store.delete("d/a", ifMatch: nil)
        #expect(try await all(ListRequest(), of: store).isEmpty)
        #expect(try await all(ListRequest(delimiter: UInt8(ascii: "/")), of: store).isEmpty)
    }

    @Test func agreementCostsNoRequest() async throws {
        for name in 0..<6 { try await put(ObjectKey("d/\(name)"), [1]) }
        time.advance(by: .seconds(29))
        base.forgetRequests()
        #expect(try await all(ListRequest(delimiter: UInt8(ascii: "/")), of: store) == ["d/"])
        #expect(base.requests.map(\.operation) == [.list])
    }

    /// The newest are remembered.
    @Test func memoryIsBounded() async throws {
        let recent = RecentWrites(lag: .seconds(30), time: time, capacity: 4)
        let store = OverlaidStore(base, recent)
        for name in 0..<9 { _ = try await store.put(PutRequest(ObjectKey("\(name)")), body: MemorySource([1])) }
        #expect(try await all(ListRequest(), of: store).map { $0.prefix(1) } == ["5", "6", "7", "8"])
        for _ in 0..<100 { _ = try await store.put(PutRequest("8"), body: MemorySource([1])) }
        #expect(try await all(ListRequest(), of: store).last?.prefix(1) == "8")
    }

    @Test func aListingIsBelievedAfterTheLag() async throws {
        try await put("a", [1])
        time.advance(by: .seconds(10))
        base.removeObject("a")
        #expect(try await store.list(ListRequest()).objects.count == 1)
        time.advance(by: .seconds(31))
        #expect(try await store.list(ListRequest()).objects.isEmpty)
    }

    // MARK: What others change

    private let directories = ListRequest(delimiter: UInt8(ascii: "/"))

    @Test func whatSomebodyTellsOfIsAskedFor() async throws {
        for name in ["a", "b", "d/x", "d/y"] as [ObjectKey] { try await put(name, [1]) }
        try await store.delete("b", ifMatch: nil)
        base.removeObject("a")
        base.removeObject("d/x")
        base.removeObject("d/y")
        for name in ["b", "new/a"] as [ObjectKey] { base.setObject(name, [2]) }
        for key in ["a", "b", "new/a", "d/"] as [ByteString] { store.distrust(key) }
        #expect(try await all(directories, of: store) == ["b \(etag([2]))", "new/"])
        #expect(try await store.list(ListRequest()).objects.map(\.key) == ["b", "new/a"])
        base.forgetRequests()
        #expect(try await store.list(ListRequest()).objects.map(\.key) == ["b", "new/a"])
        #expect(base.count(.head) == 0, "each is asked for once")
    }

    private func etag(_ content: [UInt8]) -> String { MemoryStore(time: time).setObject("a", content).etag.text }

    /// Of everything that is below a prefix.
    @Test func nothingIsBelievedBelowThePrefixThatSomebodyTellsOf() async throws {
        for name in ["d", "d/x", "e"] as [ObjectKey] { try await put(name, [1]) }
        for name in base.keys { base.removeObject(name) }
        store.distrust("")
        #expect(try await all(ListRequest(), of: store).isEmpty)
    }

    /// After the removal of what was written here, of what was there before, and of what was removed twice.
    @Test func theSameContentPutBackIsSeen() async throws {
        let base = MemoryStore(time: time)
        let store = OverlaidStore(base, RecentWrites(lag: .seconds(30), time: time))
        base.setObject("a", [1])
        for key in ["b", "c"] as [ObjectKey] { _ = try await store.put(PutRequest(key), body: MemorySource([1])) }
        time.advance(by: .seconds(5))
        for key in ["a", "b", "c", "c"] as [ObjectKey] { try await store.delete(key, ifMatch: nil) }
        time.advance(by: .seconds(1))
        for key in ["a", "b", "c"] as [ObjectKey] { base.setObject(key, [1]) }
        #expect(try await store.list(ListRequest()).objects.map(\.key) == ["a", "b", "c"])
    }

    /// Between the moment in which a removal is done and its answer somebody can put another object there.
    @Test func whatIsPutWhileTheAnswerOfARemovalIsOnItsWayIsSeen() async throws {
        let base = MemoryStore(time: time)
        let store = OverlaidStore(base, RecentWrites(lag: .seconds(30), time: time))
        for key in ["a", "b"] as [ObjectKey] { _ = try await store.put(PutRequest(key), body: MemorySource([1])) }
        let gate = base.hold(.delete, beforeReply: true)
        async let removal: Void = store.delete("a", ifMatch: nil)
        await gate.waitForArrivals()
        base.setObject("a", [2])
        time.advance(by: .seconds(20))
        gate.open()
        try await removal
        #expect(try await store.list(ListRequest()).objects.map(\.key) == ["a", "b"])
    }

    /// The answers to our writes tell how far the store's clock is behind, or ahead.
    @Test(arguments: [-60, 0, 60] as [Int64])
    func aVersionIsNewByTheStoresClock(offset: Int64) async throws {
        let base = MemoryStore(time: time)
        let store = OverlaidStore(base, RecentWrites(lag: .seconds(30), time: time))
        base.clockOffset = .seconds(offset)
        for key in ["a", "b"] as [ObjectKey] { base.setObject(key, [1]) }
        time.advance(by: .seconds(3))
        _ = try await store.put(PutRequest("c"), body: MemorySource([1]))
        try await store.delete("a", ifMatch: nil)
        try await store.delete("b", ifMatch: nil)
        time.advance(by: .seconds(1))
        base.setObject("a", [2])
        #expect(try await store.list(ListRequest()).objects.map(\.key) == ["a", "c"])
        #expect(base.count(.head) == 1)
    }

    @Test func whatIsListedFromBeforeOurWriteCostsNoQuestion() async throws {
        for key in ["a", "b"] as [ObjectKey] { base.setObject(key, [1]) }
        time.advance(by: .seconds(40))
        try await put("a", [2])
        try await store.delete("b", ifMatch: nil)
        base.forgetRequests()
        #expect(try await store.list(ListRequest()).objects.map(\.version.etag.text) == [etag([2])])
        #expect(base.requests.map(\.operation) == [.list])
    }

    // MARK: What is below prefixes

    /// Nothing is looked for below a prefix where a key is known.
    @Test(arguments: [["d/"], ["d/", "d/a", "d/b"], ["d/a", "d/z"], ["d/a", "d/e/f"]] as [[ObjectKey]])
    func aRemovalCostsNoLookWhereSomethingIsKnown(keys: [ObjectKey]) async throws {
        for key in keys + ["d/m"] { base.setObject(key, []) }
        time.advance(by: .seconds(31))
        _ = try await store.list(ListRequest(prefix: "d/"))
        time.advance(by: .seconds(300))
        try await store.delete("d/m", ifMatch: nil)
        base.forgetRequests()
        #expect(try await all(directories, of: store) == ["d/"])
        #expect(base.requests.map(\.operation) == [.list])
    }

    @Test func whatIsKnownBelowAPrefixIsForgottenWithTheKey() async throws {
        for key in ["d/", "d/a"] as [ObjectKey] { base.setObject(key, []) }
        time.advance(by: .seconds(31))
        _ = try await store.list(ListRequest(prefix: "d/"))
        try await store.delete("d/a", ifMatch: nil)
        #expect(try await all(directories, of: store) == ["d/"])
        try await store.delete("d/", ifMatch: nil)
        #expect(try await all(directories, of: store).isEmpty)
    }

    @Test func anEmptyPrefixIsBelievedForAWhile() async throws {
        base.setObject("d/a", [])
        time.advance(by: .seconds(31))
        try await store.delete("d/a", ifMatch: nil)
        for (advance, lists) in [(0, 2), (2, 1), (2, 2)] as [(Int64, Int)] {
            time.advance(by: .seconds(advance))
            base.forgetRequests()
            #expect(try await all(directories, of: store).isEmpty)
            #expect(base.count(.list) == lists)
        }
        base.setObject("d/b", [])
        try await put("d/c", [])
        #expect(try await all(directories, of: store) == ["d/"])
    }

    /// Which takes no further request: what words could take away is asked for with the rest.
    @Test func aLimitCostsOneRequest() async throws {
        var capabilities = Capabilities()
        capabilities.listingLag = .seconds(30)
        let base = MemoryStore(capabilities: capabilities, time: time)
        let store = OverlaidStore(base, RecentWrites(lag: .seconds(30), time: time))
        for name in 0..<9 { base.setObject(ObjectKey("d/\(name)"), [1]) }
        time.advance(by: .seconds(31))
        for name in 0..<6 { try await store.delete(ObjectKey("d/\(name)"), ifMatch: nil) }
        base.forgetRequests()
        #expect(try await store.list(ListRequest(prefix: "d/", limit: 2)).objects.count >= 2)
        #expect(base.requests.map(\.operation) == [.list])
    }

    /// Where only an empty page is the last (CSSP), whoever asks for two keys needs no other page to know that there is one.
    @Test func anEndThatIsToldByAnEmptyPageIsNotAskedFor() async throws {
        let base = MemoryStore(time: time)
        base.listsUntilEmptyPage = true
        let store = OverlaidStore(base, RecentWrites(lag: .seconds(30), time: time))
        for key in ["d/", "d/a"] as [ObjectKey] { _ = try await store.put(PutRequest(key), body: MemorySource([])) }
        try await store.delete("d/a", ifMatch: nil)
        base.forgetRequests()
        #expect(try await store.list(ListRequest(prefix: "d/", limit: 2)).objects.map(\.key) == ["d/"])
        #expect(base.count(.list) == 1)
        _ = try await store.put(PutRequest("d/b"), body: MemorySource([]))
        base.removeObject("d/b")
        #expect(try await store.list(ListRequest(prefix: "d/", limit: 2)).objects.map(\.key) == ["d/", "d/b"])
    }

    // MARK: After an earlier process

    @Test func aTreeThatWasRemovedIsNotBroughtBack() async throws {
        for key in ["d/", "d/a", "d/e/f", "d/e/g/h"] as [ObjectKey] { base.setObject(key, [1]) }
        time.advance(by: .seconds(31))
        for key in base.keys { base.removeObject(key) }
        time.advance(by: .seconds(5))
        let store = OverlaidStore(base, RecentWrites(lag: .seconds(30), time: time))
        store.recent.remember("d/", nil, at: time.now())
        time.advance(by: .seconds(5))
        base.forgetRequests()
        #expect(try await all(ListRequest(), of: store).isEmpty)
        #expect(try await all(directories, of: store).isEmpty)
        #expect(try await all(ListRequest(prefix: "d/", delimiter: UInt8(ascii: "/")), of: store).isEmpty)
        #expect(base.count(.head) == 0)
    }

    /// By its older versions, which are older than the removal: a command reports the change.
    @Test(arguments: ["", "d/", "d/e/", "d/e/g/", "d/e/f"] as [ByteString])
    func whatComesBackOfATreeThatWasRemovedIsSeen(_ changed: ByteString) async throws {
        let base = MemoryStore(time: time)
        base.setObject("d/e/f", [1])
        time.advance(by: .seconds(31))
        let store = OverlaidStore(base, RecentWrites(lag: .seconds(30), time: time))
        store.recent.remember("d/", nil, at: time.now())
        #expect(try await all(ListRequest(), of: store).isEmpty)
        store.distrust(changed)
        #expect(try await store.list(ListRequest()).objects.map(\.key) == ["d/e/f"])
        #expect(try await all(directories, of: store) == ["d/"])
    }

    @Test func whatIsPutIntoATreeThatWasRemovedIsSeen() async throws {
        let base = MemoryStore(time: time)
        let store = OverlaidStore(base, RecentWrites(lag: .seconds(30), time: time))
        store.recent.remember("d/", nil, at: time.now())
        time.advance(by: .seconds(2))
        base.setObject("d/e/f", [1])
        #expect(try await all(directories, of: store) == ["d/"])
        #expect(try await all(ListRequest(prefix: "d/", delimiter: UInt8(ascii: "/")), of: store) == ["d/e/"])
        #expect(try await store.list(ListRequest()).objects.map(\.key) == ["d/e/f"])
    }
}
