package import Journaling
package import ObjectStorage
package import Staging

/// Why a file did not become an object. The staged bytes are as they were, and the commit can be tried again.
package enum CommitError: Error, Sendable, Hashable {
    /// The object is not the one the file started from: somebody else's version is there now, or none.
    case conflict(ObjectStoreError)
    case store(ObjectStoreError)
    case staging(StagingError)
    /// The journal could not take a row, so the act that it speaks of was left alone.
    case journal(JournalingError)
    /// The committing task was cancelled, or the file was abandoned.
    case cancelled
}

extension CommitError {
    init(_ error: ObjectStoreError) { self = error.kind == .cancelled ? .cancelled : .store(error) }

    /// Of a read of the base, which is pinned: another version there is a conflict.
    init(base error: ObjectStoreError) {
        let isGone = error.kind == .preconditionFailed || error.kind == .notFound
        self = isGone ? .conflict(error) : CommitError(error)
    }
}

extension CommitError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .conflict(let error): "the object changed: \(error)"
        case .store(let error): error.description
        case .staging(let error): error.description
        case .journal(let error): error.description
        case .cancelled: "the commit was cancelled"
        }
    }
}
