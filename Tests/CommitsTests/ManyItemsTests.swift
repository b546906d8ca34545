import Basics
import Commits
import Journaling
import Logging
import ObjectStorage
import TestSupport
import Testing

/// The rename of a large directory whose process died: programs wait for the next one, which looks at what is there with listings
/// instead of a request or two for each object.
@Suite("The rename of a large directory after a death", .rule("rename.directory")) struct ManyItemsTests {
    private static let count = 300

    private let store: MemoryStore
    private let journal: Journal
    private let directory: TemporaryDirectory
    private let keys: [ObjectKey]
    private let items: [ItemRecord]

    init() throws {
        let store = MemoryStore()
        (self.store, directory) = (store, try TemporaryDirectory())
        journal = try Journal(path: directory.path("journal.db"))
        keys = (0..<Self.count).map { ObjectKey(ByteString("t/\(1000 + $0)")) }
        items = keys.map { key in
            let etag = store.setObject(key, key.bytes.bytes).etag
            let version = ObjectVersion(etag: etag, size: Int64(key.bytes.count), modified: .epoch)
            return ItemRecord(source: VersionRecord(key, version), storageClass: nil)
        }
    }

    private func recover(_ intent: JobIntent, isRestart: Bool) async throws -> Recovery.Plan {
        try journal.write([.job(journal.newID(), intent, items: items)], flushed: true)
        store.forgetRequests()
        return try await Recovery(
            store: store, journal: journal, isRestart: isRestart, time: SystemTime(), logger: Logger(label: "jobs")
        ).run()
    }

    private func copy(_ count: Int) async throws {
        for key in keys.prefix(count) {
            _ = try await store.copy(CopyRequest(CopySource(key), to: key.moved(from: "t/", to: "u/")))
        }
    }

    private var asked: Int { store.count(.list) + store.count(.head) + store.count(.deleteMany) }

    @Test func itIsTakenBackWithAFewRequests() async throws {
        try await copy(200)
        _ = store.setObject("u/another", [1])
        let plan = try await recover(.tree(from: "t/", to: "u/"), isRestart: true)
        #expect(plan.left.isEmpty)
        #expect(Set(store.keys) == Set(keys + ["u/another"]))
        #expect(asked < 10)
    }

    @Test func whatAnotherHostHasStoredIsLookedAtAndStays() async throws {
        try await copy(200)
        _ = store.setObject(keys[0].moved(from: "t/", to: "u/"), [1])
        _ = store.setObject(keys[1], [2])
        let plan = try await recover(.tree(from: "t/", to: "u/"), isRestart: true)
        #expect(plan.left.isEmpty)
        #expect(Set(store.keys) == Set(keys + [keys[0].moved(from: "t/", to: "u/")]))
        #expect(store.content(keys[1]) == [2])
        #expect(asked < 20)
    }

    @Test func theLastCopyOfAnObjectIsKept() async throws {
        try await copy(Self.count)
        try await store.delete(keys[7], ifMatch: nil)
        let plan = try await recover(.tree(from: "t/", to: "u/"), isRestart: true)
        #expect(plan.left.isEmpty)
        #expect(Set(store.keys) == Set(keys.map { $0.moved(from: "t/", to: "u/") }))
        #expect(asked < 20)
    }

    @Test func itIsFinishedByTheNextMount() async throws {
        try await copy(200)
        let plan = try await recover(.tree(from: "t/", to: "u/"), isRestart: false)
        #expect(plan.left.isEmpty)
        #expect(Set(store.keys) == Set(keys.map { $0.moved(from: "t/", to: "u/") }))
        #expect(store.count(.head) <= 2 * 100)
    }

    @Test(arguments: [false, true]) func theSourcesGoWithAFewRequests(isRestart: Bool) async throws {
        try await copy(Self.count)
        for key in keys.prefix(100) { try await store.delete(key, ifMatch: nil) }
        _ = store.setObject(keys[200], [3])
        let plan = try await recover(
            isRestart ? .moved(from: "t/", to: "u/") : .removals(below: "t/"), isRestart: isRestart)
        #expect(plan.left.isEmpty)
        #expect(Set(store.keys) == Set(keys.map { $0.moved(from: "t/", to: "u/") } + [keys[200]]))
        #expect(asked < 10)
    }

    private struct Lag: Interceptor {
        let hidden: Set<ObjectKey>

        func intercept<Answer: Sendable>(
            _ context: RequestContext, settle: Settlement<Answer>?,
            _ attempt: () async throws(ObjectStoreError) -> Answer
        ) async throws(ObjectStoreError) -> Answer {
            let answer = try await attempt()
            guard var page = answer as? ListingPage else { return answer }
            page.objects.removeAll { hidden.contains($0.key) }
            return page as? Answer ?? answer
        }
    }

    /// A listing that lags behind may lack what is there.
    @Test func whatALaggingListingLacksIsAskedFor() async throws {
        let lagging = MemoryStore(capabilities: Rig.capabilities { $0.listingLag = .seconds(60) })
        for key in keys {
            _ = lagging.setObject(key, key.bytes.bytes)
            _ = lagging.setObject(key.moved(from: "t/", to: "u/"), key.bytes.bytes)
        }
        let hidden = Set(keys.prefix(3).map { $0.moved(from: "t/", to: "u/") })
        let front = InterceptedStore(lagging, Lag(hidden: hidden))
        try journal.write(
            [.job(journal.newID(), .tree(from: "t/", to: "u/"), items: items)], flushed: true)
        let plan = try await Recovery(
            store: front, journal: journal, isRestart: true, time: SystemTime(), logger: Logger(label: "jobs")
        ).run()
        #expect(plan.left.isEmpty)
        #expect(Set(lagging.keys) == Set(keys))
    }
}
