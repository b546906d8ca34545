import Basics
import HTTP
import ObjectStorage
import Synchronization

/// Copies of what a store does not copy: OSS refuses append objects as sources (oss.md section 4.5), so their bytes go
/// through this machine, a piece at a time, pinned to the version meant. What is made is an ordinary object.
extension FamilyStore {
    /// One piece in memory.
    static let carriedPiece: Int64 = 16 << 20

    /// Whether a refused copy is one of those.
    func mayCarry(after refusal: ObjectStoreError) -> Bool {
        profile.carriesUncopyable && refusal.kind == .notSupported && refusal.status != nil
    }

    /// The object of `request.key` made from the source's bytes.
    func carry(
        _ request: CopyRequest, restated: [(name: String, value: String)] = []
    ) async throws(ObjectStoreError) -> PutAnswer {
        let source = try await look(at: request.source.key, condition: request.source.ifMatch.map { .ifMatch($0) })
        let version = source.info.version
        var restated = restated
        if source.info.metadata.kept.isTagged { restated += try await tagHeaders(of: request.source.key) }
        if let kept = request.keeping { restated += try await aclHeaders(of: kept) }
        let put = PutRequest(
            request.key, metadata: request.metadata ?? source.info.metadata, condition: request.condition,
            storageClass: request.storageClass)
        if version.size <= Self.carriedPiece {
            let bytes = try await piece(of: request.source.key, 0..<version.size, version.etag)
            return try await self.put(put, body: MemorySource(bytes), restated: restated)
        }
        let upload = try await createUpload(put, restated: restated)
        do {
            var parts: [UploadedPart] = []
            let step = max(Self.carriedPiece, (version.size - 1) / Int64(capabilities.mostParts) + 1)
            var start: Int64 = 0
            while start < version.size {
                let range = start..<min(start + step, version.size)
                start = range.upperBound
                let bytes = try await piece(of: request.source.key, range, version.etag)
                let part = PartRequest(request.key, upload, number: parts.count + 1)
                parts.append(try await uploadPart(part, body: MemorySource(bytes)))
            }
            return try await completeUpload(request.key, upload, parts: parts, condition: request.condition)
        } catch {
            try? await abortUpload(request.key, upload)
            throw error
        }
    }

    /// The part made from the bytes of `range`; `refusal` stands when they are too many for memory.
    func carry(
        _ part: PartRequest, from source: CopySource, _ range: ByteRange, _ refusal: ObjectStoreError
    ) async throws(ObjectStoreError) -> UploadedPart {
        guard range.length <= 4 * Self.carriedPiece else { throw refusal }
        return try await uploadPart(
            part, body: MemorySource(try await piece(of: source.key, range, source.ifMatch)))
    }

    private func piece(
        of key: ObjectKey, _ range: ByteRange, _ etag: ETag?
    ) async throws(ObjectStoreError) -> [UInt8] {
        guard !range.isEmpty else { return [] }
        let sink = PieceSink()
        let request = GetRequest(key, range: range, condition: etag.map { .ifMatch($0) })
        let answer = try await get(request, into: sink)
        guard answer.range == range else {
            throw ObjectStoreError(
                .integrity, .get, key: key, code: "OtherLength",
                message: "the object ends before byte \(range.upperBound)")
        }
        return sink.bytes.withLock { $0 }
    }

    private final class PieceSink: ByteSink {
        let bytes = Mutex<[UInt8]>([])

        func receive(_ piece: RawSpan) { bytes.withLock { $0 += piece.copied } }
        func restart() { bytes.withLock { $0 = [] } }
    }
}
