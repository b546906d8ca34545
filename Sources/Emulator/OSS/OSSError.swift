package typealias OSSError = AnswerError<OSSSpelling>

/// The words of Alibaba Cloud OSS: its codes and, where known, the EC that tells cases of a code apart (OSS API, "Error
/// responses").
package enum OSSSpelling: ErrorSpelling {
    package static let incompleteBody = OSSError(400, "IncompleteBody", "The request body terminated unexpectedly.")
    package static let documentTooLarge = OSSError(400, "InvalidRequest", "The request body is too large.")
    package static let malformedXML = OSSError(400, "MalformedXML", "The XML you provided was not well-formed.")
    package static let missingLength = OSSError(
        411, "MissingContentLength", "You must provide the Content-Length HTTP header.")
    package static let entityTooLarge = OSSError(
        400, "EntityTooLarge", "Your proposed upload exceeds the maximum allowed size.")
    package static let invalidDigest = OSSError(400, "InvalidDigest", "The Content-MD5 you specified was invalid.")
    /// OSS has one code for a digest that is none and for one of other bytes.
    package static let badDigest = OSSError(
        400, "InvalidDigest", "The Content-MD5 you specified did not match what we received.")

    package static func spell(_ error: StorageError) -> OSSError {
        switch error {
        case .noSuchBucket:
            OSSError(404, "NoSuchBucket", "The specified bucket does not exist.", ec: "0015-00000101")
        case .bucketExists:
            OSSError(
                409, "BucketAlreadyExists",
                "The requested bucket name is not available. The bucket namespace is shared by all users of the system. "
                    + "Please select a different name and try again.", ec: "0015-00000104")
        case .bucketNotEmpty:
            OSSError(409, "BucketNotEmpty", "The bucket has objects. Please delete them first.", ec: "0015-00000301")
        case .noSuchKey: OSSError(404, "NoSuchKey", "The specified key does not exist.", ec: "0026-00000001")
        case .noSuchUpload:
            OSSError(
                404, "NoSuchUpload",
                "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted "
                    + "or completed.")
        // The one condition that writes have is x-oss-forbid-overwrite.
        case .conditionFailed, .overtaken:
            OSSError(
                409, "FileAlreadyExists", "The object you specified already exists and can not be overwritten.",
                ec: "0026-00000002")
        case .invalidPart(let number):
            OSSError(
                400, "InvalidPart",
                "One or more of the specified parts could not be found or the specified entity tag might not have matched "
                    + "the part's entity tag.", elements: [Field("PartNumber", String(number))])
        case .partOrder:
            OSSError(
                400, "InvalidPartOrder",
                "The list of parts was not in ascending order. Parts list must specified in order by part number.")
        case .partTooSmall(let number, let size, let smallest, let etag):
            OSSError(
                400, "EntityTooSmall", "Your proposed upload smaller than the minimum allowed size.",
                elements: [
                    Field("MinSizeAllowed", String(smallest)), Field("ProposedSize", String(size)),
                    Field("PartNumber", String(number)), Field("ETag", etag.uppercased()),
                ])
        case .system, .damaged, .directoryInUse:
            OSSError(500, "InternalError", "We encountered an internal error: \(error)")
        }
    }
}

extension OSSError {
    /// `ec` goes into the document and into `x-oss-ec`.
    init(_ status: Int, _ code: String, _ message: String, ec: String, elements: [Field] = [], headers: [Field] = []) {
        let document = [Field("EC", ec), Field("RecommendDoc", "https://api.aliyun.com/troubleshoot?q=\(ec)")]
        self.init(status, code, message, elements: elements + document, headers: headers + [Field("x-oss-ec", ec)])
    }

    static var accessDenied: OSSError {
        OSSError(403, "AccessDenied", "You have no right to access this object.", ec: "0003-00000001")
    }
    static var notImplemented: OSSError {
        OSSError(501, "NotImplemented", "A header you provided implies functionality that is not implemented.")
    }
    static var preconditionFailed: OSSError {
        OSSError(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold.")
    }
    static var notSupported: OSSError {
        OSSError(400, "OperationNotSupported", "The operation is not supported for this resource.")
    }
    static var noSuchVersion: OSSError { OSSError(404, "NoSuchVersion", "The specified version does not exist.") }

    static func invalidArgument(_ message: String, name: String, value: String? = nil) -> OSSError {
        let value = value.map { [Field("ArgumentValue", $0)] } ?? []
        return OSSError(400, "InvalidArgument", message, elements: [Field("ArgumentName", name)] + value)
    }
}
