import CLinux
import FileSystem

extension FileSystemError.Kind {
    /// The errno the kernel hands to the program: the one place where it is chosen.
    package var errno: Int32 {
        switch self {
        case .notFound: ENOENT
        case .exists: EEXIST
        case .notDirectory: ENOTDIR
        case .isDirectory: EISDIR
        case .notEmpty: ENOTEMPTY
        case .accessDenied: EACCES
        case .notPermitted: EPERM
        case .readOnly: EROFS
        case .invalid: EINVAL
        case .nameTooLong: ENAMETOOLONG
        case .illegalBytes: EILSEQ
        case .fileTooLarge: EFBIG
        case .argumentTooLong: E2BIG
        case .outOfRange: ERANGE
        case .noData: ENODATA
        case .noSpace: ENOSPC
        case .quotaExceeded: EDQUOT
        // The program's own descriptors are not exhausted.
        case .tooManyFiles: ENFILE
        case .stale: ESTALE
        case .inputOutput: EIO
        case .timedOut: ETIMEDOUT
        case .interrupted: EINTR
        case .tryAgain: EAGAIN
        case .busy: EBUSY
        case .notSupported: EOPNOTSUPP
        case .badHandle: EBADF
        case .noSuchOffset: ENXIO
        case .crossDevice: EXDEV
        }
    }

    /// Whether programs meet this error in the normal course of things, so that it needs no attention.
    package var isOrdinary: Bool {
        switch self {
        case .notFound, .exists, .notDirectory, .isDirectory, .notEmpty, .notPermitted, .readOnly, .invalid,
            .nameTooLong, .illegalBytes, .fileTooLarge, .argumentTooLong, .outOfRange, .noData, .interrupted,
            .tryAgain, .busy, .notSupported, .noSuchOffset, .crossDevice:
            true
        case .accessDenied, .noSpace, .quotaExceeded, .tooManyFiles, .stale, .inputOutput, .timedOut, .badHandle:
            false
        }
    }
}
