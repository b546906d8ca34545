import Basics
import HTTP
import ObjectStorage

/// Converts error answers. Their texts are for people: only the status is used (OpenStack Object Storage API, response codes).
enum SwiftErrors {
    /// The error for an answer with an error status. `isConditional`: the request had a condition that can fail.
    static func error(
        _ response: HTTPResponse, _ operation: ObjectStoreError.Operation, _ key: ObjectKey?, isConditional: Bool
    ) -> ObjectStoreError {
        let kind = kind(response.status, operation, isConditional: isConditional)
        var message = "the store answered \(response.status)"
        let text = plain(response.body)
        if !text.isEmpty { message += ": \(text)" }
        var direction: ObjectStoreError.Direction?
        if kind == .wrongRegion {
            let place = response.headers["Location"].map { String($0.prefix { $0 != "?" }) }
            message +=
                place.map { "; it redirects to \($0), which pailfs does not follow; set endpoint" }
                ?? "; it redirects without a Location"
            direction = place == nil ? .missing : .named
        }
        var error = ObjectStoreError(
            kind, operation, key: key, status: response.status, message: message,
            requestID: requestID(response.headers), retryAfter: retryAfter(response.headers))
        error.direction = direction
        return error
    }

    static func requestID(_ headers: HTTPHeaders) -> String? {
        headers["X-Trans-Id"] ?? headers["X-Openstack-Request-Id"]
    }

    private static func retryAfter(_ headers: HTTPHeaders) -> Duration? {
        guard let seconds = headers["Retry-After"].flatMap({ Int64($0) }), seconds >= 0 else { return nil }
        return .seconds(min(seconds, 3600))
    }

    private static func kind(
        _ status: Int, _ operation: ObjectStoreError.Operation, isConditional: Bool
    ) -> ObjectStoreError.Kind {
        switch status {
        case 300..<304, 305..<400: .wrongRegion
        case 304: .notModified
        case 401: .credentialsRejected
        case 403: .accessDenied
        case 404: missing(operation)
        case 405, 501: .notSupported
        case 408, 499: .interrupted
        case 409: .conflict
        case 412: isConditional ? .preconditionFailed : .invalidRequest
        // No body is longer than the store's limit, so this is a quota.
        case 413: operation == .copy || operation == .uploadPartCopy ? .tooLarge : .quotaExceeded
        case 416: .invalidRange
        case 422: .integrity
        case 429, 498, 503: .throttled
        case 507: .storageFull
        case 200..<300, 500..<600: .serverFault
        default: .invalidRequest
        }
    }

    /// The operation decides what a 404 reports as missing: the container, the upload or the object.
    private static func missing(_ operation: ObjectStoreError.Operation) -> ObjectStoreError.Kind {
        switch operation {
        case .list, .put, .checkAccess, .usage, .changeBucket, .createUpload, .uploadPart, .listUploads, .deleteMany,
            .listBuckets:
            .noSuchBucket
        case .listParts, .abortUpload, .completeUpload: .noSuchUpload
        default: .notFound
        }
    }

    static func error(
        _ error: HTTPError, _ operation: ObjectStoreError.Operation, _ key: ObjectKey?
    ) -> ObjectStoreError { FamilyErrors.error(error, operation, key) }

    /// The first words of an HTML or plain answer.
    static func plain(_ body: [UInt8]) -> String {
        var text = ""
        var isTag = false
        for character in String(decoding: body.prefix(1000), as: UTF8.self) {
            switch character {
            case "<": isTag = true
            case ">":
                isTag = false
                if !text.hasSuffix(" "), !text.isEmpty { text += " " }
            default:
                guard !isTag else { continue }
                text.append(character.isNewline ? " " : character)
            }
        }
        while text.hasSuffix(" ") { text.removeLast() }
        return String(text.prefix(200))
    }
}
