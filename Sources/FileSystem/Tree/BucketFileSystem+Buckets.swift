import Basics
import Commits
import Metadata
import ObjectStorage

/// The top of an account's mount: every name there is a bucket.
extension BucketFileSystem {
    /// Refuses to make, remove or rename a bucket, or to make anything else in its place.
    func requireBucket(_ name: ByteString, in parent: InodeNumber) throws(FileSystemError) {
        guard !(store.capabilities.bucketsInKeys && parent == .root) else {
            throw FileSystemError(
                .notPermitted,
                "\(name) would be at the top of an account, which has buckets only; create and delete buckets with the "
                    + "provider's tools, or with mkdir and rmdir in a mount with buckets=change")
        }
    }

    /// Whether mkdir and rmdir in this directory create and delete buckets.
    func changesBuckets(in parent: InodeNumber) -> Bool {
        parent == .root && store.capabilities.bucketsInKeys && store.capabilities.newBuckets != nil
    }

    /// Creates a bucket. It has no marker, so mode and owner are those of the mount.
    func makeBucket(_ name: ByteString) async throws(FileSystemError) -> EntryReply {
        let text = name.description
        if let problem = store.capabilities.newBuckets?.problem(text) {
            throw remembering("mkdir", FileSystemError(.invalid, "\(name): \(problem)"))
        }
        if try await resolve(name, in: .root) != nil { throw FileSystemError(.exists, "\(name) already exists") }
        let component = name + "/"
        // Some stores create a bucket again that the account has, and reset who may use it.
        if try await isBucket(ObjectKey(component)) { throw FileSystemError(.exists, "\(name) already exists") }
        let hold = metadata.hold([], [(.root, name)])
        defer { metadata.release(hold) }
        do throws(FileSystemError) {
            try await remote { store throws(ObjectStoreError) in
                _ = try await store.put(PutRequest(ObjectKey(component), condition: .absent), body: MemorySource([]))
            }
        } catch {
            // The name may be another account's, which no listing shows.
            guard error.kind == .stale else { throw error }
            throw remembering("mkdir", FileSystemError(.exists, "the name \(name) is taken: \(error.reason)"))
        }
        let now = time.now()
        var attributes = Attributes(
            kind: .directory, size: 0, mtime: now, ctime: now, version: nil, storageClass: nil)
        attributes.headersKnown = true
        return reply(for: try takeIn(component, in: .root, attributes, ObjectMetadata()))
    }

    /// Whether the account lists the bucket now.
    private func isBucket(_ key: ObjectKey) async throws(FileSystemError) -> Bool {
        do throws(FileSystemError) {
            _ = try await remote { store throws(ObjectStoreError) in try await store.head(key, condition: nil) }
            return true
        } catch {
            guard error.kind == .notFound else { throw error }
            return false
        }
    }

    /// Deletes a bucket that this mount and the store find empty. Old versions and unfinished uploads, which no listing shows, keep
    /// it too.
    func remove(bucket: Entry) async throws(FileSystemError) {
        let key = try key(of: bucket.ino)
        try await requireEmpty(bucket)
        await jobs.sendRemovals(at: key.bytes)
        noteFormer(bucket)
        let hold = metadata.hold([bucket.ino], [(.root, bucket.name)])
        defer { metadata.release(hold) }
        do throws(FileSystemError) {
            try await remote { store throws(ObjectStoreError) in try await store.delete(key, ifMatch: nil) }
        } catch {
            if error.kind == .notFound { try? metadata.remove(bucket.ino) }
            throw remembering("rmdir", error)
        }
        try cached { metadata throws(MetadataError) in try metadata.remove(bucket.ino) }
    }

    /// The error, kept for `pailfs explain` of the mountpoint: errno alone does not tell the store's rule.
    private func remembering(_ operation: String, _ error: FileSystemError) -> FileSystemError {
        remember(error, operation, .root)
        return error
    }
}
