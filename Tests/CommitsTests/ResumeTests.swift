import Basics
import Commits
import Journaling
import Logging
import ObjectStorage
import Staging
import TestSupport
import Testing

private let part = TwoLives.part

@Suite("A commit after a crash")
struct ResumeTests {
    private let lives: TwoLives
    init() throws { lives = try TwoLives() }

    /// A first life whose store went away after `parts` parts.
    private func dieAfter(parts: Int, acknowledged: Bool = true) async throws {
        lives.store.fail(.uploadPart, after: parts)
        let life = try lives.first()
        try await lives.write(life, acknowledged: acknowledged)
        lives.store.fault = nil
    }

    @Test("sends only the parts that the store does not have")
    func resumes() async throws {
        try await dieAfter(parts: 4)
        let life = try lives.second()
        _ = try await life.commit.commit(to: "file", metadata: lives.metadata, condition: .absent)
        #expect(lives.store.content("file") == lives.content)
        #expect(lives.store.info("file")?.metadata.contentType == "a/b")
        #expect(lives.store.count(.uploadPart) == 3)
        #expect(lives.store.count(.createUpload) == 0)
        #expect(lives.store.uploadsInProgress.isEmpty)
        try life.record.end()
        #expect(try life.journal.contents().isEmpty)
    }

    @Test("leaves no upload at the store when the file is given up")
    func givenUp() async throws {
        try await dieAfter(parts: 4)
        #expect(!lives.store.uploadsInProgress.isEmpty)
        let life = try lives.second()
        try life.record.end(isRemoved: true)
        await life.commit.abandon()
        #expect(lives.store.uploadsInProgress.isEmpty)
        #expect(try life.journal.contents().isEmpty)
    }

    @Test("sends a part again whose staged bytes are not those that were sent")
    func changedBytes() async throws {
        try await dieAfter(parts: 4)
        let life = try lives.second()
        let change: [UInt8] = [1, 2, 3]
        try life.staged.write(change.span.bytes, at: Int64(part) + 5)
        var content = lives.content
        content.replaceSubrange(part + 5..<part + 8, with: change)
        _ = try await life.commit.commit(to: "file", metadata: lives.metadata, condition: .absent)
        #expect(lives.store.content("file") == content)
        #expect(lives.store.count(.uploadPart) == 4)
    }

    @Test("begins anew when the store has lost the upload")
    func lostUpload() async throws {
        try await dieAfter(parts: 4)
        for upload in lives.store.uploadsInProgress { try await lives.store.abortUpload("file", upload.upload) }
        let life = try lives.second()
        _ = try await life.commit.commit(to: "file", metadata: lives.metadata, condition: .absent)
        #expect(lives.store.content("file") == lives.content)
        #expect(lives.store.uploadsInProgress.isEmpty)
    }

    @Test("begins anew when the file was cut and the store wants each part named that it has")
    func cutAfterwards() async throws {
        let lives = try TwoLives { $0.surplusParts = false }
        lives.store.fail(.uploadPart, after: 4)
        try await lives.write(lives.first())
        lives.store.fault = nil
        let life = try lives.second()
        try life.staged.truncate(to: Int64(2 * part + 5))
        _ = try await life.commit.commit(to: "file", metadata: lives.metadata, condition: .absent)
        #expect(lives.store.content("file") == Array(lives.content[..<(2 * part + 5)]))
        #expect(lives.store.count(.createUpload) == 1)
        #expect(lives.store.count(.completeUpload) == 1)
        #expect(lives.store.uploadsInProgress.isEmpty)
    }

    @Test(
        "finds out with one HEAD that the last attempt had become the object", .rule("crash.jobs"),
        arguments: [100, 6 * part])
    func landed(size: Int) async throws {
        let life = try lives.first()
        let content = Array(lives.content[..<size])
        try life.staged.write(content.span.bytes, at: 0)
        _ = try await life.commit.commit(to: "file", metadata: lives.metadata, condition: .absent)
        // It dies before it could write down that the object is there.
        let second = try lives.second()
        let version = try await second.commit.commit(to: "file", metadata: lives.metadata, condition: .absent)
        #expect(lives.store.requests.map(\.operation).filter { $0 != .listParts } == [.head])
        #expect(lives.store.info("file")?.version.etag == version.etag)
    }

    @Test("is a conflict when somebody else was there first")
    func conflict() async throws {
        try await dieAfter(parts: 2)
        _ = lives.store.setObject("file", [1])
        let life = try lives.second()
        await #expect(throws: CommitError.self) {
            _ = try await life.commit.commit(to: "file", metadata: lives.metadata, condition: .absent)
        }
        #expect(lives.store.content("file") == [1])
    }

    @Test("of unacknowledged bytes is left to people, without its upload")
    func unacknowledged() async throws {
        try await dieAfter(parts: 2, acknowledged: false)
        let others = try await lives.store.createUpload(PutRequest("file"))
        let plan = try await lives.recover()
        #expect(plan.unacknowledged.map(\.intent.key) == ["file"])
        #expect(plan.acknowledged.isEmpty)
        #expect(lives.store.uploadsInProgress.map(\.upload) == [others])
        #expect(lives.store.content("file") == nil)
    }

    @Test("that was done leaves nothing to do")
    func recoveredLanding() async throws {
        let life = try lives.first()
        try await lives.write(life)
        let plan = try await lives.recover()
        #expect(plan.acknowledged.isEmpty && plan.unacknowledged.isEmpty)
        #expect(plan.touched == ["file"])
        #expect(try life.journal.contents(after: plan).isEmpty)
    }
}

@Suite("A job after a crash")
struct JobTests {
    private let lives: TwoLives
    private let journal: Journal
    private let runner: JobRunner
    private let body = Rig.bytes(500)
    private var store: MemoryStore { lives.store }

    init() throws {
        lives = try TwoLives()
        journal = try Journal(path: lives.directory.path("jobs.db"))
        runner = JobRunner(
            store: lives.store, journal: journal, time: SystemTime(), logger: Logger(label: "jobs"))
    }

    private func finish(_ intent: JobIntent, items: [ItemRecord] = []) async throws {
        try await runner.finishTwice(intent, items: items, in: journal)
    }

    private func record(_ key: ObjectKey) throws -> VersionRecord {
        VersionRecord(key, try #require(store.info(key)).version)
    }

    @Test("copies and deletes what a rename had not begun with")
    func rename() async throws {
        _ = store.setObject("a", body)
        try await finish(.rename(RenameRecord(source: try record("a"), to: "b", storageClass: nil, replaced: nil)))
        #expect(store.keys == ["b"])
        #expect(store.content("b") == body)
    }

    @Test("only deletes where the copy is there")
    func renameHalfDone() async throws {
        _ = store.setObject("a", body)
        let source = try record("a")
        _ = try await store.copy(CopyRequest(CopySource("a"), to: "b"))
        store.forgetRequests()
        try await finish(.rename(RenameRecord(source: source, to: "b", storageClass: nil, replaced: nil)))
        #expect(store.keys == ["b"])
        #expect(store.count(.copy) == 0)
    }

    @Test("copies with the headers that the row has, once")
    func renameWithHeaders() async throws {
        _ = store.setObject("a", body, metadata: ObjectMetadata(contentType: "x/old"))
        // The same bytes: only the commit id tells them from the copy.
        let old = store.setObject("b", body, metadata: ObjectMetadata(contentType: "x/other")).etag.text
        let headers = ObjectMetadata(contentType: "x/new", user: ["pailfs-commit": "abc", "mode": "1"])
        try await finish(
            .rename(
                RenameRecord(
                    source: try record("a"), to: "b", storageClass: nil, replaced: old, headers: HeadersRecord(headers))
            ))
        #expect(store.keys == ["b"])
        #expect(store.info("b")?.metadata == headers)
        #expect(store.count(.copy) == 1)
    }

    @Test("replaces what was to be replaced, and nothing newer", arguments: [true, false])
    func renameOverOther(isExpected: Bool) async throws {
        _ = store.setObject("a", body)
        let old = store.setObject("b", [1]).etag.text
        if !isExpected { _ = store.setObject("b", [2]) }
        try await finish(.rename(RenameRecord(source: try record("a"), to: "b", storageClass: nil, replaced: old)))
        #expect(store.content("b") == (isExpected ? body : [2]))
        #expect(store.content("a") == (isExpected ? nil : body))
    }

    @Test("leaves a source that somebody changed")
    func changedSource() async throws {
        _ = store.setObject("a", body)
        let source = try record("a")
        _ = store.setObject("a", [7])
        try await finish(.rename(RenameRecord(source: source, to: "b", storageClass: nil, replaced: nil)))
        #expect(store.content("a") == [7])
        #expect(store.content("b") == nil)
    }

    @Test("removes the object that was meant, and no other", arguments: [true, false])
    func removal(isSame: Bool) async throws {
        let etag = store.setObject("a", body).etag.text
        if !isSame { _ = store.setObject("a", [7]) }
        try await finish(.removal(RemovalRecord(key: "a", etag: etag, commits: [])))
        #expect(store.content("a") == (isSame ? nil : [7]))
    }

    /// A promise at `a`, in a row from before the removal of what was there.
    private func promise(
        _ identity: String, condition: ConditionRecord = .absent, attempt: String? = nil
    ) throws -> IntentID {
        let id = journal.newID()
        var intent = FileIntent(
            staging: "\(id.rawValue)", key: "a", base: nil, identity: identity, boot: journal.boot)
        (intent.condition, intent.attempt, intent.isAcknowledged) = (condition, attempt, true)
        try journal.write([.file(id, intent)], flushed: true)
        return id
    }

    /// What is left to be done of a removal of `a` and of the promises there.
    private func recovered(removing etag: String, commits: [String]) async throws -> Recovery.Plan {
        let removal = RemovalRecord(key: "a", etag: etag, commits: commits)
        try journal.write([.job(journal.newID(), .removal(removal), items: [])], flushed: true)
        return try await Recovery(
            store: store, journal: journal, time: SystemTime(), logger: Logger(label: "jobs")
        ).run()
    }

    @Test("ends with a removal what was acknowledged of the file that goes, not what has come to its name")
    func promisesOfTheRemoved() async throws {
        let etag = store.setObject("a", body).etag.text
        _ = try promise("gone")
        let renamed = try promise("renamed")
        let plan = try await recovered(removing: etag, commits: ["gone"])
        #expect(plan.acknowledged.map(\.id) == [renamed])
        #expect(store.content("a") == nil)
    }

    @Test("does not let a promise wait for an object that was removed")
    func promiseInPlaceOfTheRemoved() async throws {
        let etag = store.setObject("a", body).etag.text
        let id = try promise("new", condition: .match(etag: etag), attempt: "new-1")
        let plan = try await recovered(removing: etag, commits: [])
        #expect(plan.acknowledged.map(\.id) == [id])
        #expect(plan.acknowledged.first?.intent.condition == .absent)
        #expect(store.content("a") == nil)
    }

    @Test("leaves the object that has taken the removed one's place, though its bytes are the same")
    func objectInPlaceOfTheRemoved() async throws {
        let headers = ObjectMetadata(user: [CommitOptions.commitHeader: "new-1"])
        let etag = store.setObject("a", body, metadata: headers).etag.text
        _ = try promise("new", condition: .match(etag: etag), attempt: "new-1")
        let plan = try await recovered(removing: etag, commits: [])
        #expect(plan.acknowledged.isEmpty)
        #expect(store.content("a") == body)
        #expect(try journal.contents(after: plan).isEmpty)
    }

    /// Of `mv b a`, whose source is gone: by the rename, or because somebody else has removed it before.
    @Test(
        "ends with a rename what was acknowledged of the file it replaces, if it has replaced it",
        arguments: [true, false])
    func promiseBelowARename(isRenamed: Bool) async throws {
        let replaced = store.setObject("a", [1])
        let id = try promise("replaced", condition: .match(etag: replaced.etag.text))
        let source = store.setObject("b", body)
        let rename = RenameRecord(
            source: VersionRecord("b", source), to: "a", storageClass: nil, replaced: replaced.etag.text, headers: nil)
        try journal.write([.job(journal.newID(), .rename(rename), items: [])], flushed: true)
        if isRenamed { _ = try await store.copy(CopyRequest(CopySource("b"), to: "a")) }
        store.removeObject("b")
        let plan = try await Recovery(
            store: store, journal: journal, time: SystemTime(), logger: Logger(label: "jobs")
        ).run()
        #expect(plan.acknowledged.map(\.id) == (isRenamed ? [] : [id]))
        #expect(store.content("a") == (isRenamed ? body : [1]))
        #expect(plan.left.isEmpty)
    }

    @Test("moves the rest of a tree, and nothing that came later")
    func tree() async throws {
        let keys: [ObjectKey] = ["t/", "t/1", "t/2", "t/s/3"]
        for key in keys { _ = store.setObject(key, key.bytes.bytes) }
        let items = try keys.map { ItemRecord(source: try record($0), storageClass: nil) }
        _ = try await store.copy(CopyRequest(CopySource("t/1"), to: "u/1"))
        try await store.delete("t/1", ifMatch: nil)
        _ = try await store.copy(CopyRequest(CopySource("t/2"), to: "u/2"))
        _ = store.setObject("t/later", [9])
        try await finish(.tree(from: "t/", to: "u/"), items: items)
        #expect(store.keys == ["t/later", "u/", "u/1", "u/2", "u/s/3"])
        #expect(store.content("u/s/3") == Array("t/s/3".utf8))
    }

    @Test("stays while the store refuses it")
    func refused() async throws {
        let etag = store.setObject("a", body).etag.text
        let id = journal.newID()
        try journal.write(
            [.job(id, .removal(RemovalRecord(key: "a", etag: etag, commits: [])), items: [])], flushed: true)
        store.fail(.delete, after: 0)
        let recovery = Recovery(store: store, journal: journal, time: SystemTime(), logger: Logger(label: "jobs"))
        let plan = try await recovery.run()
        #expect(plan.left.count == 1)
        #expect(try journal.contents().jobs.count == 1)
        store.fault = nil
        #expect(try await recovery.run().left.isEmpty)
        #expect(store.content("a") == nil)
    }
}

@Suite("A copy by parts")
struct PartCopyTests {
    private let store = MemoryStore(
        capabilities: Rig.capabilities {
            $0.largestCopy = Int64(part)
            $0.largestPart = Int64(part)
        })
    private let directory: TemporaryDirectory
    private let journal: Journal
    private let body = Rig.bytes(6 * part + 100)

    init() throws {
        directory = try TemporaryDirectory()
        journal = try Journal(path: directory.path("journal.db"))
    }

    private func job() throws -> (IntentID, JournalContents.Job) {
        store.setObject("a", body)
        let source = VersionRecord("a", try #require(store.info("a")).version)
        let intent = JobIntent.rename(RenameRecord(source: source, to: "b", storageClass: nil, replaced: nil))
        let id = journal.newID()
        try journal.write([.job(id, intent, items: [])], flushed: true)
        return (id, JournalContents.Job(intent: intent, items: []))
    }

    @Test("goes on with the parts that are there")
    func resumes() async throws {
        let (id, job) = try job()
        let runner = JobRunner(store: store, journal: journal, time: SystemTime(), logger: Logger(label: "copy"))
        store.fail(.uploadPartCopy, after: 3)
        await #expect(throws: CommitError.self) { try await runner.finish(id, job) }
        let upload = try #require(store.uploadsInProgress.first)
        let there = try await store.listParts("b", upload.upload).count
        #expect(there == 3)
        store.fault = nil
        store.forgetRequests()
        // Another process, which knows the journal alone.
        let recovery = Recovery(store: store, journal: journal, time: SystemTime(), logger: Logger(label: "copy"))
        let plan = try await recovery.run()
        #expect(plan.left.isEmpty)
        #expect(store.content("b") == body)
        #expect(store.keys == ["b"])
        #expect(store.count(.uploadPartCopy) == 7 - there)
        #expect(store.count(.createUpload) == 0)
        #expect(store.uploadsInProgress.isEmpty)
        #expect(try journal.contents(after: plan).isEmpty)
    }

    @Test("keeps its parts while the store refuses the rest, also at the next start")
    func refused() async throws {
        _ = try job()
        store.fail(.uploadPartCopy, after: 3)
        let recovery = Recovery(store: store, journal: journal, time: SystemTime(), logger: Logger(label: "copy"))
        #expect(try await recovery.run().left.count == 1)
        store.fault = { operation, _ in operation == .uploadPartCopy ? Rig.error(.serverFault, operation) : nil }
        #expect(try await recovery.run().left.count == 1)
        let upload = try #require(store.uploadsInProgress.first)
        #expect(try await store.listParts("b", upload.upload).count == 3)
    }

    @Test("is taken for done when only the answer was lost")
    func lostAnswer() async throws {
        store.setObject("a", body, metadata: ObjectMetadata(user: ["pailfs-commit": "x-1"]))
        store.faultAfter = { operation, _ in
            operation == .completeUpload ? Rig.error(.interrupted, operation) : nil
        }
        let version = try #require(store.info("a")).version
        let copy = try await ObjectCopier(store: store, journal: journal).copy("a", version, to: "b", storageClass: nil)
        #expect(copy.etag == store.info("b")?.version.etag)
        #expect(try journal.contents().isEmpty)
    }

    @Test("of a source that changed is not kept")
    func changedSource() async throws {
        let (id, job) = try job()
        let runner = JobRunner(store: store, journal: journal, time: SystemTime(), logger: Logger(label: "copy"))
        store.fail(.uploadPartCopy, after: 3)
        await #expect(throws: CommitError.self) { try await runner.finish(id, job) }
        store.fault = nil
        store.setObject("a", [1])
        let recovery = Recovery(store: store, journal: journal, time: SystemTime(), logger: Logger(label: "copy"))
        #expect(try await recovery.run().left.isEmpty)
        #expect(store.uploadsInProgress.isEmpty)
        #expect(store.keys == ["a"])
    }
}
