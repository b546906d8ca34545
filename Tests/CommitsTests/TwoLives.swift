import Basics
import Commits
import Journaling
import Logging
import ObjectStorage
import Staging
import TestSupport
import Testing

extension MemoryStore {
    /// Refuses all requests of a kind after the first `count`.
    func fail(_ operation: ObjectStoreError.Operation, after count: Int) {
        fault = { [weak self] asked, _ in
            // The request that asks is counted already.
            guard asked == operation, let self, self.count(operation) > count else { return nil }
            return Rig.error(.serverFault, operation)
        }
    }
}

/// A process that writes a file and dies, and the one after it: all they share is the disk and the store.
final class TwoLives {
    static let part = 64 << 10

    let store: MemoryStore
    let pool = WorkerPool(threads: 4, name: "resume")
    let directory: TemporaryDirectory
    let content = Rig.bytes(6 * TwoLives.part + 100)
    var metadata = ObjectMetadata(contentType: "a/b", user: ["mtime": "1000"])

    init(_ change: (inout Capabilities) -> Void = { _ in }) throws {
        store = MemoryStore(capabilities: Rig.capabilities(change))
        directory = try TemporaryDirectory()
    }

    struct Life {
        let journal: Journal
        let area: StagingArea
        let staged: StagedFile
        let record: FileRecord
        let commit: FileCommit
    }

    private func journal() throws -> Journal { try Journal(path: directory.path("journal.db")) }

    private func area(_ journal: Journal, kept: Set<String> = []) throws -> StagingArea {
        try StagingArea(
            directory: directory.path("staging"), ledger: SpaceLedger(limit: 1 << 40, floor: 0) { 1 << 50 },
            time: SystemTime(), kept: kept, lastKnown: journal.lastKnownFile)
    }

    private func life(_ journal: Journal, _ area: StagingArea, _ staged: StagedFile, _ record: FileRecord) -> Life {
        var options = CommitOptions()
        options.partSize = Int64(Self.part)
        options.uploadsPerFile = 1
        let commit = FileCommit(
            store: store, staged: staged, base: nil, options: options, uploads: UploadLimiter(limit: 6), pool: pool,
            time: SystemTime(), logger: Logger(label: "resume"), record: record
        ) { [store] in StoreContent($0, $1, in: store) }
        return Life(journal: journal, area: area, staged: staged, record: record, commit: commit)
    }

    func first() throws -> Life {
        let journal = try journal()
        let id = journal.newID()
        let record = try FileRecord(id, key: "file", base: nil, now: Timestamp(seconds: 5), in: journal)
        let area = try area(journal)
        return life(journal, area, try area.create(id, baseSize: 0), record)
    }

    /// Writes everything and commits, which fails where the store says so.
    func write(_ life: Life, acknowledged: Bool = true) async throws {
        let content = content
        try life.staged.write(content.span.bytes, at: 0)
        if acknowledged {
            try life.record.acknowledge(
                life.staged, in: life.area, key: "file", metadata: metadata, condition: .absent,
                now: Timestamp(seconds: 6))
        }
        _ = try? await life.commit.commit(to: "file", metadata: metadata, condition: .absent)
    }

    func second() throws -> Life {
        let journal = try journal()
        let contents = try journal.contents()
        let (id, intent) = try #require(contents.files.first)
        let area = try area(journal, kept: [intent.staging])
        let staged = try area.open(intent.staging, extents: try #require(intent.map), baseSize: intent.baseSize)
        let uploads = contents.uploads(of: id)
        let record = FileRecord(
            resuming: id, intent, uploads: Dictionary(uniqueKeysWithValues: uploads.map { ($0.id, $0.upload.record) }),
            in: journal)
        let next = life(journal, area, staged, record)
        next.commit.resume(intent, uploads: uploads)
        store.forgetRequests()
        return next
    }

    func recover() async throws -> Recovery.Plan {
        let recovery = Recovery(
            store: store, journal: try journal(), time: SystemTime(), logger: Logger(label: "resume"))
        return try await recovery.run()
    }
}

extension Journal {
    /// What is left in it once the caches have followed.
    func contents(after plan: Recovery.Plan) throws -> JournalContents {
        var contents = try contents()
        for change in plan.ended { contents.apply(change) }
        return contents
    }
}
