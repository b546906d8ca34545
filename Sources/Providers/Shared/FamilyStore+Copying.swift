import Basics
import HTTP
package import ObjectStorage

/// Copies within the store, and changes made by copying an object onto itself (Amazon S3 API, CopyObject).
extension FamilyStore {
    package func copy(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        if mustCarry(request.source.key) { return try await carry(request) }
        do { return try await copyThere(request) } catch {
            guard mayCarry(request.source, after: error) else { throw await blaming(request.key, for: error) }
            let answer = try await carry(request)
            // The server may lack only the condition.
            if request.condition == nil { learnRefusal(ofCopying: request.source, error) }
            return answer
        }
    }

    private func copyThere(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        var call = Call(.copy, .put, request.key)
        try await addCopySource(request.source, call, to: &call.headers)
        if let metadata = request.metadata {
            call.headers[profile.header("metadata-directive")] = profile.replaceDirective
            add(metadata, to: &call.headers)
        }
        addDefaults(storageClass: request.storageClass, size: request.size, to: &call.headers)
        if let kept = request.keeping {
            restate(try await aclHeaders(of: kept), in: &call.headers)
            // Without this, the store copies the source's tags.
            if kept == request.key, request.metadata?.kept.isTagged == true {
                call.headers[profile.header("tagging-directive")] = profile.replaceDirective
                restate(try await tagHeaders(of: kept), in: &call.headers)
            }
        }
        if let condition = request.condition {
            guard capabilities.copyCondition else { throw notSupported(call, "conditional copies") }
            try await add(AskedCondition(condition), call, to: &call.headers)
        }
        return try await copied(call, request.source, with: request.metadata)
    }

    /// The answer to a copy to the key of `call`. If it has no version, that of the object at the key, if that has the copy's
    /// headers.
    private func copied(
        _ call: Call, _ source: CopySource, with metadata: ObjectMetadata?
    ) async throws(ObjectStoreError) -> PutAnswer {
        let response = try await copying(source, call)
        if let answer = try await outcome(call, response) {
            return try await confirmed(answer, call, source, metadata)
        }
        guard let key = call.key else { throw malformed(call, response, "the answer has no ETag") }
        let info = try await head(key, condition: nil)
        guard metadata.map(info.metadata.hasUser) ?? true else {
            throw ObjectStoreError(
                .preconditionFailed, call.operation, key: key, code: "OtherVersion",
                message: "the source was replaced while it was copied")
        }
        return PutAnswer(info.version)
    }

    package func updateMetadata(
        _ key: ObjectKey, to metadata: ObjectMetadata, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer {
        // The storage class is not copied, so it must be known and restated. The copy names the version.
        let recent = recentLook(at: key, ifMatch)
        let found = if let recent { recent } else { try await look(at: key, condition: ifMatch.map { .ifMatch($0) }) }
        return try await rewrite(
            key, found, metadata, storageClass: found.info.storageClass ?? profile.standardClass)
    }

    /// Copies an object, or a `version` of it, onto itself with these headers and this class. Copies lose encryption and ACL, so
    /// they are restated as well. Only the bytes that were looked at are copied: the version `null` can be another one by now.
    func rewrite(
        _ key: ObjectKey, _ found: Found, _ metadata: ObjectMetadata, storageClass: String, version: String? = nil
    ) async throws(ObjectStoreError) -> PutAnswer {
        let info = found.info
        let restated = found.encryption + (try await aclHeaders(of: key, version: version))
        let source = CopySource(key, ifMatch: info.version.etag, version: version)
        if info.version.size > capabilities.largestCopy {
            return try await rewriteByParts(source, info, metadata, storageClass: storageClass, restated)
        }
        var call = Call(version == nil ? .updateMetadata : .copy, .put, key)
        try await addCopySource(source, call, to: &call.headers)
        call.headers[profile.header("metadata-directive")] = profile.replaceDirective
        if let directive = profile.keepTagsDirective { call.headers[profile.header("tagging-directive")] = directive }
        add(metadata, to: &call.headers)
        addDefaults(storageClass: storageClass, size: info.version.size, to: &call.headers)
        restate(restated, in: &call.headers)
        if !mustCarry(key) {
            do { return try await copied(call, source, with: metadata) } catch {
                guard mayCarry(source, after: error) else { throw error }
                let answer = try await rewriteByCarrying(key, source, metadata, storageClass: storageClass, restated)
                learnRefusal(ofCopying: source, error)
                return answer
            }
        }
        return try await rewriteByCarrying(key, source, metadata, storageClass: storageClass, restated)
    }

    /// The bytes are those of the version, and replace no other version as far as the store can check.
    private func rewriteByCarrying(
        _ key: ObjectKey, _ source: CopySource, _ metadata: ObjectMetadata, storageClass: String,
        _ restated: [(name: String, value: String)]
    ) async throws(ObjectStoreError) -> PutAnswer {
        var request = CopyRequest(source, to: key, metadata: metadata, storageClass: storageClass)
        // The key's latest version is not the one that is copied.
        if let etag = source.ifMatch, source.version == nil, capabilities.putIfMatch {
            request.condition = .match(etag)
        }
        return try await carry(request, restated: restated)
    }

    /// An object too large for one copy is copied part by part onto itself.
    private func rewriteByParts(
        _ source: CopySource, _ info: ObjectInfo, _ metadata: ObjectMetadata, storageClass: String,
        _ restated: [(name: String, value: String)]
    ) async throws(ObjectStoreError) -> PutAnswer {
        let key = source.key
        let request = PutRequest(key, metadata: metadata, storageClass: storageClass)
        let isTagged = info.metadata.kept.isTagged
        let restated = restated + (isTagged ? try await tagHeaders(of: key, version: source.version) : [])
        let upload = try await createUpload(request, restated: restated)
        do {
            let size = info.version.size
            let count = max(1, (size + capabilities.largestPart - 1) / capabilities.largestPart)
            let step = (size + count - 1) / count
            var parts: [UploadedPart] = []
            for index in 0..<count {
                let range = index * step..<min(size, (index + 1) * step)
                let part = PartRequest(key, upload, number: Int(index) + 1)
                parts.append(try await uploadPartCopy(part, from: source, range: range))
            }
            let replaced = source.version == nil ? source.ifMatch : nil
            var condition: WriteCondition? = capabilities.putIfMatch ? replaced.map { .match($0) } : nil
            if let wanted = condition, !capabilities.completionCondition {
                try await look(for: wanted, .updateMetadata, key)
                condition = nil
            }
            return try await completeUpload(key, upload, parts: parts, condition: condition)
        } catch {
            try? await abortUpload(key, upload)
            throw error
        }
    }
}
