import Basics
import Digests
import FileSystem
import Metadata
import ObjectStorage

/// Whether two copies of something are the same.
enum CopyComparison {
    /// Whether a file has the bytes of an object: as many, and the same time of their change or the same checksum.
    /// `open` opens the file if its bytes have to be read.
    static func isSame(
        _ status: LocalFileStatus, as info: ObjectInfo, key: ObjectKey, in store: any ObjectStore,
        open: () throws(FileError) -> File
    ) async throws(ObjectStoreError) -> Bool {
        guard status.kind == .file, status.size == info.version.size else { return false }
        if status.modified == modified(info) { return true }
        let parts = try await store.checksums(of: key, info)
        guard !parts.isEmpty, let file = try? open(), case .same = FileSums.compare(file, with: parts) else {
            return false
        }
        return true
    }

    /// Whether two objects have the same bytes: as many, and the same ETag, checksum or stored time of their change.
    static func isSame(_ one: ObjectInfo, as other: ObjectInfo) -> Bool {
        guard one.version.size == other.version.size else { return false }
        if one.version.etag == other.version.etag { return true }
        if let checksum = one.checksum, checksum == other.checksum { return true }
        guard let time = one.metadata.user["mtime"] else { return false }
        return time == other.metadata.user["mtime"]
    }

    /// The time that a file made from the object has.
    static func modified(_ info: ObjectInfo) -> Timestamp {
        var attributes = Attributes(kind: .file, mtime: info.version.modified)
        AttributeCodec.decode(info.metadata, into: &attributes)
        return attributes.mtime
    }
}
