import Basics
import HTTP
import ObjectStorage

/// The policies in the tokens of uploads, and the answers to uploads (Kodo API, upload policy).
extension KodoStore {
    /// The policy of an upload's token: this key only, no replacement if the request does not allow one, and what the mount
    /// wants for each file. `size` is the object's.
    func policy(
        _ request: PutRequest, size: Int64, _ operation: ObjectStoreError.Operation
    ) throws(ObjectStoreError) -> KodoPutPolicy {
        var policy = KodoPutPolicy(scope: "\(settings.bucket):\(request.key)")
        switch request.condition {
        case .absent: policy.insertOnly = 1
        case .match: throw notSupported(operation, request.key, "conditional overwrites")
        case nil: break
        }
        policy.fileType = try fileType(request.storageClass, size: size, operation)
        if request.metadata.contentType != nil { policy.detectMime = -1 }
        guard !request.key.bytes.hasSuffix("/") else { return policy }
        if settings.uploadPolicy.detectsType { policy.detectMime = 1 }
        if settings.uploadPolicy.insertsOnly { policy.insertOnly = 1 }
        policy.mimeLimit = settings.uploadPolicy.typeLimit
        if let callback = callback(of: request.key) {
            (policy.callbackUrl, policy.callbackHost) = (callback.url, callback.host)
            (policy.callbackBody, policy.callbackBodyType) = (callback.body, callback.type)
        }
        return policy
    }

    /// The markers of directories are no files.
    func callback(of key: ObjectKey) -> UploadPolicy.Callback? {
        key.bytes.hasSuffix("/") ? nil : settings.uploadPolicy.callback
    }

    /// Makes an object by `store`. Where the mount wants no replacement, the refusal of one is no conflict with another host.
    func inserting(
        _ request: PutRequest, _ operation: ObjectStoreError.Operation = .put,
        _ store: () async throws(ObjectStoreError) -> PutAnswer
    ) async throws(ObjectStoreError) -> PutAnswer {
        let insertsOnly = settings.uploadPolicy.insertsOnly && !request.key.bytes.hasSuffix("/")
        do throws(ObjectStoreError) {
            let answer = try await store()
            if insertsOnly || request.condition != nil {
                try await confirm(request.key, request.metadata, operation)
            }
            return answer
        } catch {
            guard insertsOnly, request.condition == nil, error.kind == .preconditionFailed else { throw error }
            throw ObjectStoreError(
                .accessDenied, operation, key: request.key, status: error.status, code: "InsertOnly",
                message: "the object exists, and the option insert-only keeps uploads from replacing it",
                requestID: error.requestID)
        }
    }

    /// The answer to an upload that `send` ends. After a callback it is that of the application's server, or status 579 where
    /// there is none; the object is stored then, too. `hash` is the object's, nil where another process has sent parts of it.
    func calledBack(
        _ call: KodoClient.Call, hash: String?, size: Int64, _ metadata: ObjectMetadata,
        _ send: () async throws(ObjectStoreError) -> HTTPResponse
    ) async throws(ObjectStoreError) -> PutAnswer {
        let response: HTTPResponse
        do throws(ObjectStoreError) { response = try await send() } catch {
            guard error.status == Self.callbackFailed, let key = call.key,
                var answer = try await made(key, hash, size: size, metadata, call.operation)
            else { throw error }
            let id = error.requestID.map { " (request \($0))" } ?? ""
            answer.callback = CallbackResult(isFailure: true, "\(error.message)\(id)")
            return answer
        }
        guard let key = call.key, callback(of: key) != nil else {
            guard let stored = KodoDocuments.decode(KodoDocuments.Stored.self, response.body) else {
                throw malformed(call, response, "the answer has no hash")
            }
            guard !settings.verifiesChecksums || hash == nil || hash == stored.hash else {
                throw integrity(call, response, "the store has other bytes than were sent")
            }
            return PutAnswer(etag: ETag(stored.hash))
        }
        guard var answer = try await made(key, hash, size: size, metadata, call.operation) else {
            throw integrity(call, response, "the store has other bytes than were sent")
        }
        answer.callback = CallbackResult(isFailure: false, String(decoding: response.body, as: UTF8.self))
        return answer
    }

    /// The object that an upload has made. A second upload would send a second request to the application's server: where the
    /// object cannot be read now, its hash names the version.
    private func made(
        _ key: ObjectKey, _ hash: String?, size: Int64, _ metadata: ObjectMetadata,
        _ operation: ObjectStoreError.Operation
    ) async throws(ObjectStoreError) -> PutAnswer? {
        do { return try await landed(key, hash, size: size, metadata, operation) } catch {
            guard let hash else { throw error }
            return PutAnswer(etag: ETag(hash))
        }
    }

    private static let callbackFailed = 579

    /// The object at the key, when it has the size, the hash and the headers of the upload.
    func landed(
        _ key: ObjectKey, _ hash: String?, size: Int64, _ metadata: ObjectMetadata,
        _ operation: ObjectStoreError.Operation
    ) async throws(ObjectStoreError) -> PutAnswer? {
        let info = try await stat(key, operation).info
        let hasBytes = !settings.verifiesChecksums || hash == nil || info.version.etag.text == hash
        guard info.version.size == size, hasBytes,
            info.metadata.hasUser(of: metadata)
        else { return nil }
        return PutAnswer(etag: info.version.etag, modified: info.version.modified)
    }
}
