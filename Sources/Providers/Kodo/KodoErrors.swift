import FoundationEssentials
import HTTP
import ObjectStorage

/// Converts Kodo's error answers (Kodo API, status codes).
enum KodoErrors {
    private struct Document: Decodable {
        let error: String
    }

    /// Whether an answer is an error whatever its status. No other document begins with this member.
    static func isError(_ response: HTTPResponse) -> Bool {
        !response.isSuccess || response.body.starts(with: "{\"error\"".utf8)
    }

    static func error(
        _ response: HTTPResponse, _ operation: ObjectStoreError.Operation, _ key: ObjectKey?
    ) -> ObjectStoreError {
        let text = (try? JSONDecoder().decode(Document.self, from: Data(response.body)))?.error ?? ""
        let retryAfter = response.headers["Retry-After"].flatMap { Int64($0) }.map { Duration.seconds(min($0, 3600)) }
        var error = self.error(status: response.status, message: text, operation, key)
        (error.requestID, error.retryAfter) = (response.headers["X-Reqid"], retryAfter ?? error.retryAfter)
        return error
    }

    /// The error of one operation of a batch.
    static func error(
        status: Int, message: String, _ operation: ObjectStoreError.Operation, _ key: ObjectKey?
    ) -> ObjectStoreError {
        ObjectStoreError(
            kind(status, message, operation), operation, key: key, status: status,
            message: message.isEmpty ? "the store answered \(status)" : message,
            // Rates are limited by the second.
            retryAfter: status == 573 ? .seconds(1) : nil)
    }

    private static func kind(
        _ status: Int, _ message: String, _ operation: ObjectStoreError.Operation
    ) -> ObjectStoreError.Kind {
        switch status {
        case 304: .notModified
        case 400: badRequest(message, operation)
        case 401:
            if message.contains("out of date") || message.contains("expired") {
                .credentialsExpired
            } else {
                message.contains("not specified") ? .accessDenied : .credentialsRejected
            }
        case 403: message.contains("time too skewed") ? .clockSkew : .accessDenied
        case 404: .notFound
        case 405, 501: .notSupported
        case 406: .integrity
        case 408, 499: .interrupted
        case 413: .tooLarge
        case 416: .invalidRange
        case 419: .accessDenied
        case 429, 503, 573: .throttled
        case 509, 630: .quotaExceeded
        // The object is stored, but the callback has failed: a HEAD finds it.
        case 579: .interrupted
        case 608, 614, 616, 618: .preconditionFailed
        case 612: isOfUpload(operation) ? .noSuchUpload : .notFound
        case 631: .noSuchBucket
        case 632: .conflict
        case 701: .noSuchUpload
        case 200...299, 478, 500...599: .serverFault
        default: .invalidRequest
        }
    }

    private static func badRequest(
        _ message: String, _ operation: ObjectStoreError.Operation
    ) -> ObjectStoreError.Kind {
        if message.contains("incorrect region") { return .wrongRegion }
        if operation == .completeUpload { return .partRejected }
        // A form that the server cannot parse was damaged on its way: it was sent well-formed.
        if operation == .put, ["multipart", "EOF"].contains(where: message.contains) { return .integrity }
        return operation == .uploadPart && message.contains("md5") ? .integrity : .invalidRequest
    }

    private static func isOfUpload(_ operation: ObjectStoreError.Operation) -> Bool {
        switch operation {
        case .uploadPart, .listParts, .completeUpload, .abortUpload: true
        default: false
        }
    }

    /// The right host, as the refusal of a wrong region names it.
    static func rightHost(_ error: ObjectStoreError) -> String? {
        error.message.split(separator: " ").last { $0.contains(".") && !$0.hasSuffix(".") }.map(String.init)
    }
}
