import Basics

/// One request to OSS on its way through an operation.
struct OSSCall: FamilyCall {
    let request: ServerRequest
    let operation: OSSOperation
    let target: RequestTarget
    let body: RequestBody

    var payload: PlainPayload<OSSError> { PlainPayload(body: body, request: request) }
}

/// Alibaba Cloud OSS as its API reference describes it, over the shared objects: path style and virtual hosts, Signature
/// Versions 4 and 1, versions included. Stateless.
struct OSSDialect: FamilyDialect {
    typealias Spelling = OSSSpelling

    let name = "oss"
    let library: ObjectLibrary
    let options: EmulatorOptions
    let authenticator: OSSAuthenticator
    static let headerPrefix = "x-oss-"
    /// Who owns everything.
    static let ownerID = "1234567890123456"

    init(library: ObjectLibrary, options: EmulatorOptions) {
        self.library = library
        self.options = options
        authenticator = OSSAuthenticator(credentials: options.credentials, time: options.time)
    }

    func route(_ request: ServerRequest) -> RequestRoute {
        let target = RequestTarget(oss: request, domains: options.domains)
        return RequestRoute(
            operation: OSSOperation(request, target).rawValue, bucket: target.bucket, key: target.key)
    }

    func answer(_ request: ServerRequest, _ route: RequestRoute, body: RequestBody) async -> ServerResponse {
        let began = options.time.uptime()
        let target = RequestTarget(oss: request, domains: options.domains)
        let call = OSSCall(request: request, operation: OSSOperation(request, target), target: target, body: body)
        var response: ServerResponse
        do throws(OSSError) {
            guard target.hasValidPath else { throw OSSError(400, "InvalidURI", "Couldn't parse the specified URI.") }
            try await admit(call)
            response = try await perform(call)
            let rules = (try? library.bucket(target.bucket))?.record.cors ?? []
            if call.operation != .optionObject { response.headers += CORSAnswers.headers(request, rules) }
            response.headers = commonHeaders(request) + response.headers
        } catch {
            response = document(of: error, request, target)
        }
        let spent = (options.time.uptime() - began) / .milliseconds(1)
        response.headers.append(Field("x-oss-server-time", String(Int(spent))))
        return response
    }

    /// Checks the signature, the endpoint and, of unsigned requests, the permissions.
    private func admit(_ call: OSSCall) async throws(OSSError) {
        let bucket = try? library.bucket(call.target.bucket)
        let isFree = call.operation == .putBucket || call.operation == .listBuckets
        let region = bucket?.record.region ?? (isFree ? nil : options.region)
        let isSigned = try authenticator.isSigned(
            call.request, bucket: call.target.bucket, key: call.key, region: region)
        if !isSigned, call.operation != .optionObject { try admitAnonymous(call, bucket) }
        if let bucket, let asked = endpointRegion(call.request), asked != bucket.record.region {
            throw OSSError(
                403, "AccessDenied",
                "The bucket you are attempting to access must be addressed using the specified endpoint. Please send all "
                    + "future requests to this endpoint.", ec: "0003-00001403",
                elements: [Field("Bucket", bucket.name), Field("Endpoint", endpoint(bucket.record.region))])
        }
        if call.operation != .listBuckets, Departures.current.refusesPayer(of: call.request, "x-oss-request-payer") {
            throw OSSError(
                403, "AccessDenied", "Access denied for requester pay bucket", ec: "0003-00000703")
        }
        if !call.key.isEmpty { try Self.checkKey(call.key) }
    }

    /// The region that an Alibaba host names; nil for other hosts and those of all regions.
    private func endpointRegion(_ request: ServerRequest) -> String? {
        OSSHost(request.hostName)?.region
    }

    func endpoint(_ region: String, isInternal: Bool = false) -> String {
        "oss-\(region)\(isInternal ? "-internal" : "").aliyuncs.com"
    }

    private func perform(_ call: OSSCall) async throws(OSSError) -> ServerResponse {
        switch call.operation {
        case .listBuckets: try listBuckets(call)
        case .putBucket: try await putBucket(call)
        case .deleteBucket: try deleteBucket(call)
        case .getBucketInfo: try bucketInfo(call)
        case .getBucketLocation: try bucketLocation(call)
        case .getBucketStat: try bucketStat(call)
        case .getBucketACL: accessPolicy(try bucket(call).record.access)
        case .putBucketACL: try setBucketACL(call)
        case .getBucketVersioning: try bucketVersioning(call)
        case .putBucketVersioning: try setBucketVersioning(call, try await call.payload.collect())
        case .getBucketConfiguration: try bucketConfiguration(call)
        case .listObjects: try listObjects(call)
        case .listObjectsV2: try listObjectsV2(call)
        case .listObjectVersions: try listObjectVersions(call)
        case .listMultipartUploads: try listUploads(call)
        case .deleteMultipleObjects: try await deleteObjects(call)
        case .getObject, .headObject: try readObject(call)
        case .getObjectMeta: try objectMeta(call)
        case .putObject: try await putObject(call)
        case .appendObject: try await appendObject(call)
        case .sealAppendObject: try sealObject(call)
        case .copyObject: try copyObject(call)
        case .deleteObject: try deleteObject(call)
        case .initiateMultipartUpload: try initiateUpload(call)
        case .uploadPart: try await uploadPart(call)
        case .uploadPartCopy: try uploadPartCopy(call)
        case .listParts: try listParts(call)
        case .completeMultipartUpload: try await completeUpload(call)
        case .abortMultipartUpload: try abortUpload(call)
        case .getObjectACL: accessPolicy(try object(call).1.record.description.access)
        case .putObjectACL: try setObjectACL(call)
        case .getObjectTagging: try objectTagging(call)
        case .putObjectTagging: try setObjectTagging(call, try await call.payload.collect())
        case .deleteObjectTagging: try deleteObjectTagging(call)
        case .restoreObject: try await restoreObject(call)
        case .cleanRestoredObject: try cleanRestoredObject(call)
        case .putSymlink: try putSymlink(call)
        case .getSymlink: try symlink(call)
        case .getBucketCORS: try bucketCORS(call)
        case .putBucketCORS: try setBucketCORS(call, try await call.payload.collect())
        case .deleteBucketCORS: try deleteBucketCORS(call)
        case .optionObject: try preflight(call)
        case .directoryOperation: throw OSSError.notSupported
        case .notImplemented: throw OSSError.notImplemented
        case .methodNotAllowed:
            throw OSSError(405, "MethodNotAllowed", "The specified method is not allowed against this resource.")
        }
    }

    /// Unsigned requests may do what the ACLs allow to everybody, and nothing else.
    private func admitAnonymous(_ call: OSSCall, _ bucket: Bucket?) throws(OSSError) {
        let everybody = bucket.map { CannedACL($0.record.access) } ?? .privateAccess
        let mayDo: Bool
        switch call.operation {
        case .getObject, .headObject, .getObjectMeta:
            let own = (try? bucket?.object(call.key)).map { CannedACL($0.record.description.access) } ?? .inherited
            mayDo = (own == .inherited ? everybody : own) != .privateAccess
            guard !call.request.query.contains(where: { $0.name.hasPrefix("response-") }) else {
                throw OSSError(400, "InvalidRequest", "Response headers cannot be overridden without a signature.")
            }
        case .listObjects, .listObjectsV2: mayDo = everybody != .privateAccess
        case .putObject, .deleteObject, .appendObject: mayDo = everybody == .publicReadWrite
        default: mayDo = false
        }
        guard mayDo else { throw OSSError.accessDenied }
    }
}
