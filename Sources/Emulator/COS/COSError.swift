package typealias COSError = AnswerError<COSSpelling>

/// The words of Tencent Cloud COS (COS API, "Error Codes").
package enum COSSpelling: ErrorSpelling {
    package static let incompleteBody = COSError(
        400, "IncompleteBody", "You did not provide the number of bytes specified by the Content-Length HTTP header.")
    package static let documentTooLarge = COSError(400, "MaxMessageLengthExceeded", "Your request was too big.")
    package static let malformedXML = COSError(
        400, "MalformedXML",
        "The XML you provided was not well-formed or did not validate against our published schema.")
    package static let missingLength = COSError(
        411, "MissingContentLength", "You must provide the Content-Length HTTP header.")
    package static let entityTooLarge = COSError(
        400, "EntityTooLarge", "Your proposed upload exceeds the maximum allowed object size.")
    package static let invalidDigest = COSError(400, "InvalidDigest", "The Content-MD5 you specified is not valid.")
    package static let badDigest = COSError(
        400, "BadDigest", "The Content-MD5 you specified did not match what we received.")

    package static func spell(_ error: StorageError) -> COSError {
        switch error {
        case .noSuchBucket: COSError(404, "NoSuchBucket", "The specified bucket does not exist.")
        case .bucketExists:
            COSError(409, "BucketAlreadyOwnedByYou", "The bucket you tried to create already exists, and you own it.")
        case .bucketNotEmpty: COSError(409, "BucketNotEmpty", "The bucket you tried to delete is not empty.")
        case .noSuchKey: COSError(404, "NoSuchKey", "The specified key does not exist.")
        case .noSuchUpload:
            COSError(
                404, "NoSuchUpload",
                "The specified multipart upload does not exist. The upload ID may be invalid, or the upload may have "
                    + "been aborted or completed.")
        case .conditionFailed, .overtaken: COSError.preconditionFailed
        case .invalidPart(let number):
            COSError(
                400, "InvalidPart",
                "Part \(number) could not be found, or its entity tag did not match, or the parts do not begin with 1 "
                    + "and follow without a gap.")
        case .partOrder: COSError(400, "InvalidPartOrder", "The list of parts was not in ascending order.")
        case .partTooSmall(let number, let size, let smallest, _):
            COSError(
                400, "EntityTooSmall",
                "Part \(number) of \(size) bytes is smaller than the \(smallest) bytes all parts but the last must have."
            )
        case .system, .damaged, .directoryInUse:
            COSError(500, "InternalError", "We encountered an internal error: \(error)")
        }
    }
}

extension COSError {
    static var accessDenied: COSError { COSError(403, "AccessDenied", "Access Denied.") }
    static var expiredToken: COSError { COSError(400, "ExpiredToken", "The provided token has expired.") }
    static var requestTimeTooSkewed: COSError {
        COSError(
            403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large.")
    }
    static var preconditionFailed: COSError {
        COSError(412, "PreconditionFailed", "At least one of the preconditions you specified did not hold.")
    }
    static var noSuchVersion: COSError {
        COSError(404, "NoSuchVersion", "The specified version does not exist.")
    }
    static var fileAlreadyExists: COSError {
        COSError(409, "FileAlreadyExists", "The object you specified already exists and can not be overwritten.")
    }
    static var notImplemented: COSError {
        COSError(501, "NotImplemented", "A header or query you provided implies functionality that is not implemented.")
    }

    static func invalidArgument(_ message: String) -> COSError { COSError(400, "InvalidArgument", message) }
    static func invalidRequest(_ message: String) -> COSError { COSError(400, "InvalidRequest", message) }
}
