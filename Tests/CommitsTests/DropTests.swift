import Basics
import Commits
import Journaling
import Logging
import ObjectStorage
import Staging
import TestSupport
import Testing

/// A file that is written forward, of which the local disk cannot keep everything: bytes that the store has in parts leave it.
@Suite struct DropTests {
    private let part = 64 << 10
    private let store = MemoryStore(capabilities: Rig.capabilities())
    private let pool = WorkerPool(threads: 4, name: "drop")
    private let directory: TemporaryDirectory
    private let ledger = SpaceLedger(limit: 1 << 40, floor: 0) { 1 << 50 }
    private let metadata = ObjectMetadata(user: ["mtime": "1000"])
    private let content = Rig.bytes(6 * (64 << 10) + 100)

    init() throws { directory = try TemporaryDirectory() }

    private struct Life {
        let journal: Journal
        let staged: StagedFile
        let record: FileRecord
        let commit: FileCommit
    }

    private func life(_ journal: Journal, _ staged: StagedFile, _ record: FileRecord) -> Life {
        var options = CommitOptions()
        options.partSize = Int64(part)
        let commit = FileCommit(
            store: store, staged: staged, base: nil, options: options, uploads: UploadLimiter(limit: 4), pool: pool,
            time: SystemTime(), logger: Logger(label: "drop"), record: record
        ) { [store] in StoreContent($0, $1, in: store) }
        return Life(journal: journal, staged: staged, record: record, commit: commit)
    }

    private func area(_ journal: Journal, kept: Set<String> = []) throws -> StagingArea {
        try StagingArea(
            directory: directory.path("staging"), ledger: ledger, time: SystemTime(), kept: kept,
            lastKnown: journal.lastKnownFile)
    }

    private func first() throws -> Life {
        let journal = try Journal(path: directory.path("journal.db"))
        let id = journal.newID()
        let record = try FileRecord(id, key: "file", base: nil, now: Timestamp(seconds: 5), in: journal)
        return life(journal, try area(journal).create(id, baseSize: 0), record)
    }

    /// What a process finds that starts after the first one has died.
    private func second(keeping plan: Recovery.Plan, _ journal: Journal) throws -> Life {
        let (id, intent) = try #require(plan.unacknowledged.first)
        let uploads = plan.uploads[id] ?? []
        let staged = try area(journal, kept: plan.stagedNames).open(
            intent.staging, extents: #require(intent.map), baseSize: intent.baseSize)
        let record = FileRecord(
            resuming: id, intent, uploads: Dictionary(uniqueKeysWithValues: uploads.map { ($0.id, $0.upload.record) }),
            in: journal)
        let next = life(journal, staged, record)
        next.commit.resume(intent, uploads: uploads)
        return next
    }

    /// Writes everything forward; when this returns the whole parts are at the store and not on the disk any more.
    private func write(_ life: Life) async throws {
        let metadata = metadata
        for start in stride(from: 0, to: content.count, by: 20_000) {
            let piece = Array(content[start..<min(content.count, start + 20_000)])
            try life.staged.write(piece.span.bytes, at: Int64(start))
            life.commit.noteWrite(ByteRange(at: Int64(start), count: Int64(piece.count)), key: "file") { metadata }
        }
        let deadline = ContinuousClock.now + .seconds(240)
        while life.staged.reservedBytes >= part, ContinuousClock.now < deadline {
            _ = try life.commit.dropSent()
            await Task.yield()
        }
        #expect(life.staged.needsItsUpload)
        #expect(life.staged.reservedBytes < part)
    }

    @Test func whatLeftTheDiskBecomesPartOfTheObject() async throws {
        let life = try first()
        try await write(life)
        #expect(throws: ByteTransferError.self) { try life.staged.source(0..<100).collect() }
        _ = try await life.commit.commit(to: "file", metadata: metadata, condition: .absent)
        #expect(store.content("file") == content)
        #expect(store.count(.uploadPart) == 7)
        #expect(store.uploadsInProgress.isEmpty)
    }

    @Test func aChangeOfWhatLeftAsksForACommitFirst() async throws {
        let life = try first()
        try await write(life)
        #expect(life.commit.needsCommit(before: 100..<200))
        #expect(!life.commit.needsCommit(before: Int64(6 * part)..<Int64(6 * part + 50)))
    }

    /// As Amazon S3 does when the key changed after the upload was begun.
    @Test(arguments: [false, true])
    func anUploadThatTheStoreCompletesUnderNoConditionIsComparedByAHead(isReplaced: Bool) async throws {
        let life = try first()
        try await write(life)
        store.fault = { [weak store] operation, _ in
            operation == .completeUpload && store?.requests(.completeUpload).last?.writeCondition != nil
                ? Rig.error(.conflict, operation) : nil
        }
        if isReplaced {
            store.setObject("file", [1])
            await #expect(throws: CommitError.self) {
                try await life.commit.commit(to: "file", metadata: metadata, condition: .absent)
            }
            #expect(store.content("file") == [1])
            #expect(store.uploadsInProgress.count == 1)
        } else {
            _ = try await life.commit.commit(to: "file", metadata: metadata, condition: .absent)
            #expect(store.content("file") == content)
            #expect(store.count(.createUpload) == 1)
        }
    }

    @Test func aCommitThatFailsKeepsTheUpload() async throws {
        let life = try first()
        try await write(life)
        store.fault = { operation, _ in operation == .completeUpload ? Rig.error(.serverFault, operation) : nil }
        await #expect(throws: CommitError.self) {
            try await life.commit.commit(to: "file", metadata: metadata, condition: .absent)
        }
        store.fault = nil
        _ = try await life.commit.commit(to: "file", metadata: metadata, condition: .absent)
        #expect(store.content("file") == content)
    }

    @Test(.rule("conflict.large")) func aConflictDoesNotThrowAwayWhatOnlyTheUploadHas() async throws {
        let life = try first()
        try await write(life)
        store.setObject("file", [1, 2, 3])
        await #expect(throws: CommitError.self) {
            try await life.commit.commit(to: "file", metadata: metadata, condition: .absent)
        }
        #expect(store.content("file") == [1, 2, 3])
        _ = try await life.commit.commit(to: "file", metadata: metadata, condition: nil)
        #expect(store.content("file") == content)
    }

    @Test func anUploadThatTheStoreLostIsAnErrorAndNeverAShorterObject() async throws {
        let life = try first()
        try await write(life)
        for upload in store.uploadsInProgress { try await store.abortUpload("file", upload.upload) }
        for _ in 0..<2 {
            await #expect(throws: CommitError.self) {
                try await life.commit.commit(to: "file", metadata: metadata, condition: .absent)
            }
        }
        #expect(store.content("file") == nil)
    }

    @Test func aCrashLeavesTheUploadAndTheNextProcessCanFinishIt() async throws {
        let life = try first()
        try await write(life)
        life.staged.keep(true)
        life.journal.close()
        let journal = try Journal(path: directory.path("journal.db"))
        let plan = try await Recovery(
            store: store, journal: journal, time: SystemTime(), logger: Logger(label: "drop")
        ).run()
        #expect(store.uploadsInProgress.count == 1, "parts are all there is of some bytes")
        let map = try #require(plan.unacknowledged.first?.intent.map)
        #expect(map.isEntirely(.stored, in: 0..<Int64(6 * part)))
        store.forgetRequests()
        let next = try second(keeping: plan, journal)
        _ = try await next.commit.commit(to: "file", metadata: metadata, condition: .absent)
        #expect(store.count(.uploadPart) <= 1)
        let stored = try #require(store.content("file"))
        #expect(stored == Array(content.prefix(stored.count)) && stored.count >= 6 * part)
    }

    /// A complete that nothing was heard of, and other bytes since: it has landed, lands late, or never does.
    @Test(arguments: ["landed", "late", "never"])
    func aChangeAfterACompleteInDoubtIsStored(fate: String) async throws {
        let life = try first()
        try await write(life)
        let upload = try #require(store.uploadsInProgress.first?.upload)
        let fail: MemoryStore.Fault = { operation, _ in
            operation == .completeUpload || operation == .head ? Rig.error(.unreachable, operation) : nil
        }
        if fate == "landed" { store.faultAfter = fail } else { store.fault = fail }
        await #expect(throws: CommitError.self) {
            try await life.commit.commit(to: "file", metadata: metadata, condition: .absent)
        }
        (store.fault, store.faultAfter) = (nil, nil)
        let other = Rig.bytes(50, seed: 9)
        try life.staged.write(other.span.bytes, at: Int64(content.count - 50))
        life.commit.noteWrite(ByteRange(at: Int64(content.count - 50), count: 50), key: "file") { ObjectMetadata() }
        let gate = store.hold(.uploadPart)
        let task = Task { try await life.commit.commit(to: "file", metadata: metadata, condition: .absent) }
        if fate == "late" {
            await gate.waitForArrivals()
            let parts = try await store.listParts("file", upload)
            _ = try await store.completeUpload(
                "file", upload, parts: parts, metadata: nil, condition: nil)
        }
        gate.open()
        _ = try await task.value
        #expect(store.content("file") == content.dropLast(50) + other)
        #expect(!life.staged.needsItsUpload)
        #expect(store.uploadsInProgress.isEmpty)
    }
}
