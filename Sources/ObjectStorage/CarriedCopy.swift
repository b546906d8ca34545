package import Basics
import Synchronization

/// The copy of an object whose bytes go through this machine, a piece at a time, pinned to the source's version: for a store that
/// does not copy it. The copy is an ordinary object.
package struct CarriedCopy {
    /// Size of one piece in memory.
    package static let pieceLength: Int64 = 16 << 20

    package typealias Putting = (PutRequest, any ByteSource) async throws(ObjectStoreError) -> PutAnswer
    package typealias Creating = (PutRequest) async throws(ObjectStoreError) -> UploadID

    private let store: any ObjectStore
    private let reader: any ObjectStore
    private let source: ObjectKey
    private let version: ObjectVersion
    /// Of a source that is not the latest version.
    private let versionID: String?
    /// The object to be made.
    private var request: PutRequest

    /// `version` is that of the source.
    package init(of source: CopySource, _ version: ObjectVersion, to request: PutRequest, in store: any ObjectStore) {
        (self.store, reader) = (store, source.reader(for: store))
        (self.source, self.version, self.request) = (source.key, version, request)
        self.request.size = version.size
        versionID = source.version
    }

    /// `put` and `create` are the caller's own: they add properties of the copy other than bytes and metadata.
    package func make(put: Putting, create: Creating) async throws(ObjectStoreError) -> PutAnswer {
        if version.size <= Self.pieceLength {
            let bytes = try await Self.bytes(0..<version.size, of: source, version.etag, version: versionID, in: reader)
            return try await put(request, MemorySource(bytes))
        }
        let upload: UploadID
        do throws(ObjectStoreError) { upload = try await create(request) } catch {
            guard isRefusal(error) else { throw error }
            return try await put(request, FileSource(try await gathered(), 0..<version.size))
        }
        do throws(ObjectStoreError) {
            var parts: [UploadedPart] = []
            let limits = store.capabilities
            let step = max(Self.pieceLength, limits.smallestPart, (version.size - 1) / Int64(limits.mostParts) + 1)
            var start: Int64 = 0
            while start < version.size {
                let range = start..<min(start + step, version.size)
                start = range.upperBound
                let bytes = try await Self.bytes(range, of: source, version.etag, version: versionID, in: reader)
                let part = PartRequest(request.key, upload, number: parts.count + 1)
                parts.append(try await store.uploadPart(part, body: MemorySource(bytes)))
            }
            return try await store.completeUpload(
                request.key, upload, parts: parts, metadata: nil, condition: request.condition)
        } catch {
            try? await store.abortUpload(request.key, upload)
            // Swift refuses the manifest, after all parts.
            guard error.operation == .completeUpload, error.kind == .notSupported, isRefusal(error) else { throw error }
            return try await put(request, FileSource(try await gathered(), 0..<version.size))
        }
    }

    /// Whether the server has no multipart uploads, or the credentials may not make them, and one PUT can hold the object.
    private func isRefusal(_ error: ObjectStoreError) -> Bool {
        [.notSupported, .accessDenied].contains(error.kind) && version.size <= store.capabilities.largestPut
    }

    /// Fetches the version's bytes into a file without a name, for a server that takes them in one request only.
    private func gathered() async throws(ObjectStoreError) -> File {
        func failed(_ error: FileError) -> ObjectStoreError {
            ObjectStoreError(.local(errno: error.errno), .copy, key: source, code: "Local", message: "\(error)")
        }
        let path = "/var/tmp/pailfs-\(RandomID.hex())"
        let file: File
        do {
            file = try File(path, .readWrite, create: .exclusive)
            try File.remove(path)
        } catch { throw failed(error) }
        var start: Int64 = 0
        while start < version.size {
            let range = start..<min(start + Self.pieceLength, version.size)
            let bytes = try await Self.bytes(range, of: source, version.etag, version: versionID, in: reader)
            do { try file.write(bytes, at: start) } catch { throw failed(error) }
            start = range.upperBound
        }
        return file
    }

    /// Makes a part from the bytes of `range`, after the store has refused to copy it. `learn` is called once the source has
    /// proved readable, so that the refusal was of the copy.
    ///
    /// Throws: `.notSupported` when the bytes are too many for memory; the caller has a file for them.
    package static func part(
        _ part: PartRequest, from source: CopySource, _ range: ByteRange, after refusal: ObjectStoreError,
        in store: any ObjectStore, learn: () -> Void
    ) async throws(ObjectStoreError) -> UploadedPart {
        let isShort = range.length <= 4 * pieceLength
        let readable = isShort ? range : range.lowerBound..<range.lowerBound + 1
        let bytes = try await bytes(
            readable, of: source.key, source.ifMatch, version: source.version,
            in: source.reader(for: store))
        learn()
        guard isShort else {
            var refusal = refusal
            refusal.kind = .notSupported
            throw refusal
        }
        return try await store.uploadPart(part, body: MemorySource(bytes))
    }

    /// The bytes of a range of the object with this ETag, of the version with the ID where one is given.
    package static func bytes(
        _ range: ByteRange, of key: ObjectKey, _ etag: ETag?, version: String? = nil, in store: any ObjectStore
    ) async throws(ObjectStoreError) -> [UInt8] {
        guard !range.isEmpty else { return [] }
        let sink = Sink()
        let request = GetRequest(key, range: range, condition: etag.map { .ifMatch($0) }, version: version)
        let answer = try await store.get(request, into: sink)
        guard answer.range == range else {
            throw ObjectStoreError(
                .integrity, .get, key: key, code: "OtherLength",
                message: "the object ends before byte \(range.upperBound)")
        }
        return sink.bytes.withLock { $0 }
    }

    private final class Sink: ByteSink {
        let bytes = Mutex<[UInt8]>([])

        func receive(_ piece: RawSpan) { bytes.withLock { $0 += piece.copied } }
        func restart() { bytes.withLock { $0 = [] } }
    }
}
