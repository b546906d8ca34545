import Basics
import Digests

/// One request to Kodo on its way through an operation.
struct KodoCall {
    let request: ServerRequest
    let target: KodoTarget
    let body: RequestBody

    var entry: KodoEntry { target.entry }
}

/// Qiniu Kodo's own protocol (Kodo API documentation) over the shared objects: every service on one port, told apart by path,
/// with the download domains told apart by host. Region queries answer with the host they were asked at.
///
/// Stateless but for the blocks of uploads by `mkblk`, which are behind a mutex, a leaf.
struct KodoDialect: Dialect {
    let name = "kodo"
    let library: ObjectLibrary
    let options: EmulatorOptions
    let authenticator: KodoAuthenticator
    let blocks = KodoBlocks()
    /// Most bytes of a form or document a client may send.
    static let largestDocument = 8 << 20
    static let longestKey = 750

    init(library: ObjectLibrary, options: EmulatorOptions) {
        self.library = library
        self.options = options
        authenticator = KodoAuthenticator(credentials: options.credentials, time: options.time)
    }

    func route(_ request: ServerRequest) -> RequestRoute {
        let target = KodoTarget(request, domains: options.domains)
        return RequestRoute(
            operation: target.operation.rawValue, bucket: target.entry.bucket, key: target.entry.key)
    }

    func answer(_ request: ServerRequest, _ route: RequestRoute, body: RequestBody) async -> ServerResponse {
        let call = KodoCall(request: request, target: KodoTarget(request, domains: options.domains), body: body)
        var response: ServerResponse
        do throws(KodoError) { response = try await perform(call) } catch { response = Self.document(of: error) }
        response.headers = commonHeaders(request) + response.headers
        return response
    }

    private func perform(_ call: KodoCall) async throws(KodoError) -> ServerResponse {
        guard call.target.isValid else { throw .invalid("invalid path") }
        switch call.target.operation {
        case .query: return try queryRegions(call)
        case .queryV2: return try queryRegionV2(call)
        case .upload: return try await uploadForm(call)
        case .mkblk: return try await makeBlock(call)
        case .bput: return try await appendChunk(call)
        case .mkfile: return try await makeFile(call)
        case .initiateMultipartUpload: return try createUpload(call)
        case .uploadPart: return try await uploadPart(call)
        case .listParts: return try listParts(call)
        case .completeMultipartUpload: return try await completeUpload(call)
        case .abortMultipartUpload: return try abortUpload(call)
        case .get, .getfile: return try download(call)
        case .unknown: throw KodoError(404, "document not found")
        default: return try await manage(call)
        }
    }

    /// What is signed with a management token.
    private func manage(_ call: KodoCall) async throws(KodoError) -> ServerResponse {
        let body: [UInt8]
        do { body = try await call.body.collect(limit: Self.largestDocument) } catch {
            throw error == .tooLarge ? KodoError(413, "request entity too large") : .incompleteBody
        }
        try authenticator.authorizeManagement(call.request, body: body)
        guard ["GET", "POST"].contains(call.request.method) else { throw .notAllowed }
        switch call.target.operation {
        case .list: return try list(call, body)
        case .listV2: return try listLines(call)
        case .batch: return try batch(body)
        case .buckets: return try buckets(call)
        case .bucketsV3: return try bucketsOfRegion(call)
        case .mkbucketv3: return try makeBucket(call)
        case .drop: return try dropBucket(call)
        case .bucketInfo: return try bucketInfo(call)
        case .domains, .domainsV3: return try domains(call)
        case .getbucketquota: return try bucketQuota(call)
        case .setPrivate: return try setPrivate(call, body)
        case .fetch: throw .notServed
        case .stat where call.request.parameter("needparts") == "true": return Self.json(try statWithParts(call.target))
        case .prefetch: throw KodoError(478, "no mirror is set for this bucket")
        default: return Self.json(try perform(call.target))
        }
    }

    func bucket(_ name: String) throws(KodoError) -> Bucket {
        try KodoError.storing { () throws(StorageError) in try library.bucket(name) }
    }
}

/// Answers.
extension KodoDialect {
    func commonHeaders(_ request: ServerRequest) -> [Field] {
        [
            Field("X-Reqid", String(request.id.prefix(16))), Field("X-Log", "pailstore"),
            Field("Date", options.time.now().httpDate), Field("Server", "pailstore"),
        ]
    }

    /// An answer with a document, or an empty one.
    static func json(_ value: JSONValue?, status: Int = 200) -> ServerResponse {
        guard let value else { return ServerResponse(status: status) }
        return ServerResponse(
            status: status, headers: [Field("Content-Type", "application/json")], body: .bytes(value.bytes))
    }

    static func document(of error: KodoError) -> ServerResponse {
        guard error.status != 304 else { return ServerResponse(status: 304) }
        return json(["error": .string(error.message)], status: error.status)
    }

    func failure(status: Int, retryAfter: Int?, _ request: ServerRequest, _ route: RequestRoute) -> ServerResponse {
        let message =
            switch status {
            case 200, 599: "internal error"
            case 401: KodoError.badToken.message
            case 429, 503, 573: "too many requests"
            case 502, 504: "bad gateway"
            case 579: "callback failed"
            default: "status \(status)"
            }
        var response = Self.document(of: KodoError(status, message))
        if let retryAfter { response.headers.append(Field("Retry-After", String(retryAfter))) }
        response.headers = commonHeaders(request) + response.headers
        return response
    }

    func expired(_ request: ServerRequest, _ route: RequestRoute) -> ServerResponse {
        var response = Self.document(of: .tokenExpired)
        response.headers = commonHeaders(request) + response.headers
        return response
    }
}
