import Basics
import ObjectStorage

/// Requests that the store has refused to these credentials. `BucketFileSystem.refusals` owns it, behind a mutex that is a leaf;
/// a crash forgets it, and the next process is refused once more.
struct Refusals: Sendable {
    /// When the store last refused to list a directory, by its key.
    var listings = LRU<ByteString, Timestamp>(capacity: 4096)
    /// Whether a HEAD of a missing object is 403; nil when no request has shown it.
    var hidesMissing: Bool?
    var isLogged = false
    private var deletions = LRU<ByteString, RefusedDeletion>(capacity: 1024)
    /// The latest refusal: it counts for every directory until a deletion succeeds.
    private var latest: RefusedDeletion?
    private(set) var hasDeleted = false

    mutating func deletion(in directory: ByteString) -> RefusedDeletion? {
        deletions.value(for: directory) ?? latest
    }

    /// nil: a deletion succeeded.
    mutating func noteDeletion(in directory: ByteString, _ refused: RefusedDeletion?) {
        guard var refused else {
            (latest, hasDeleted) = (nil, true)
            _ = deletions.removeValue(for: directory)
            return
        }
        refused.copy = deletion(in: directory)?.copy
        deletions.insert(refused, for: directory)
        if !hasDeleted { latest = refused }
    }

    mutating func noteCopy(_ copy: CopiedObject, in directory: ByteString) {
        guard var refused = deletion(in: directory) else { return }
        refused.copy = copy
        deletions.insert(refused, for: directory)
        if latest != nil { latest = refused }
    }
}

/// A refused deletion.
struct RefusedDeletion: Sendable {
    let reason: String
    let at: Timestamp
    /// The copy that a rename made and could not delete. A later rename tries to delete it before it copies anything.
    var copy: CopiedObject?
}

struct CopiedObject: Sendable {
    let key: ObjectKey
    let etag: ETag?
}
