import Blocks
import Commits
import Glibc
import Journaling
import Metadata
package import ObjectStorage
import Staging

/// Converts errors of the layers below to POSIX errors. No other place chooses.
extension FileSystemError {
    package init(_ error: ObjectStoreError) {
        guard error.kind != .contradiction else {
            self = .refusedForGood(String(describing: error))
            return
        }
        let reason = String(describing: error) + Self.remedy(for: error)
        if error.kind == .accessDenied, error.operation == .list {
            self = .refusedListing(reason)
            return
        }
        self.init(Self.kind(of: error), reason)
    }

    /// The remedy to add to the reason of a failed call, where that is no option of the mount.
    private static func remedy(for error: ObjectStoreError) -> String {
        switch error.kind {
        case .accessDenied where error.operation == .list:
            "; allow these credentials to list, pailfs-stores(7) has the action; without it names are found one by one"
        case .archived(restoring: false):
            "; run \"pailfs restore PATH\" to request a readable copy of the archived object"
        case .archived(restoring: true):
            "; run \"pailfs stat PATH\" to see when the object that is being restored can be read"
        default: ""
        }
    }

    init(_ error: BlockError) {
        switch error {
        case .stale(let cause):
            self.init(.stale, "the object was replaced or deleted in the bucket: \(cause)")
        case .store(let cause): self.init(cause)
        case .cancelled: self = .interrupted
        }
    }

    init(_ error: CommitError) {
        switch error {
        case .conflict(let cause), .baseGone(let cause):
            self.init(.stale, "another host replaced or deleted the object since it was opened: \(cause)")
        case .store(let cause): self.init(cause)
        case .staging(let cause): self.init(cause)
        case .journal(let cause): self.init(cause)
        case .cancelled: self = .interrupted
        }
    }

    init(_ error: JournalingError) {
        self.init(
            error.isDiskFull ? .noSpace : error.isOfReadOnlyDisk ? .readOnly : .inputOutput, error.description)
    }

    init(_ error: MetadataError) {
        if error == .superseded {
            self = .overtaken(error.description)
            return
        }
        let kind: Kind =
            switch error {
            case .exists: .exists
            case .notDirectory: .notDirectory
            case .invalidName: .invalid
            case .intoItself: .invalid
            case .noSuchEntry, .superseded: .stale
            case .foreignKey, .database: error.isDiskFull ? .noSpace : .inputOutput
            }
        self.init(kind, error.description)
    }

    init(_ error: StagingError) {
        switch error {
        case .noSpace: self = .noLocalSpace(error.description)
        case .tooLarge: self.init(.fileTooLarge, error.description)
        case .readOnlyDisk: self.init(.readOnly, error.description)
        case .notStaged, .deleted, .failed:
            self.init(error.lacksDescriptors ? .tooManyFiles : .inputOutput, error.description)
        }
    }

    private static func kind(of error: ObjectStoreError) -> Kind {
        switch error.kind {
        case .notFound: .notFound
        case .noSuchBucket, .noSuchUpload: .inputOutput
        case .bucketNotEmpty: .notEmpty
        case .preconditionFailed: .stale
        case .notModified: .inputOutput
        // Programs take EINVAL, EBUSY and the like for their own mistake: `mv` reports EINVAL as a directory moved into itself. A
        // refusal of the store is EIO. A request that was never sent is EINVAL: the program's arguments are wrong.
        case .conflict: .inputOutput
        case .accessDenied, .credentialsRejected, .credentialsExpired: .accessDenied
        case .clockSkew, .wrongRegion: .inputOutput
        case .invalidRange: .inputOutput
        case .archived(let restoring): restoring ? .tryAgain : .accessDenied
        case .keyTooLong: .nameTooLong
        case .keyRefused: .illegalBytes
        case .metadataTooLarge: .argumentTooLong
        case .tooLarge: .fileTooLarge
        case .partRejected: .inputOutput
        case .invalidRequest: error.status == nil ? .invalid : .inputOutput
        case .notSupported: .notSupported
        case .quotaExceeded: .quotaExceeded
        case .storageFull: .noSpace
        case .throttled, .serverFault, .integrity, .unreachable, .interrupted, .insecure, .malformedAnswer:
            .inputOutput
        case .contradiction: .inputOutput
        case .timedOut: .timedOut
        case .cancelled: .interrupted
        case .local(EMFILE), .local(ENFILE): .tooManyFiles
        case .local: .inputOutput
        }
    }
}
