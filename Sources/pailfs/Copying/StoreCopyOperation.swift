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
    /// The version to copy; nil is the latest.
    var version: String?
    /// The prefix below which the same bucket is read, if copies may be made there as well; nil if they cannot.
    var overlap: ByteString?
    let root: ByteString
    let context: CopyContext

    private var rules: CopyRules { context.rules }

    func destination(of item: CopyItem) -> ByteString { item.key(below: root) }

    func copy(_ item: CopyItem) async throws(ObjectStoreError) -> CopyOutcome {
        guard case .object(let from, let listed) = item.source else { preconditionFailure("not an object") }
        let name = destination(of: item)
        if name.isEmpty, item.isMarker { return .same }
        let isElsewhere = bucket != nil || !isOfOneProvider || version != nil
        guard !name.isEmpty, name != from.bytes || isElsewhere || !rules.headers.isEmpty || rules.storageClass != nil
        else {
            throw ObjectStoreError(
                ofFile: "\(SafeText.of(name.description)) is the object itself; write another key for the copy",
                errno: EINVAL, .copy)
        }
        if let overlap, name != from.bytes, name.hasPrefix(overlap) {
            throw ObjectStoreError(
                ofFile: "\(SafeText.of(name.description)) would replace an object that may not be copied yet; "
                    + "copy to another place first", errno: EINVAL, .copy)
        }
        let key = ObjectKey(name)
        if let listed, context.isDone(name, source: listed.version.etag.text, result: context.present[name]) {
            context.tally.skip(listed.version.size)
            return .same
        }
        let info = try await reader.head(from, condition: nil)
        if listed == nil { context.tally.learn(info.version.size) }
        if context.isDone(name, source: info.version.etag.text, result: context.present[name]) {
            context.tally.skip(info.version.size)
            return .same
        }
        if rules.updates, let known = try await store.headIfPresent(key), CopyComparison.isSame(info, as: known) {
            context.tally.skip(info.version.size)
            return .same
        }
        if rules.isExclusive { try await store.requireAbsent(key) }
        if rules.isDry { return .planned }
        let request = request(from, key, info)
        do throws(ObjectStoreError) {
            let answer = try await copy(request, info, item: name)
            context.finished(name, source: info.version.etag.text, result: answer.etag.text)
            Entry.warn(of: answer.callback, name)
            return .copied
        } catch {
            // The refused condition may be that of the source.
            if rules.isExclusive { try await store.requireAbsent(key) }
            throw error
        }
    }

    private func request(_ from: ObjectKey, _ key: ObjectKey, _ info: ObjectInfo) -> CopyRequest {
        var metadata = info.metadata
        for change in rules.headers { change.apply(to: &metadata) }
        let keepsHeaders = rules.headers.isEmpty && (key != from || bucket != nil || !isOfOneProvider)
        let source = CopySource(from, in: bucket, ifMatch: info.version.etag, version: version)
        var request = CopyRequest(
            source, to: key, metadata: keepsHeaders ? nil : metadata,
            condition: rules.isExclusive ? .absent : nil,
            storageClass: rules.storageClass ?? (isOfOneProvider ? info.storageClass : nil))
        request.size = info.version.size
        if !canBeConditional(key, info) { request.condition = nil }
        return request
    }

    /// Whether the copy is made by the store, and not from bytes that pass through here. A copy request of a marker finds nothing at
    /// some servers.
    private func isMadeByStore(_ key: ObjectKey, _ info: ObjectInfo) -> Bool {
        isOfOneProvider && !(info.version.size == 0 && key.bytes.hasSuffix("/"))
    }

    /// Whether the request that makes the object, or the last one of several, can have the condition that there is none yet.
    private func canBeConditional(_ key: ObjectKey, _ info: ObjectInfo) -> Bool {
        let (limits, size) = (store.capabilities, info.version.size)
        let isMadeByStore = isMadeByStore(key, info)
        if size > (isMadeByStore ? limits.largestCopy : CarriedCopy.pieceLength) {
            return limits.putIfAbsent && limits.completionCondition
        }
        return isMadeByStore ? limits.copyCondition : limits.putIfAbsent
    }

    private func copy(
        _ request: CopyRequest, _ info: ObjectInfo, item: ByteString
    ) async throws(ObjectStoreError) -> PutAnswer {
        let limits = store.capabilities
        guard isMadeByStore(request.key, info) else { return try await carry(request, info, item) }
        if info.version.size <= limits.largestCopy {
            await context.journal?.abortUpload(of: item, in: store)
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
        await context.journal?.abortUpload(of: item, in: store)
        let copy = CarriedCopy(of: source, info.version, to: put, in: store)
        return try await context.withMemory(min(info.version.size, CarriedCopy.pieceLength)) {
            () async throws(ObjectStoreError) in
            try await copy.make(
                put: { (put, body) throws(ObjectStoreError) in try await store.put(put, body: body) },
                create: { (put) throws(ObjectStoreError) in try await store.createUpload(put) })
        }
    }

    private func carryParts(
        _ put: PutRequest, _ info: ObjectInfo, _ source: ObjectKey, _ item: ByteString
    ) async throws(ObjectStoreError) -> PutAnswer {
        var upload = upload(put, info, CarriedCopy.pieceLength, item)
        upload.width = 4
        return try await upload.run { [reader, store, context] (part, range) throws(ObjectStoreError) in
            // Each part is in memory while it is sent.
            try await context.withMemory(range.length) { () async throws(ObjectStoreError) in
                let bytes = try await CarriedCopy.bytes(range, of: source, info.version.etag, in: reader)
                return try await store.uploadPart(part, body: MemorySource(bytes))
            }
        } check: { () throws(ObjectStoreError) in
        }
    }
}
