import Basics
import HTTP
import ObjectStorage

/// Converts the family's error answers: the table of codes that its members share (S3 API reference, "Error responses"), and the
/// profile's codes of the member itself.
struct FamilyErrors: Sendable {
    let profile: FamilyProfile
    /// Whether requests carry a customer's key.
    var hasCustomerKey = false

    /// The contents of an `<Error>` document.
    struct Document: Sendable {
        var code = ""
        var message = ""
        /// What OpenStack Swift adds to an InternalError.
        var reason = ""
        var requestID: String?
        var region: String?
        var endpoint: String?
        var serverTime: String?
    }

    /// The document of an error: its body, or for a HEAD the header that has it instead. A success with one is an error, too: the
    /// answer to long work begins before it fails, and proxies put their own status on a server's answer.
    func document(_ response: HTTPResponse) -> Document? {
        if response.body.isEmpty, let name = profile.headErrorHeader,
            let body = response.headers[name].flatMap({ Base64.decode($0) })
        {
            return Self.document(body)
        }
        return Self.document(response.body)
    }

    func requestID(_ response: HTTPResponse) -> String? { response.headers[profile.header("request-id")] }

    private static func document(_ body: [UInt8]) -> Document? {
        var reader = XMLReader(body)
        guard (try? reader.rootName()) == "Error" else { return nil }
        var document: Document?
        try? reader.root { reader, _ throws(XMLError) in document = try read(&reader) }
        return document
    }

    /// The children of an `<Error>` that is being read.
    static func read(_ reader: inout XMLReader) throws(XMLError) -> Document {
        var document = Document()
        try reader.elements { reader, name throws(XMLError) in
            switch name {
            case "Code": document.code = try reader.text()
            case "Message": document.message = try reader.text()
            case "Reason": document.reason = try reader.text()
            case "RequestId": document.requestID = try reader.text()
            case "Region": document.region = try reader.text()
            case "Endpoint": document.endpoint = try reader.text()
            case "ServerTime": document.serverTime = try reader.text()
            default: break
            }
        }
        if !document.reason.isEmpty { document.message += " \(document.reason)" }
        return document
    }

    /// The error for an answer with an error status, or with an error document in a 200.
    func error(
        _ response: HTTPResponse, _ operation: ObjectStoreError.Operation, _ key: ObjectKey?, document: Document?
    ) -> ObjectStoreError {
        let code = document?.code ?? ""
        let own =
            profile.errorMessages.first { document?.message.range(of: $0.text) != nil }?.kind ?? profile.errors[code]
        let kind =
            own ?? Self.kind(code: code)
            ?? (response.isSuccess ? .serverFault : Self.kind(status: response.status, operation))
        var (message, direction) = message(response, document, kind)
        // The answer to a HEAD has no document.
        if operation == .head, response.status == 400, document == nil, profile.customerKeys {
            message +=
                hasCustomerKey
                ? "; leave sse-customer-key-file out if the object has no such key, or set it to the right one"
                : "; set sse-customer-key-file if the object was encrypted with a key of its writer's"
        }
        var error = ObjectStoreError(
            kind, operation, key: key, status: response.status, code: code.isEmpty ? nil : code, message: message,
            requestID: requestID(response) ?? document?.requestID, retryAfter: retryAfter(response.headers))
        error.direction = direction
        return error
    }

    /// The store's message, with the region or endpoint of the bucket if the answer has one.
    private func message(
        _ response: HTTPResponse, _ document: Document?, _ kind: ObjectStoreError.Kind
    ) -> (String, ObjectStoreError.Direction?) {
        var message = document?.message ?? ""
        if message.isEmpty { message = "the store answered \(response.status)" }
        guard kind == .wrongRegion else { return (message, nil) }
        let region = response.headers[profile.header("bucket-region")] ?? document?.region ?? ""
        if !region.isEmpty { message += "; set region=\(region)" }
        let endpoint = document?.endpoint ?? ""
        if !endpoint.isEmpty { message += "; set endpoint=\(endpoint)" }
        let host = response.headers["Location"].map { FamilyEndpoint.host(of: $0) } ?? ""
        if !host.isEmpty {
            message += "; it redirects to \(host), which is another endpoint"
        } else if (300..<400).contains(response.status), region.isEmpty, endpoint.isEmpty {
            return (message + "; it redirects without a Location", .missing)
        }
        return (message, region.isEmpty && endpoint.isEmpty ? nil : .named)
    }

    /// Plain `Retry-After` seconds, or S3's own header in milliseconds.
    private func retryAfter(_ headers: HTTPHeaders) -> Duration? {
        if let milliseconds = headers["x-amz-retry-after"].flatMap({ Int64($0) }), milliseconds >= 0 {
            return .milliseconds(min(milliseconds, 3_600_000))
        }
        guard let seconds = headers["Retry-After"].flatMap({ Int64($0) }), seconds >= 0 else { return nil }
        return .seconds(min(seconds, 3600))
    }

    private static func kind(code: String) -> ObjectStoreError.Kind? {
        switch code {
        case "NoSuchKey", "NoSuchVersion": .notFound
        case "NoSuchBucket": .noSuchBucket
        case "NoSuchUpload": .noSuchUpload
        case "BucketNotEmpty": .bucketNotEmpty
        case "BucketAlreadyExists", "BucketAlreadyOwnedByYou": .preconditionFailed
        case "TooManyBuckets": .quotaExceeded
        case "AccessDenied", "AllAccessDisabled", "AccountProblem": .accessDenied
        case "InvalidAccessKeyId", "SignatureDoesNotMatch": .credentialsRejected
        case "ExpiredToken", "InvalidToken", "TokenRefreshRequired": .credentialsExpired
        case "RequestTimeTooSkewed": .clockSkew
        case "InvalidObjectState", "ObjectNotInActiveTierError": .archived(restoring: false)
        case "QuotaExceeded", "XMinioAdminBucketQuotaExceeded": .quotaExceeded
        case "XMinioStorageFull": .storageFull
        case "KeyTooLongError": .keyTooLong
        case "EntityTooLarge": .tooLarge
        case "EntityTooSmall", "InvalidPart", "InvalidPartOrder": .partRejected
        case "BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch": .integrity
        case "RequestTimeout": .interrupted
        case "MetadataTooLarge": .metadataTooLarge
        case "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect",
            "TemporaryRedirect":
            .wrongRegion
        case "AccessControlListNotSupported", "MethodNotAllowed", "NotImplemented": .notSupported
        case "ConditionalRequestConflict", "OperationAborted": .conflict
        case "PreconditionFailed": .preconditionFailed
        case "InvalidRange": .invalidRange
        case "TooManyRequests", "SlowDown", "RequestLimitExceeded", "BandwidthLimitExceeded": .throttled
        case "InternalError", "ServiceUnavailable": .serverFault
        default: nil
        }
    }

    /// HEAD answers have no document, so only the status is known.
    private static func kind(status: Int, _ operation: ObjectStoreError.Operation) -> ObjectStoreError.Kind {
        switch status {
        case 304: .notModified
        case 301, 302, 307, 308: .wrongRegion
        case 403: .accessDenied
        // A prefix without keys has an empty listing, not a 404.
        case 404: operation == .checkAccess || operation == .list ? .noSuchBucket : .notFound
        case 405, 501: .notSupported
        // MinIO answers 499 while it shuts down.
        case 408, 499: .interrupted
        case 409: .conflict
        case 412: .preconditionFailed
        case 413: .tooLarge
        case 416: .invalidRange
        case 429, 503, 509: .throttled
        case 507: .storageFull
        case 500...599: .serverFault
        default: .invalidRequest
        }
    }

    static func error(
        _ error: HTTPError, _ operation: ObjectStoreError.Operation, _ key: ObjectKey?
    ) -> ObjectStoreError {
        let (kind, code): (ObjectStoreError.Kind, String) =
            switch error.kind {
            case .unreachable: (.unreachable, "Unreachable")
            case .interrupted: (.interrupted, "Interrupted")
            case .timedOut: (.timedOut, "TimedOut")
            case .insecure: (.insecure, "TLS")
            case .cancelled: (.cancelled, "Cancelled")
            case .local(let errno): (.local(errno: errno), "Local")
            case .tooLarge: (.malformedAnswer, ObjectStoreError.unusableAnswer)
            case .malformed: (.malformedAnswer, "MalformedAnswer")
            case .invalidRequest: (.invalidRequest, "InvalidRequest")
            }
        return ObjectStoreError(kind, operation, key: key, code: code, message: error.message)
    }
}
