package import Basics

/// Properties of objects and buckets beside bytes and stored headers.
///
/// One request each unless said otherwise. Each operation has its field in `Capabilities`; a store without one throws
/// `.notSupported` without a request, which is what these requirements do unless a store has its own.
package protocol ObjectPropertyStore: Sendable {
    func accessControl(of key: ObjectKey) async throws(ObjectStoreError) -> AccessControl
    /// Replaces the whole list.
    func setAccessControl(of key: ObjectKey, to access: AccessControl) async throws(ObjectStoreError)
    func tags(of key: ObjectKey) async throws(ObjectStoreError) -> [String: String]
    /// Replaces all tags; an empty dictionary removes them.
    func setTags(of key: ObjectKey, to tags: [String: String]) async throws(ObjectStoreError)
    /// Moves an object to another class, as the store spells it, and keeps everything else. `ifMatch` pins the version. Where the
    /// store has no such call, this copies the object onto itself: a new version.
    func setStorageClass(
        of key: ObjectKey, to storageClass: String, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer
    /// Requests a readable copy of an archived object; no error if the copy exists or was requested already.
    func restore(_ key: ObjectKey, _ request: RestoreRequest) async throws(ObjectStoreError)
    /// Gives an object another key in one step: no request sees both keys or neither. Headers and class stay; `metadata` and
    /// `storageClass` of the request are not honoured.
    func move(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer
    /// Makes a link object of the store's own kind, to the key or path `target`.
    func putSymlink(_ request: PutRequest, target: ByteString) async throws(ObjectStoreError) -> PutAnswer
    /// The link object itself: every other request is about the object that it leads to.
    func link(at key: ObjectKey) async throws(ObjectStoreError) -> StoredLink
    /// The store's own count of the whole bucket, and the bucket's properties where it has some.
    func usage() async throws(ObjectStoreError) -> BucketUsage
    /// Changes properties of the bucket itself; what the change does not name stays.
    func changeBucket(_ change: BucketChange) async throws(ObjectStoreError)
    /// The answer to a browser's preflight request for the object; `.accessDenied` when the bucket's rules refuse it.
    func preflight(_ key: ObjectKey, _ request: PreflightRequest) async throws(ObjectStoreError) -> [PreflightHeader]
    /// The rules of the object's bucket for web pages of other origins, in the order in which the store applies them. `.notFound`
    /// when the bucket has none.
    func crossOriginRules(for key: ObjectKey) async throws(ObjectStoreError) -> [CrossOriginRule]
}

/// A link object of the store's own kind.
package struct StoredLink: Sendable, Hashable {
    /// A key of the same bucket, or a path.
    package var target: ByteString
    /// nil where the store does not tell.
    package var etag: ETag?
    /// The headers that were stored with the link: user metadata.
    package var metadata: ObjectMetadata

    package init(target: ByteString, etag: ETag? = nil, metadata: ObjectMetadata = ObjectMetadata()) {
        (self.target, self.etag, self.metadata) = (target, etag, metadata)
    }
}

extension ObjectPropertyStore {
    package func symlinkTarget(of key: ObjectKey) async throws(ObjectStoreError) -> ByteString {
        try await link(at: key).target
    }
}

/// The preflight request that a browser sends before a cross-origin request. Fetch standard, section 3.2.2
package struct PreflightRequest: Sendable, Hashable {
    /// Scheme and host of the web page.
    package var origin: String
    package var method: String
    /// Names of headers the page wants to send.
    package var headers: [String]

    package init(origin: String, method: String, headers: [String] = []) {
        (self.origin, self.method, self.headers) = (origin, method, headers)
    }
}

/// One of the answer's `Access-Control-*` headers.
package struct PreflightHeader: Sendable, Hashable {
    package var name: String
    package var value: String

    package init(name: String, value: String) { (self.name, self.value) = (name, value) }
}

/// The permissions on an object of others than its owner.
package struct AccessControl: Sendable, Hashable {
    /// The canned list's name (`private`, `public-read`, `default`) where the store returns or takes one.
    package var canned: String?
    package var grants: [Grant]

    package init(canned: String? = nil, grants: [Grant] = []) { (self.canned, self.grants) = (canned, grants) }

    package struct Grant: Sendable, Hashable {
        package enum Grantee: Sendable, Hashable {
            case user(id: String)
            case group(uri: String)
            case email(String)
        }

        package var grantee: Grantee
        /// As the store spells it: `READ`, `FULL_CONTROL`.
        package var permission: String

        package init(_ grantee: Grantee, _ permission: String) {
            (self.grantee, self.permission) = (grantee, permission)
        }
    }
}

/// How to restore an archived object.
package struct RestoreRequest: Sendable, Hashable {
    /// How long the copy stays; nil takes the store's default, and is not sent where a restore is permanent.
    package var days: Int?
    /// As the store spells it: `Standard`, `Expedited`, `Bulk`; nil is its default.
    package var tier: String?

    package init(days: Int? = nil, tier: String? = nil) { (self.days, self.tier) = (days, tier) }
}

/// The contents of a bucket, as its store counts them; counts may lag behind.
package struct BucketUsage: Sendable, Hashable {
    /// In bytes.
    package var bytes: Int64
    package var objects: Int64
    /// In bytes; nil without a quota.
    package var quota: Int64?
    /// Metadata of the bucket, by names in lower case.
    package var metadata: [String: String] = [:]
    /// Who may read objects, and who may write them, as the store spells it; nil for only those who own the bucket.
    package var readers: String?
    package var writers: String?

    package init(bytes: Int64, objects: Int64, quota: Int64? = nil) {
        (self.bytes, self.objects, self.quota) = (bytes, objects, quota)
    }
}

/// New properties of a bucket. An empty text removes one.
package struct BucketChange: Sendable, Hashable {
    package var metadata: [String: String]
    /// nil: as before.
    package var readers: String?
    package var writers: String?

    package init(metadata: [String: String] = [:], readers: String? = nil, writers: String? = nil) {
        (self.metadata, self.readers, self.writers) = (metadata, readers, writers)
    }
}

extension ObjectPropertyStore {
    package func accessControl(of key: ObjectKey) async throws(ObjectStoreError) -> AccessControl {
        throw .lacking(.accessControl, key, "access control lists")
    }

    package func setAccessControl(of key: ObjectKey, to access: AccessControl) async throws(ObjectStoreError) {
        throw .lacking(.setAccessControl, key, "access control lists")
    }

    package func tags(of key: ObjectKey) async throws(ObjectStoreError) -> [String: String] {
        throw .lacking(.tags, key, "tags")
    }

    package func setTags(of key: ObjectKey, to tags: [String: String]) async throws(ObjectStoreError) {
        throw .lacking(.setTags, key, "tags")
    }

    package func setStorageClass(
        of key: ObjectKey, to storageClass: String, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer {
        throw .lacking(.setStorageClass, key, "storage classes")
    }

    package func restore(_ key: ObjectKey, _ request: RestoreRequest) async throws(ObjectStoreError) {
        throw .lacking(.restore, key, "archived objects")
    }

    package func move(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        throw .lacking(.move, request.key, "renames of objects")
    }

    package func putSymlink(_ request: PutRequest, target: ByteString) async throws(ObjectStoreError) -> PutAnswer {
        throw .lacking(.putSymlink, request.key, "symbolic links")
    }

    package func link(at key: ObjectKey) async throws(ObjectStoreError) -> StoredLink {
        throw .lacking(.symlinkTarget, key, "symbolic links")
    }

    package func usage() async throws(ObjectStoreError) -> BucketUsage {
        throw .lacking(.usage, nil, "object counts of a bucket")
    }

    package func changeBucket(_ change: BucketChange) async throws(ObjectStoreError) {
        throw .lacking(.changeBucket, nil, "metadata and access control lists of buckets")
    }

    package func preflight(
        _ key: ObjectKey, _ request: PreflightRequest
    ) async throws(ObjectStoreError) -> [PreflightHeader] {
        throw .lacking(.preflight, key, "checks of CORS rules")
    }

    package func crossOriginRules(for key: ObjectKey) async throws(ObjectStoreError) -> [CrossOriginRule] {
        throw .lacking(.preflight, key, "reading of CORS rules")
    }
}

extension ObjectStoreError {
    /// The error of an operation that the store does not have.
    package static func lacking(_ operation: Operation, _ key: ObjectKey?, _ what: String) -> ObjectStoreError {
        ObjectStoreError(
            .notSupported, operation, key: key, code: "NotSupported", message: "this store does not support \(what)")
    }
}
