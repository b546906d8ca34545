package import Basics
import Synchronization

/// A bucket that keeps versions, as it was: reads and listings show earlier versions, and writes are refused.
///
/// Sends listings of versions where other stores list keys. Locks: the mutex of found versions is a leaf. They stay true, as
/// later versions are not shown; a bucket with suspended versioning replaces its version `null` all the same.
package final class PastStore: ObjectStore {
    /// The version that the store shows of each key.
    package enum View: Sendable, Hashable {
        /// The newest version that is not newer than this time, unless it is a delete marker.
        case at(Timestamp)
        /// The version with this ID; for commands on one object. Listings are not supported.
        case version(String)
    }

    private let base: any ObjectStore
    private let view: View
    private let found = Mutex(LRU<ObjectKey, StoredVersion>(capacity: 100_000))
    /// Common prefixes in which there was an object, looked up at the same time.
    private static let width = 16

    package init(_ base: any ObjectStore, _ view: View) { (self.base, self.view) = (base, view) }

    package var capabilities: Capabilities {
        var capabilities = base.capabilities
        (capabilities.accessControl, capabilities.tags, capabilities.restore) = (false, false, false)
        (capabilities.move, capabilities.usage) = (false, false)
        capabilities.newBuckets = nil
        return capabilities
    }

    // MARK: Reads

    package func head(_ key: ObjectKey, condition: ReadCondition?) async throws(ObjectStoreError) -> ObjectInfo {
        let info = try await base.head(key, version: try await version(of: key, .head))
        switch condition {
        case .ifMatch(let etag) where etag != info.version.etag:
            throw ObjectStoreError(
                .preconditionFailed, .head, key: key, code: "OtherVersion", message: "the object has another version")
        case .ifNoneMatch(let etag) where etag == info.version.etag:
            throw ObjectStoreError(.notModified, .head, key: key, code: "NotModified", message: "not modified")
        default: return info
        }
    }

    package func get(_ request: GetRequest, into sink: any ByteSink) async throws(ObjectStoreError) -> GetAnswer {
        var request = request
        if request.version == nil { request.version = try await version(of: request.key, .get) }
        return try await base.get(request, into: sink)
    }

    package func checksums(
        of key: ObjectKey, _ version: ObjectVersion
    ) async throws(ObjectStoreError) -> [CheckedPart] {
        try await base.checksums(of: key, version, id: try await self.version(of: key, .head))
    }

    /// The ID of the version that is shown.
    private func version(
        of key: ObjectKey, _ operation: ObjectStoreError.Operation
    ) async throws(ObjectStoreError) -> String {
        switch view {
        case .version(let id): return id
        case .at(let time): return try await newest(of: key, at: time, operation)
        }
    }

    private func newest(
        of key: ObjectKey, at time: Timestamp, _ operation: ObjectStoreError.Operation
    ) async throws(ObjectStoreError) -> String {
        if let known = found.withLock({ $0.value(for: key) }) { return known.id }
        var request = VersionsRequest(prefix: key.bytes)
        while true {
            let page = try await base.versions(request)
            if let newest = page.versions.first(where: { $0.key == key && $0.version.modified <= time }) {
                guard !newest.isDeleteMarker else { break }
                remember(newest)
                return newest.id
            }
            // The key itself sorts before every other that it begins.
            guard let next = page.next, page.versions.last.map({ $0.key == key }) ?? true else { break }
            request.cursor = next
        }
        throw ObjectStoreError(
            .notFound, operation, key: key, code: "NoSuchKey", message: "there was no such object at this time")
    }

    private func remember(_ version: StoredVersion) {
        found.withLock { _ = $0.insert(version, for: version.key) }
    }

    // MARK: Versions, which are the same at any time

    package func versioning() async throws(ObjectStoreError) -> Versioning { try await base.versioning() }

    package func versions(_ request: VersionsRequest) async throws(ObjectStoreError) -> VersionsPage {
        try await base.versions(request)
    }

    package func head(_ key: ObjectKey, version: String) async throws(ObjectStoreError) -> ObjectInfo {
        try await base.head(key, version: version)
    }

    // MARK: Listings

    package func list(_ request: ListRequest) async throws(ObjectStoreError) -> ListingPage {
        guard case .at(let time) = view else { throw .lacking(.list, nil, "listings of one version") }
        var wanted = VersionsRequest(
            prefix: request.prefix, delimiter: request.delimiter, startAfter: request.startAfter, limit: request.limit)
        wanted.cursor = try request.cursor.map { (cursor) throws(ObjectStoreError) in try Self.versions(after: cursor) }
        let page = try await base.versions(wanted)
        var listing = ListingPage()
        var decided: ObjectKey?
        for version in page.versions where version.key != decided && version.version.modified <= time {
            decided = version.key
            guard !version.isDeleteMarker else { continue }
            remember(version)
            listing.objects.append(
                ListedObject(key: version.key, version: version.version, storageClass: version.storageClass))
        }
        let wasThere = try await concurrently(page.commonPrefixes, width: Self.width) {
            (prefix) throws(ObjectStoreError) in try await self.existed(below: prefix.bytes)
        }
        listing.commonPrefixes = zip(page.commonPrefixes, wasThere).filter(\.1).map(\.0)
        // Older versions of a key that is decided do not count: the next page starts behind them.
        listing.next = page.next.map { next in
            Self.cursor(decided?.bytes == next.key ? VersionsCursor(key: next.key, version: "") : next)
        }
        return listing
    }

    /// Whether there was an object below the prefix. A group of keys that all came later, or were deleted before, is none.
    private func existed(below prefix: ByteString) async throws(ObjectStoreError) -> Bool {
        var request = ListRequest(prefix: prefix)
        while true {
            let page = try await list(request)
            if !page.objects.isEmpty { return true }
            guard let next = page.next else { return false }
            request.cursor = next
        }
    }

    /// The version, a NUL, and the key.
    private static func cursor(_ cursor: VersionsCursor) -> ListingCursor {
        ListingCursor(ByteString(cursor.version) + ByteString([0]) + cursor.key)
    }

    private static func versions(after cursor: ListingCursor) throws(ObjectStoreError) -> VersionsCursor {
        guard let mark = cursor.bytes.bytes.firstIndex(of: 0) else {
            throw ObjectStoreError(.invalidRequest, .list, message: "the cursor of the listing is another store's")
        }
        return VersionsCursor(
            key: ByteString(cursor.bytes.bytes[(mark + 1)...]),
            version: ByteString(cursor.bytes.bytes[..<mark]).description)
    }

    /// Also checks that the bucket keeps versions, as far as the credentials may read that.
    package func checkAccess(below prefix: ByteString) async throws(ObjectStoreError) {
        try await base.checkAccess(below: prefix)
        do throws(ObjectStoreError) {
            guard try await base.versioning() == .never else { return }
        } catch {
            guard error.kind == .accessDenied else { throw error }
            return
        }
        throw ObjectStoreError(
            .invalidRequest, .checkAccess, code: "NoVersions",
            message:
                "it keeps no versions, so as-of cannot show it as it was; leave out as-of, or enable versioning at "
                + "the store for later")
    }
}

/// Requests that change something, and those without a meaning for the past.
extension PastStore {
    private static func refused(_ operation: ObjectStoreError.Operation, _ key: ObjectKey?) -> ObjectStoreError {
        .lacking(operation, key, "changes of what was")
    }

    package func put(_ request: PutRequest, body: any ByteSource) async throws(ObjectStoreError) -> PutAnswer {
        throw Self.refused(.put, request.key)
    }

    package func copy(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        throw Self.refused(.copy, request.key)
    }

    package func delete(_ key: ObjectKey, ifMatch: ETag?) async throws(ObjectStoreError) {
        throw Self.refused(.delete, key)
    }

    package func deleteMany(_ keys: [ObjectKey]) async throws(ObjectStoreError) -> [ObjectStoreError] {
        throw Self.refused(.deleteMany, keys.first)
    }

    package func createUpload(_ request: PutRequest) async throws(ObjectStoreError) -> UploadID {
        throw Self.refused(.createUpload, request.key)
    }

    package func uploadPart(_ part: PartRequest, body: any ByteSource) async throws(ObjectStoreError) -> UploadedPart {
        throw Self.refused(.uploadPart, part.key)
    }

    package func uploadPartCopy(
        _ part: PartRequest, from source: CopySource, range: ByteRange
    ) async throws(ObjectStoreError) -> UploadedPart { throw Self.refused(.uploadPartCopy, part.key) }

    /// There are none that this store could have made.
    package func listParts(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError) -> [UploadedPart] { [] }
    package func listUploads(prefix: ByteString) async throws(ObjectStoreError) -> [UploadInProgress] { [] }
    package func abortUpload(_ key: ObjectKey, _ upload: UploadID) async throws(ObjectStoreError) {}

    package func completeUpload(
        _ key: ObjectKey, _ upload: UploadID, parts: [UploadedPart], metadata: ObjectMetadata?,
        condition: WriteCondition?
    ) async throws(ObjectStoreError) -> PutAnswer { throw Self.refused(.completeUpload, key) }

    package func updateMetadata(
        _ key: ObjectKey, to metadata: ObjectMetadata, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer { throw Self.refused(.updateMetadata, key) }

    package func presign(_ request: PresignRequest) throws(ObjectStoreError) -> String {
        throw .lacking(.presign, request.key, "URLs of older versions")
    }
}
