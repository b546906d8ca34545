package import Basics

/// Versions of objects, in buckets that keep them: S3, OSS and COS, where `Capabilities.versions` is set. Other stores throw
/// `.notSupported` without a request, which is what these requirements do unless a store has its own.
///
/// A bucket that never had versioning has one version of each key, with the ID `null`. Reads and copies of a version are those
/// of objects, with the ID in `GetRequest.version` and `CopySource.version`.
package protocol ObjectVersionStore: Sendable {
    /// Whether the bucket keeps versions. `.accessDenied` to credentials that may not read that.
    func versioning() async throws(ObjectStoreError) -> Versioning
    /// Whether the key's bucket keeps versions; a store of one bucket need not have its own.
    func versioning(of key: ObjectKey) async throws(ObjectStoreError) -> Versioning
    /// One page of the versions and delete markers: by key, and of a key the newest first.
    func versions(_ request: VersionsRequest) async throws(ObjectStoreError) -> VersionsPage
    func head(_ key: ObjectKey, version: String) async throws(ObjectStoreError) -> ObjectInfo
    /// As `ObjectStore.checksums(of:_:)`, of the version with this ID; nil is the latest.
    func checksums(
        of key: ObjectKey, _ version: ObjectVersion, id: String?
    ) async throws(ObjectStoreError) -> [CheckedPart]
    /// Deletes a version or delete marker for good. One that is not there is no error.
    func delete(_ key: ObjectKey, version: String) async throws(ObjectStoreError)
    /// Makes the bytes, headers, tags and class of a version those of the key's latest: the store copies them.
    func restoreVersion(_ key: ObjectKey, _ version: String) async throws(ObjectStoreError) -> PutAnswer
}

/// Whether a bucket keeps versions.
package enum Versioning: Sendable, Hashable {
    /// Versioning was never enabled.
    case never
    case enabled
    /// Older versions are there, but a write makes or replaces the version `null`.
    case suspended
}

/// Which versions to list.
package struct VersionsRequest: Sendable, Hashable {
    package var prefix: ByteString
    /// Keys that hold it past the prefix are rolled up; nil lists flat.
    package var delimiter: UInt8?
    /// Keys (and common prefixes) at or before this are left out. Ignored when `cursor` is set.
    package var startAfter: ByteString?
    /// `VersionsPage.next` of the page before.
    package var cursor: VersionsCursor?
    /// Most entries wanted; the store may give fewer.
    package var limit: Int?

    package init(
        prefix: ByteString = "", delimiter: UInt8? = nil, startAfter: ByteString? = nil,
        cursor: VersionsCursor? = nil, limit: Int? = nil
    ) {
        (self.prefix, self.delimiter, self.startAfter) = (prefix, delimiter, startAfter)
        (self.cursor, self.limit) = (cursor, limit)
    }
}

/// Where the next page of versions starts. Opaque outside the provider.
package struct VersionsCursor: Sendable, Hashable {
    package let key: ByteString
    package let version: String

    package init(key: ByteString, version: String) { (self.key, self.version) = (key, version) }
}

/// A version of a key, or a delete marker.
package struct StoredVersion: Sendable, Hashable {
    /// The ID of the one version that a bucket without versioning, or with suspended versioning, keeps of a key.
    package static let null = "null"

    package var key: ObjectKey
    package var id: String
    /// Of a delete marker, the time alone.
    package var version: ObjectVersion
    package var storageClass: String?
    package var isLatest: Bool
    package var isDeleteMarker: Bool

    package init(
        key: ObjectKey, id: String, version: ObjectVersion, storageClass: String? = nil, isLatest: Bool,
        isDeleteMarker: Bool = false
    ) {
        (self.key, self.id, self.version, self.storageClass) = (key, id, version, storageClass)
        (self.isLatest, self.isDeleteMarker) = (isLatest, isDeleteMarker)
    }
}

/// One page of a listing of versions.
package struct VersionsPage: Sendable, Hashable {
    package var versions: [StoredVersion]
    /// Each ends with the delimiter.
    package var commonPrefixes: [ObjectKey]
    /// nil on the last page.
    package var next: VersionsCursor?

    package init(versions: [StoredVersion] = [], commonPrefixes: [ObjectKey] = [], next: VersionsCursor? = nil) {
        (self.versions, self.commonPrefixes, self.next) = (versions, commonPrefixes, next)
    }
}

extension ObjectVersionStore {
    package func versioning() async throws(ObjectStoreError) -> Versioning {
        throw .lacking(.checkAccess, nil, Self.versions)
    }

    package func versioning(of key: ObjectKey) async throws(ObjectStoreError) -> Versioning { try await versioning() }

    package func versions(_ request: VersionsRequest) async throws(ObjectStoreError) -> VersionsPage {
        throw .lacking(.versions, nil, Self.versions)
    }

    package func head(_ key: ObjectKey, version: String) async throws(ObjectStoreError) -> ObjectInfo {
        throw .lacking(.head, key, Self.versions)
    }

    package func checksums(
        of key: ObjectKey, _ version: ObjectVersion, id: String?
    ) async throws(ObjectStoreError) -> [CheckedPart] { [] }

    package func delete(_ key: ObjectKey, version: String) async throws(ObjectStoreError) {
        throw .lacking(.deleteVersion, key, Self.versions)
    }

    package func restoreVersion(_ key: ObjectKey, _ version: String) async throws(ObjectStoreError) -> PutAnswer {
        throw .lacking(.copy, key, Self.versions)
    }

    private static var versions: String { "versions of objects" }
}

extension ObjectVersionStore {
    /// Every version and delete marker of one key, newest first (pages are followed).
    package func versions(of key: ObjectKey) async throws(ObjectStoreError) -> [StoredVersion] {
        var found: [StoredVersion] = []
        var request = VersionsRequest(prefix: key.bytes)
        while true {
            let page = try await versions(request)
            found += page.versions.filter { $0.key == key }
            // The key itself sorts before every other that it begins.
            guard let next = page.next, page.versions.last.map({ $0.key == key }) ?? true else { return found }
            request.cursor = next
        }
    }
}
