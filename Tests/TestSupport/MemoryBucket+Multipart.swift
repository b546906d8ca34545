import Basics
import Digests
import ObjectStorage

extension MemoryBucket {
    mutating func createUpload(_ request: PutRequest, now: Timestamp) -> UploadID {
        let id = UploadID("upload-\(nextUpload)")
        nextUpload += 1
        uploads[id] = Upload(key: request.key, request: request, initiated: now)
        return id
    }

    mutating func addPart(
        _ content: [UInt8], to part: PartRequest, _ operation: ObjectStoreError.Operation
    ) throws(ObjectStoreError) -> UploadedPart {
        try checkUpload(part.key, part.upload, operation)
        guard (1...capabilities.mostParts).contains(part.number) else {
            throw ObjectStoreError(
                .invalidRequest, operation, key: part.key, status: 400, code: "InvalidArgument",
                message: "part number \(part.number) is out of range")
        }
        try checkSize(Int64(content.count), limit: capabilities.largestPart, operation, part.key)
        let etag = Self.etag(content)
        uploads[part.upload]?.parts[part.number] = (content, etag)
        return UploadedPart(number: part.number, etag: etag, size: Int64(content.count))
    }

    func parts(of key: ObjectKey, _ id: UploadID) throws(ObjectStoreError) -> [UploadedPart] {
        try checkUpload(key, id, .listParts)
        let parts = uploads[id]?.parts ?? [:]
        return parts.map { UploadedPart(number: $0.key, etag: $0.value.etag, size: Int64($0.value.content.count)) }
            .sorted { $0.number < $1.number }
    }

    func uploads(prefix: ByteString) -> [UploadInProgress] {
        uploads.filter { $0.value.key.bytes.hasPrefix(prefix) }
            .map { UploadInProgress(key: $0.value.key, upload: $0.key, initiated: $0.value.initiated) }
            .sorted { ($0.key, $0.initiated ?? .epoch) < ($1.key, $1.initiated ?? .epoch) }
    }

    mutating func complete(
        _ key: ObjectKey, _ id: UploadID, _ parts: [UploadedPart], _ metadata: ObjectMetadata?,
        _ condition: WriteCondition?, now: Timestamp
    ) throws(ObjectStoreError) -> PutAnswer {
        try checkUpload(key, id, .completeUpload)
        guard let upload = uploads[id], !parts.isEmpty else {
            throw ObjectStoreError(
                .invalidRequest, .completeUpload, key: key, status: 400, code: "MalformedXML", message: "no parts")
        }
        guard zip(parts, parts.dropFirst()).allSatisfy({ $0.number < $1.number }) else {
            throw rejected(key, "InvalidPartOrder", "part numbers do not ascend")
        }
        guard capabilities.surplusParts || upload.parts.count <= parts.count else {
            throw rejected(key, "InvalidPart", "the upload has more parts than are named")
        }
        var content: [UInt8] = []
        var digests: [UInt8] = []
        for (index, part) in parts.enumerated() {
            guard let stored = upload.parts[part.number], stored.etag == part.etag else {
                throw rejected(key, "InvalidPart", "part \(part.number) was never uploaded so")
            }
            guard capabilities.partGaps || part.number == index + 1 else {
                throw rejected(key, "InvalidPart", "there is no part \(index + 1)")
            }
            if index < parts.count - 1 {
                guard stored.content.count >= capabilities.smallestPart else {
                    throw rejected(key, "EntityTooSmall", "part \(part.number) has \(stored.content.count) bytes")
                }
                if capabilities.equalParts, stored.content.count != upload.parts[parts[0].number]?.content.count {
                    throw rejected(key, "InvalidPart", "part \(part.number) differs in size from the first")
                }
            }
            content += stored.content
            digests += MD5.of(stored.content)
        }
        try checkSize(Int64(content.count), limit: capabilities.largestObject, .completeUpload, key)
        try check(condition, of: key, .completeUpload)
        uploads[id] = nil
        return store(
            content, at: key, metadata: metadata ?? upload.request.metadata,
            etag: ETag("\(Hex.encode(MD5.of(digests)))-\(parts.count)"), storageClass: upload.request.storageClass,
            now: now)
    }

    private func checkUpload(
        _ key: ObjectKey, _ id: UploadID, _ operation: ObjectStoreError.Operation
    ) throws(ObjectStoreError) {
        if uploads[id]?.key != key {
            throw ObjectStoreError(
                .noSuchUpload, operation, key: key, status: 404, code: "NoSuchUpload",
                message: "the upload does not exist")
        }
    }

    private func rejected(_ key: ObjectKey, _ code: String, _ message: String) -> ObjectStoreError {
        ObjectStoreError(.partRejected, .completeUpload, key: key, status: 400, code: code, message: message)
    }
}
