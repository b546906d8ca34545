package import Basics
import Digests
import FoundationEssentials
import HTTP
package import ObjectStorage
import Synchronization

/// The parts that this process has sent: for each upload the hashes from which the whole's follows. Bounded: the oldest uploads
/// are dropped, and their objects are then not compared.
struct KodoUploads {
    private var parts: [String: [Int: QETag.Part]] = [:]
    private var order: [String] = []
    private static let most = 256

    mutating func add(_ part: QETag.Part, number: Int, of upload: String) {
        if parts[upload] == nil {
            order.append(upload)
            if order.count > Self.most { parts[order.removeFirst()] = nil }
        }
        parts[upload, default: [:]][number] = part
    }

    mutating func forget(_ upload: String) {
        parts[upload] = nil
        order.removeAll { $0 == upload }
    }

    /// The hash of the object that `chosen` make; nil when another process has sent one of them.
    func hash(_ upload: String, _ chosen: [UploadedPart]) -> String? {
        guard let known = parts[upload] else { return nil }
        let parts = chosen.compactMap { part in known[part.number].flatMap { $0.size == part.size ? $0 : nil } }
        return parts.count == chosen.count ? QETag.text(QETag.joining(parts)) : nil
    }
}

/// Uploads in parts (Kodo API, resumable upload version 2). Kodo wants metadata, type and class at the end, other stores at the
/// beginning, so the upload ID carries them along, through restarts as well.
extension KodoStore {
    private struct Carried: Codable {
        var metadata: [String: String] = [:]
        var type: String?
        var storageClass: String?
    }

    /// The store's own id, and the properties from the beginning of the upload.
    private static func read(_ upload: UploadID) -> (id: String, carried: Carried) {
        guard let mark = upload.text.lastIndex(of: "|"),
            let bytes = Base64.decode(upload.text[upload.text.index(after: mark)...], alphabet: .urlSafe),
            let carried = KodoDocuments.decode(Carried.self, bytes)
        else { return (upload.text, Carried()) }
        return (String(upload.text[..<mark]), carried)
    }

    private func call(
        _ operation: ObjectStoreError.Operation, _ method: HTTPMethod, _ key: ObjectKey, _ rest: String,
        _ policy: KodoPutPolicy? = nil
    ) -> KodoClient.Call {
        let name = Base64.encode(key.bytes.bytes, alphabet: .urlSafe)
        let bucket = PercentEncoding.encode(settings.bucket)
        var call = KodoClient.Call(operation, "/buckets/\(bucket)/objects/\(name)/uploads\(rest)", key)
        (call.method, call.service) = (method, .up)
        call.authorization = .upload(policy ?? KodoPutPolicy(scope: "\(settings.bucket):\(key)"))
        return call
    }

    package func createUpload(_ request: PutRequest) async throws(ObjectStoreError) -> UploadID {
        try check(request.key, .createUpload)
        try check(request.metadata, .createUpload, request.key)
        _ = try fileType(request.storageClass, size: nil, .createUpload)
        let call = call(.createUpload, .post, request.key, "")
        let response = try await client.send(call)
        guard let id = KodoDocuments.decode(KodoDocuments.Upload.self, response.body)?.uploadId, !id.isEmpty else {
            throw malformed(call, response, "the answer has no uploadId")
        }
        let carried = Carried(
            metadata: KodoMetadata.fields(of: request.metadata), type: request.metadata.contentType,
            storageClass: request.storageClass)
        guard let document = try? JSONEncoder().encode(carried) else { return UploadID(id) }
        return UploadID("\(id)|\(Base64.encode(Array(document), alphabet: .urlSafe))")
    }

    package func uploadPart(
        _ part: PartRequest, body: any ByteSource
    ) async throws(ObjectStoreError) -> UploadedPart {
        let id = Self.read(part.upload).id
        let digests = try digests(of: body, .uploadPart, part.key)
        var call = call(.uploadPart, .put, part.key, "/\(id)/\(part.number)")
        call.headers["Content-Type"] = "application/octet-stream"
        call.headers["Content-MD5"] = Hex.encode(digests.md5)
        let response = try await client.send(call, body: body)
        guard let sent = KodoDocuments.decode(KodoDocuments.SentPart.self, response.body) else {
            throw malformed(call, response, "the answer has no etag")
        }
        let told = settings.verifiesChecksums ? sent.md5?.lowercased() : nil
        guard told ?? Hex.encode(digests.md5) == Hex.encode(digests.md5) else {
            throw integrity(call, response, "the store has other bytes than were sent")
        }
        let known = QETag.Part(digest: digests.hash, size: body.count)
        uploads.withLock { $0.add(known, number: part.number, of: id) }
        return UploadedPart(number: part.number, etag: ETag(sent.etag), size: body.count)
    }

    package func uploadPartCopy(
        _ part: PartRequest, from source: CopySource, range: ByteRange
    ) async throws(ObjectStoreError) -> UploadedPart {
        throw notSupported(.uploadPartCopy, part.key, "copies into parts")
    }

    package func listParts(
        _ key: ObjectKey, _ upload: UploadID
    ) async throws(ObjectStoreError) -> [UploadedPart] {
        var (parts, marker): ([UploadedPart], Int) = ([], 0)
        while true {
            let id = Self.read(upload).id
            var call = call(
                .listParts, .get, key, "/\(id)?max-parts=1000\(marker > 0 ? "&part-number-marker=\(marker)" : "")")
            call.collectLimit = 16 << 20
            let response = try await client.send(call)
            guard let page = KodoDocuments.decode(KodoDocuments.Parts.self, response.body) else {
                throw malformed(call, response, "the answer is not a list of parts")
            }
            parts += (page.parts ?? []).map {
                UploadedPart(number: $0.partNumber, etag: ETag($0.etag), size: $0.size ?? 0)
            }
            guard let next = page.partNumberMarker, next != 0 else { return parts }
            guard next > marker else { throw malformed(call, response, "the list of parts does not advance") }
            marker = next
        }
    }

    package func listUploads(prefix: ByteString) async throws(ObjectStoreError) -> [UploadInProgress] {
        throw notSupported(.listUploads, nil, "lists of unfinished uploads")
    }

    package func completeUpload(
        _ key: ObjectKey, _ upload: UploadID, parts: [UploadedPart], metadata: ObjectMetadata?,
        condition: WriteCondition?
    ) async throws(ObjectStoreError) -> PutAnswer {
        var (id, carried) = Self.read(upload)
        if let metadata {
            try check(metadata, .completeUpload, key)
            (carried.metadata, carried.type) = (KodoMetadata.fields(of: metadata), metadata.contentType)
        }
        let metadata = KodoMetadata.metadata(carried.metadata, contentType: carried.type)
        let request = PutRequest(key, metadata: metadata, condition: condition, storageClass: carried.storageClass)
        let size = parts.reduce(0) { $0 + $1.size }
        var call = call(.completeUpload, .post, key, "/\(id)", try policy(request, size: size, .completeUpload))
        call.headers["Content-Type"] = "application/json"
        let document = KodoDocuments.Completion(
            parts: parts.map { KodoDocuments.Part(partNumber: $0.number, etag: $0.etag.text) },
            mimeType: settings.uploadPolicy.detectsType ? nil : carried.type,
            metadata: Dictionary(
                uniqueKeysWithValues: carried.metadata.map { (KodoMetadata.wire($0.key), $0.value) }),
            customVars: callback(of: key)?.variables)
        guard let body = try? JSONEncoder().encode(document) else {
            throw ObjectStoreError(
                .invalidRequest, .completeUpload, key: key, code: "InvalidRequest",
                message: "the parts cannot be written as JSON")
        }
        let hash = uploads.withLock { $0.hash(id, parts) }
        let answer = try await inserting(request, .completeUpload) { () async throws(ObjectStoreError) in
            do throws(ObjectStoreError) {
                return try await calledBack(call, hash: hash, size: size, metadata) {
                    [call] () async throws(ObjectStoreError) in
                    try await client.send(call, body: MemorySource(Array(body)))
                }
            } catch {
                // An earlier try made the object, and its answer was lost.
                guard error.kind == .noSuchUpload, hash != nil,
                    let landed = try? await landed(key, hash, size: size, metadata, .completeUpload)
                else { throw error }
                return landed
            }
        }
        uploads.withLock { $0.forget(id) }
        return answer
    }

    package func abortUpload(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError) {
        let id = Self.read(upload).id
        uploads.withLock { $0.forget(id) }
        do { _ = try await client.send(call(.abortUpload, .delete, key, "/\(id)")) } catch {
            guard error.kind == .noSuchUpload || error.kind == .notFound else { throw error }
        }
    }
}
