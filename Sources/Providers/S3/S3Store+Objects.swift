package import Basics
import Digests
import HTTP
package import ObjectStorage
import Synchronization

/// HEAD, GET, PUT, COPY, DELETE (s3.md sections 4.3 to 4.6).
extension S3Store {
    package func head(
        _ key: ObjectKey, condition: ReadCondition?
    ) async throws(ObjectStoreError) -> ObjectInfo {
        var call = Call(.head, .head, key)
        Self.add(condition, to: &call.headers)
        let response = try await send(call)
        return try info(call, response, size: nil)
    }

    package func get(
        _ request: GetRequest, into sink: any ByteSink
    ) async throws(ObjectStoreError) -> GetAnswer {
        var call = Call(.get, .get, request.key)
        Self.add(request.condition, to: &call.headers)
        if let range = request.range {
            guard !range.isEmpty else { throw invalid(call, "an empty range") }
            call.headers["Range"] = "bytes=\(range.lowerBound)-\(range.upperBound - 1)"
        } else if profile.checksums {
            call.headers["x-amz-checksum-mode"] = "ENABLED"
        }
        let verifying = VerifyingSink(sink)
        let wanted = request.range
        let etagIsMD5 = profile.etagIsMD5
        let condition = request.condition
        let refused = Mutex<ObjectStoreError?>(nil)
        let response = try await send(call, sink: verifying) { [self, call] response in
            guard response.isSuccess else { return .collect }
            // A body that does not start where it was asked to must not reach the sink.
            if let problem = Self.problem(response, asked: wanted) {
                refused.withLock { $0 = malformed(call, response, problem) }
                return .refuse
            }
            // Nor one of another version, from a store that ignores the condition.
            if case .ifMatch(let etag) = condition, let answered = response.headers["ETag"], ETag(answered) != etag {
                refused.withLock {
                    $0 = ObjectStoreError(
                        .preconditionFailed, .get, key: call.key, status: response.status, code: "OtherVersion",
                        message: "the object is another version now",
                        requestID: response.headers["x-amz-request-id"])
                }
                return .refuse
            }
            if wanted == nil { verifying.expect(Self.promise(response.headers, etagIsMD5: etagIsMD5)) }
            return .deliver
        }
        if let error = refused.withLock({ $0 }) { throw error }
        let answered = request.range == nil ? nil : Self.contentRange(response.headers)
        let total = answered?.total ?? response.delivered
        let start = answered?.range.lowerBound ?? 0
        let promised = answered?.range.length ?? response.headers["Content-Length"].flatMap { Int64($0) }
        guard promised ?? response.delivered == response.delivered else {
            throw integrity(call, response, "the body is not as long as promised")
        }
        guard verifying.isKept else { throw integrity(call, response, "the body does not match its checksum") }
        return GetAnswer(
            info: try info(call, response, size: total), range: ByteRange(at: start, count: response.delivered))
    }

    package func put(
        _ request: PutRequest, body: any ByteSource
    ) async throws(ObjectStoreError) -> PutAnswer {
        var call = Call(.put, .put, request.key)
        addNewObject(request, to: &call.headers)
        Self.add(request.condition, to: &call.headers)
        let digests = try seal(&call, body)
        let response = try await send(call, body: body)
        return try answer(call, response, md5: digests.md5)
    }

    package func copy(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        var call = Call(.copy, .put, request.key)
        addCopySource(request.source, to: &call.headers)
        if let metadata = request.metadata {
            call.headers["x-amz-metadata-directive"] = "REPLACE"
            Self.add(metadata, to: &call.headers)
        }
        addDefaults(storageClass: request.storageClass, to: &call.headers)
        if capabilities.copyCondition { Self.add(request.condition, to: &call.headers) }
        return try await outcome(call, try await send(call))
    }

    package func delete(_ key: ObjectKey, ifMatch: ETag?) async throws(ObjectStoreError) {
        var call = Call(.delete, .delete, key)
        if let ifMatch {
            guard capabilities.deleteIfMatch else { throw notSupported(call, "a condition on delete") }
            call.headers["If-Match"] = "\"\(ifMatch.text)\""
        }
        do { _ = try await send(call) } catch {
            guard error.kind == .notFound, ifMatch == nil else { throw error }
        }
    }

    package func deleteMany(_ keys: [ObjectKey]) async throws(ObjectStoreError) -> [ObjectStoreError] {
        // A document cannot name keys with control characters.
        let together = capabilities.deleteBatch > 1 ? keys.filter { XMLText.canHold($0.bytes) } : []
        var failures: [ObjectStoreError] = []
        if !together.isEmpty { failures += try await deleteTogether(together) }
        for key in keys where capabilities.deleteBatch <= 1 || !XMLText.canHold(key.bytes) {
            do { try await delete(key, ifMatch: nil) } catch { failures.append(error) }
        }
        return failures
    }

    private func deleteTogether(_ keys: [ObjectKey]) async throws(ObjectStoreError) -> [ObjectStoreError] {
        var call = Call(.deleteMany, .post)
        call.query = [QueryItem("delete")]
        var document = "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
        for key in keys { document += "<Object><Key>\(XMLText.escape(key.description))</Key></Object>" }
        document += "<Quiet>true</Quiet></Delete>"
        let body = MemorySource(Array(document.utf8))
        call.headers["Content-Type"] = "application/xml"
        _ = try seal(&call, body)
        let response = try await send(call, body: body)
        let errors = try read(call, response) { body throws(XMLError) in try S3Documents.deleteErrors(body) }
        return errors.compactMap { key, document in
            let key = key.isEmpty ? nil : ObjectKey(key)
            let error = S3Errors.error(response, .deleteMany, key, document: document)
            return error.kind == .notFound ? nil : error
        }
    }

    package func updateMetadata(
        _ key: ObjectKey, to metadata: ObjectMetadata, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer {
        // The storage class is not copied, so it must be known to be restated.
        let info = try await head(key, condition: ifMatch.map { .ifMatch($0) })
        let source = CopySource(key, ifMatch: info.version.etag)
        if info.version.size > capabilities.largestCopy {
            return try await rewriteByParts(key, info, metadata)
        }
        var call = Call(.updateMetadata, .put, key)
        addCopySource(source, to: &call.headers)
        call.headers["x-amz-metadata-directive"] = "REPLACE"
        Self.add(metadata, to: &call.headers)
        addDefaults(storageClass: info.storageClass ?? "STANDARD", to: &call.headers)
        return try await outcome(call, try await send(call))
    }

    /// An object too large for one copy is put together again from itself.
    private func rewriteByParts(
        _ key: ObjectKey, _ info: ObjectInfo, _ metadata: ObjectMetadata
    ) async throws(ObjectStoreError) -> PutAnswer {
        let upload = try await createUpload(PutRequest(key, metadata: metadata, storageClass: info.storageClass))
        do {
            let size = info.version.size
            let count = max(1, (size + capabilities.largestPart - 1) / capabilities.largestPart)
            let step = (size + count - 1) / count
            var parts: [UploadedPart] = []
            for index in 0..<count {
                let range = index * step..<min(size, (index + 1) * step)
                let part = PartRequest(key, upload, number: Int(index) + 1)
                parts.append(
                    try await uploadPartCopy(part, from: CopySource(key, ifMatch: info.version.etag), range: range))
            }
            return try await completeUpload(
                key, upload, parts: parts, condition: capabilities.putIfMatch ? .match(info.version.etag) : nil)
        } catch {
            try? await abortUpload(key, upload)
            throw error
        }
    }

    // MARK: Pieces of requests

    static func add(_ condition: ReadCondition?, to headers: inout HTTPHeaders) {
        switch condition {
        case .ifMatch(let etag): headers["If-Match"] = "\"\(etag.text)\""
        case .ifNoneMatch(let etag): headers["If-None-Match"] = "\"\(etag.text)\""
        case nil: break
        }
    }

    static func add(_ condition: WriteCondition?, to headers: inout HTTPHeaders) {
        switch condition {
        case .absent: headers["If-None-Match"] = "*"
        case .match(let etag): headers["If-Match"] = "\"\(etag.text)\""
        case nil: break
        }
    }

    static func add(_ metadata: ObjectMetadata, to headers: inout HTTPHeaders) {
        headers["Content-Type"] = metadata.contentType
        headers["Cache-Control"] = metadata.cacheControl
        headers["Content-Disposition"] = metadata.contentDisposition
        headers["Content-Encoding"] = metadata.contentEncoding
        headers["Content-Language"] = metadata.contentLanguage
        headers["Expires"] = metadata.expires
        for (name, value) in metadata.user.sorted(by: { $0.key < $1.key }) { headers["x-amz-meta-\(name)"] = value }
    }

    func addNewObject(_ request: PutRequest, to headers: inout HTTPHeaders) {
        Self.add(request.metadata, to: &headers)
        addDefaults(storageClass: request.storageClass, to: &headers)
    }

    /// What the mount's options say of every object written here, copies included: none of it is ever inherited.
    private func addDefaults(storageClass: String?, to headers: inout HTTPHeaders) {
        headers["x-amz-storage-class"] = storageClass ?? settings.storageClass
        headers["x-amz-acl"] = settings.acl
        headers["x-amz-server-side-encryption"] = settings.encryption
        headers["x-amz-server-side-encryption-aws-kms-key-id"] = settings.encryptionKey
    }

    func addCopySource(_ source: CopySource, to headers: inout HTTPHeaders) {
        let bucket = PercentEncoding.encode(settings.bucket)
        headers["x-amz-copy-source"] = "\(bucket)/\(PercentEncoding.encode(source.key.bytes, keepingSlash: true))"
        if let etag = source.ifMatch { headers["x-amz-copy-source-if-match"] = "\"\(etag.text)\"" }
    }

    /// Adds what vouches for the body. Over plain HTTP a small body is signed as well; a large one would be read once more
    /// for the signature than its checksum needs.
    func seal(_ call: inout Call, _ body: any ByteSource) throws(ObjectStoreError) -> BodyDigests {
        let isSecure = learned.withLock { $0.endpoint.origin.isSecure }
        let isSigned = !isSecure && body.count <= 1 << 20
        let digests: BodyDigests
        do {
            digests = try BodyDigests(of: body, sha256: isSigned, crc64: profile.checksums)
        } catch {
            throw ObjectStoreError(
                .local(errno: error.errno), call.operation, key: call.key, code: "Local", message: error.reason)
        }
        call.headers["Content-MD5"] = Base64.encode(digests.md5)
        if let crc = digests.crc64 { call.headers["x-amz-checksum-crc64nvme"] = Base64.encode(crc) }
        call.payload = digests.sha256.map { .sha256($0) } ?? .unsigned
        return digests
    }

    func invalid(_ call: Call, _ reason: String) -> ObjectStoreError {
        ObjectStoreError(.invalidRequest, call.operation, key: call.key, code: "InvalidRequest", message: reason)
    }

    func notSupported(_ call: Call, _ what: String) -> ObjectStoreError {
        ObjectStoreError(
            .notSupported, call.operation, key: call.key, code: "NotSupported", message: "this store has no \(what)")
    }
}
