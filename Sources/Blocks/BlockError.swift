package import ObjectStorage

/// Why bytes of an object could not be read: the one error type of this module.
package enum BlockError: Error, Sendable, Hashable {
    /// The object is gone or has another version now, and the requested bytes are not here.
    case stale(ObjectStoreError)
    /// The store failed after its own retries.
    case store(ObjectStoreError)
    /// The reader's task was cancelled, or the cache closed.
    case cancelled

    /// The error of a failed GET as its readers get it.
    init(_ error: ObjectStoreError) {
        self =
            switch error.kind {
            // With If-Match, a range outside the object can only mean that the object has changed.
            case .notFound, .preconditionFailed, .invalidRange: .stale(error)
            case .cancelled: .cancelled
            default: .store(error)
            }
    }
}
