import Basics
import HTTP
import ObjectStorage
import Synchronization

/// Copies of what a store does not copy: their bytes go through this machine, a piece at a time, pinned to the version meant.
///
/// OSS refuses append objects as sources (oss.md section 4.5), versitygw the objects of directories; some servers have no copies,
/// and some credentials may not copy. What is made is an ordinary object.
extension FamilyStore {
    /// One piece in memory.
    static let carriedPiece: Int64 = 16 << 20

    /// Whether the server is known to refuse copies of the object.
    func mustCarry(_ source: ObjectKey) -> Bool {
        let conduct = learned.withLock { $0.conduct }
        return conduct.refusesCopies || conduct.refusesMarkerCopies && source.bytes.hasSuffix("/")
    }

    /// Whether the bytes of an object whose copy was refused may be read and written instead. Where it is the reading or the writing
    /// that the credentials lack, that is refused again.
    func mayCarry(_ source: ObjectKey, after refusal: ObjectStoreError) -> Bool {
        guard refusal.status != nil, refusal.code != Self.noACLs else { return false }
        switch refusal.kind {
        case .notSupported: return true
        case .accessDenied: return refusal.status == 403
        // versitygw: DirectoryObjectContainsDataPayload.
        case .invalidRequest: return source.bytes.hasSuffix("/")
        default: return false
        }
    }

    /// What is refused is a header, and not the request.
    static let noACLs = "AccessControlListNotSupported"

    /// The copy was refused, and reading and writing worked.
    func learnRefusal(ofCopying source: ObjectKey, _ refusal: ObjectStoreError) {
        // OSS refuses single objects.
        if profile.carriesUncopyable, refusal.kind == .notSupported { return }
        let isMarker = source.bytes.hasSuffix("/")
        learned.withLock { learned in
            if isMarker { learned.conduct.refusesMarkerCopies = true } else { learned.conduct.refusesCopies = true }
        }
        note(isMarker ? .markerCopiesRefused : .copiesRefused)
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
        let upload: UploadID
        do throws(ObjectStoreError) { upload = try await createUpload(put, restated: restated) } catch {
            guard [.notSupported, .accessDenied].contains(error.kind), version.size <= capabilities.largestPut else {
                throw error
            }
            let file = try await gathered(request.source.key, version)
            return try await self.put(put, body: FileSource(file, 0..<version.size), restated: restated)
        }
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

    /// The bytes of a version in a file without a name, for a server that takes them in one request only.
    private func gathered(_ key: ObjectKey, _ version: ObjectVersion) async throws(ObjectStoreError) -> File {
        func failed(_ error: FileError) -> ObjectStoreError {
            ObjectStoreError(.local(errno: error.errno), .copy, key: key, code: "Local", message: "\(error)")
        }
        let path = "/var/tmp/pailfs-\(RandomID.hex())"
        let file: File
        do {
            file = try File(path, .readWrite, create: .exclusive)
            try File.remove(path)
        } catch { throw failed(error) }
        var start: Int64 = 0
        while start < version.size {
            let range = start..<min(start + Self.carriedPiece, version.size)
            let bytes = try await piece(of: key, range, version.etag)
            do { try file.write(bytes, at: start) } catch { throw failed(error) }
            start = range.upperBound
        }
        return file
    }

    /// The part made from the bytes of `range`.
    ///
    /// Throws: `.notSupported` when they are too many for memory; the caller has a file for them.
    func carry(
        _ part: PartRequest, from source: CopySource, _ range: ByteRange, _ refusal: ObjectStoreError
    ) async throws(ObjectStoreError) -> UploadedPart {
        let isShort = range.length <= 4 * Self.carriedPiece
        let readable = isShort ? range : range.lowerBound..<range.lowerBound + 1
        let bytes = try await piece(of: source.key, readable, source.ifMatch)
        // It was the copy that was refused, and not the source. OSS refuses single objects.
        if !profile.carriesUncopyable {
            learned.withLock { $0.capabilities.partCopy = false }
            note(.partCopiesRefused)
        }
        guard isShort else {
            var refusal = refusal
            refusal.kind = .notSupported
            throw refusal
        }
        return try await uploadPart(part, body: MemorySource(bytes))
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
