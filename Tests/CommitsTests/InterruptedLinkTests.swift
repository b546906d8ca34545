import Basics
import Commits
import Journaling
import Logging
import ObjectStorage
import TestSupport
import Testing

/// Jobs that meet links of the store's own kind, a HEAD of which describes the object that they lead to, and objects that differ by
/// their headers alone.
@Suite("An interrupted job") struct InterruptedLinkTests {
    private let store: MemoryStore
    private let journal: Journal
    private let runner: JobRunner
    private let directory: TemporaryDirectory
    private let body = Array("body".utf8)

    init() throws {
        var capabilities = Capabilities()
        capabilities.symlinks = true
        store = MemoryStore(capabilities: capabilities)
        directory = try TemporaryDirectory()
        journal = try Journal(path: directory.path("journal.db"))
        runner = JobRunner(store: store, journal: journal, time: SystemTime(), logger: Logger(label: "jobs"))
    }

    /// The version that a listing shows.
    private func listed(_ key: ObjectKey) async throws -> VersionRecord {
        let found = try await store.list(ListRequest(prefix: key.bytes)).objects.first { $0.key == key }
        return VersionRecord(key, try #require(found).version)
    }

    private func link(_ key: ObjectKey, to target: ByteString) async throws {
        _ = try await store.putSymlink(PutRequest(key), target: target)
    }

    private func finish(_ intent: JobIntent, items: [ItemRecord] = []) async throws {
        try await runner.finishTwice(intent, items: items, in: journal)
    }

    @Test("does not take a link to the source for its copy", .rule("rename.replace"))
    func fileOverLinkToIt() async throws {
        store.setObject("f", body)
        try await link("l", to: "f")
        let replaced = try await listed("l").etag
        try await finish(
            .rename(RenameRecord(source: try await listed("f"), to: "l", storageClass: nil, replaced: replaced)))
        #expect(store.keys == ["l"])
        #expect(store.content("l") == body)
        #expect(try await store.head("l", condition: nil).version.size == Int64(body.count))
    }

    @Test("renames a link, wherever it leads", .rule("symlink.native"), arguments: ["f", "nothing"], [true, false])
    func linkRenamed(target: String, isMade: Bool) async throws {
        store.setObject("f", body)
        try await link("d/l", to: ByteString("d/\(target)"))
        let source = try await listed("d/l")
        if isMade { try await link("m", to: ByteString(target)) }
        let headers = HeadersRecord(standard: [:], user: ["uid": "7"])
        try await finish(
            .rename(RenameRecord(source: source, to: "m", storageClass: nil, replaced: nil, headers: headers)))
        #expect(store.keys == ["f", "m"])
        #expect(try await store.symlinkTarget(of: "m") == ByteString(target))
        if !isMade { #expect(store.info("m")?.metadata.user == ["uid": "7"]) }
    }

    @Test("removes a link and not what it leads to", .rule("crash.jobs"), arguments: ["f", "nothing"])
    func linkRemoved(target: String) async throws {
        store.setObject("f", body)
        try await link("l", to: ByteString(target))
        let record = RemovalRecord(key: "l", etag: try await listed("l").etag, commits: [])
        try await finish(.removal(record))
        #expect(store.keys == ["f"])
        #expect(store.content("f") == body)
    }

    @Test("renames a directory with links", .rule("rename.directory"), arguments: [0, 1, 2])
    func linksInATree(copies: Int) async throws {
        store.setObject("d/f", body)
        try await link("d/l", to: "d/f")
        try await link("d/m", to: "d/nothing")
        var items: [ItemRecord] = []
        for key in ["d/f", "d/l", "d/m"] as [ObjectKey] {
            items.append(ItemRecord(source: try await listed(key), storageClass: nil))
        }
        for name in ["l", "m"].prefix(copies) {
            try await link(ObjectKey(ByteString("e/\(name)")), to: name == "l" ? "e/f" : "e/nothing")
        }
        try await finish(.tree(from: "d/", to: "e/"), items: items)
        #expect(store.keys == ["e/f", "e/l", "e/m"])
        #expect(try await store.symlinkTarget(of: "e/l") == "e/f")
        #expect(try await store.symlinkTarget(of: "e/m") == "e/nothing")
    }

    @Test("does not take back the only copy of a link", .rule("rename.directory"))
    func onlyCopyOfALink() async throws {
        store.setObject("d/f", body)
        try await link("d/m", to: "nothing")
        let items = [try await listed("d/f"), try await listed("d/m")].map { ItemRecord(source: $0, storageClass: nil) }
        store.setObject("e/f", body)
        try await link("e/m", to: "nothing")
        store.removeObject("d/m")
        let id = journal.newID()
        try journal.write([.job(id, .tree(from: "d/", to: "e/"), items: items)], flushed: true)
        #expect(try await !runner.undo(id, items, from: "d/", to: "e/"))
        #expect(store.keys == ["d/f", "e/f", "e/m"])
    }

    @Test("removes the links of a directory that is copied", .rule("rename.directory"))
    func linksOfASource() async throws {
        store.setObject("f", body)
        try await link("d/l", to: "f")
        try await link("d/m", to: "nothing")
        let items = [try await listed("d/l"), try await listed("d/m")].map { ItemRecord(source: $0, storageClass: nil) }
        try await finish(.removals(below: "d/"), items: items)
        #expect(store.keys == ["f"])
    }

    /// As a link of symlinks=metadata over a file with its text.
    @Test("copies over equal bytes that have other headers", .rule("rename.replace"), arguments: [true, false])
    func equalBytes(isMade: Bool) async throws {
        let (link, file) = (ObjectMetadata(user: ["mode": "41471"]), ObjectMetadata(user: ["mode": "33188"]))
        store.setObject("l", body, metadata: link)
        store.setObject("g", body, metadata: isMade ? link : file)
        let source = try await listed("l")
        let rename = RenameRecord(source: source, to: "g", storageClass: nil, replaced: source.etag)
        try await finish(.rename(rename))
        #expect(store.keys == ["g"])
        #expect(store.info("g")?.metadata.user == link.user)
    }

    @Test("ends what was acknowledged of a replaced file with the same bytes", .rule("rename.replace"))
    func promiseBelowEqualBytes() async throws {
        let etag = store.setObject("g", body).etag.text
        let source = store.setObject("f", body)
        let id = journal.newID()
        var promise = FileIntent(staging: "1", key: "g", base: nil, identity: "id", boot: journal.boot)
        (promise.isAcknowledged, promise.isFlushed, promise.condition) = (true, true, .match(etag: etag))
        let rename = RenameRecord(
            source: VersionRecord("f", source), to: "g", storageClass: nil, replaced: etag)
        try journal.write(
            [.file(id, promise), .job(journal.newID(), .rename(rename), items: [])], flushed: true)
        store.removeObject("f")
        let plan = try await Recovery(
            store: store, journal: journal, time: SystemTime(), logger: Logger(label: "jobs")
        ).run()
        #expect(plan.acknowledged.isEmpty)
    }

    /// `mv l g`, where `g` was promised, and stored before anybody heard of that.
    @Test("deletes what the replaced file's own commits have made", .rule("rename.replace"))
    func displacedPromise() async throws {
        let source = store.setObject("l.rclonelink", body)
        store.setObject("g", [1], metadata: ObjectMetadata(user: [CommitOptions.commitHeader: "id-1"]))
        let id = journal.newID()
        var promise = FileIntent(staging: "1", key: "g", base: nil, identity: "id", boot: journal.boot)
        (promise.isAcknowledged, promise.isFlushed, promise.attempt) = (true, true, "id-1")
        let rename = RenameRecord(
            source: VersionRecord("l.rclonelink", source), to: "g.rclonelink", storageClass: nil, replaced: nil,
            displaced: RemovalRecord(key: "g", etag: nil, commits: ["id"]))
        try journal.write(
            [.file(id, promise), .job(journal.newID(), .rename(rename), items: [])], flushed: true)
        let plan = try await Recovery(
            store: store, journal: journal, time: SystemTime(), logger: Logger(label: "jobs")
        ).run()
        #expect(store.keys == ["g.rclonelink"])
        #expect(plan.acknowledged.isEmpty && plan.landed.isEmpty)
        #expect(plan.touched.contains("g"))
        #expect(try journal.contents(after: plan).isEmpty)
    }
}
