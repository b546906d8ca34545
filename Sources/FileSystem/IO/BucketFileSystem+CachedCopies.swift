import Basics
import Blocks
import ObjectStorage
import Synchronization

/// Copies at a store that refuses to copy: where all bytes of the object are on this machine, one PUT sends them.
extension BucketFileSystem {
    /// In bytes: the PUT holds the whole object in memory. Larger objects are copied in pieces by `ObjectCopier` or the store.
    private static let largestCachedCopy: Int64 = 16 << 20

    /// Stores the object again, at `newKey` and with `headers`, or with its own where those are nil. A HEAD shows first that the
    /// bucket still has this version. nil where it has not, where the store copies objects, and where bytes are missing here.
    func putFromCache(
        _ key: ObjectKey, _ version: ObjectVersion, to newKey: ObjectKey, _ headers: ObjectMetadata?,
        storageClass: String? = nil
    ) async throws(ObjectStoreError) -> PutAnswer? {
        let limits = store.capabilities
        let object = rooms.blocks.open(key, version)
        guard limits.quirks.contains(.copiesRefused), version.size <= Self.largestCachedCopy,
            version.size <= limits.largestPut, object.isComplete
        else { return nil }
        let info = try await store.head(key, condition: .ifMatch(version.etag))
        guard info.version.etag == version.etag, info.version.size == version.size else { return nil }
        let bytes = Mutex<[UInt8]>([])
        try await BaseObject(object: object, buffers: rooms.buffers).read(0..<version.size) { piece, _ in
            bytes.withLock { $0 += piece.copied }
        }
        var metadata = headers ?? info.metadata
        metadata.kept = info.metadata.kept
        let isSame = key == newKey
        let request = PutRequest(
            newKey, metadata: metadata, condition: isSame && limits.putIfMatch ? .match(version.etag) : nil,
            storageClass: storageClass ?? info.storageClass, keeping: key)
        return try await store.put(request, body: MemorySource(bytes.withLock { $0 }))
    }
}
