package import Basics
import Digests
import HTTP
package import ObjectStorage
import Synchronization

/// Multipart uploads (Amazon S3 API, CreateMultipartUpload).
extension FamilyStore {
    package func createUpload(_ request: PutRequest) async throws(ObjectStoreError) -> UploadID {
        try await createUpload(request, restated: [])
    }

    func createUpload(
        _ request: PutRequest, restated: [(name: String, value: String)]
    ) async throws(ObjectStoreError) -> UploadID {
        var call = Call(.createUpload, .post, request.key)
        guard capabilities.mostParts > 1 else { throw notSupported(call, "uploads in parts") }
        call.query = [QueryItem("uploads")]
        addNewObject(request, size: request.size, to: &call.headers)
        restate(restated + (try await keptHeaders(request)), in: &call.headers)
        if profile.checksum == .crc64nvme {
            call.headers["x-amz-checksum-algorithm"] = "CRC64NVME"
            call.headers["x-amz-checksum-type"] = "FULL_OBJECT"
        }
        let response: HTTPResponse
        do { response = try await send(call) } catch {
            if error.kind == .notSupported, error.status != nil, error.code != Self.noACLs {
                learned.withLock { $0.capabilities.mostParts = 1 }
                note(.uploadsRefused)
            }
            throw await blaming(request.key, for: error, isBare: request.metadata.user.isEmpty)
        }
        let id = try read(call, response) { body throws(XMLError) in try FamilyDocuments.uploadID(body) }
        guard let id else { throw malformed(call, response, "the answer has no upload ID") }
        learnTaken(request, isStored: false)
        return id
    }

    package func uploadPart(
        _ part: PartRequest, body: any ByteSource
    ) async throws(ObjectStoreError) -> UploadedPart {
        var call = Call(.uploadPart, .put, part.key)
        call.query = Self.query(part)
        addCustomerKey(to: &call.headers)
        addTrafficLimit(to: &call.headers)
        let digests = try seal(&call, body)
        let response = try await send(call, body: body)
        let answer = try await answer(call, response, digests)
        // The ETag is that of the sent bytes: `answer` throws for any other.
        return UploadedPart(
            number: part.number, etag: answer.etag, size: body.count, crc64: crc64ecma(response.headers))
    }

    package func uploadPartCopy(
        _ part: PartRequest, from source: CopySource, range: ByteRange
    ) async throws(ObjectStoreError) -> UploadedPart {
        var call = Call(.uploadPartCopy, .put, part.key)
        guard capabilities.partCopy else { throw notSupported(call, "copies into parts") }
        call.query = Self.query(part)
        try await addCopySource(source, call, to: &call.headers)
        addCustomerKey(to: &call.headers)
        call.headers[profile.header("copy-source-range")] = "bytes=\(range.lowerBound)-\(range.upperBound - 1)"
        do throws(ObjectStoreError) {
            let response = try await send(call)
            try await checkHeeded(call, response, part)
            guard let answer = try await outcome(call, response) else {
                throw malformed(call, response, "the answer has no ETag")
            }
            return UploadedPart(number: part.number, etag: answer.etag, size: range.length)
        } catch {
            guard mayCarry(source, after: error) else { throw error }
            return try await carry(part, from: source, range, error)
        }
    }

    /// Some servers treat a part copy as the upload of an empty part, and answer with the MD5 of no bytes (rclone serve s3).
    ///
    /// - Throws: `.noSuchUpload`; the store copies no more parts from then on. The upload is aborted: some servers do not replace
    /// a part.
    private func checkHeeded(
        _ call: Call, _ response: HTTPResponse, _ part: PartRequest
    ) async throws(ObjectStoreError) {
        guard profile.isOfAnyMaker, response.body.isEmpty,
            response.headers["ETag"].map({ ETag($0).text }) == "d41d8cd98f00b204e9800998ecf8427e"
        else { return }
        learned.withLock { $0.capabilities.partCopy = false }
        note(.partCopyUnheeded)
        try await abortUpload(part.key, part.upload)
        throw ObjectStoreError(
            .noSuchUpload, call.operation, key: call.key, status: response.status, code: "NotCopied",
            message: "the server stored an empty part instead of a copy, and the upload was aborted",
            requestID: errors.requestID(response))
    }

    private static func query(_ part: PartRequest) -> [QueryItem] {
        [QueryItem("partNumber", String(part.number)), QueryItem("uploadId", part.upload.text)]
    }

    package func listParts(
        _ key: ObjectKey, _ upload: UploadID
    ) async throws(ObjectStoreError) -> [UploadedPart] {
        var parts: [UploadedPart] = []
        var marker: Int?
        while true {
            var call = Call(.listParts, .get, key)
            call.collectLimit = 16 << 20
            call.query = [QueryItem("uploadId", upload.text)]
            if let marker { call.query.append(QueryItem("part-number-marker", String(marker))) }
            // The key is required where the upload has a checksum (Amazon S3 API reference, "ListParts").
            if profile.checksum == .crc64nvme { addCustomerKey(to: &call.headers) }
            let response = try await send(call)
            let page = try read(call, response) { body throws(XMLError) in try FamilyDocuments.parts(body) }
            parts += page.parts
            guard page.isTruncated else { return parts }
            let next = page.nextMarker ?? page.parts.last?.number
            guard let next, next > marker ?? 0 else {
                throw malformed(call, response, "the list of parts does not advance")
            }
            marker = next
        }
    }

    package func listUploads(prefix: ByteString) async throws(ObjectStoreError) -> [UploadInProgress] {
        var uploads: [UploadInProgress] = []
        var marker: (key: ByteString, upload: String?)?
        while true {
            var call = Call(.listUploads, .get)
            call.collectLimit = 16 << 20
            call.query = [QueryItem("uploads"), QueryItem("prefix", prefix)]
            if profile.encodesListings { call.query.append(QueryItem("encoding-type", "url")) }
            if let marker {
                call.query.append(QueryItem("key-marker", marker.key))
                if let upload = marker.upload { call.query.append(QueryItem("upload-id-marker", upload)) }
            }
            let response = try await send(call)
            let page = try read(call, response) { [documents] body throws(XMLError) in try documents.uploads(body) }
            uploads += page.uploads
            guard page.isTruncated else { return uploads }
            guard let next = page.nextKey, next != marker?.key || page.nextUpload != marker?.upload else {
                throw malformed(call, response, "the list of uploads does not advance")
            }
            marker = (next, page.nextUpload)
        }
    }

    package func completeUpload(
        _ key: ObjectKey, _ upload: UploadID, parts: [UploadedPart], metadata: ObjectMetadata?,
        condition: WriteCondition?
    ) async throws(ObjectStoreError) -> PutAnswer {
        guard metadata == nil else {
            throw notSupported(Call(.completeUpload, .post, key), "new headers at the completion of an upload")
        }
        guard condition == nil || capabilities.completionCondition else {
            throw notSupported(Call(.completeUpload, .post, key), "conditional completions of uploads")
        }
        let size = parts.reduce(0) { $0 + $1.size }
        let answer: PutAnswer
        do {
            answer = try await conditionally(on: condition, .completeUpload, key) {
                asked async throws(ObjectStoreError) in
                try await completeUpload(key, upload, parts: parts, if: asked)
            }
        } catch {
            if error.kind == .tooLarge {
                learned.withLock { learned in
                    learned.capabilities.largestObject = min(learned.capabilities.largestObject, size - 1)
                }
            }
            throw error
        }
        return try await confirmed(answer, key, size: size)
    }

    private func completeUpload(
        _ key: ObjectKey, _ upload: UploadID, parts: [UploadedPart], if asked: AskedCondition?
    ) async throws(ObjectStoreError) -> PutAnswer {
        var call = Call(.completeUpload, .post, key)
        call.query = [QueryItem("uploadId", upload.text)]
        try await add(asked, call, to: &call.headers)
        addCustomerKey(to: &call.headers)
        var document = "<CompleteMultipartUpload\(xmlns)>"
        for part in parts {
            document +=
                "<Part><PartNumber>\(part.number)</PartNumber>"
                + "<ETag>&quot;\(XMLText.escape(part.etag.text))&quot;</ETag></Part>"
        }
        document += "</CompleteMultipartUpload>"
        call.headers["Content-Type"] = "application/xml"
        try addCallback(call, to: &call.headers)
        call.payload = .sha256(SHA256.of(document))
        let response = try await send(call, body: MemorySource(Array(document.utf8)))
        let hasCallback = callback(of: key) != nil
        let size = parts.reduce(0) { $0 + $1.size }
        let answer = try await calledBack(call, response, size: size, crc64: UploadedPart.crc64(of: parts)) {
            [call] () async throws(ObjectStoreError) in
            // The body is that of the application's server.
            if hasCallback, let etag = response.headers["ETag"] {
                return PutAnswer(etag: ETag(etag), versionID: versionID(response), answered: response.date)
            }
            guard let answer = try await outcome(call, response) else {
                throw untoldVersion(key, "the answer does not name the version that was stored", response)
            }
            return answer
        }
        if let crc = UploadedPart.crc64(of: parts), let stored = crc64ecma(response.headers), stored != crc {
            throw integrity(call, response, "the store has other bytes than the parts")
        }
        return answer
    }

    package func abortUpload(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError) {
        var call = Call(.abortUpload, .delete, key)
        call.query = [QueryItem("uploadId", upload.text)]
        do { _ = try await send(call) } catch {
            guard error.kind == .noSuchUpload || error.kind == .notFound else { throw error }
        }
    }
}
