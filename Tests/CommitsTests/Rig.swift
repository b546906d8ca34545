import Basics
import Commits
import Journaling
import Logging
import ObjectStorage
import Staging
import Synchronization
import TestSupport

/// A dirty file over a store in memory, with everything a commit needs.
final class Rig: Sendable {
    static let kib = 1 << 10

    let store: MemoryStore
    let staged: StagedFile
    let commit: FileCommit
    let uploads: UploadLimiter
    private let directory: TemporaryDirectory
    private let headers = Mutex(ObjectMetadata(user: ["mode": "33188", "mtime": "1000"]))

    /// Parts of 64 KiB.
    static func capabilities(_ change: (inout Capabilities) -> Void = { _ in }) -> Capabilities {
        var capabilities = Capabilities()
        capabilities.smallestPart = 16 << 10
        change(&capabilities)
        return capabilities
    }

    init(
        _ store: MemoryStore = MemoryStore(capabilities: Rig.capabilities()), base: ObjectKey? = nil,
        content: [UInt8] = [], pool: WorkerPool = WorkerPool(threads: 4, name: "commits"),
        adjust: (inout CommitOptions) -> Void = { _ in }
    ) throws {
        self.store = store
        directory = try TemporaryDirectory()
        let ledger = SpaceLedger(limit: 1 << 40, floor: 0) { 1 << 50 }
        let area = try StagingArea(directory: directory.path("staging"), ledger: ledger, time: SystemTime())
        staged = try area.create(IntentID(rawValue: 1), baseSize: Int64(content.count))
        let version = base.map { store.setObject($0, content) }
        var options = CommitOptions()
        options.partSize = 64 << 10
        options.uploadsPerFile = 4
        adjust(&options)
        uploads = UploadLimiter(limit: 6)
        commit = FileCommit(
            store: store, staged: staged,
            base: base.flatMap { key in version.map { StoreContent(key, $0, in: store) } }, options: options,
            uploads: uploads, pool: pool, time: SystemTime(), logger: Logger(label: "commits")
        ) { [store] in StoreContent($0, $1, in: store) }
        store.forgetRequests()
    }

    var metadata: ObjectMetadata {
        get { headers.withLock { $0 } }
        set { headers.withLock { $0 = newValue } }
    }

    func write(_ bytes: [UInt8], at offset: Int, to key: ObjectKey = "file") throws {
        try staged.write(bytes.span.bytes, at: Int64(offset))
        commit.noteWrite(ByteRange(at: Int64(offset), count: Int64(bytes.count)), key: key) { self.metadata }
    }

    func truncate(to size: Int) throws {
        try staged.truncate(to: Int64(size))
        commit.noteTruncate()
    }

    @discardableResult
    func land(_ key: ObjectKey = "file", if condition: WriteCondition? = nil) async throws -> ObjectVersion {
        try await commit.commit(to: key, metadata: metadata, condition: condition)
    }

    static func bytes(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
        var generator = SeededGenerator(seed: seed)
        return generator.bytes(count)
    }

    static func error(
        _ kind: ObjectStoreError.Kind, _ operation: ObjectStoreError.Operation
    ) -> ObjectStoreError {
        ObjectStoreError(kind, operation, message: "as told")
    }
}
