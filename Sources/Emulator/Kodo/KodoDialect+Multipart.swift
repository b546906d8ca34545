import Basics
import Digests
import FoundationEssentials

/// Uploads in parts, version 2 of the resumable upload (Kodo API).
extension KodoDialect {
    private static let lifetime: Int64 = 7 * 86400
    private static let largestPart: Int64 = 1 << 30
    private static let mostParts = 10_000

    /// What an upload in parts is started and ended with.
    private struct Completion: Decodable {
        struct Part: Decodable {
            let etag: String
            let partNumber: Int
        }

        let parts: [Part]
        let fname: String?
        let mimeType: String?
        let metadata: [String: String]?
        let customVars: [String: String]?
    }

    /// The policy of the request, if it is for the bucket and key of the path.
    private func policy(_ call: KodoCall) throws(KodoError) -> PutPolicy {
        let policy = try authenticator.policy(of: call.request)
        try authenticator.checkDeadline(policy)
        guard policy.bucket == call.entry.bucket, call.entry.key.isEmpty || policy.admits(call.entry.key) else {
            throw .outOfScope
        }
        return policy
    }

    private func openUpload(_ call: KodoCall) throws(KodoError) -> (Bucket, Upload) {
        let bucket = try bucket(call.entry.bucket)
        let id = call.target.arguments.first.map(String.init) ?? ""
        let upload = try KodoError.storing { () throws(StorageError) in try bucket.upload(id, of: call.entry.key) }
        guard upload.record.initiated.seconds + Self.lifetime > options.time.now().seconds else {
            try? bucket.abort(upload)
            throw .noSuchUpload
        }
        return (bucket, upload)
    }

    private func expiry(_ upload: Upload) -> JSONValue { .number(upload.record.initiated.seconds + Self.lifetime) }

    func createUpload(_ call: KodoCall) throws(KodoError) -> ServerResponse {
        _ = try policy(call)
        try checkKey(call.entry.key)
        let bucket = try bucket(call.entry.bucket)
        let record = UploadRecord(
            key: call.entry.key, initiated: options.time.now(), description: ObjectDescription(),
            checksumAlgorithm: nil, wantsFullChecksum: false)
        let upload = try KodoError.storing { () throws(StorageError) in try bucket.beginUpload(record) }
        return Self.json(["uploadId": .string(upload.id), "expireAt": expiry(upload)])
    }

    func uploadPart(_ call: KodoCall) async throws(KodoError) -> ServerResponse {
        _ = try policy(call)
        let (bucket, upload) = try openUpload(call)
        guard let number = Int(call.target.arguments[1]), (1...Self.mostParts).contains(number) else {
            throw .invalid("invalid part number")
        }
        guard call.request.contentLength ?? 0 <= Self.largestPart else {
            throw KodoError(413, "request entity too large")
        }
        var receiver = KodoReceiver(into: bucket)
        try await receiver.take(call.body, length: call.request.contentLength)
        let md5 = receiver.md5.finish()
        if let expected = call.request.header("content-md5"), expected.lowercased() != Hex.encode(md5) {
            throw .invalid("md5 mismatch")
        }
        let content = try receiver.finish()
        let blocks = Int((content.size + QETag.blockSize - 1) / QETag.blockSize)
        let hash = receiver.hash.finish()
        // The hash without its first byte is a SHA-1, of the part or of its blocks' digests.
        let part = PartRecord(
            number: number, size: content.size, md5: md5, modified: options.time.now(),
            checksum: StoredChecksum(
                algorithm: .sha1, digest: Array(hash.dropFirst()), composedOf: blocks > 1 ? blocks : nil),
            segments: [])
        try KodoError.storing { () throws(StorageError) in try upload.put(part, content: content, sync: options.sync) }
        return Self.json(["etag": .string(QETag.text(hash)), "md5": .string(Hex.encode(md5))])
    }

    /// The hash of a part; empty for one that came through another dialect.
    private static func hash(of part: PartRecord) -> [UInt8] {
        guard let checksum = part.checksum, checksum.algorithm == .sha1,
            part.size <= QETag.blockSize || checksum.composedOf != nil
        else { return [] }
        return [checksum.composedOf == nil ? 0x16 : 0x96] + checksum.digest
    }

    func listParts(_ call: KodoCall) throws(KodoError) -> ServerResponse {
        _ = try policy(call)
        let (_, upload) = try openUpload(call)
        let limit = call.request.parameter("max-parts").map { Int($0) ?? 0 } ?? 1000
        guard (1...1000).contains(limit) else { throw .invalid("invalid max-parts") }
        // One SDK spells it with an underscore.
        let marker = (call.request.parameter("part-number-marker") ?? call.request.parameter("part-number_marker"))
            .flatMap { Int($0) }
        let rest = upload.parts.filter { $0.number > marker ?? 0 }
        let page = rest.prefix(limit)
        return Self.json([
            "uploadId": .string(upload.id), "expireAt": expiry(upload),
            "partNumberMarker": .number(page.count < rest.count ? Int64(page.last?.number ?? 0) : 0),
            "parts": .array(
                page.map { part in
                    [
                        "size": .number(part.size), "etag": .string(QETag.text(Self.hash(of: part))),
                        "partNumber": .number(Int64(part.number)), "putTime": .number(part.modified.seconds),
                    ]
                }),
        ])
    }

    func completeUpload(_ call: KodoCall) async throws(KodoError) -> ServerResponse {
        let policy = try policy(call)
        let body: [UInt8]
        do { body = try await call.body.collect(limit: Self.largestDocument) } catch { throw .incompleteBody }
        let (bucket, upload) = try openUpload(call)
        guard let completion = try? JSONDecoder().decode(Completion.self, from: Data(body)), !completion.parts.isEmpty,
            completion.parts.count <= Self.mostParts
        else { throw .invalid("invalid parts") }
        let parts = try KodoError.storing { () throws(StorageError) in
            try bucket.parts(
                of: upload, completion.parts.map { ChosenPart(number: $0.partNumber, etag: nil) },
                smallestPart: min(options.smallestPart, 1 << 20))
        }
        for (part, chosen) in zip(parts, completion.parts) where QETag.text(Self.hash(of: part)) != chosen.etag {
            throw KodoError(.invalidPart(number: part.number))
        }
        var request = KodoUploadRequest()
        request.key = call.entry.key.isEmpty ? nil : call.entry.key
        request.fileName = completion.fname ?? ""
        request.mimeType = completion.mimeType
        request.metadata = (completion.metadata ?? [:]).map { Field($0.key, $0.value) }.sorted { $0.name < $1.name }
        request.variables = (completion.customVars ?? [:]).map { Field($0.key, $0.value) }
        let size = parts.reduce(0) { $0 + $1.size }
        let hash = QETag.joining(parts.map { QETag.Part(digest: Self.hash(of: $0), size: $0.size) })
        let etag = "\(Hex.encode(MD5.of(parts.flatMap(\.md5))))-\(parts.count)"
        return try store(request, policy, size: size, hash: QETag.text(hash)) {
            key, description, condition throws(StorageError) in
            let record = ObjectRecord(
                key: key, size: size, etag: etag, modified: options.time.now(), description: description,
                parts: parts.map { $0.with(segments: []) })
            let object = try bucket.complete(upload, parts: parts, as: record, if: condition)
            KodoObjects.remember(hash, of: object.content)
        }
    }

    func abortUpload(_ call: KodoCall) throws(KodoError) -> ServerResponse {
        _ = try policy(call)
        let (bucket, upload) = try openUpload(call)
        try KodoError.storing { () throws(StorageError) in try bucket.abort(upload) }
        return Self.json(nil)
    }
}
