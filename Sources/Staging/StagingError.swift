import Glibc

/// Why staged bytes could not be written or read.
package enum StagingError: Error, Sendable, Hashable {
    /// The quota or the disk is full. Nothing was changed.
    case noSpace
    /// The offset does not fit a file (EFBIG). Nothing was changed.
    case tooLarge
    /// The bytes are not here but in the committed version, or the file was discarded or handed over.
    case notStaged
    /// The disk takes no writes. Nothing was changed.
    case readOnlyDisk
    /// Another program has deleted the file with the bytes.
    case deleted
    /// A system call failed.
    case failed(errno: Int32, reason: String)
}

extension StagingError {
    /// Whether this process, or the machine, has no descriptor left.
    package var lacksDescriptors: Bool {
        if case .failed(EMFILE, _) = self { return true }
        if case .failed(ENFILE, _) = self { return true }
        return false
    }
}

extension StagingError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .noSpace: "no space for staged bytes: cache-size or the disk of cache-dir is used up"
        case .tooLarge: "the offset exceeds the largest size of a file"
        case .notStaged: "the bytes are not staged"
        case .readOnlyDisk: "the disk of state-dir is read-only; make it writable, or mount with another state-dir"
        case .deleted: "another program deleted the file in staging with the written bytes; write the file again"
        case .failed(_, let reason): "staging: \(reason)"
        }
    }
}
