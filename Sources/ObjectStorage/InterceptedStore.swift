package import Basics
import Digests

/// The request that an interceptor is called for.
package struct RequestContext: Sendable {
    package let operation: ObjectStoreError.Operation
    package let key: ObjectKey?
    /// The bytes to send, or to fetch where they are known; 0 for a request without a body of its own.
    package let bytes: Int64

    enum Direction: Sendable { case send, fetch }

    /// A body of one or two packets: a directory's object, a symbolic link.
    private static let smallBody: Int64 = 4096

    /// Whether the request moves so much object data through this machine that it may take a while.
    package var isTransfer: Bool { direction == .fetch || direction == .send && bytes > Self.smallBody }

    /// The direction in which the request moves object data; nil when it moves none.
    var direction: Direction? {
        switch operation {
        case .get: .fetch
        case .put, .uploadPart: .send
        case .list, .head, .copy, .delete, .deleteMany, .createUpload, .uploadPartCopy, .listParts, .listUploads,
            .completeUpload, .abortUpload, .updateMetadata, .presign, .checkAccess, .accessControl, .setAccessControl,
            .tags, .setTags, .setStorageClass, .restore, .move, .putSymlink, .symlinkTarget, .usage, .preflight,
            .changeBucket, .listBuckets, .versions, .deleteVersion:
            nil
        }
    }
}

/// Asks the store for the outcome of a write whose answer was lost.
package typealias Settlement<Answer> = () async throws(ObjectStoreError) -> Answer?

/// Code around each request of a store: it may wait, count, retry, or all of it.
package protocol Interceptor: Sendable {
    /// Calls `attempt` as often as needed and returns its answer. `settle`, if present, finds out the outcome of an earlier try
    /// whose answer was lost: it returns the lost answer, or nil when the work is not done.
    func intercept<Answer: Sendable>(
        _ context: RequestContext, settle: Settlement<Answer>?, _ attempt: () async throws(ObjectStoreError) -> Answer
    ) async throws(ObjectStoreError) -> Answer
}

/// A store with an interceptor around each request: the one place that forwards the whole protocol, so that retry, throttle,
/// measurement and log need not.
package struct InterceptedStore<Around: Interceptor>: ObjectStore {
    let base: any ObjectStore
    let around: Around
    /// nil: those of `base`.
    private let limits: MountLimits?

    package init(_ base: any ObjectStore, _ around: Around, limits: MountLimits? = nil) {
        (self.base, self.around, self.limits) = (base, around, limits)
    }

    package var capabilities: Capabilities {
        var capabilities = base.capabilities
        if let limits { capabilities.limits = limits }
        return capabilities
    }

    func context(
        _ operation: ObjectStoreError.Operation, _ key: ObjectKey? = nil, bytes: Int64 = 0
    ) -> RequestContext {
        RequestContext(operation: operation, key: key, bytes: bytes)
    }

    func run<Answer: Sendable>(
        _ context: RequestContext, _ attempt: () async throws(ObjectStoreError) -> Answer
    ) async throws(ObjectStoreError) -> Answer {
        try await around.intercept(context, settle: nil, attempt)
    }

    package func list(_ request: ListRequest) async throws(ObjectStoreError) -> ListingPage {
        try await run(context(.list)) { () async throws(ObjectStoreError) in
            try await base.list(request)
        }
    }

    package func head(_ key: ObjectKey, condition: ReadCondition?) async throws(ObjectStoreError) -> ObjectInfo {
        try await run(context(.head, key)) { () async throws(ObjectStoreError) in
            try await base.head(key, condition: condition)
        }
    }

    package func get(_ request: GetRequest, into sink: any ByteSink) async throws(ObjectStoreError) -> GetAnswer {
        var isFirst = true
        let context = context(.get, request.key, bytes: request.range?.length ?? 0)
        return try await run(context) { () async throws(ObjectStoreError) in
            if !isFirst { sink.restart() }
            isFirst = false
            return try await base.get(request, into: sink)
        }
    }

    package func checksums(
        of key: ObjectKey, _ version: ObjectVersion
    ) async throws(ObjectStoreError) -> [CheckedPart] {
        try await run(context(.head, key)) { () async throws(ObjectStoreError) in
            try await base.checksums(of: key, version)
        }
    }

    package func put(_ request: PutRequest, body: any ByteSource) async throws(ObjectStoreError) -> PutAnswer {
        let settle: Settlement<PutAnswer> = { () async throws(ObjectStoreError) in try await landed(request, body) }
        return try await around.intercept(context(.put, request.key, bytes: body.count), settle: settle) {
            () async throws(ObjectStoreError) in try await base.put(request, body: body)
        }
    }

    package func copy(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        try await run(context(.copy, request.key)) { () async throws(ObjectStoreError) in
            try await base.copy(request)
        }
    }

    package func delete(_ key: ObjectKey, ifMatch: ETag?) async throws(ObjectStoreError) {
        let settle: Settlement<Void> = { () async throws(ObjectStoreError) in try await isGone(key) ? () : nil }
        return try await around.intercept(context(.delete, key), settle: settle) { () async throws(ObjectStoreError) in
            try await base.delete(key, ifMatch: ifMatch)
        }
    }

    package func deleteMany(_ keys: [ObjectKey]) async throws(ObjectStoreError) -> [ObjectStoreError] {
        try await run(context(.deleteMany, keys.first)) { () async throws(ObjectStoreError) in
            try await base.deleteMany(keys)
        }
    }

    package func createUpload(_ request: PutRequest) async throws(ObjectStoreError) -> UploadID {
        try await run(context(.createUpload, request.key)) { () async throws(ObjectStoreError) in
            try await base.createUpload(request)
        }
    }

    package func uploadPart(_ part: PartRequest, body: any ByteSource) async throws(ObjectStoreError) -> UploadedPart {
        try await run(context(.uploadPart, part.key, bytes: body.count)) {
            () async throws(ObjectStoreError) in try await base.uploadPart(part, body: body)
        }
    }

    package func uploadPartCopy(
        _ part: PartRequest, from source: CopySource, range: ByteRange
    ) async throws(ObjectStoreError) -> UploadedPart {
        try await run(context(.uploadPartCopy, part.key)) { () async throws(ObjectStoreError) in
            try await base.uploadPartCopy(part, from: source, range: range)
        }
    }

    package func listParts(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError) -> [UploadedPart] {
        try await run(context(.listParts, key)) { () async throws(ObjectStoreError) in
            try await base.listParts(key, upload)
        }
    }

    package func listUploads(prefix: ByteString) async throws(ObjectStoreError) -> [UploadInProgress] {
        try await run(context(.listUploads)) { () async throws(ObjectStoreError) in
            try await base.listUploads(prefix: prefix)
        }
    }

    package func completeUpload(
        _ key: ObjectKey, _ upload: UploadID, parts: [UploadedPart], metadata: ObjectMetadata?,
        condition: WriteCondition?
    ) async throws(ObjectStoreError) -> PutAnswer {
        let settle: Settlement<PutAnswer> = { () async throws(ObjectStoreError) in try await landed(key, parts) }
        return try await around.intercept(context(.completeUpload, key), settle: settle) {
            () async throws(ObjectStoreError) in
            try await base.completeUpload(key, upload, parts: parts, metadata: metadata, condition: condition)
        }
    }

    package func abortUpload(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError) {
        try await run(context(.abortUpload, key)) { () async throws(ObjectStoreError) in
            try await base.abortUpload(key, upload)
        }
    }

    package func updateMetadata(
        _ key: ObjectKey, to metadata: ObjectMetadata, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer {
        let settle: Settlement<PutAnswer> = { () async throws(ObjectStoreError) in try await landed(key, metadata) }
        return try await around.intercept(context(.updateMetadata, key), settle: settle) {
            () async throws(ObjectStoreError) in
            try await base.updateMetadata(key, to: metadata, ifMatch: ifMatch)
        }
    }

    /// Whether the object is missing, so that an earlier try may have deleted it.
    private func isGone(_ key: ObjectKey) async throws(ObjectStoreError) -> Bool {
        do { _ = try await base.head(key, condition: nil) } catch {
            guard error.kind == .notFound else { throw error }
            return true
        }
        return false
    }

    /// The object, when it has the headers of the request: replacing them can change its ETag, which then fails the condition of
    /// a second try. Headers without user metadata prove nothing.
    private func landed(
        _ key: ObjectKey, _ metadata: ObjectMetadata
    ) async throws(ObjectStoreError) -> PutAnswer? {
        let info = try await base.head(key, condition: nil)
        guard !metadata.user.isEmpty, info.metadata.user == metadata.user else { return nil }
        return PutAnswer(info.version)
    }

    /// The PUT's object, when the object at the key has the content and the user metadata of the request.
    private func landed(_ request: PutRequest, _ body: any ByteSource) async throws(ObjectStoreError) -> PutAnswer? {
        let info = try await base.head(request.key, condition: nil)
        guard info.version.size == body.count, info.metadata.hasUser(of: request.metadata) else { return nil }
        var md5 = MD5()
        var crc = CRC64ECMA()
        do {
            try body.forEachPiece { piece in
                md5.update(piece)
                if info.crc64 != nil { crc.update(piece) }
            }
        } catch { return nil }
        let isSame = info.crc64.map { $0 == crc.value } ?? (Hex.decode(info.version.etag.text) == md5.finish())
        return isSame ? PutAnswer(info.version) : nil
    }

    /// The upload's object, when its checksum is that of these parts together, or its ETag is the one that these parts make where
    /// ETags are MD5s.
    private func landed(_ key: ObjectKey, _ parts: [UploadedPart]) async throws(ObjectStoreError) -> PutAnswer? {
        if let crc = UploadedPart.crc64(of: parts) {
            let info = try await base.head(key, condition: nil)
            let size = parts.reduce(0) { $0 + $1.size }
            return info.version.size == size && info.crc64 == crc ? PutAnswer(info.version) : nil
        }
        let digests = parts.compactMap { $0.etag.text.utf8.count == 32 ? Hex.decode($0.etag.text) : nil }
        guard digests.count == parts.count else { return nil }
        let version = try await base.head(key, condition: nil).version
        // S3 hashes the digests, Swift their hexadecimal text.
        let made = [
            "\(Hex.encode(MD5.of(digests.flatMap(\.self))))-\(parts.count)",
            Hex.encode(MD5.of(parts.map(\.etag.text).joined())),
        ]
        guard made.contains(version.etag.text) else { return nil }
        return PutAnswer(version)
    }

    /// Presigning sends no request, so the interceptor is not called.
    package func presign(_ request: PresignRequest) throws(ObjectStoreError) -> String { try base.presign(request) }

    package func checkAccess(below prefix: ByteString) async throws(ObjectStoreError) {
        try await run(context(.checkAccess)) { () async throws(ObjectStoreError) in
            try await base.checkAccess(below: prefix)
        }
    }
}

extension UploadedPart {
    /// The CRC-64 of the object that `parts` make in this order; nil unless all of them have one.
    package static func crc64(of parts: [UploadedPart]) -> UInt64? {
        var whole = CRC64ECMA().value
        for part in parts {
            guard let crc = part.crc64 else { return nil }
            whole = CRC64ECMA.combine(whole, crc, secondLength: part.size)
        }
        return whole
    }
}

extension PutAnswer {
    /// The answer to a write that has made this version.
    package init(_ version: ObjectVersion) {
        self.init(etag: version.etag, versionID: version.versionID, modified: version.modified)
    }
}
