package import Journaling
package import ObjectStorage
package import Staging

/// Why a file did not become an object. The staged bytes are as they were, and the commit can be tried again.
package enum CommitError: Error, Sendable, Hashable {
    /// The object is not the one the file started from: another host's version is there now, or none.
    case conflict(ObjectStoreError)
    /// The version that has the bytes which were not written is not at the store any more.
    case baseGone(ObjectStoreError)
    case store(ObjectStoreError)
    case staging(StagingError)
    /// A row could not be written to the journal, so the act that it records was not begun.
    case journal(JournalingError)
    /// The committing task was cancelled, or the file was abandoned.
    case cancelled
}

extension CommitError {
    /// The store does not have the upload any more that alone had some of the bytes.
    static func uploadLost(_ key: ObjectKey) -> CommitError {
        .store(
            ObjectStoreError(
                .integrity, .completeUpload, key: key,
                message: "the store no longer has the unfinished upload with the first bytes of the file"))
    }

    /// Whether the store does not have the upload any more.
    var isLossOfUpload: Bool {
        guard case .store(let error) = self else { return false }
        return error.kind == .noSuchUpload || error.operation == .completeUpload && error.kind == .integrity
    }

    /// The upload that alone has some of the bytes cannot become this object.
    static func uploadUnusable(_ key: ObjectKey) -> CommitError {
        .store(
            ObjectStoreError(
                .conflict, .completeUpload, key: key,
                message: "the unfinished upload with the first bytes of the file is for another key or another size"))
    }

    /// The store refuses again and again a condition that holds by its own answer.
    static func contradiction(_ refusal: ObjectStoreError, _ times: Int) -> CommitError {
        var refusal = refusal
        refusal.kind = .contradiction
        refusal.message =
            "the store refused \(times) times to replace the version that it reports itself: \(refusal.message)"
        return .store(refusal)
    }

    init(_ error: ObjectStoreError) { self = error.kind == .cancelled ? .cancelled : .store(error) }

    /// The error of a request that reads the base, which is pinned.
    init(base error: ObjectStoreError) {
        let isGone = error.kind == .preconditionFailed || error.kind == .notFound
        self = isGone ? .baseGone(error) : CommitError(error)
    }
}

extension CommitError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .conflict(let error), .baseGone(let error): "the object was replaced or deleted in the bucket: \(error)"
        case .store(let error): error.description
        case .staging(let error): error.description
        case .journal(let error): error.description
        case .cancelled: "the commit was cancelled"
        }
    }
}
