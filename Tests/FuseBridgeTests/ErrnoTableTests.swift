import CLinux
import FileSystem
import FuseBridge
import Testing

struct ErrnoTableTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let kind: FileSystemError.Kind
        let errno: Int32
        var testDescription: String { "\(kind)" }
        init(_ kind: FileSystemError.Kind, _ errno: Int32) { (self.kind, self.errno) = (kind, errno) }
    }

    static let rows = [
        Row(.notFound, ENOENT), Row(.exists, EEXIST), Row(.notDirectory, ENOTDIR), Row(.isDirectory, EISDIR),
        Row(.notEmpty, ENOTEMPTY), Row(.accessDenied, EACCES), Row(.notPermitted, EPERM), Row(.readOnly, EROFS),
        Row(.invalid, EINVAL), Row(.nameTooLong, ENAMETOOLONG), Row(.illegalBytes, EILSEQ),
        Row(.fileTooLarge, EFBIG),
        Row(.argumentTooLong, E2BIG), Row(.outOfRange, ERANGE), Row(.noData, ENODATA), Row(.noSpace, ENOSPC),
        Row(.quotaExceeded, EDQUOT), Row(.tooManyFiles, ENFILE), Row(.stale, ESTALE), Row(.inputOutput, EIO),
        Row(.timedOut, ETIMEDOUT),
        Row(.interrupted, EINTR), Row(.tryAgain, EAGAIN), Row(.busy, EBUSY), Row(.notSupported, EOPNOTSUPP),
        Row(.badHandle, EBADF), Row(.noSuchOffset, ENXIO), Row(.crossDevice, EXDEV),
    ]

    @Test(arguments: rows) func kindHasItsErrno(_ row: Row) {
        #expect(row.kind.errno == row.errno)
    }

    @Test func tableNamesEveryKindOnce() {
        #expect(Set(Self.rows.map(\.kind)) == Set(FileSystemError.Kind.allCases))
        #expect(Set(Self.rows.map(\.errno)).count == Self.rows.count)
    }

    @Test func damageIsNeverOrdinary() {
        for kind in [FileSystemError.Kind.inputOutput, .stale, .noSpace, .timedOut] { #expect(!kind.isOrdinary) }
        for kind in [FileSystemError.Kind.notFound, .noData, .exists] { #expect(kind.isOrdinary) }
    }
}
