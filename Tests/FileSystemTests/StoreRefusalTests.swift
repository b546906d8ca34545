import FileSystem
import ObjectStorage
import TestSupport
import Testing

/// The errors that programs hear when the store refuses.
struct StoreRefusalTests {
    private static let refusals: [ObjectStoreError.Kind] = [
        .noSuchBucket, .noSuchUpload, .notModified, .conflict, .accessDenied, .credentialsRejected, .credentialsExpired,
        .clockSkew, .wrongRegion, .invalidRange, .archived(restoring: false), .archived(restoring: true), .tooLarge,
        .partRejected, .invalidRequest, .quotaExceeded, .storageFull, .throttled, .serverFault, .integrity,
        .unreachable,
        .interrupted, .timedOut, .insecure, .local(errno: 5), .malformedAnswer, .contradiction,
    ]

    /// Programs explain these by what they asked for themselves.
    private static let ofTheCaller: Set<FileSystemError.Kind> = [
        .invalid, .notDirectory, .isDirectory, .notEmpty, .exists, .busy, .badHandle, .noSuchOffset, .crossDevice,
        .outOfRange,
    ]

    @Test(arguments: refusals)
    func areNotTheCallersMistakes(kind: ObjectStoreError.Kind) {
        let error = FileSystemError(
            ObjectStoreError(kind, .copy, key: "f", status: 400, code: "Refused", message: "no"))
        #expect(!Self.ofTheCaller.contains(error.kind))
        #expect(error.reason.contains("Refused"), "the reason is kept")
    }

    @Test func aRequestThatWasNotSentIsTheCallersMistake() {
        let error = FileSystemError(
            ObjectStoreError(.invalidRequest, .copy, key: "f", message: "the name is impossible"))
        #expect(error.kind == .invalid)
    }
}
