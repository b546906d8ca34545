import Basics

/// One request to CSSP on its way through an operation.
struct CSSPCall {
    let request: ServerRequest
    let target: CSSPTarget
    let body: RequestBody

    var key: ByteString { target.key }
}

/// iFlytek's open storage (CSSP API documentation): Swift's object API with a signature for each request, over the shared
/// objects.
///
/// A large object by prefix is put together when it is read here; other dialects see what it was made of when its
/// manifest came. Stateless.
struct CSSPDialect: Dialect {
    let name = "cssp"
    let library: ObjectLibrary
    let options: EmulatorOptions
    let signature: CSSPSignature

    static let metadataPrefix = "x-object-meta-"
    static let longestKey = 1024
    static let largestPut: Int64 = 5 << 30
    static let largestPage = 10_000
    /// Most bytes of a document a client may send.
    static let largestDocument = 8 << 20

    init(library: ObjectLibrary, options: EmulatorOptions) {
        (self.library, self.options) = (library, options)
        signature = CSSPSignature(credentials: options.credentials, time: options.time)
    }

    func route(_ request: ServerRequest) -> RequestRoute {
        let target = CSSPTarget(request)
        return RequestRoute(operation: target.operation.rawValue, bucket: target.container, key: target.key)
    }

    func answer(_ request: ServerRequest, _ route: RequestRoute, body: RequestBody) async -> ServerResponse {
        let call = CSSPCall(request: request, target: CSSPTarget(request), body: body)
        var response: ServerResponse
        do throws(CSSPError) { response = try await perform(call) } catch { response = error.response }
        if request.method == "HEAD" {
            // An error page is only promised, and 204 has no length at all.
            if case .bytes = response.body { response.body = .none }
        }
        response.headers = commonHeaders(request) + response.headers
        return response
    }

    private func perform(_ call: CSSPCall) async throws(CSSPError) -> ServerResponse {
        guard call.target.isValid else { throw .plain(412, "Invalid UTF8 or contains NULL") }
        if try !signature.isSigned(call.request) { try admitAnonymous(call) }
        switch call.target.operation {
        case .bulkDelete: return try await bulkDelete(call)
        case .listContainers: return try listContainers(call)
        case .headContainer: return try headContainer(call)
        case .listObjects: return try listObjects(call)
        case .createContainer: return try createContainer(call)
        case .setContainerMetadata: return try setContainerMetadata(call)
        case .deleteContainer: return try deleteContainer(call)
        case .headObject, .getObject: return try readObject(call)
        case .putObject: return try await putObject(call)
        case .copyObject: return try copyObject(call)
        case .setObjectMetadata: return try setObjectMetadata(call)
        case .deleteObject: return try deleteObject(call)
        case .methodNotAllowed: throw CSSPError(405)
        }
    }

    /// Admits a request without a signature if the container's list of readers allows it to all (CSSP API, container ACL).
    private func admitAnonymous(_ call: CSSPCall) throws(CSSPError) {
        let readers = (try? library.bucket(call.target.container))?.record.properties.value(of: Self.readersProperty)
        let grants = (readers ?? "").split(separator: ",").map { $0.filter { $0 != " " } }
        let needed =
            switch call.target.operation {
            case .getObject, .headObject: ".r:*"
            case .listObjects: ".rlistings"
            default: ""
            }
        guard grants.contains(needed) else { throw .unauthorized }
    }

    func commonHeaders(_ request: ServerRequest) -> [Field] {
        [
            Field("X-Trans-Id", "tx\(request.id)"), Field("Date", options.time.now().httpDate),
            Field("Server", "Nginx-XF"),
        ]
    }

    func failure(status: Int, retryAfter: Int?, _ request: ServerRequest, _ route: RequestRoute) -> ServerResponse {
        // Whatever succeeds here succeeds with its headers, so a success without them is a broken answer.
        var response = CSSPError(status, headers: retryAfter.map { [Field("Retry-After", String($0))] } ?? []).response
        response.headers = commonHeaders(request) + response.headers
        return response
    }

    /// Nothing expires but the date of a request.
    func expired(_ request: ServerRequest, _ route: RequestRoute) -> ServerResponse {
        failure(status: 401, retryAfter: nil, request, route)
    }

    func bucket(_ name: String) throws(CSSPError) -> Bucket {
        try CSSPError.storing { () throws(StorageError) in try library.bucket(name) }
    }
}

extension [Field] {
    /// The value of the field of this name.
    func value(of name: String) -> String? { first { $0.name == name }?.value }
}
