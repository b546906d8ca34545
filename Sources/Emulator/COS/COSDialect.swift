import Basics

/// One request to COS on its way through an operation.
struct COSCall: FamilyCall {
    let request: ServerRequest
    let operation: COSOperation
    let target: RequestTarget
    let isSigned: Bool
    let body: RequestBody

    var payload: PlainPayload<COSError> { PlainPayload(body: body, request: request) }
}

/// Tencent Cloud COS as its XML API describes it, over the shared objects: virtual hosts and path style, the signature
/// with HMAC-SHA1, versions included.
///
/// Buckets are told by their whole names, `<name>-<APPID>`, which is what the other dialects call them too. Stateless.
struct COSDialect: FamilyDialect {
    typealias Spelling = COSSpelling

    let name = "cos"
    let library: ObjectLibrary
    let options: EmulatorOptions
    let authenticator: COSAuthenticator
    static let headerPrefix = "x-cos-"
    /// Who owns everything.
    static let ownerUIN = "100000000001"
    static let ownerID = "qcs::cam::uin/\(ownerUIN):uin/\(ownerUIN)"

    init(library: ObjectLibrary, options: EmulatorOptions) {
        self.library = library
        self.options = options
        authenticator = COSAuthenticator(credentials: options.credentials, time: options.time)
    }

    func route(_ request: ServerRequest) -> RequestRoute {
        let target = RequestTarget(cos: request, domains: options.domains)
        return RequestRoute(
            operation: COSOperation(request, target).rawValue, bucket: target.bucket, key: target.key)
    }

    func answer(_ request: ServerRequest, _ route: RequestRoute, body: RequestBody) async -> ServerResponse {
        let target = RequestTarget(cos: request, domains: options.domains)
        let operation = COSOperation(request, target)
        do throws(COSError) {
            guard target.hasValidPath else { throw COSError(400, "InvalidURI", "Couldn't parse the specified URI.") }
            // Browsers send these before they know a signature.
            let isSigned = operation == .optionsObject ? true : try authenticator.isSigned(request)
            let call = COSCall(
                request: request, operation: operation, target: target, isSigned: isSigned, body: body)
            if !isSigned { try admitAnonymous(call) }
            var response = try await perform(call)
            let rules = (try? library.bucket(target.bucket))?.record.cors ?? []
            if operation != .optionsObject { response.headers += CORSAnswers.headers(request, rules) }
            response.headers = commonHeaders(request) + response.headers
            return response
        } catch {
            return document(of: error, request)
        }
    }

    private func perform(_ call: COSCall) async throws(COSError) -> ServerResponse {
        switch call.operation {
        case .getService: try getService(call)
        case .putBucket: try await putBucket(call)
        case .deleteBucket: try deleteBucket(call)
        case .headBucket: try headBucket(call)
        case .getBucket: try getBucket(call)
        case .getBucketObjectVersions: try getBucketObjectVersions(call)
        case .getBucketLocation: try getBucketLocation(call)
        case .getBucketVersioning: try bucketVersioning(call)
        case .putBucketVersioning: try setBucketVersioning(call, try await call.payload.collect())
        case .getBucketACL: try getBucketACL(call)
        case .putBucketACL: try await putBucketACL(call)
        case .listMultipartUploads: try listMultipartUploads(call)
        case .deleteMultipleObjects: try await deleteMultipleObjects(call)
        case .getObject, .headObject: try readObject(call)
        case .putObject: try await putObject(call)
        case .putObjectCopy: try putObjectCopy(call)
        case .appendObject: try await appendObject(call)
        case .deleteObject: try deleteObject(call)
        case .initiateMultipartUpload: try initiateMultipartUpload(call)
        case .uploadPart: try await uploadPart(call)
        case .uploadPartCopy: try uploadPartCopy(call)
        case .listParts: try listParts(call)
        case .completeMultipartUpload: try await completeMultipartUpload(call)
        case .abortMultipartUpload: try abortUpload(call)
        case .getObjectACL: try getObjectACL(call)
        case .putObjectACL: try await putObjectACL(call)
        case .getObjectTagging: try getObjectTagging(call)
        case .putObjectTagging: try setObjectTagging(call, try await call.payload.collect())
        case .deleteObjectTagging: try deleteObjectTagging(call)
        case .postObjectRestore: try await postObjectRestore(call)
        case .getSymlink: try getSymlink(call)
        case .putSymlink: try putSymlink(call)
        case .getBucketCORS: try bucketCORS(call)
        case .putBucketCORS: try setBucketCORS(call, try await call.payload.collect())
        case .deleteBucketCORS: try deleteBucketCORS(call)
        case .optionsObject: try preflight(call)
        case .notImplemented: throw COSError.notImplemented
        case .methodNotAllowed:
            throw COSError(405, "MethodNotAllowed", "The specified method is not allowed against this resource.")
        }
    }

    /// Unsigned requests may do what the ACLs grant to everyone, and nothing else.
    private func admitAnonymous(_ call: COSCall) throws(COSError) {
        let bucket = try? library.bucket(call.target.bucket)
        var access = bucket?.record.access
        let permission: String
        switch call.operation {
        case .getObject, .headObject:
            guard !call.request.query.contains(where: { $0.name.hasPrefix("response-") }) else {
                throw COSError.invalidRequest("Anonymous requests can not override the headers of their answers.")
            }
            let own = (try? bucket?.object(call.key))?.record.description.access
            if let own, !own.isInherited { access = own }
            permission = "READ"
        case .getBucket, .headBucket: permission = "READ"
        case .putObject, .deleteObject: permission = "WRITE"
        default: throw COSError.accessDenied
        }
        let isGranted = access?.grants.contains { grant in
            grant.grantee == .everyone && (grant.permission == permission || grant.permission == "FULL_CONTROL")
        }
        guard isGranted == true else { throw COSError.accessDenied }
    }
}

/// Answers.
extension COSDialect {
    func commonHeaders(_ request: ServerRequest) -> [Field] {
        [
            Field("x-cos-request-id", request.id), Field("Date", options.time.now().httpDate),
            Field("Server", "tencent-cos"),
        ]
    }

    func xml(_ root: String, _ children: (inout XMLWriter) -> Void) -> ServerResponse {
        xml(root, attributes: "", children)
    }

    func xml(_ root: String, attributes: String, _ children: (inout XMLWriter) -> Void) -> ServerResponse {
        var writer = XMLWriter()
        writer.element(root, attributes: attributes, children)
        return ServerResponse(
            status: 200, headers: [Field("Content-Type", "application/xml")], body: .bytes(writer.bytes))
    }

    /// An error; the official SDK takes its document for broken unless all of the five are there and not empty.
    func document(of error: COSError, _ request: ServerRequest) -> ServerResponse {
        let trace = Field("x-cos-trace-id", String(request.id.reversed()))
        var response = ServerResponse(
            status: error.status, headers: commonHeaders(request) + [trace] + error.headers)
        guard request.method != "HEAD", error.status != 304 else { return response }
        var writer = XMLWriter()
        writer.element("Error") { writer in
            writer.element("Code", error.code)
            writer.element("Message", error.message)
            for element in error.elements { writer.element(element.name, element.value) }
            writer.element("Resource", (request.header("host") ?? "") + request.path)
            writer.element("RequestId", request.id)
            writer.element("TraceId", trace.value)
        }
        response.headers.append(Field("Content-Type", "application/xml"))
        response.body = .bytes(writer.bytes)
        return response
    }

    func failure(status: Int, retryAfter: Int?, _ request: ServerRequest, _ route: RequestRoute) -> ServerResponse {
        let (code, message) =
            switch status {
            case 200, 500: ("InternalError", "We encountered an internal error. Please try again.")
            case 503: ("SlowDown", "Reduce your request rate.")
            case 403: ("AccessDenied", COSError.accessDenied.message)
            case 404: ("NoSuchKey", "The specified key does not exist.")
            case 405: ("MethodNotAllowed", "The specified method is not allowed against this resource.")
            case 409: ("PathConflict", "Another operation on the same path is under way.")
            case 412: ("PreconditionFailed", COSError.preconditionFailed.message)
            case 501: ("NotImplemented", COSError.notImplemented.message)
            default:
                status < 500
                    ? ("InvalidRequest", "Invalid Request")
                    : ("ServiceUnavailable", "The server is busy. Please try again later.")
            }
        let headers = retryAfter.map { [Field("Retry-After", String($0))] } ?? []
        return document(of: COSError(status, code, message, headers: headers), request)
    }

    func expired(_ request: ServerRequest, _ route: RequestRoute) -> ServerResponse {
        document(of: .expiredToken, request)
    }

    static func owner(_ xml: inout XMLWriter, as name: String = "Owner") {
        xml.element(name) { xml in
            xml.element("ID", ownerID)
            xml.element("DisplayName", ownerUIN)
        }
    }
}
