package import Basics
import Digests
package import HTTP
package import ObjectStorage
import Synchronization

/// A bucket of Qiniu Kodo, over its own protocol (Kodo API documentation).
///
/// Objects are read from the bucket's domain, changed through rs, listed through rsf, stored through up. Metadata is changed in
/// place; an object is renamed in one request; the server checks no condition but that of creation, so conditions on a source
/// are checked right before. Holds no object data. Locks: the hashes of uploads in progress, with which finished objects are
/// compared, and learnt facts about the server are in mutexes, leaves.
package final class KodoStore: ObjectStore {
    package struct Settings: Sendable {
        package var bucket: String
        package var client = KodoClient.Settings()
        /// Its name may be a number.
        package var storageClass = NewObjectClass()
        package var uploadPolicy = UploadPolicy()
        /// Whether checksums from the store are compared with the bytes, on top of lengths.
        package var verifiesChecksums = true

        package init(bucket: String) { self.bucket = bucket }
    }

    package var capabilities: Capabilities {
        var capabilities = Self.limits
        capabilities.quirks = quirks.withLock { $0 }
        if capabilities.quirks.contains(.singleDeletes) { capabilities.deleteBatch = 1 }
        if capabilities.quirks.contains(.copiesRefused) { capabilities.move = false }
        return capabilities
    }

    let settings: Settings
    let client: KodoClient
    let uploads = Mutex(KodoUploads())
    let quirks = Mutex<Set<StoreQuirk>>([])

    /// Throws when endpoint, domain or storage class cannot be used; sends no request.
    package init(
        _ settings: Settings, credentials: any CredentialsProvider, engine: HTTPEngine, time: any TimeSource
    ) throws(ObjectStoreError) {
        self.settings = settings
        client = try KodoClient(
            bucket: settings.bucket, settings.client, credentials: credentials, engine: engine, time: time)
        _ = try fileType(nil, size: nil, .checkAccess)
    }

    /// The capabilities of every bucket (Kodo API documentation).
    package static let limits: Capabilities = {
        var limits = Capabilities()
        limits.longestKey = 750
        limits.keyRules.areText = true
        limits.largestPut = 1 << 30
        limits.largestCopy = .max
        // 10 000 parts of 1 GiB would be twice as much, if no part were smaller.
        limits.largestObject = 5 << 40
        limits.smallestPart = 1 << 20
        limits.largestPart = 1 << 30
        // The limit is 1024 with the prefix of every name; this leaves room for 22 names.
        limits.metadataBudget = 800
        limits.putIfMatch = false
        limits.copyCondition = false
        limits.copySetsHeaders = false
        limits.partCopy = false
        limits.metadataUpdate = .inPlace
        limits.headersAtCompletion = true
        limits.listUploads = false
        limits.storageClasses = KodoStorageClass.all
        limits.restore = true
        limits.move = true
        limits.prices = .kodo
        return limits
    }()

    // MARK: Keys

    func entry(_ key: ObjectKey) -> String { KodoEntry.encode(settings.bucket, key) }

    /// Whether no object can have such a key.
    func isImpossible(_ key: ObjectKey) -> Bool {
        key.bytes.count > capabilities.longestKey || !capabilities.keyRules.allows(key.bytes)
    }

    /// Throws, before any byte is sent, for a key that the store would refuse.
    func check(_ key: ObjectKey, _ operation: ObjectStoreError.Operation) throws(ObjectStoreError) {
        guard key.bytes.count <= capabilities.longestKey else {
            throw ObjectStoreError(
                .keyTooLong, operation, key: key, code: "KeyTooLong",
                message: "the key has \(key.bytes.count) bytes; Kodo allows \(capabilities.longestKey)")
        }
        guard !isImpossible(key) else {
            throw ObjectStoreError(
                .invalidRequest, operation, key: key, code: "InvalidKey", message: "Kodo accepts keys in UTF-8 only")
        }
    }

    func missing(_ operation: ObjectStoreError.Operation, _ key: ObjectKey) -> ObjectStoreError {
        ObjectStoreError(.notFound, operation, key: key, code: "NoSuchFile", message: "no such file or directory")
    }

    /// The number of a new object's storage class; nil leaves it to the store.
    func fileType(
        _ wanted: String?, size: Int64?, _ operation: ObjectStoreError.Operation
    ) throws(ObjectStoreError) -> Int? {
        guard let name = settings.storageClass.name(wanted, size: size) else { return nil }
        guard let number = KodoStorageClass.number(name) else {
            throw ObjectStoreError(
                .invalidRequest, operation, code: "InvalidStorageClass",
                message:
                    "\(name) is not a storage class of Kodo; write one of \(KodoStorageClass.all.joined(separator: ", "))"
            )
        }
        return number
    }

    // MARK: Requests without an object

    package func checkAccess(below prefix: ByteString) async throws(ObjectStoreError) {
        _ = try await list(ListRequest(prefix: prefix, limit: 1), as: .checkAccess)
        // A bucket without a domain to read from cannot be mounted.
        _ = try await client.place(.checkAccess)
    }

    package func presign(_ request: PresignRequest) throws(ObjectStoreError) -> String { try client.presign(request) }

    // MARK: Looking

    package func head(
        _ key: ObjectKey, condition: ReadCondition?
    ) async throws(ObjectStoreError) -> ObjectInfo {
        try await stat(key, .head, condition).info
    }

    /// Properties from rs, which always has the newest version.
    func stat(
        _ key: ObjectKey, _ operation: ObjectStoreError.Operation, _ condition: ReadCondition? = nil,
        withParts: Bool = false
    ) async throws(ObjectStoreError) -> (info: ObjectInfo, object: KodoObject) {
        guard !isImpossible(key) else { throw missing(operation, key) }
        let call = KodoClient.Call(operation, "/stat/\(entry(key))\(withParts ? "?needparts=true" : "")", key)
        let response: HTTPResponse
        do { response = try await client.send(call) } catch { throw await decided(error, at: key) }
        guard let object = KodoDocuments.decode(KodoObject.self, response.body), var info = object.info else {
            throw malformed(call, response, "the answer has no attributes of an object")
        }
        info.checksum = checksum(info.version.etag)
        if let problem = Self.check(condition, info.version.etag, call, response) { throw problem }
        return (info, object)
    }

    /// The error of a read when the object does not satisfy the condition, which the store does not check.
    static func check(
        _ condition: ReadCondition?, _ etag: ETag, _ call: KodoClient.Call, _ response: HTTPResponse
    ) -> ObjectStoreError? {
        let (kind, message): (ObjectStoreError.Kind, String)
        switch condition {
        case .ifMatch(let wanted) where wanted != etag:
            (kind, message) = (.preconditionFailed, "the object was replaced")
        case .ifNoneMatch(let known) where known == etag: (kind, message) = (.notModified, "the object is unchanged")
        default: return nil
        }
        return ObjectStoreError(
            kind, call.operation, key: call.key, status: response.status, code: "OtherVersion", message: message,
            requestID: response.headers["X-Reqid"])
    }

    // MARK: Answers

    func malformed(_ call: KodoClient.Call, _ response: HTTPResponse, _ reason: String) -> ObjectStoreError {
        ObjectStoreError(
            .malformedAnswer, call.operation, key: call.key, status: response.status, code: "MalformedAnswer",
            message: reason, requestID: response.headers["X-Reqid"])
    }

    func integrity(_ call: KodoClient.Call, _ response: HTTPResponse, _ reason: String) -> ObjectStoreError {
        ObjectStoreError(
            .integrity, call.operation, key: call.key, status: response.status, code: "ChecksumMismatch",
            message: reason, requestID: response.headers["X-Reqid"])
    }

    func notSupported(_ operation: ObjectStoreError.Operation, _ key: ObjectKey?, _ what: String) -> ObjectStoreError {
        .lacking(operation, key, what)
    }
}
