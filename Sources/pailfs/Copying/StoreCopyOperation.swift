import Basics
import Glibc
import ObjectStorage

/// Copies objects from one bucket to the same or another one. Within a provider the store makes the copies; otherwise the bytes pass
/// through this machine, a piece at a time.
struct StoreCopyOperation: CopyOperation {
    /// Bytes of a part that the store copies.
    private static let copiedPart: Int64 = 1 << 30

    /// The bucket that is read.
    let reader: any ObjectStore
    let store: any ObjectStore
    /// The source's bucket; nil where it is the target's.
    let bucket: OtherBucket?
    let isOfOneProvider: Bool
    let root: ByteString
    let context: CopyContext

    private var rules: CopyRules { context.rules }

    func destination(of item: CopyItem) -> ByteString { CopyPlan.path(root, item.name) }

    func copy(_ item: CopyItem) async throws(ObjectStoreError) -> CopyOutcome {
        guard case .object(let from, let listed) = item.source else { preconditionFailure("not an object") }
        let name = destination(of: item)
        let isElsewhere = bucket != nil || !isOfOneProvider
        guard !name.isEmpty, name != from.bytes || isElsewhere || !rules.headers.isEmpty || rules.storageClass != nil
        else {
            throw ObjectStoreError(
                ofFile: "\(SafeText.of(name.description)) is the object itself; write another key for the copy",
                errno: EINVAL, .copy)
        }
        let key = ObjectKey(name)
        if let listed, context.isDone(name, source: listed.version.etag.text, result: context.present[name]) {
            context.tally.skip(listed.version.size)
            return .same
        }
        let info = try await reader.head(from, condition: nil)
        if listed == nil { context.tally.learn(info.version.size) }
        if rules.updates, let known = try await store.headIfPresent(key), CopyComparison.isSame(info, as: known) {
            context.tally.skip(info.version.size)
            return .same
        }
        if rules.isDry { return .planned }
        let request = try await request(from, key, info)
        do throws(ObjectStoreError) {
            let answer = try await copy(request, info, item: name)
            context.finished(name, source: info.version.etag.text, result: answer.etag.text)
            return .copied
        } catch {
            // The refused condition may be that of the source.
            if rules.isExclusive { try await store.requireAbsent(key) }
            throw error
        }
    }

    private func request(
        _ from: ObjectKey, _ key: ObjectKey, _ info: ObjectInfo
    ) async throws(ObjectStoreError) -> CopyRequest {
        var metadata = info.metadata
        for change in rules.headers { change.apply(to: &metadata) }
        let keepsHeaders = rules.headers.isEmpty && (key != from || bucket != nil || !isOfOneProvider)
        var request = CopyRequest(
            CopySource(from, in: bucket, ifMatch: info.version.etag), to: key, metadata: keepsHeaders ? nil : metadata,
            condition: rules.isExclusive ? .absent : nil,
            storageClass: rules.storageClass ?? (isOfOneProvider ? info.storageClass : nil))
        let limits = store.capabilities
        if rules.isExclusive, !(isOfOneProvider ? limits.copyCondition : limits.putIfAbsent) {
            request.condition = nil
            try await store.requireAbsent(key)
        }
        return request
    }

    private func copy(
        _ request: CopyRequest, _ info: ObjectInfo, item: ByteString
    ) async throws(ObjectStoreError) -> PutAnswer {
        let limits = store.capabilities
        let isMarker = info.version.size == 0 && request.key.bytes.hasSuffix("/")
        guard isOfOneProvider, !isMarker else { return try await carry(request, info, item) }
        if info.version.size <= limits.largestCopy {
            let answer = try await store.copy(request)
            context.tally.copiedAtStore(info.version.size)
            return answer
        }
        guard limits.partCopy else {
            throw ObjectStoreError(
                ofFile: "\(SafeText.of(request.source.key.description)) is larger than the "
                    + "\(ByteSize.format(limits.largestCopy)) this store copies at once; mount the bucket and use cp(1)",
                errno: EFBIG, .copy)
        }
        let put = PutRequest(
            request.key, metadata: request.metadata ?? info.metadata, condition: request.condition,
            storageClass: request.storageClass)
        return try await upload(put, info, Self.copiedPart, item).run {
            [store, context] (part, range) throws(ObjectStoreError) in
            let part = try await store.uploadPartCopy(part, from: request.source, range: range)
            context.tally.copiedAtStore(range.length)
            return part
        } check: { () throws(ObjectStoreError) in
            guard !limits.copySourceCondition else { return }
            _ = try await reader.head(request.source.key, condition: .ifMatch(info.version.etag))
        }
    }

    private func upload(_ put: PutRequest, _ info: ObjectInfo, _ partSize: Int64, _ item: ByteString) -> PartedUpload {
        var upload = PartedUpload(
            store: store, request: put, size: info.version.size, partSize: partSize,
            source: "\(info.version.size):\(info.version.etag.text)")
        (upload.journal, upload.item) = (context.journal, item)
        upload.skipped = { [tally = context.tally] in tally.skip($0) }
        return upload
    }

    /// Reads from one store and writes to the other.
    private func carry(
        _ request: CopyRequest, _ info: ObjectInfo, _ item: ByteString
    ) async throws(ObjectStoreError) -> PutAnswer {
        // The kept properties of one provider mean nothing to another.
        var metadata = request.metadata ?? info.metadata
        metadata.kept = KeptProperties()
        let put = PutRequest(
            request.key, metadata: metadata, condition: request.condition, storageClass: request.storageClass)
        var source = request.source
        source.bucket = OtherBucket("", region: nil, store: reader)
        if info.version.size > CarriedCopy.pieceLength {
            do throws(ObjectStoreError) { return try await carryParts(put, info, source.key, item) } catch {
                guard error.isRefusalOfParts, info.version.size <= store.capabilities.largestPut else { throw error }
            }
        }
        return try await CarriedCopy(of: source, info.version, to: put, in: store).make(
            put: { (put, body) throws(ObjectStoreError) in try await store.put(put, body: body) },
            create: { (put) throws(ObjectStoreError) in try await store.createUpload(put) })
    }

    private func carryParts(
        _ put: PutRequest, _ info: ObjectInfo, _ source: ObjectKey, _ item: ByteString
    ) async throws(ObjectStoreError) -> PutAnswer {
        var upload = upload(put, info, CarriedCopy.pieceLength, item)
        // Each part is in memory while it is sent.
        upload.width = 4
        return try await upload.run { [reader, store] (part, range) throws(ObjectStoreError) in
            let bytes = try await CarriedCopy.bytes(range, of: source, info.version.etag, in: reader)
            return try await store.uploadPart(part, body: MemorySource(bytes))
        } check: { () throws(ObjectStoreError) in
        }
    }
}
