/// Why a call failed: a POSIX error by meaning, and the reason in words for the log and `pailfs explain`.
package struct FileSystemError: Error, Sendable, Hashable {
    package let kind: Kind
    package let reason: String
    /// There is no local space for the bytes. Nothing was changed; the call may succeed once uploads have freed space.
    package private(set) var lacksLocalSpace = false

    /// The bytes are only in parts of an unfinished upload. Nothing was changed; the file must be committed first.
    package private(set) var needsCommit = false

    /// A rename gave the directory another key during the request: the caller repeats the request with the new key.
    package private(set) var isOvertaken = false

    /// The store refused these credentials a listing. HEAD requests may still find the name.
    private(set) var isOfRefusedListing = false

    /// The store refuses the request for good: a retry does not help.
    private(set) var isForGood = false

    package init(_ kind: Kind, _ reason: String) { (self.kind, self.reason) = (kind, reason) }

    /// The error of a call on bytes that only an unfinished upload has.
    static let onlyInUpload: FileSystemError = {
        var error = FileSystemError(.inputOutput, "the bytes are only in an unfinished upload at the store")
        error.needsCommit = true
        return error
    }()

    static func refusedListing(_ reason: String) -> FileSystemError {
        var error = FileSystemError(.accessDenied, reason)
        error.isOfRefusedListing = true
        return error
    }

    static func refusedForGood(_ reason: String) -> FileSystemError {
        var error = FileSystemError(.inputOutput, reason)
        error.isForGood = true
        return error
    }

    static func overtaken(_ reason: String) -> FileSystemError {
        var error = FileSystemError(.stale, reason)
        error.isOvertaken = true
        return error
    }

    /// The error of a write for which there is no local space yet.
    static func noLocalSpace(_ reason: String) -> FileSystemError {
        var error = FileSystemError(.noSpace, reason)
        error.lacksLocalSpace = true
        return error
    }

    /// One case per errno this file system answers with; FuseBridge's table maps them, exhaustively.
    package enum Kind: Sendable, Hashable, CaseIterable {
        case notFound, exists, notDirectory, isDirectory, notEmpty
        case accessDenied, notPermitted, readOnly
        case invalid, nameTooLong, illegalBytes, fileTooLarge, argumentTooLong, outOfRange, noData
        case noSpace, quotaExceeded, tooManyFiles
        case stale, inputOutput, timedOut, interrupted, tryAgain, busy
        case notSupported, badHandle, noSuchOffset, crossDevice
    }
}

extension FileSystemError: CustomStringConvertible {
    package var description: String { reason }
}
