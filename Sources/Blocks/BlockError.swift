package import ObjectStorage

/// Why bytes of an object could not be read: the one error type of this room.
package enum BlockError: Error, Sendable, Hashable {
    /// The object is gone or has another version now, and the bytes asked for are not here.
    case stale(ObjectStoreError)
    /// The store failed after its own retries.
    case store(ObjectStoreError)
    /// The reader's task was cancelled, or the cache closed.
    case cancelled

    /// What a failed GET means for its readers.
    init(_ error: ObjectStoreError) {
        self =
            switch error.kind {
            // With If-Match a range outside the object can only mean that the object is another one.
            case .notFound, .preconditionFailed, .invalidRange: .stale(error)
            case .cancelled: .cancelled
            default: .store(error)
            }
    }
}
