import Basics
import HTTP
package import ObjectStorage
import Synchronization

/// Operations of rs on objects (Kodo API, resource management).
extension KodoStore {
    // MARK: Copying and moving

    /// The source is checked right before: the copy gets its hash, and the server compares nothing.
    package func copy(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        guard request.condition == nil else { throw notSupported(.copy, request.key, "conditional copies") }
        guard request.source.version == nil else { throw notSupported(.copy, request.key, "versions of objects") }
        try check(request.key, .copy)
        if let metadata = request.metadata { try check(metadata, .copy, request.key) }
        let (source, type) = try await look(request.source)
        let wanted = try fileType(request.storageClass, size: source.version.size, .copy)
        let bucket = request.source.bucket
        if bucket != nil || request.source.key != request.key {
            if quirks.withLock({ $0.contains(.copiesRefused) }) { return try await carry(source, for: request) }
            let from = KodoEntry.encode(bucket?.name ?? settings.bucket, request.source.key)
            let target = "/copy/\(from)/\(entry(request.key))/force/true"
            do { _ = try await client.send(KodoClient.Call(.copy, target, request.key)) } catch {
                guard mayCarry(request.source, after: error) else { throw error }
                let answer = try await carry(source, for: request)
                if bucket == nil { quirks.withLock { _ = $0.insert(.copiesRefused) } }
                return answer
            }
        }
        let etag = source.version.etag
        if let metadata = request.metadata { try await replace(source, by: metadata, at: request.key, .copy) }
        if let wanted, wanted != type { try await setType(wanted, of: request.key, .copy) }
        return PutAnswer(etag: etag)
    }

    /// `type` is the number of the storage class; nil for a source in another bucket.
    private func look(_ source: CopySource) async throws(ObjectStoreError) -> (info: ObjectInfo, type: Int?) {
        let condition = source.ifMatch.map { ReadCondition.ifMatch($0) }
        if let bucket = source.bucket { return (try await bucket.store.head(source.key, condition: condition), nil) }
        let found = try await stat(source.key, .copy, condition)
        return (found.info, found.object.type ?? 0)
    }

    private func mayCarry(_ source: CopySource, after refusal: ObjectStoreError) -> Bool {
        if source.bucket != nil { return source.mayBeRead(after: refusal) }
        return refusal.status != nil && [.notSupported, .accessDenied].contains(refusal.kind)
    }

    /// Copies through this machine after a refusal. If the credentials may not read or write either, that fails again.
    private func carry(
        _ source: ObjectInfo, for request: CopyRequest
    ) async throws(ObjectStoreError) -> PutAnswer {
        let put = PutRequest(
            request.key, metadata: request.metadata ?? source.metadata,
            storageClass: request.storageClass ?? source.storageClass)
        let copy = CarriedCopy(of: request.source, source.version, to: put, in: self)
        return try await copy.make(
            put: { (request, body) throws(ObjectStoreError) in try await self.put(request, body: body) },
            create: { (request) throws(ObjectStoreError) in try await self.createUpload(request) })
    }

    package func move(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        try check(request.key, .move)
        let isForced: Bool
        switch request.condition {
        case nil: isForced = true
        case .absent: isForced = false
        case .match: throw notSupported(.move, request.key, "conditional overwrites")
        }
        let source = try await stat(request.source.key, .move, request.source.ifMatch.map { .ifMatch($0) }).info
        guard request.source.key != request.key else { return PutAnswer(etag: source.version.etag) }
        let target = "/move/\(entry(request.source.key))/\(entry(request.key))/force/\(isForced)"
        _ = try await client.send(KodoClient.Call(.move, target, request.key))
        return PutAnswer(etag: source.version.etag)
    }

    // MARK: Deleting

    package func delete(_ key: ObjectKey, ifMatch: ETag?) async throws(ObjectStoreError) {
        guard ifMatch == nil else { throw notSupported(.delete, key, "conditional deletes") }
        guard !isImpossible(key) else { return }
        do { _ = try await client.send(KodoClient.Call(.delete, "/delete/\(entry(key))", key)) } catch {
            guard error.kind == .notFound else { throw error }
        }
    }

    package func deleteMany(_ keys: [ObjectKey]) async throws(ObjectStoreError) -> [ObjectStoreError] {
        let keys = keys.filter { !isImpossible($0) }
        guard !keys.isEmpty else { return [] }
        if capabilities.deleteBatch <= 1 { return try await deleteOneByOne(keys) }
        let form = keys.map { "op=\(PercentEncoding.encode("/delete/\(entry($0))"))" }.joined(separator: "&")
        var call = KodoClient.Call(.deleteMany, "/batch")
        call.authorization = .management(Array(form.utf8))
        let response: HTTPResponse
        do { response = try await client.send(call) } catch {
            guard error.status != nil, [.notSupported, .accessDenied, .notFound].contains(error.kind) else {
                throw error
            }
            let failures = try await deleteOneByOne(keys)
            if failures.count == keys.count, error.kind == .accessDenied { throw error }
            quirks.withLock { _ = $0.insert(.singleDeletes) }
            return failures
        }
        guard let answers = KodoDocuments.decode([KodoDocuments.BatchItem].self, response.body),
            answers.count == keys.count
        else { throw malformed(call, response, "the answer lacks the result of an operation") }
        return zip(keys, answers).compactMap { key, answer in
            guard !(200..<300).contains(answer.code), answer.code != 612 else { return nil }
            return KodoErrors.error(
                status: answer.code, message: answer.data?.error ?? "", .deleteMany, key)
        }
    }

    // MARK: Metadata and classes

    package func updateMetadata(
        _ key: ObjectKey, to metadata: ObjectMetadata, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer {
        try check(metadata, .updateMetadata, key)
        let info = try await stat(key, .updateMetadata, ifMatch.map { .ifMatch($0) }).info
        try await replace(info, by: metadata, at: key, .updateMetadata)
        return PutAnswer(etag: info.version.etag, modified: info.version.modified)
    }

    /// Changes the fields that differ between `old`, whose headers the object has, and `new`, if the object is still the same.
    private func replace(
        _ old: ObjectInfo, by new: ObjectMetadata, at key: ObjectKey, _ operation: ObjectStoreError.Operation
    ) async throws(ObjectStoreError) {
        let (stored, wanted) = (KodoMetadata.fields(of: old.metadata), KodoMetadata.fields(of: new))
        var changes = ""
        for name in Set(stored.keys).union(wanted.keys).sorted() where stored[name] != wanted[name] {
            changes += "/\(KodoMetadata.wire(name))/\(KodoEntry.encode(wanted[name] ?? KodoMetadata.gone(name)))"
        }
        let type = new.contentType ?? old.metadata.contentType ?? "application/octet-stream"
        guard !changes.isEmpty || type != old.metadata.contentType else { return }
        let condition = KodoEntry.encode("hash=\(old.version.etag.text)")
        let target = "/chgm/\(entry(key))/mime/\(KodoEntry.encode(type))\(changes)/cond/\(condition)"
        _ = try await client.send(KodoClient.Call(operation, target, key))
    }

    package func setStorageClass(
        of key: ObjectKey, to storageClass: String, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer {
        guard let type = try fileType(storageClass, size: nil, .setStorageClass) else {
            throw missing(.setStorageClass, key)
        }
        let info = try await stat(key, .setStorageClass, ifMatch.map { .ifMatch($0) }).info
        try await setType(type, of: key, .setStorageClass)
        return PutAnswer(etag: info.version.etag, modified: info.version.modified)
    }

    private func setType(
        _ type: Int, of key: ObjectKey, _ operation: ObjectStoreError.Operation
    ) async throws(ObjectStoreError) {
        _ = try await client.send(KodoClient.Call(operation, "/chtype/\(entry(key))/type/\(type)", key))
    }

    package func restore(_ key: ObjectKey, _ request: RestoreRequest) async throws(ObjectStoreError) {
        guard !isImpossible(key) else { throw missing(.restore, key) }
        let days = request.days ?? 7
        guard (1...7).contains(days) else {
            throw ObjectStoreError(
                .invalidRequest, .restore, key: key, code: "InvalidDays",
                message: "Kodo restores objects for 1 to 7 days, not \(days)")
        }
        _ = try await client.send(
            KodoClient.Call(.restore, "/restoreAr/\(entry(key))/freezeAfterDays/\(days)", key))
    }
}
