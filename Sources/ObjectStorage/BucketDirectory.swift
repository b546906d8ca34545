package import Basics

/// The buckets of an account.
package protocol BucketDirectory: Sendable {
    /// Every bucket the credentials may see, by name in byte order (pages are followed).
    func buckets() async throws(ObjectStoreError) -> [BucketEntry]
}

/// A bucket as its account's listing shows it.
package struct BucketEntry: Sendable, Hashable {
    package var name: String
    package var created: Timestamp?
    /// The region, as the provider names it, when the listing has it.
    package var region: String?
    /// The host for the bucket's requests, when the listing has it.
    package var endpoint: String?

    package init(name: String, created: Timestamp? = nil, region: String? = nil, endpoint: String? = nil) {
        (self.name, self.created, self.region, self.endpoint) = (name, created, region, endpoint)
    }
}
