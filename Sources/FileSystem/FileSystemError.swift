/// Why a call failed: a POSIX error by meaning, and the reason in words for the log and `pailfs explain`.
package struct FileSystemError: Error, Sendable, Hashable {
    package let kind: Kind
    package let reason: String
    /// Staged bytes lack local space: nothing was changed, and uploads may make room.
    package private(set) var lacksLocalSpace = false

    /// The bytes are only in parts of an upload: nothing was changed, and the file has to become an object first.
    package private(set) var needsCommit = false

    /// What was asked of the store is about a key that the directory had before: the same is to be asked again.
    package private(set) var isOvertaken = false

    /// The store refused these credentials a listing: HEAD requests may find the name.
    private(set) var isOfRefusedListing = false

    /// The store does not do it, however often it is asked.
    private(set) var isForGood = false

    package init(_ kind: Kind, _ reason: String) { (self.kind, self.reason) = (kind, reason) }

    /// The end of a call for bytes that only an upload has.
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

    /// The errno of a write for which there is no room yet.
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
