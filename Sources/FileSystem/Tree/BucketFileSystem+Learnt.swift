import Basics
import Metadata
import ObjectStorage

/// An answer of the store that contradicts the metadata cache counts at once, although the cached listing is within `ttl`.
extension BucketFileSystem {
    /// Runs `act`, a call about the object of an inode. If the store has no such object, or another one, the next use of the name
    /// asks the store, and so does the next listing of its directory.
    func doubting<Value: Sendable>(
        _ ino: InodeNumber, _ act: () async throws(FileSystemError) -> Value
    ) async throws(FileSystemError) -> Value {
        let version = (try? entry(ino))?.attributes.version
        do throws(FileSystemError) { return try await act() } catch {
            if error.kind == .notFound || error.kind == .stale { doubt(ino, version) }
            throw error
        }
    }

    /// The store does not have the `version` of an inode's entry: the next use of the name asks the store. An entry with another
    /// version by now stays as it is.
    func doubt(_ ino: InodeNumber, _ version: ObjectVersion?) {
        guard let version, let entry = try? entry(ino), !entry.isPending,
            entry.attributes.version?.etag == version.etag, let key = try? key(of: ino)
        else { return }
        try? metadata.distrust(key.bytes)
        kernel.notifier?.invalidate(entry.name, in: entry.parent)
    }

    /// The store has these objects. Where one is unknown here, the next use of the directories above it lists them again.
    func noteFound(_ objects: [ListedObject]) {
        for object in objects where ((try? known(object.key.bytes)) ?? nil) == nil {
            try? metadata.distrust(object.key.bytes)
        }
    }
}
