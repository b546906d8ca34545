import Basics
import ObjectStorage

extension ObjectStoreError {
    /// The code of a failure of this machine's files: its message says everything.
    static let localFile = "LocalFile"

    /// A call on a local file failed while an object was copied.
    init(_ error: FileError, _ operation: Operation) {
        self.init(.local(errno: error.errno), operation, code: Self.localFile, message: error.description)
    }

    /// A local file is not what the copy needs; `message` names it.
    init(ofFile message: String, errno: Int32, _ operation: Operation) {
        self.init(.local(errno: errno), operation, code: Self.localFile, message: message)
    }

    /// The same error, marked as one of a local file where the bytes of a body could not be read or written.
    var markedIfLocal: ObjectStoreError {
        guard case .local = kind else { return self }
        var error = self
        error.code = Self.localFile
        return error
    }

    /// Whether a later run of the same command can resume the copy that this one has begun. A full disk or bucket is no such case:
    /// the part that was copied would keep it full.
    var leavesWorkToResume: Bool {
        switch kind {
        case .credentialsRejected, .credentialsExpired, .clockSkew, .wrongRegion, .insecure, .cancelled: true
        default: isRetryable
        }
    }
}
