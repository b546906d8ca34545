/// Why a call failed: a POSIX error by meaning, and the reason in words for the log and `pailfs explain`.
package struct FileSystemError: Error, Sendable, Hashable {
    package let kind: Kind
    package let reason: String

    package init(_ kind: Kind, _ reason: String) { (self.kind, self.reason) = (kind, reason) }

    /// One case per errno this file system answers with; FuseBridge's table maps them, exhaustively.
    package enum Kind: Sendable, Hashable, CaseIterable {
        case notFound, exists, notDirectory, isDirectory, notEmpty
        case accessDenied, notPermitted, readOnly
        case invalid, nameTooLong, fileTooLarge, argumentTooLong, outOfRange, noData
        case noSpace, quotaExceeded
        case stale, inputOutput, timedOut, interrupted, tryAgain, busy
        case notSupported, badHandle, noSuchOffset, crossDevice
    }
}

extension FileSystemError: CustomStringConvertible {
    package var description: String { reason }
}
