import Basics
import Synchronization

/// Creating and deleting the buckets of an account.
extension AccountStore {
    /// Creates the bucket that a key of the form `bucket/` stands for; false for any other key.
    func create(_ key: ObjectKey) async throws(ObjectStoreError) -> Bool {
        guard let (name, bucket) = try changeable(key, .put) else { return false }
        do { try await bucket.createBucket() } catch { throw Self.up(error, name) }
        return true
    }

    /// Deletes the bucket that a key of the form `bucket/` stands for; false for any other key. `.notFound` where another host, or
    /// a try whose answer was lost, has deleted it.
    func remove(_ key: ObjectKey) async throws(ObjectStoreError) -> Bool {
        guard let (name, _) = try changeable(key, .delete) else { return false }
        do throws(ObjectStoreError) {
            guard let bucket = try await store(of: name) as? any ChangeableBucket else {
                throw Self.bucketsAreFixed(.delete, key)
            }
            try await bucket.deleteBucket()
        } catch {
            guard [.noSuchBucket, .notFound].contains(error.kind) else { throw Self.up(error, name) }
            opened.withLock { $0[name] = nil }
            throw ObjectStoreError(
                .notFound, .delete, key: key, status: error.status, code: error.code,
                message: "the account has no bucket \(name)")
        }
        opened.withLock { $0[name] = nil }
        return true
    }

    /// The bucket that a key of the form `bucket/` stands for, as a store that may not exist yet; nil for any other key, and where
    /// buckets cannot change.
    private func changeable(
        _ key: ObjectKey, _ operation: ObjectStoreError.Operation
    ) throws(ObjectStoreError) -> (name: String, bucket: any ChangeableBucket)? {
        guard let rule = capabilities.newBuckets, let place = Place(key.bytes), place.rest.isEmpty else { return nil }
        if operation == .put, let problem = rule.problem(place.bucket) {
            throw ObjectStoreError(.invalidRequest, operation, key: key, code: "InvalidBucketName", message: problem)
        }
        guard let bucket = try open(BucketEntry(name: place.bucket)) as? any ChangeableBucket else {
            throw .lacking(operation, key, "creating and deleting buckets")
        }
        return (place.bucket, bucket)
    }
}
