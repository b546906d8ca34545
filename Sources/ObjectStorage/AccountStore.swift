package import Basics
import Synchronization

/// Every bucket of an account as one store: the first component of a key is the name of a bucket.
///
/// The key `bucket/` stands for a bucket and exists as long as the account lists it. Where `capabilities.newBuckets` is set, a put
/// of the key on the condition that it is absent creates the bucket, and a delete deletes it. It cannot be written otherwise. A
/// bucket's store is made at the first request to the bucket and kept for the life of this store. Locks: the table of stores is
/// behind a mutex, a leaf.
package final class AccountStore: ObjectStore {
    package typealias Opener = @Sendable (BucketEntry) throws(ObjectStoreError) -> any ObjectStore

    package let capabilities: Capabilities
    private let directory: any BucketDirectory
    let open: Opener
    /// The buckets that have a store, each with its region where the account's listing has that.
    let opened = Mutex<[String: OtherBucket]>([:])

    /// `capabilities` are those of the account's buckets; `open` makes the store of one, without a request. With `newBuckets`
    /// buckets can be created and deleted.
    package init(
        _ directory: any BucketDirectory, capabilities: Capabilities, newBuckets: BucketNameRule? = nil,
        open: @escaping Opener
    ) {
        var capabilities = capabilities
        capabilities.bucketsInKeys = true
        capabilities.newBuckets = newBuckets
        // Each bucket has its own.
        capabilities.keyRules.reserved = nil
        // Usage figures are those of one bucket, and an account is none.
        capabilities.usage = false
        capabilities.bucketProperties = false
        (self.capabilities, self.directory, self.open) = (capabilities, directory, open)
    }

    /// A key's bucket, and the key in that bucket; empty for the bucket itself.
    struct Place {
        let bucket: String
        let rest: ByteString

        /// nil for a name at the top that is not a bucket's.
        init?(_ bytes: ByteString) {
            guard let slash = bytes.bytes.firstIndex(of: UInt8(ascii: "/")), slash > 0 else { return nil }
            bucket = String(decoding: bytes.bytes[..<slash], as: UTF8.self)
            rest = bytes.dropFirst(slash + 1)
        }
    }

    static func up(_ bytes: ByteString, _ bucket: String) -> ByteString { ByteString(bucket + "/") + bytes }

    /// The buckets by name in byte order.
    private func buckets() async throws(ObjectStoreError) -> [BucketEntry] {
        try await directory.buckets().sorted { ByteString($0.name) < ByteString($1.name) }
    }

    private func entry(_ name: String) async throws(ObjectStoreError) -> BucketEntry? {
        try await buckets().first { $0.name == name }
    }

    func store(of bucket: String) async throws(ObjectStoreError) -> any ObjectStore {
        try await self.bucket(bucket).store
    }

    private func bucket(_ name: String) async throws(ObjectStoreError) -> OtherBucket {
        if let known = opened.withLock({ $0[name] }) { return known }
        guard let entry = try await entry(name) else {
            throw ObjectStoreError(
                .notFound, .list, status: 404, code: "NoSuchBucket", message: "the account has no bucket \(name)")
        }
        let bucket = OtherBucket(name, region: entry.region, store: try open(entry))
        return opened.withLock { opened in
            if let known = opened[name] { return known }
            opened[name] = bucket
            return bucket
        }
    }

    /// Calls the store of the key's bucket; its errors get the key with the bucket's name.
    func at<Answer>(
        _ key: ObjectKey, _ operation: ObjectStoreError.Operation,
        _ act: (any ObjectStore, ObjectKey) async throws(ObjectStoreError) -> Answer
    ) async throws(ObjectStoreError) -> Answer {
        guard let place = Place(key.bytes), !place.rest.isEmpty else { throw Self.bucketsAreFixed(operation, key) }
        let store = try await store(of: place.bucket)
        do { return try await act(store, ObjectKey(place.rest)) } catch { throw Self.up(error, place.bucket) }
    }

    static func up(_ error: ObjectStoreError, _ bucket: String) -> ObjectStoreError {
        var error = error
        error.key = error.key.map { ObjectKey(up($0.bytes, bucket)) }
        return error
    }

    /// That of an empty object: whether a bucket was created although the answer is lost is asked like that of any put.
    private static let bucketETag = ETag("d41d8cd98f00b204e9800998ecf8427e")

    static func bucketsAreFixed(
        _ operation: ObjectStoreError.Operation, _ key: ObjectKey
    ) -> ObjectStoreError {
        ObjectStoreError(
            .notSupported, operation, key: key, code: "BucketsAreFixed",
            message:
                "the top of an account has buckets only; create and delete buckets with the provider's tools, or with "
                + "mkdir and rmdir in a mount with buckets=change")
    }

    /// The copy source as the store of `key`'s bucket takes it.
    func source(
        _ source: CopySource, for key: ObjectKey, _ operation: ObjectStoreError.Operation
    ) async throws(ObjectStoreError) -> CopySource {
        guard let place = Place(source.key.bytes), !place.rest.isEmpty else {
            throw Self.bucketsAreFixed(operation, source.key)
        }
        let isElsewhere = place.bucket != Place(key.bytes)?.bucket
        return CopySource(
            ObjectKey(place.rest), in: isElsewhere ? try await bucket(place.bucket) : nil, ifMatch: source.ifMatch,
            version: source.version)
    }
}

// MARK: Listings

extension AccountStore {
    package func list(_ request: ListRequest) async throws(ObjectStoreError) -> ListingPage {
        if let place = Place(request.prefix) { return try await list(place.bucket, place.rest, request) }
        return request.delimiter == UInt8(ascii: "/") ? try await listNames(request) : try await listFlat(request)
    }

    private func list(
        _ bucket: String, _ prefix: ByteString, _ request: ListRequest
    ) async throws(ObjectStoreError) -> ListingPage {
        var inner = request
        inner.prefix = prefix
        if let start = request.startAfter {
            let own = ByteString(bucket + "/")
            if start.hasPrefix(own) {
                inner.startAfter = start.count > own.count ? start.dropFirst(own.count) : nil
            } else if own < start {
                return ListingPage()
            } else {
                inner.startAfter = nil
            }
        }
        let store = try await store(of: bucket)
        let page: ListingPage
        do { page = try await store.list(inner) } catch { throw Self.up(error, bucket) }
        return ListingPage(
            objects: page.objects.map { object in
                var object = object
                object.key = ObjectKey(Self.up(object.key.bytes, bucket))
                return object
            }, commonPrefixes: page.commonPrefixes.map { ObjectKey(Self.up($0.bytes, bucket)) }, next: page.next)
    }

    /// Lists the buckets themselves, as common prefixes.
    private func listNames(_ request: ListRequest) async throws(ObjectStoreError) -> ListingPage {
        let after = request.cursor?.bytes ?? request.startAfter
        let names = try await buckets().map { ByteString($0.name + "/") }
            .filter { name in name.hasPrefix(request.prefix) && after.map { $0 < name && !$0.hasPrefix(name) } ?? true }
        let limit = min(request.limit ?? .max, capabilities.listPage)
        let page = names.prefix(limit)
        return ListingPage(
            commonPrefixes: page.map(ObjectKey.init),
            next: names.count > limit ? page.last.map(ListingCursor.init) : nil)
    }

    /// The objects of one bucket after the other; a cursor is a bucket's name, a slash, and the cursor there.
    private func listFlat(_ request: ListRequest) async throws(ObjectStoreError) -> ListingPage {
        let from = request.cursor.flatMap { Place($0.bytes) }
        let start = request.startAfter.map { Place($0)?.bucket ?? $0.description }
        let entries = try await buckets().filter { entry in
            ByteString(entry.name).hasPrefix(request.prefix)
                && (from.map { ByteString($0.bucket) < ByteString(entry.name) || $0.bucket == entry.name }
                    ?? start.map { !(ByteString(entry.name) < ByteString($0)) } ?? true)
        }
        guard let first = entries.first else { return ListingPage() }
        var inner = request
        let rest = from.flatMap { $0.bucket == first.name ? $0.rest : nil } ?? ""
        inner.cursor = rest.isEmpty ? nil : ListingCursor(rest)
        var page = try await list(first.name, "", inner)
        if let next = page.next {
            page.next = ListingCursor(Self.up(next.bytes, first.name))
        } else if entries.count > 1 {
            page.next = ListingCursor(Self.up("", entries[1].name))
        }
        return page
    }
}

// MARK: Objects

extension AccountStore {
    package func head(_ key: ObjectKey, condition: ReadCondition?) async throws(ObjectStoreError) -> ObjectInfo {
        if let place = Place(key.bytes), place.rest.isEmpty {
            guard let entry = try await entry(place.bucket) else {
                throw ObjectStoreError(
                    .notFound, .head, key: key, status: 404, message: "the account has no bucket \(place.bucket)")
            }
            let version = ObjectVersion(etag: Self.bucketETag, size: 0, modified: entry.created ?? .epoch)
            return ObjectInfo(version: version, metadata: ObjectMetadata())
        }
        return try await at(key, .head) { store, key throws(ObjectStoreError) in
            try await store.head(key, condition: condition)
        }
    }

    package func get(_ request: GetRequest, into sink: any ByteSink) async throws(ObjectStoreError) -> GetAnswer {
        try await at(request.key, .get) { store, key throws(ObjectStoreError) in
            var request = request
            request.key = key
            return try await store.get(request, into: sink)
        }
    }

    package func checksums(
        of key: ObjectKey, _ version: ObjectVersion
    ) async throws(ObjectStoreError) -> [CheckedPart] {
        try await at(key, .head) { store, key throws(ObjectStoreError) in try await store.checksums(of: key, version) }
    }

    package func put(_ request: PutRequest, body: any ByteSource) async throws(ObjectStoreError) -> PutAnswer {
        if request.condition == .absent, try await create(request.key) { return PutAnswer(etag: Self.bucketETag) }
        return try await at(request.key, .put) { store, key throws(ObjectStoreError) in
            try await store.put(request.at(key), body: body)
        }
    }

    package func copy(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        let source = try await source(request.source, for: request.key, .copy)
        return try await at(request.key, .copy) { store, key throws(ObjectStoreError) in
            try await store.copy(request.at(key, from: source))
        }
    }

    package func delete(_ key: ObjectKey, ifMatch: ETag?) async throws(ObjectStoreError) {
        if ifMatch == nil, try await remove(key) { return }
        try await at(key, .delete) { store, key throws(ObjectStoreError) in
            try await store.delete(key, ifMatch: ifMatch)
        }
    }

    /// One request for each bucket that has some of the keys.
    package func deleteMany(_ keys: [ObjectKey]) async throws(ObjectStoreError) -> [ObjectStoreError] {
        var failures: [ObjectStoreError] = []
        var groups: [(bucket: String, keys: [ObjectKey])] = []
        for key in keys {
            guard let place = Place(key.bytes), !place.rest.isEmpty else {
                failures.append(Self.bucketsAreFixed(.deleteMany, key))
                continue
            }
            if let index = groups.firstIndex(where: { $0.bucket == place.bucket }) {
                groups[index].keys.append(ObjectKey(place.rest))
            } else {
                groups.append((place.bucket, [ObjectKey(place.rest)]))
            }
        }
        for group in groups {
            let store = try await store(of: group.bucket)
            do { failures += try await store.deleteMany(group.keys).map { Self.up($0, group.bucket) } } catch {
                throw Self.up(error, group.bucket)
            }
        }
        return failures
    }

    package func updateMetadata(
        _ key: ObjectKey, to metadata: ObjectMetadata, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer {
        try await at(key, .updateMetadata) { store, key throws(ObjectStoreError) in
            try await store.updateMetadata(key, to: metadata, ifMatch: ifMatch)
        }
    }

    /// Only for a bucket with an earlier request: its store must exist.
    package func presign(_ request: PresignRequest) throws(ObjectStoreError) -> String {
        guard let place = Place(request.key.bytes), !place.rest.isEmpty,
            let store = opened.withLock({ $0[place.bucket]?.store })
        else { throw Self.bucketsAreFixed(.presign, request.key) }
        var request = request
        request.key = ObjectKey(place.rest)
        return try store.presign(request)
    }

    package func checkAccess(below prefix: ByteString) async throws(ObjectStoreError) {
        _ = try await directory.buckets()
    }
}

// MARK: Uploads

extension AccountStore {
    package func createUpload(_ request: PutRequest) async throws(ObjectStoreError) -> UploadID {
        try await at(request.key, .createUpload) { store, key throws(ObjectStoreError) in
            try await store.createUpload(request.at(key))
        }
    }

    package func uploadPart(_ part: PartRequest, body: any ByteSource) async throws(ObjectStoreError) -> UploadedPart {
        try await at(part.key, .uploadPart) { store, key throws(ObjectStoreError) in
            try await store.uploadPart(PartRequest(key, part.upload, number: part.number), body: body)
        }
    }

    package func uploadPartCopy(
        _ part: PartRequest, from source: CopySource, range: ByteRange
    ) async throws(ObjectStoreError) -> UploadedPart {
        let source = try await self.source(source, for: part.key, .uploadPartCopy)
        return try await at(part.key, .uploadPartCopy) { store, key throws(ObjectStoreError) in
            try await store.uploadPartCopy(
                PartRequest(key, part.upload, number: part.number), from: source, range: range)
        }
    }

    package func listParts(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError) -> [UploadedPart] {
        try await at(key, .listParts) { store, key throws(ObjectStoreError) in
            try await store.listParts(key, upload)
        }
    }

    /// The uploads of the prefix's bucket; without one, those of the buckets with an earlier request.
    package func listUploads(prefix: ByteString) async throws(ObjectStoreError) -> [UploadInProgress] {
        let place = Place(prefix)
        var names = opened.withLock { Array($0.keys) }.sorted()
        if let place { names = [place.bucket] }
        var uploads: [UploadInProgress] = []
        for name in names where place != nil || ByteString(name).hasPrefix(prefix) {
            let found = try await store(of: name).listUploads(prefix: place?.rest ?? "")
            uploads += found.map { upload in upload.renamed(ObjectKey(Self.up(upload.key.bytes, name))) }
        }
        return uploads
    }

    package func completeUpload(
        _ key: ObjectKey, _ upload: UploadID, parts: [UploadedPart], metadata: ObjectMetadata?,
        condition: WriteCondition?
    ) async throws(ObjectStoreError) -> PutAnswer {
        try await at(key, .completeUpload) { store, key throws(ObjectStoreError) in
            try await store.completeUpload(key, upload, parts: parts, metadata: metadata, condition: condition)
        }
    }

    package func abortUpload(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError) {
        try await at(key, .abortUpload) { store, key throws(ObjectStoreError) in
            try await store.abortUpload(key, upload)
        }
    }
}

extension ObjectKey {
    /// The key without its first component.
    var withoutBucket: ObjectKey {
        ObjectKey(bytes.dropFirst((bytes.bytes.firstIndex(of: UInt8(ascii: "/")) ?? -1) + 1))
    }
}

extension PutRequest {
    func at(_ key: ObjectKey) -> PutRequest {
        var request = self
        request.key = key
        request.keeping = keeping.map(\.withoutBucket)
        return request
    }
}

extension CopyRequest {
    func at(_ key: ObjectKey, from source: CopySource) -> CopyRequest {
        var request = self
        (request.key, request.source) = (key, source)
        request.keeping = keeping.map(\.withoutBucket)
        return request
    }
}
