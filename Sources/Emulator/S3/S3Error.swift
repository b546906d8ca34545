package typealias S3Error = AnswerError<S3Spelling>

/// The words of Amazon S3 ("Error responses", Amazon S3 API reference).
package enum S3Spelling: ErrorSpelling {
    package static let incompleteBody = S3Error(400, "IncompleteBody", "The request body terminated unexpectedly.")
    package static let documentTooLarge = S3Error(400, "MaxMessageLengthExceeded", "Your request was too large.")
    package static let malformedXML = S3Error(
        400, "MalformedXML",
        "The XML you provided was not well-formed or did not validate against our published schema.")
    package static let missingLength = S3Error(
        411, "MissingContentLength", "You must provide the Content-Length HTTP header.")
    package static let entityTooLarge = S3Error(
        400, "EntityTooLarge", "Your proposed upload exceeds the maximum allowed object size.")
    package static let invalidDigest = S3Error(
        400, "InvalidDigest", "The Content-MD5 you specified is not valid.")
    package static let badDigest = S3Error(
        400, "BadDigest", "The Content-MD5 or checksum value that you specified did not match what the server received."
    )

    package static func spell(_ error: StorageError) -> S3Error {
        switch error {
        case .noSuchBucket: S3Error(404, "NoSuchBucket", "The specified bucket does not exist")
        case .bucketExists:
            S3Error(409, "BucketAlreadyOwnedByYou", "Your previous request to create the named bucket succeeded.")
        case .bucketNotEmpty: S3Error(409, "BucketNotEmpty", "The bucket you tried to delete is not empty")
        case .noSuchKey: S3Error(404, "NoSuchKey", "The specified key does not exist.")
        case .noSuchUpload:
            S3Error(
                404, "NoSuchUpload",
                "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted "
                    + "or completed.")
        case .conditionFailed: S3Error.preconditionFailed
        case .overtaken:
            S3Error(
                409, "ConditionalRequestConflict",
                "The conditional request cannot succeed due to a conflicting operation against this resource.")
        case .invalidPart(let number):
            S3Error(
                400, "InvalidPart",
                "One or more of the specified parts could not be found, or their entity tags did not match.",
                elements: [Field("PartNumber", String(number))])
        case .partOrder:
            S3Error(400, "InvalidPartOrder", "The list of parts was not in ascending order.")
        case .partTooSmall(let number, let size, let smallest, let etag):
            S3Error(
                400, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size",
                elements: [
                    Field("ProposedSize", String(size)), Field("MinSizeAllowed", String(smallest)),
                    Field("PartNumber", String(number)), Field("ETag", etag),
                ])
        case .system, .damaged, .directoryInUse:
            S3Error(500, "InternalError", "We encountered an internal error: \(error)")
        }
    }
}

extension S3Error {
    static var accessDenied: S3Error { S3Error(403, "AccessDenied", "Access Denied") }
    static var notImplemented: S3Error {
        S3Error(501, "NotImplemented", "A header or query you provided implies functionality that is not implemented.")
    }
    static var preconditionFailed: S3Error {
        S3Error(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold.")
    }

    static var noSuchVersion: S3Error { S3Error(404, "NoSuchVersion", "The specified version does not exist.") }

    static func invalidArgument(_ message: String) -> S3Error { S3Error(400, "InvalidArgument", message) }
    static func invalidRequest(_ message: String) -> S3Error { S3Error(400, "InvalidRequest", message) }
}
