/// An S3 error answer: HTTP status, code, sentence, and elements of its document beyond those.
package struct S3Error: Error, Sendable {
    package let status: Int
    package let code: String
    package let message: String
    package var elements: [Field] = []
    package var headers: [Field] = []

    init(_ status: Int, _ code: String, _ message: String, elements: [Field] = [], headers: [Field] = []) {
        (self.status, self.code, self.message) = (status, code, message)
        (self.elements, self.headers) = (elements, headers)
    }

    static let accessDenied = S3Error(403, "AccessDenied", "Access Denied")
    static let malformedXML = S3Error(
        400, "MalformedXML",
        "The XML you provided was not well-formed or did not validate against our published schema.")
    static let notImplemented = S3Error(
        501, "NotImplemented", "A header or query you provided implies functionality that is not implemented.")
    static let preconditionFailed = S3Error(
        412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold.")
    static let badDigest = S3Error(
        400, "BadDigest", "The Content-MD5 or checksum value that you specified did not match what the server received."
    )
    static let incompleteBody = S3Error(
        400, "IncompleteBody", "The request body terminated unexpectedly.")
    static let entityTooLarge = S3Error(
        400, "EntityTooLarge", "Your proposed upload exceeds the maximum allowed object size.")

    static func invalidArgument(_ message: String) -> S3Error { S3Error(400, "InvalidArgument", message) }
    static func invalidRequest(_ message: String) -> S3Error { S3Error(400, "InvalidRequest", message) }

    /// The S3 spelling of what the storage refused.
    init(_ error: StorageError) {
        switch error {
        case .noSuchBucket: self.init(404, "NoSuchBucket", "The specified bucket does not exist")
        case .bucketExists:
            self.init(409, "BucketAlreadyOwnedByYou", "Your previous request to create the named bucket succeeded.")
        case .bucketNotEmpty: self.init(409, "BucketNotEmpty", "The bucket you tried to delete is not empty")
        case .noSuchKey: self.init(404, "NoSuchKey", "The specified key does not exist.")
        case .noSuchUpload:
            self.init(
                404, "NoSuchUpload",
                "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted "
                    + "or completed.")
        case .conditionFailed: self = .preconditionFailed
        case .invalidPart(let number):
            self.init(
                400, "InvalidPart",
                "One or more of the specified parts could not be found, or their entity tags did not match.",
                elements: [Field("PartNumber", String(number))])
        case .partOrder:
            self.init(400, "InvalidPartOrder", "The list of parts was not in ascending order.")
        case .partTooSmall(let number, let size, let smallest, let etag):
            self.init(
                400, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size",
                elements: [
                    Field("ProposedSize", String(size)), Field("MinSizeAllowed", String(smallest)),
                    Field("PartNumber", String(number)), Field("ETag", etag),
                ])
        case .system, .damaged, .directoryInUse:
            self.init(500, "InternalError", "We encountered an internal error: \(error)")
        }
    }

    /// Used where the storage is called: its errors become answers.
    static func storing<Result>(_ body: () throws(StorageError) -> Result) throws(S3Error) -> Result {
        do { return try body() } catch { throw S3Error(error) }
    }
}
