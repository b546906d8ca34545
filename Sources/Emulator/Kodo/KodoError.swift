import Basics

/// An error answer of Kodo: a status, some of them beyond HTTP's, and a sentence (Kodo API, status codes).
package struct KodoError: Error, Sendable, Equatable {
    package let status: Int
    package let message: String

    init(_ status: Int, _ message: String) { (self.status, self.message) = (status, message) }

    static let badToken = KodoError(401, "bad token")
    static let tokenExpired = KodoError(401, "token out of date")
    static let noToken = KodoError(401, "token not specified")
    static let downloadTokenMissing = KodoError(401, "download token not specified")
    static let skewed = KodoError(403, "request time too skewed")
    static let outOfScope = KodoError(403, "key doesn't match with scope")
    static let exists = KodoError(614, "file exists")
    static let noSuchFile = KodoError(612, "no such file or directory")
    static let noSuchBucket = KodoError(631, "no such bucket")
    static let noSuchUpload = KodoError(612, "no such uploadId")
    static let modified = KodoError(608, "file has been modified")
    static let badMarker = KodoError(640, "invalid list marker")
    static let invalidContext = KodoError(701, "invalid ctx")
    static let incompleteBody = KodoError(400, "unexpected EOF")
    static let notAllowed = KodoError(405, "method not allowed")
    static let notServed = KodoError(501, "this operation is not served here")

    static func invalid(_ what: String) -> KodoError { KodoError(400, what) }

    /// Kodo's spelling of what the storage refused.
    init(_ error: StorageError) {
        switch error {
        case .noSuchBucket: self = .noSuchBucket
        case .bucketExists: self.init(614, "the bucket already exists")
        case .bucketNotEmpty: self.init(403, "drop non empty bucket is not allowed")
        case .noSuchKey: self = .noSuchFile
        case .noSuchUpload: self = .noSuchUpload
        case .conditionFailed, .overtaken: self = .exists
        case .invalidPart(let number): self = .invalid("invalid part \(number)")
        case .partOrder: self = .invalid("part numbers are not in ascending order")
        case .partTooSmall(let number, let size, let smallest, _):
            self = .invalid("part \(number) has \(size) bytes, at least \(smallest) are needed")
        case .system, .damaged, .directoryInUse: self.init(599, "internal error: \(error)")
        }
    }

    /// Used where the storage is called: its errors become answers.
    static func storing<Result>(_ body: () throws(StorageError) -> Result) throws(KodoError) -> Result {
        do { return try body() } catch { throw KodoError(error) }
    }
}
