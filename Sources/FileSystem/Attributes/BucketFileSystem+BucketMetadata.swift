import Basics
import Metadata
import ObjectStorage

/// `user.meta.NAME` of the top directory: the metadata of the bucket, where the store has some and the mount is of the whole
/// bucket. Nothing of it is kept here: each use asks the store.
extension BucketFileSystem {
    func isBucket(_ ino: InodeNumber) -> Bool {
        ino == .root && policy.prefix.isEmpty && store.capabilities.bucketProperties
    }

    func bucketMetadata(_ name: UserMetadataName) -> Outcome<ByteString> {
        later { [self] () async throws(FileSystemError) in
            guard let value = try await storedBucketMetadata()[name.key] else {
                throw FileSystemError(.noData, "the bucket has no metadata \(name.key)")
            }
            return ByteString(value)
        }
    }

    /// `text`: nil removes it.
    func changeBucketMetadata(
        _ name: UserMetadataName, to text: String?, _ mode: ExtendedAttributeMode
    ) -> Outcome<Void> {
        let attribute = UserMetadataName.prefix + name.key
        return later { [self] () async throws(FileSystemError) in
            try requireWritable()
            if text == nil || mode != .createOrReplace {
                let isSet = try await storedBucketMetadata()[name.key] != nil
                guard text != nil || isSet else {
                    throw FileSystemError(.noData, "the bucket has no metadata \(name.key)")
                }
                try Self.require(mode, of: attribute, isSet: isSet)
            }
            let change = BucketChange(metadata: [name.key: text ?? ""])
            try await remote { store throws(ObjectStoreError) in try await store.changeBucket(change) }
        }
    }

    private func storedBucketMetadata() async throws(FileSystemError) -> [String: String] {
        try await remote { store throws(ObjectStoreError) in try await store.usage().metadata }
    }
}
