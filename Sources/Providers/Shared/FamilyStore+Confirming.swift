import Basics
import HTTP
import ObjectStorage
import Synchronization

/// Versions in answers to writes. The first ETag of each kind that cannot be verified by the content is compared with a HEAD; for
/// a server whose answers differ from it, a HEAD follows each write.
extension FamilyStore {
    /// An ETag that is the MD5 of the sent bytes needs no HEAD.
    func confirmed(_ answer: PutAnswer, _ request: PutRequest) async throws(ObjectStoreError) -> PutAnswer {
        guard profile.isOfAnyMaker, Self.md5(answer.etag) == nil || capabilities.quirks.contains(.opaqueETags) else {
            return answer
        }
        return try await confirmed(answer, .put, request.key, .putETag) { $0.metadata.hasUser(of: request.metadata) }
    }

    /// A copy of an object in one piece has the same ETag; a copy without headers of the caller is recognised by its size alone.
    func confirmed(
        _ answer: PutAnswer, _ call: Call, _ source: CopySource, _ metadata: ObjectMetadata?
    ) async throws(ObjectStoreError) -> PutAnswer {
        guard profile.isOfAnyMaker, let key = call.key, answer.etag != source.ifMatch else { return answer }
        let told = try await confirmed(answer, .copy, key, .copyETag) { metadata.map($0.metadata.hasUser) ?? true }
        // The source is checked last: until then another host may store another object there, which a rename must not delete.
        if source.key != key || source.bucket != nil { try await checkCopied(source, answer, call) }
        return told
    }

    private func confirmed(
        _ answer: PutAnswer, _ operation: ObjectStoreError.Operation, _ key: ObjectKey, _ quirk: StoreQuirk,
        _ isMade: (ObjectInfo) -> Bool
    ) async throws(ObjectStoreError) -> PutAnswer {
        let tells = learned.withLock { $0.conduct.tellsETag[operation] }
        guard tells != true, let info = try await look(after: operation, key), isMade(info) else { return answer }
        guard learn(operation, tellsETag: info.version.etag == answer.etag, quirk) else { return answer }
        return PutAnswer(info.version)
    }

    /// An object made of parts has the headers that its upload was begun with, which only the caller knows: where the ETags
    /// differ, the caller sends a HEAD.
    func confirmed(
        _ answer: PutAnswer, _ key: ObjectKey, size: Int64
    ) async throws(ObjectStoreError) -> PutAnswer {
        guard profile.isOfAnyMaker else { return answer }
        let tells = learned.withLock { $0.conduct.tellsETag[.completeUpload] }
        if tells == nil, let info = try await look(after: .completeUpload, key), info.version.size == size {
            _ = learn(.completeUpload, tellsETag: info.version.etag == answer.etag, .completionETag)
        }
        guard learned.withLock({ $0.conduct.tellsETag[.completeUpload] }) == false else { return answer }
        throw untoldVersion(key, "the store answers with another ETag than the object has", nil)
    }

    /// A failed HEAD proves nothing about a write that has succeeded.
    private func look(
        after operation: ObjectStoreError.Operation, _ key: ObjectKey
    ) async throws(ObjectStoreError) -> ObjectInfo? {
        do { return try await head(key, condition: nil) } catch {
            if error.kind == .cancelled { throw error }
            return nil
        }
    }

    /// Returns true when answers to this operation are not to be trusted.
    private func learn(_ operation: ObjectStoreError.Operation, tellsETag: Bool, _ quirk: StoreQuirk) -> Bool {
        let isTold = learned.withLock { learned in
            // The first result is kept: a later difference may come from another host's write before the HEAD.
            learned.conduct.tellsETag[operation] = learned.conduct.tellsETag[operation] ?? tellsETag
            return learned.conduct.tellsETag[operation] ?? true
        }
        if !isTold { note(quirk) }
        return !isTold
    }

    func untoldVersion(_ key: ObjectKey, _ message: String, _ response: HTTPResponse?) -> ObjectStoreError {
        ObjectStoreError(
            .interrupted, .completeUpload, key: key, status: response?.status, code: ObjectStoreError.untoldVersion,
            message: message, requestID: response.flatMap(errors.requestID))
    }

    // MARK: Sources of copies

    /// Sends a copy. Where the server was seen to ignore the version of a source, a HEAD right before replaces the condition.
    func copying(_ source: CopySource, _ call: Call) async throws(ObjectStoreError) -> HTTPResponse {
        if let wanted = source.ifMatch, capabilities.quirks.contains(.copySourceUnheeded) {
            if source.bucket == nil {
                try await look(for: .match(wanted), call.operation, source.key)
            } else if try await !isStill(wanted, source) {
                throw replaced(call)
            }
        }
        do { return try await send(call) } catch {
            // The refused version is still the present one: the request is repeated without the condition.
            guard error.kind == .preconditionFailed, error.status != nil, profile.isOfAnyMaker,
                let wanted = source.ifMatch, try await isStill(wanted, source)
            else { throw error }
            var bare = call
            bare.headers[profile.header("copy-source-if-match")] = nil
            let response = try await send(bare)
            note(.copySourceUnheeded)
            return response
        }
    }

    /// Checks that the right version was copied, where the answer does not show it.
    private func checkCopied(
        _ source: CopySource, _ answer: PutAnswer, _ call: Call
    ) async throws(ObjectStoreError) {
        guard let wanted = source.ifMatch, !(try await isStill(wanted, source)) else { return }
        note(.copySourceUnheeded)
        throw replaced(call)
    }

    private func replaced(_ call: Call) -> ObjectStoreError {
        ObjectStoreError(
            .preconditionFailed, call.operation, key: call.key, code: "OtherVersion",
            message: "the source was replaced, and the store does not say which version it copied")
    }

    private func isStill(_ wanted: ETag, _ source: CopySource) async throws(ObjectStoreError) -> Bool {
        let reader = source.reader(for: self)
        do { return try await reader.head(source.key, condition: nil).version.etag == wanted } catch {
            if error.kind == .notFound { return false }
            throw error
        }
    }
}
