package import Basics

/// What a store knows of objects and buckets beside bytes and stored headers.
///
/// One request each unless said otherwise. Each operation has its field in `Capabilities`; a store without one throws
/// `.notSupported` without a request, which is what these requirements do unless a store has its own.
package protocol ObjectPropertyStore: Sendable {
    func accessControl(of key: ObjectKey) async throws(ObjectStoreError) -> AccessControl
    /// Replaces it whole.
    func setAccessControl(of key: ObjectKey, to access: AccessControl) async throws(ObjectStoreError)
    func tags(of key: ObjectKey) async throws(ObjectStoreError) -> [String: String]
    /// Replaces all of them; none removes them.
    func setTags(of key: ObjectKey, to tags: [String: String]) async throws(ObjectStoreError)
    /// Moves an object to another class, as the store spells it, and keeps all else. `ifMatch` pins the version meant.
    /// Where the store has no call of its own this is a copy onto itself: a new version.
    func setStorageClass(
        of key: ObjectKey, to storageClass: String, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer
    /// Asks for a readable copy of an archived object; one that is on its way, or there, is no error.
    func restore(_ key: ObjectKey, _ request: RestoreRequest) async throws(ObjectStoreError)
    /// Gives an object another key in one step: nobody sees both or neither. Headers and class go along; `metadata` and
    /// `storageClass` of the request are not honoured.
    func move(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer
    /// Makes an object that the store itself knows as a link to the key or path `target`.
    func putSymlink(_ request: PutRequest, target: ByteString) async throws(ObjectStoreError) -> PutAnswer
    func symlinkTarget(of key: ObjectKey) async throws(ObjectStoreError) -> ByteString
    /// What the whole bucket holds, as the store counts it.
    func usage() async throws(ObjectStoreError) -> BucketUsage
    /// What a browser is told of a web page's request for the object; `.accessDenied` when the bucket's rules refuse it.
    func preflight(_ key: ObjectKey, _ request: PreflightRequest) async throws(ObjectStoreError) -> [PreflightHeader]
}

/// The question that a browser puts before a request across origins. Fetch standard, section 3.2.2
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

/// Who may do what with an object besides its owner.
package struct AccessControl: Sendable, Hashable {
    /// The canned list's name (`private`, `public-read`, `default`) where the store tells or takes one.
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

/// How an archived object is made readable.
package struct RestoreRequest: Sendable, Hashable {
    /// How long the copy stays; nil leaves it to the store, and where restoring is for good it is not sent.
    package var days: Int?
    /// As the store spells it: `Standard`, `Expedited`, `Bulk`; nil is its default.
    package var tier: String?

    package init(days: Int? = nil, tier: String? = nil) { (self.days, self.tier) = (days, tier) }
}

/// What a bucket holds, as its store counts it; counts may lag behind.
package struct BucketUsage: Sendable, Hashable {
    /// In bytes.
    package var bytes: Int64
    package var objects: Int64
    /// In bytes; nil where nothing limits the bucket.
    package var quota: Int64?

    package init(bytes: Int64, objects: Int64, quota: Int64? = nil) {
        (self.bytes, self.objects, self.quota) = (bytes, objects, quota)
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

    package func symlinkTarget(of key: ObjectKey) async throws(ObjectStoreError) -> ByteString {
        throw .lacking(.symlinkTarget, key, "symbolic links")
    }

    package func usage() async throws(ObjectStoreError) -> BucketUsage {
        throw .lacking(.usage, nil, "object counts of a bucket")
    }

    package func preflight(
        _ key: ObjectKey, _ request: PreflightRequest
    ) async throws(ObjectStoreError) -> [PreflightHeader] {
        throw .lacking(.preflight, key, "checks of CORS rules")
    }
}

extension ObjectStoreError {
    /// The store has no such thing.
    package static func lacking(_ operation: Operation, _ key: ObjectKey?, _ what: String) -> ObjectStoreError {
        ObjectStoreError(
            .notSupported, operation, key: key, code: "NotSupported", message: "this store does not support \(what)")
    }
}
