import Basics
import Digests

/// One request to S3 on its way through an operation.
struct S3Call: FamilyCall {
    let request: ServerRequest
    let operation: S3Operation
    let target: RequestTarget
    let authorization: S3Authorization
    let body: RequestBody

    var payload: PayloadReader { PayloadReader(body, request, authorization.payload) }
}

/// Amazon S3 as its API reference describes it, over the shared objects: path style and virtual hosts, Signature
/// Versions 4 and 2, versions included.
///
/// Stateless but for the uploads completed lately, which may be completed again; those are behind a mutex, a leaf.
struct S3Dialect: FamilyDialect {
    typealias Spelling = S3Spelling

    let name = "s3"
    let library: ObjectLibrary
    let options: EmulatorOptions
    let authenticator: S3Authenticator
    let completions = RecentCompletions()
    /// Who owns everything: what AWS calls the canonical user id, and its account.
    static let ownerID = Hex.encode(SHA256.of("pailstore"))
    static let headerPrefix = "x-amz-"
    static let account = "000000000000"
    static let namespace = "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\""
    /// Most bytes of a document a client may send.
    static let largestDocument = 8 << 20

    init(library: ObjectLibrary, options: EmulatorOptions) {
        self.library = library
        self.options = options
        authenticator = S3Authenticator(credentials: options.credentials, time: options.time)
    }

    func route(_ request: ServerRequest) -> RequestRoute {
        let target = RequestTarget(s3: request, domains: options.domains)
        return RequestRoute(
            operation: S3Operation(request, target).rawValue, bucket: target.bucket, key: target.key)
    }

    func answer(_ request: ServerRequest, _ route: RequestRoute, body: RequestBody) async -> ServerResponse {
        var target = RequestTarget(s3: request, domains: options.domains)
        let operation = S3Operation(request, target)
        if Departures.current.keepsMarkersAsFiles, target.key.hasSuffix("/") {
            target.key = ByteString(target.key.bytes.dropLast())
        }
        do throws(S3Error) {
            if Departures.current.losesLineBreaks, target.key.bytes.contains(UInt8(ascii: "\n")),
                request.method != "PUT"
            {
                throw S3Error(.noSuchKey)
            }
            let named = target.key.isEmpty ? request.bytes("prefix") ?? "" : target.key
            if let status = Departures.current.refusal(of: named) {
                throw status == 403
                    ? S3Error(403, "SignatureDoesNotMatch", "The request signature does not match.")
                    : S3Error(400, "InvalidRequest", "The server does not take such a key.")
            }
            guard target.hasValidPath else { throw S3Error(400, "InvalidURI", "Couldn't parse the specified URI.") }
            let bucket = try? library.bucket(target.bucket)
            let region =
                bucket?.record.region
                ?? (operation == .createBucket || operation == .listBuckets ? nil : options.region)
            let authorization = try authenticator.authorize(request, region: region, hostBucket: target.hostBucket)
            let call = S3Call(
                request: request, operation: operation, target: target, authorization: authorization, body: body)
            if authorization.isAnonymous, operation != .preflight { try admitAnonymous(call, bucket) }
            try checkOwner(request)
            if operation != .listBuckets, Departures.current.refusesPayer(of: request, "x-amz-request-payer") {
                throw S3Error.accessDenied
            }
            var response = try await perform(call)
            if operation != .preflight {
                response.headers += CORSAnswers.headers(request, bucket?.record.cors ?? [])
            }
            response.headers = commonHeaders(request) + response.headers
            return response
        } catch {
            return document(of: error, request, target, operation)
        }
    }

    private func perform(_ call: S3Call) async throws(S3Error) -> ServerResponse {
        switch call.operation {
        case .listBuckets: try listBuckets(call)
        case .createBucket: try await createBucket(call)
        case .deleteBucket: try deleteBucket(call)
        case .headBucket: try headBucket(call)
        case .getBucketLocation: try bucketLocation(call)
        case .getBucketVersioning: try bucketVersioning(call)
        case .putBucketVersioning:
            try setBucketVersioning(call, try await call.payload.collect(limit: Self.largestDocument))
        case .getBucketConfiguration: try bucketConfiguration(call)
        case .getBucketACL: try bucketACL(call)
        case .putBucketACL: try await setBucketACL(call)
        case .listObjects: try listObjects(call)
        case .listObjectsV2: try listObjectsV2(call)
        case .listObjectVersions: try listObjectVersions(call)
        case .listMultipartUploads: try listUploads(call)
        case .deleteObjects: try await deleteObjects(call)
        case .getObject, .headObject: try readObject(call)
        case .getObjectAttributes: try objectAttributes(call)
        case .putObject: try await putObject(call)
        case .copyObject: try copyObject(call)
        case .deleteObject: try deleteObject(call)
        case .createMultipartUpload: try createUpload(call)
        case .uploadPart: try await uploadPart(call)
        case .uploadPartCopy:
            if Departures.current.ignoresPartSources { try await uploadPart(call) } else { try uploadPartCopy(call) }
        case .listParts: try listParts(call)
        case .completeMultipartUpload: try await completeUpload(call)
        case .abortMultipartUpload: try abortUpload(call)
        case .getObjectACL: try objectACL(call)
        case .putObjectACL: try await setObjectACL(call)
        case .getObjectTagging: try objectTagging(call)
        case .putObjectTagging:
            try setObjectTagging(call, try await call.payload.collect(limit: Self.largestDocument))
        case .deleteObjectTagging: try deleteObjectTagging(call)
        case .restoreObject: try await restoreObject(call)
        case .getBucketCORS: try bucketCORS(call)
        case .putBucketCORS: try setBucketCORS(call, try await call.payload.collect(limit: Self.largestDocument))
        case .deleteBucketCORS: try deleteBucketCORS(call)
        case .preflight: try preflight(call)
        case .notImplemented: throw S3Error.notImplemented
        case .methodNotAllowed:
            throw S3Error(405, "MethodNotAllowed", "The specified method is not allowed against this resource.")
        }
    }

    private func checkOwner(_ request: ServerRequest) throws(S3Error) {
        guard let owner = request.header("x-amz-expected-bucket-owner") else { return }
        guard owner == Self.account || owner == Self.ownerID else { throw S3Error.accessDenied }
    }

    /// Unsigned requests may do what the canned public ACLs allow, and nothing else.
    private func admitAnonymous(_ call: S3Call, _ bucket: Bucket?) throws(S3Error) {
        let access: AccessControl?
        let permission: String
        switch call.operation {
        case .getObject, .headObject:
            guard !call.request.query.contains(where: { $0.name.hasPrefix("response-") }) else {
                throw S3Error.invalidRequest(
                    "Request specific response headers cannot be used for anonymous GET requests.")
            }
            let own = (try? bucket?.object(call.key))?.record.description.access
            access = own?.isInherited == true ? bucket?.record.access : own
            permission = "READ"
        case .listObjects, .listObjectsV2, .headBucket: (access, permission) = (bucket?.record.access, "READ")
        case .putObject, .deleteObject: (access, permission) = (bucket?.record.access, "WRITE")
        default: throw S3Error.accessDenied
        }
        let isGranted = access?.grants.contains { grant in
            grant.grantee == .everyone && (grant.permission == permission || grant.permission == "FULL_CONTROL")
        }
        guard isGranted == true else { throw S3Error.accessDenied }
    }
}

/// Answers.
extension S3Dialect {
    func commonHeaders(_ request: ServerRequest) -> [Field] {
        [
            Field("x-amz-request-id", String(request.id.prefix(16))), Field("x-amz-id-2", request.id),
            Field("Date", options.time.now().httpDate), Field("Server", "pailstore"),
        ]
    }

    /// An XML answer whose root carries S3's namespace.
    func xml(_ root: String, _ children: (inout XMLWriter) -> Void) -> ServerResponse {
        var writer = XMLWriter()
        writer.element(root, attributes: Self.namespace, children)
        return ServerResponse(
            status: 200, headers: [Field("Content-Type", "application/xml")], body: .bytes(writer.bytes))
    }

    func document(
        of error: S3Error, _ request: ServerRequest, _ target: RequestTarget, _ operation: S3Operation
    ) -> ServerResponse {
        var response = ServerResponse(status: error.status, headers: commonHeaders(request) + error.headers)
        if target.key.isEmpty, !target.bucket.isEmpty {
            let region = (try? library.bucket(target.bucket))?.record.region
            if let region { response.headers.append(Field("x-amz-bucket-region", region)) }
        }
        guard request.method != "HEAD", error.status != 304 else { return response }
        var writer = XMLWriter()
        writer.element("Error") { writer in
            writer.element("Code", error.code)
            writer.element("Message", error.message)
            for element in error.elements { writer.element(element.name, element.value) }
            if !target.bucket.isEmpty { writer.element("BucketName", target.bucket) }
            if !target.key.isEmpty { writer.element("Key", target.key) }
            writer.element("Resource", request.path)
            writer.element("RequestId", String(request.id.prefix(16)))
            writer.element("HostId", request.id)
        }
        response.headers.append(Field("Content-Type", "application/xml"))
        response.body = .bytes(writer.bytes)
        return response
    }

    func failure(status: Int, retryAfter: Int?, _ request: ServerRequest, _ route: RequestRoute) -> ServerResponse {
        let target = RequestTarget(s3: request, domains: options.domains)
        let headers = retryAfter.map {
            [Field("Retry-After", String($0)), Field("x-amz-retry-after", String($0 * 1000))]
        }
        let (code, message) =
            switch status {
            case 200, 500: ("InternalError", "We encountered an internal error. Please try again.")
            case 503: ("SlowDown", "Please reduce your request rate.")
            case 429: ("TooManyRequests", "Please reduce your request rate.")
            case 403: ("AccessDenied", "Access Denied")
            case 404: ("NoSuchKey", "The specified key does not exist.")
            case 405: ("MethodNotAllowed", "The specified method is not allowed against this resource.")
            case 409: ("ConditionalRequestConflict", "A conflicting operation occurred during the request.")
            case 412: ("PreconditionFailed", S3Error.preconditionFailed.message)
            case 501: ("NotImplemented", S3Error.notImplemented.message)
            default:
                status < 500
                    ? ("InvalidRequest", "Invalid Request")
                    : ("ServiceUnavailable", "Service is unable to handle request.")
            }
        let error = S3Error(status, code, message, headers: headers ?? [])
        return document(of: error, request, target, S3Operation(request, target))
    }

    func expired(_ request: ServerRequest, _ route: RequestRoute) -> ServerResponse {
        let target = RequestTarget(s3: request, domains: options.domains)
        let error = S3Error(400, "ExpiredToken", "The provided token has expired.")
        return document(of: error, request, target, S3Operation(request, target))
    }
}
