/// statfs.
extension BucketFileSystem {
    package func statistics() -> Outcome<FileSystemStatistics> {
        .success(
            FileSystemStatistics(capacity: policy.capacity, available: policy.capacity, longestName: 255))
    }
}
