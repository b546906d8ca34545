package import Basics

/// A bucket (or the part of one below a prefix) as the rest of the program sees it.
///
/// One request each unless said otherwise; no retries here, they are a decorator. Every failure is an
/// `ObjectStoreError` that keeps operation, key, provider code and request ID. All calls may run at once, are cancelled
/// with their task, and run on the caller's executor. What a store cannot do it says in `capabilities`; calling it anyway
/// throws `.notSupported` without a request.
package protocol ObjectStore: ObjectPropertyStore {
    var capabilities: Capabilities { get }

    /// One page.
    func list(_ request: ListRequest) async throws(ObjectStoreError) -> ListingPage
    /// Never returns a body. `.notModified` when the condition says so.
    func head(_ key: ObjectKey, condition: ReadCondition?) async throws(ObjectStoreError) -> ObjectInfo
    /// Delivers exactly the bytes of the answered range to `sink`, or throws `.integrity`, in which case what the sink got
    /// is worthless. Whole-object reads are checked against the store's checksum where it has one.
    func get(_ request: GetRequest, into sink: any ByteSink) async throws(ObjectStoreError) -> GetAnswer
    /// What the version's content comes to, in one part or part by part, where only a request of its own tells it; empty,
    /// and mostly without a request, where the store tells no more than heads and gets have told (`ObjectInfo.checksum`).
    /// The parts make the object. `.preconditionFailed` or `.notFound` when that version is not there any more.
    func checksums(
        of key: ObjectKey, _ version: ObjectVersion
    ) async throws(ObjectStoreError) -> [CheckedPart]
    /// Sends `body` whole; the store checks it against a digest sent along.
    func put(_ request: PutRequest, body: any ByteSource) async throws(ObjectStoreError) -> PutAnswer
    func copy(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer
    /// A missing object is no error, unless `ifMatch` is given.
    func delete(_ key: ObjectKey, ifMatch: ETag?) async throws(ObjectStoreError)
    /// Deletes up to `capabilities.deleteBatch` keys and returns those that remain with the reason for each.
    func deleteMany(_ keys: [ObjectKey]) async throws(ObjectStoreError) -> [ObjectStoreError]

    func createUpload(_ request: PutRequest) async throws(ObjectStoreError) -> UploadID
    func uploadPart(_ part: PartRequest, body: any ByteSource) async throws(ObjectStoreError) -> UploadedPart
    func uploadPartCopy(
        _ part: PartRequest, from source: CopySource, range: ByteRange
    ) async throws(ObjectStoreError) -> UploadedPart
    /// Every part the store has, in order (pages are followed).
    func listParts(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError) -> [UploadedPart]
    /// Every upload in progress whose key starts with `prefix` (pages are followed).
    func listUploads(prefix: ByteString) async throws(ObjectStoreError) -> [UploadInProgress]
    /// `parts` in ascending order. `metadata` takes the place of what the upload was begun with, which only stores with
    /// `capabilities.headersAtCompletion` let it; nil leaves that. The condition is checked when the object becomes visible.
    func completeUpload(
        _ key: ObjectKey, _ upload: UploadID, parts: [UploadedPart], metadata: ObjectMetadata?,
        condition: WriteCondition?
    ) async throws(ObjectStoreError) -> PutAnswer
    /// An unknown upload is no error.
    func abortUpload(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError)

    /// Replaces the stored headers and keeps content, storage class, encryption, tags and ACL as far as the store's
    /// `capabilities.metadataUpdate` says. `ifMatch` pins the version meant.
    func updateMetadata(
        _ key: ObjectKey, to metadata: ObjectMetadata, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer
    /// A URL for one kind of request to one object without credentials. `.notSupported` names what the store's URLs cannot say.
    func presign(_ request: PresignRequest) throws(ObjectStoreError) -> String
    /// Proves that the bucket exists and the credentials may list it below `prefix`, of which nothing else is listed; the error
    /// names what is wrong.
    func checkAccess(below prefix: ByteString) async throws(ObjectStoreError)
}

extension ObjectStore {
    /// The same for everything that the store shows.
    package func checkAccess() async throws(ObjectStoreError) { try await checkAccess(below: "") }

    /// A URL that serves the object.
    package func presign(_ key: ObjectKey, lifetime: Duration) throws(ObjectStoreError) -> String {
        try presign(PresignRequest(key, lifetime: lifetime))
    }

    package func checksums(
        of key: ObjectKey, _ version: ObjectVersion
    ) async throws(ObjectStoreError) -> [CheckedPart] { [] }

    /// The same with the headers that the upload was begun with.
    package func completeUpload(
        _ key: ObjectKey, _ upload: UploadID, parts: [UploadedPart], condition: WriteCondition?
    ) async throws(ObjectStoreError) -> PutAnswer {
        try await completeUpload(key, upload, parts: parts, metadata: nil, condition: condition)
    }
}

/// When a read answers instead of `.preconditionFailed` or `.notModified`.
package enum ReadCondition: Sendable, Hashable {
    case ifMatch(ETag)
    case ifNoneMatch(ETag)
}

/// What must be true at the destination for a write to happen; otherwise `.preconditionFailed`.
package enum WriteCondition: Sendable, Hashable {
    case absent
    case match(ETag)
}

package struct GetRequest: Sendable, Hashable {
    package var key: ObjectKey
    /// nil asks for the whole object.
    package var range: ByteRange?
    package var condition: ReadCondition?

    package init(_ key: ObjectKey, range: ByteRange? = nil, condition: ReadCondition? = nil) {
        (self.key, self.range, self.condition) = (key, range, condition)
    }
}

package struct GetAnswer: Sendable, Hashable {
    package var info: ObjectInfo
    /// The bytes delivered, cut to the object's end.
    package var range: ByteRange

    package init(info: ObjectInfo, range: ByteRange) { (self.info, self.range) = (info, range) }
}

package struct PutRequest: Sendable, Hashable {
    package var key: ObjectKey
    package var metadata: ObjectMetadata
    package var condition: WriteCondition?
    /// nil takes the mount's setting, which nil there leaves to the store.
    package var storageClass: String?
    /// The object whose tags and ACL the new one gets; nil gives it none.
    package var keeping: ObjectKey?

    package init(
        _ key: ObjectKey, metadata: ObjectMetadata = ObjectMetadata(), condition: WriteCondition? = nil,
        storageClass: String? = nil, keeping: ObjectKey? = nil
    ) {
        (self.key, self.metadata, self.condition) = (key, metadata, condition)
        self.storageClass = storageClass ?? metadata.kept.storageClass
        self.keeping = keeping ?? (metadata.kept.isOfObject ? key : nil)
    }
}

package struct PutAnswer: Sendable, Hashable {
    package var etag: ETag
    package var versionID: String?
    /// Last-Modified when the answer tells it (copies do).
    package var modified: Timestamp?
    /// The store's clock when it answered, where it tells it.
    package var answered: Timestamp?

    package init(
        etag: ETag, versionID: String? = nil, modified: Timestamp? = nil, answered: Timestamp? = nil
    ) {
        (self.etag, self.versionID, self.modified, self.answered) = (etag, versionID, modified, answered)
    }
}

package struct CopySource: Sendable, Hashable {
    package var key: ObjectKey
    /// nil: the bucket that gets the copy.
    package var bucket: OtherBucket?
    /// The version meant; another one there is `.preconditionFailed`.
    package var ifMatch: ETag?

    package init(_ key: ObjectKey, in bucket: OtherBucket? = nil, ifMatch: ETag? = nil) {
        (self.key, self.bucket, self.ifMatch) = (key, bucket, ifMatch)
    }

    /// What reads the source for `store`, which is to have the copy.
    package func reader(for store: any ObjectStore) -> any ObjectStore { bucket?.store ?? store }
}

/// Another bucket of the same provider as the one that gets a copy.
package struct OtherBucket: Sendable, Hashable {
    package let name: String
    /// As the provider calls it; nil: that of the bucket that gets the copy.
    package let region: String?
    /// Reads the bucket, for a copy that the provider does not make itself.
    package let store: any ObjectStore

    package init(_ name: String, region: String?, store: any ObjectStore) {
        (self.name, self.region, self.store) = (name, region, store)
    }

    package static func == (one: OtherBucket, other: OtherBucket) -> Bool {
        one.name == other.name && one.region == other.region
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(name) }
}

package struct CopyRequest: Sendable, Hashable {
    package var source: CopySource
    package var key: ObjectKey
    /// nil keeps the source's headers.
    package var metadata: ObjectMetadata?
    package var condition: WriteCondition?
    /// Stores copy content and headers, never the class: whoever wants to keep the source's names it. nil as in a put.
    package var storageClass: String?
    /// The object whose ACL the copy gets, and its tags if that is not the source; nil leaves the ACL to the store.
    package var keeping: ObjectKey?

    package init(
        _ source: CopySource, to key: ObjectKey, metadata: ObjectMetadata? = nil, condition: WriteCondition? = nil,
        storageClass: String? = nil, keeping: ObjectKey? = nil
    ) {
        (self.source, self.key, self.metadata, self.condition) = (source, key, metadata, condition)
        self.storageClass = storageClass ?? metadata?.kept.storageClass
        self.keeping = keeping ?? (metadata?.kept.isOfObject == true ? key : nil)
    }
}

package struct PartRequest: Sendable, Hashable {
    package var key: ObjectKey
    package var upload: UploadID
    /// From 1.
    package var number: Int

    package init(_ key: ObjectKey, _ upload: UploadID, number: Int) {
        (self.key, self.upload, self.number) = (key, upload, number)
    }
}

package struct UploadedPart: Sendable, Hashable {
    package var number: Int
    package var etag: ETag
    /// In bytes.
    package var size: Int64
    /// CRC-64 (ECMA-182) of the bytes, where the store tells it of whole objects as well.
    package var crc64: UInt64?

    package init(number: Int, etag: ETag, size: Int64, crc64: UInt64? = nil) {
        (self.number, self.etag, self.size, self.crc64) = (number, etag, size, crc64)
    }
}

package struct UploadInProgress: Sendable, Hashable {
    package var key: ObjectKey
    package var upload: UploadID
    package var initiated: Timestamp?

    package init(key: ObjectKey, upload: UploadID, initiated: Timestamp?) {
        (self.key, self.upload, self.initiated) = (key, upload, initiated)
    }
}
