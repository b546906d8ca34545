package import Basics
import Digests
package import HTTP
package import ObjectStorage
import Synchronization

/// A container of OpenStack Swift or of a store with its object API, driven by a profile and an authenticator.
///
/// Holds no object data. Locks: facts learnt while it runs (which keys are plain objects, which uploads are in progress,
/// orphaned segments) are in its mutex, a leaf, and live as long as the mount. Sends each request once; only what an
/// authenticator can correct, an expired token or a wrong clock, is retried, once.
package final class SwiftStore: ObjectStore {
    package struct Settings: Sendable {
        package var container: String
        package var profile = SwiftProfile.swift
        /// The container for segments, if not the profile's; must exist unless the profile creates containers.
        package var segmentContainer: String?
        /// Smallest part in bytes, if not the profile's.
        package var smallestPart: Int64?
        /// The server, if known; otherwise the container's answers show it.
        package var server: SwiftServer?
        /// The account's or container's key for URLs without a token (Swift documentation, tempurl).
        package var temporaryURLKey: Secret?
        /// Whether checksums from the store are compared with the bytes, on top of lengths.
        package var verifiesChecksums = true
        /// Headers of every request.
        package var headers: [(name: String, value: String)] = []

        package init(container: String) { self.container = container }
    }

    /// The kind of a key's object, known without a request.
    enum Shape: Sendable { case plain, large }

    struct Learned: Sendable {
        var address: StorageAddress?
        var server: SwiftServer?
        /// The segments of versions of large objects, where a server does not show them.
        var compositions = LRU<CopySource, Composition>(capacity: 16)
        /// The kinds of keys that were seen: a plain object has no segments to find.
        var shapes = LRU<ObjectKey, Shape>(capacity: 16_384)
        /// Objects that are listed as empty and are large, by key, time and size of the listing.
        var unlisted = LRU<ListedState, ObjectVersion>(capacity: 16_384)
        /// The directories of the parts of objects that CSSP's SDKs have made.
        var foreign = LRU<ObjectKey, ByteString>(capacity: 16_384)
        var uploads: [UploadID: SwiftUpload] = [:]
        /// Uploads whose segments belong to an object that a request without an answer so far replaces or deletes.
        var leaving: [ObjectKey: Set<String>] = [:]
        /// Uploads whose segments belong to no object and could not be deleted yet.
        var orphans: Set<String> = []
        /// The last write was refused to these credentials: the next body is sent only after a 100 Continue.
        var refusesWrites = false
        /// Whether a HEAD of a missing object gets 403 although these credentials may read; nil while no request has shown it.
        var hidesMissing: Bool?
        /// An ETag was seen to be the MD5 of the sent or read bytes.
        var tellsMD5 = false
        /// Departures from its protocol that the server was seen to make.
        var quirks: Set<StoreQuirk> = []
        /// The largest page that the server is known to allow.
        var listPage: Int

        init(listPage: Int, server: SwiftServer?) { (self.listPage, self.server) = (listPage, server) }
    }

    /// The page size that every server allows (OpenStack Object Storage API, containers: 10 000 unless its operator sets less).
    static let safeListPage = 1000
    /// A page with at least so many entries may have a successor, though it is shorter than requested: Ceph's gateway ends some
    /// early.
    static let leastFullPage = 500

    private let limits: Capabilities
    let settings: Settings
    let profile: SwiftProfile
    let segments: SwiftSegments
    let authenticator: any SwiftAuthenticator
    let engine: HTTPEngine
    let time: any TimeSource
    let learned: Mutex<Learned>

    /// Sends no request.
    package init(
        _ settings: Settings, authenticator: any SwiftAuthenticator, engine: HTTPEngine, time: any TimeSource
    ) {
        self.settings = settings
        (self.authenticator, self.engine, self.time) = (authenticator, engine, time)
        profile = settings.profile
        segments = SwiftSegments(settings)
        var capabilities = settings.profile.capabilities
        if let smallest = settings.smallestPart { capabilities.smallestPart = smallest }
        capabilities.presign = settings.temporaryURLKey != nil
        capabilities.keyRules.reserved = segments.reserved
        limits = capabilities
        // The API of CSSP has only its own server.
        let server = settings.server ?? (profile.largeObjects == .named ? nil : .openStack)
        learned = Mutex(Learned(listPage: capabilities.listPage, server: server))
    }

    package var capabilities: Capabilities {
        var capabilities = limits
        let (server, quirks) = learned.withLock { ($0.server, $0.quirks) }
        capabilities.quirks = quirks
        if quirks.contains(.singleDeletes) { capabilities.deleteBatch = 1 }
        if quirks.contains(.uploadsRefused) { capabilities.mostParts = 1 }
        if quirks.contains(.partCopiesRefused) { capabilities.partCopy = false }
        guard server == .ceph else { return capabilities }
        // A copy of a large object is made segment by segment and has no limit.
        capabilities.largestCopy = limits.largestObject
        // Only a range that is exactly one segment is copied, not several parts together.
        capabilities.partGaps = false
        return capabilities
    }

    // MARK: One request

    /// The parts of a request before it is authenticated.
    struct Call {
        var operation: ObjectStoreError.Operation
        var method: HTTPMethod
        /// The key for errors.
        var key: ObjectKey?
        var container: String
        /// The name in the container: the key, or a segment.
        var name: ByteString?
        var query: [QueryItem] = []
        var headers = HTTPHeaders()
        /// Most bytes of an answer that is a document.
        var collectLimit = 1 << 20

        var isConditional: Bool { ["If-Match", "If-None-Match"].contains { headers[$0] != nil } }
    }

    func call(_ operation: ObjectStoreError.Operation, _ method: HTTPMethod, _ key: ObjectKey? = nil) -> Call {
        Call(operation: operation, method: method, key: key, container: settings.container, name: key?.bytes)
    }

    /// A call to a segment, on behalf of `key`.
    func call(
        _ operation: ObjectStoreError.Operation, _ method: HTTPMethod, segment: ByteString?, for key: ObjectKey?
    ) -> Call {
        Call(operation: operation, method: method, key: key, container: segments.container, name: segment)
    }

    /// Sends the call and returns a successful answer; throws for any other.
    @discardableResult
    func send(
        _ call: Call, body: (any ByteSource)? = nil, sink: (any ByteSink)? = nil,
        use: @escaping @Sendable (HTTPResponse) -> BodyUse = { $0.isSuccess ? .deliver : .collect }
    ) async throws(ObjectStoreError) -> HTTPResponse {
        var hasLearned = false
        while true {
            let (response, head) = try await exchange(call, body, sink, use)
            // A successful delete has no document: a web page comes from a gateway, whatever its status.
            if response.isSuccess, call.method != .delete || response.body.isEmpty {
                return try await withLength(response, to: call)
            }
            if !hasLearned, [401, 403].contains(response.status),
                try await authenticator.learn(from: response, to: head)
            {
                hasLearned = true
                sink?.restart()
                continue
            }
            let error = SwiftErrors.error(response, call.operation, call.key, isConditional: call.isConditional)
            // A listing checks its own objects with HEAD.
            guard [.head, .get].contains(call.method), call.operation != .list, isOfObject(call), let key = call.key
            else { throw error }
            throw await decided(error, at: key)
        }
    }

    private func isOfObject(_ call: Call) -> Bool {
        call.key != nil && call.container == settings.container && call.name == call.key?.bytes
    }

    /// The answer to a HEAD of an object. If it has no Content-Length, as from a compressing proxy, a GET of one byte adds it.
    private func withLength(_ response: HTTPResponse, to head: Call) async throws(ObjectStoreError) -> HTTPResponse {
        guard head.method == .head, isOfObject(head), response.headers["Content-Length"] == nil else { return response }
        learned.withLock { _ = $0.quirks.insert(.lengthsMissing) }
        var call = head
        call.method = .get
        call.headers["Range"] = "bytes=0-0"
        var answer = response
        do throws(ObjectStoreError) {
            let byte = try await send(call) { $0.isSuccess ? .refuse : .collect }
            let total = FamilyStore.contentRange(byte.headers)?.total
            answer.headers["Content-Length"] = total.map { String($0) } ?? byte.headers["Content-Length"]
        } catch {
            // An empty object has no first byte.
            guard error.kind == .invalidRange else { throw error }
            answer.headers["Content-Length"] = "0"
        }
        return answer
    }

    private func exchange(
        _ call: Call, _ body: (any ByteSource)?, _ sink: (any ByteSink)?,
        _ use: @escaping @Sendable (HTTPResponse) -> BodyUse
    ) async throws(ObjectStoreError) -> (HTTPResponse, SwiftRequestHead) {
        var resource = ByteString("")
        if !call.container.isEmpty { resource += "/" + ByteString(call.container) }
        if let name = call.name { resource += "/" + name }
        var head = SwiftRequestHead(call.method, resource, call.headers)
        for header in settings.headers { head.headers[header.name] = header.value }
        let address = try await authenticator.authorize(&head)
        learned.withLock { $0.address = address }
        var target = address.path(call.container, call.name)
        if !call.query.isEmpty { target += "?" + call.query.map(\.text).joined(separator: "&") }
        var request = HTTPRequest(call.method, address.origin, target: target, headers: head.headers)
        request.stallTimeout = Self.patience(with: call.operation)
        request.collectLimit = call.collectLimit
        request.expectsRefusal = body != nil && learned.withLock { $0.refusesWrites }
        let response: HTTPResponse
        do { response = try await engine.execute(request, body: body, sink: sink, bodyUse: use) } catch {
            throw SwiftErrors.error(error, call.operation, call.key)
        }
        learnServer(from: response, to: call)
        if call.method == .put { learned.withLock { $0.refusesWrites = response.status == 403 } }
        return (response, head)
    }

    /// How long the store may take without an answer for such an operation; nil takes the engine's limit.
    private static func patience(with operation: ObjectStoreError.Operation) -> Duration? {
        switch operation {
        case .copy, .uploadPartCopy, .completeUpload, .deleteMany: .seconds(300)
        default: nil
        }
    }

    // MARK: Requests without an object

    package func checkAccess(below prefix: ByteString) async throws(ObjectStoreError) {
        var call = call(.checkAccess, .get)
        call.query = [QueryItem("format", "json"), QueryItem("limit", "1")]
        if !prefix.isEmpty { call.query.append(QueryItem("prefix", prefix)) }
        _ = try entries(call, try await send(call))
    }

    /// Of the answer's headers a URL can set only the file name for a browser (`filename`).
    package func presign(_ request: PresignRequest) throws(ObjectStoreError) -> String {
        let key = request.key
        guard request.process == nil else { throw .lacking(.presign, key, "processing of objects") }
        let name = try AttachmentName.of(request).map { "&filename=\(PercentEncoding.encode($0))" } ?? ""
        guard let secret = settings.temporaryURLKey else {
            throw .lacking(.presign, key, "URLs without credentials until PAILFS_TEMP_URL_KEY is set")
        }
        let (address, server) = learned.withLock { ($0.address, $0.server) }
        guard let address else {
            throw ObjectStoreError(
                .unreachable, .presign, key: key, code: "NotLoggedIn", message: "no request was sent to the store yet")
        }
        let path = address.path(settings.container, key.bytes)
        let expires = (time.now() + request.lifetime).seconds
        let method: HTTPMethod = request.use == .put ? .put : .get
        let query = TemporaryURL.query(method, path: path, expires: expires, key: secret, at: server)
        return "\(address.origin)\(path)?\(query)\(name)"
    }

    // MARK: Answers

    func malformed(_ call: Call, _ response: HTTPResponse, _ reason: String) -> ObjectStoreError {
        error(.malformedAnswer, call, response, "MalformedAnswer", reason)
    }

    func integrity(_ call: Call, _ response: HTTPResponse, _ reason: String) -> ObjectStoreError {
        error(.integrity, call, response, "ChecksumMismatch", reason)
    }

    func error(
        _ kind: ObjectStoreError.Kind, _ call: Call, _ response: HTTPResponse, _ code: String, _ reason: String
    ) -> ObjectStoreError {
        ObjectStoreError(
            kind, call.operation, key: call.key, status: response.status, code: code, message: reason,
            requestID: SwiftErrors.requestID(response.headers))
    }

    func invalid(_ call: Call, _ reason: String) -> ObjectStoreError {
        ObjectStoreError(.invalidRequest, call.operation, key: call.key, code: "InvalidRequest", message: reason)
    }
}
