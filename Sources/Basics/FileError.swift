import CLinux
import SystemPackage

/// Why a call on a local file failed: errno with the operation and the path.
package struct FileError: Error, Sendable, Hashable, CustomStringConvertible {
    package var errno: Int32
    /// The operation, as in "cannot <operation> <path>".
    package var operation: String
    package var path: String

    package init(errno: Int32, operation: String, path: String) {
        (self.errno, self.operation, self.path) = (errno, operation, path)
    }

    /// The disk or the user's quota on it is used up.
    package var isOutOfSpace: Bool { errno == ENOSPC || errno == EDQUOT || errno == EFBIG }

    package var description: String { "cannot \(operation) \(path): \(Errno(rawValue: errno))" }
}

extension ByteTransferError {
    package init(_ error: FileError) { self.init(errno: error.errno, reason: error.description) }
}
