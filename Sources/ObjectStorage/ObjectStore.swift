package import Basics

/// A bucket (or the part of one below a prefix) for the rest of the program.
///
/// One request each unless said otherwise; no retries here, they are a decorator. Every failure is an
/// `ObjectStoreError` that keeps operation, key, provider code and request ID. All calls may run at once, are cancelled
/// with their task, and run on the caller's executor. What a store cannot do it says in `capabilities`; calling it anyway
/// throws `.notSupported` without a request.
package protocol ObjectStore: ObjectPropertyStore, ObjectVersionStore {
    var capabilities: Capabilities { get }

    /// One page.
    func list(_ request: ListRequest) async throws(ObjectStoreError) -> ListingPage
    /// Never returns a body. Throws `.notModified` when the condition asks for it.
    func head(_ key: ObjectKey, condition: ReadCondition?) async throws(ObjectStoreError) -> ObjectInfo
    /// Delivers exactly the bytes of the answered range to `sink`, or throws `.integrity`: then the bytes in the sink are not
    /// valid. Whole-object reads are checked against the store's checksum where it has one.
    func get(_ request: GetRequest, into sink: any ByteSink) async throws(ObjectStoreError) -> GetAnswer
    /// The checksums of the version's content, whole or part by part, where only a request of their own returns them; empty, and
    /// mostly without a request, where the store has no others than HEAD and GET return (`ObjectInfo.checksum`). The parts
    /// together make the object. `.preconditionFailed` or `.notFound` when that version does not exist any more.
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
    /// `parts` in ascending order. `metadata` replaces the headers that the upload was begun with, only at stores with
    /// `capabilities.headersAtCompletion`; nil keeps them. The condition is checked when the object becomes visible.
    func completeUpload(
        _ key: ObjectKey, _ upload: UploadID, parts: [UploadedPart], metadata: ObjectMetadata?,
        condition: WriteCondition?
    ) async throws(ObjectStoreError) -> PutAnswer
    /// An unknown upload is no error.
    func abortUpload(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError)

    /// Replaces the stored headers and keeps content, storage class, encryption, tags and ACL as far as the store's
    /// `capabilities.metadataUpdate` says. `ifMatch` pins the version.
    func updateMetadata(
        _ key: ObjectKey, to metadata: ObjectMetadata, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer
    /// A URL for one kind of request to one object without credentials. `.notSupported` names the part of the request that the
    /// store's URLs cannot carry.
    func presign(_ request: PresignRequest) throws(ObjectStoreError) -> String
    /// Checks that the bucket exists and the credentials may list it below `prefix`; lists nothing else. The error names what is
    /// wrong.
    func checkAccess(below prefix: ByteString) async throws(ObjectStoreError)
}

extension ObjectStore {
    /// Checks access to the whole bucket.
    package func checkAccess() async throws(ObjectStoreError) { try await checkAccess(below: "") }

    /// A URL that serves the object.
    package func presign(_ key: ObjectKey, lifetime: Duration) throws(ObjectStoreError) -> String {
        try presign(PresignRequest(key, lifetime: lifetime))
    }

    package func checksums(
        of key: ObjectKey, _ version: ObjectVersion
    ) async throws(ObjectStoreError) -> [CheckedPart] { [] }

    /// Completes the upload with the headers that it was begun with.
    package func completeUpload(
        _ key: ObjectKey, _ upload: UploadID, parts: [UploadedPart], condition: WriteCondition?
    ) async throws(ObjectStoreError) -> PutAnswer {
        try await completeUpload(key, upload, parts: parts, metadata: nil, condition: condition)
    }
}

/// The condition of a read; if it does not hold, the read throws `.preconditionFailed` or `.notModified`.
package enum ReadCondition: Sendable, Hashable {
    case ifMatch(ETag)
    case ifNoneMatch(ETag)
}

/// The condition of a write on its destination; if it does not hold, the write throws `.preconditionFailed`.
package enum WriteCondition: Sendable, Hashable {
    case absent
    case match(ETag)
}

package struct GetRequest: Sendable, Hashable {
    package var key: ObjectKey
    /// nil fetches the whole object.
    package var range: ByteRange?
    package var condition: ReadCondition?
    /// The ID of the version to read; nil reads the latest.
    package var version: String?

    package init(
        _ key: ObjectKey, range: ByteRange? = nil, condition: ReadCondition? = nil, version: String? = nil
    ) {
        (self.key, self.range, self.condition, self.version) = (key, range, condition, version)
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
    /// nil takes the mount's setting; without that, the store's default.
    package var storageClass: String?
    /// The object whose tags and ACL the new one gets; nil: none.
    package var keeping: ObjectKey?
    /// The length of an object in parts, in bytes, where it is known before them.
    package var size: Int64?

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
    /// Last-Modified, when the answer has it (copies do).
    package var modified: Timestamp?
    /// The store's clock at the time of the answer, if the answer has it.
    package var answered: Timestamp?
    /// Set for an upload with a callback.
    package var callback: CallbackResult?

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
    /// The version to copy; if the key has another one, `.preconditionFailed`.
    package var ifMatch: ETag?
    /// The ID of the version to copy; nil copies the latest.
    package var version: String?

    package init(
        _ key: ObjectKey, in bucket: OtherBucket? = nil, ifMatch: ETag? = nil, version: String? = nil
    ) {
        (self.key, self.bucket, self.ifMatch, self.version) = (key, bucket, ifMatch, version)
    }

    /// The store that reads the source; `store` gets the copy.
    package func reader(for store: any ObjectStore) -> any ObjectStore { bucket?.store ?? store }

    /// Whether the object of another bucket may be read and written instead, after the store refused to copy it. Each provider has
    /// its own words for a bucket of another region or account.
    package func mayBeRead(after refusal: ObjectStoreError) -> Bool {
        bucket != nil && refusal.status != nil && !refusal.isRetryable && refusal.kind != .preconditionFailed
    }
}

/// Another bucket of the same provider as the one that gets a copy.
package struct OtherBucket: Sendable, Hashable {
    package let name: String
    /// As the provider names it; nil: that of the bucket that gets the copy.
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
    /// Stores copy content and headers, never the class: to keep the source's, name it. nil as in a PUT.
    package var storageClass: String?
    /// The object whose ACL the copy gets, and its tags if that is not the source; nil leaves the ACL to the store.
    package var keeping: ObjectKey?
    /// The length of the source in bytes; nil where it is not known.
    package var size: Int64?

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
    /// CRC-64 (ECMA-182) of the bytes, where the store also has it for whole objects.
    package var crc64: UInt64?

    package init(number: Int, etag: ETag, size: Int64, crc64: UInt64? = nil) {
        (self.number, self.etag, self.size, self.crc64) = (number, etag, size, crc64)
    }
}

package struct UploadInProgress: Sendable, Hashable {
    package var key: ObjectKey
    package var upload: UploadID
    package var initiated: Timestamp?
    /// The storage class that the object will have; nil where the store does not return it.
    package var storageClass: String?
    /// The account or user that began the upload, as the store names it; nil where it does not.
    package var initiator: String?

    package init(key: ObjectKey, upload: UploadID, initiated: Timestamp?) {
        (self.key, self.upload, self.initiated) = (key, upload, initiated)
    }

    /// The same upload under the key that another level of stores has for it.
    func renamed(_ key: ObjectKey) -> UploadInProgress {
        var upload = self
        upload.key = key
        return upload
    }
}
