/// A store's prices for requests, from its price list of one place and month: enough for an estimate, never for a bill.
///
/// Standard storage; storage and traffic cost extra. The pages are "Amazon S3 pricing", OSS's "Request fees" and "Pricing", COS's
/// "Request Fees" and "Pricing", and Kodo's price list.
package struct RequestPrices: Sendable, Hashable {
    /// How price lists divide requests.
    package enum Class: Sendable, Hashable {
        /// Writes, copies and listings.
        case write
        /// The rest.
        case read
        case free
    }

    /// The number of requests by class, and their cost together.
    package struct Estimate: Sendable, Hashable {
        package var writes = 0
        package var reads = 0
        package var free = 0
        /// In the currency of the prices, to a hundred-millionth.
        package var amount = 0.0
    }

    /// ISO 4217.
    package let currency: String
    /// Of 10,000 requests.
    package let writes: Double
    /// Of 10,000 requests.
    package let reads: Double
    package let hasFreeDeletes: Bool
    /// The region of the prices.
    package let region: String
    /// The list's year and month.
    package let month: String

    package static let amazonS3 = RequestPrices(
        currency: "USD", writes: 0.05, reads: 0.004, hasFreeDeletes: true, region: "us-east-1", month: "2025-11")
    package static let oss = RequestPrices(
        currency: "CNY", writes: 0.01, reads: 0.01, hasFreeDeletes: false, region: "mainland China", month: "2025-11")
    package static let cos = RequestPrices(
        currency: "CNY", writes: 0.01, reads: 0.01, hasFreeDeletes: false, region: "mainland China", month: "2025-10")
    package static let kodo = RequestPrices(
        currency: "CNY", writes: 0.1, reads: 0.01, hasFreeDeletes: false, region: "mainland China", month: "2025-11")

    /// The cost of so many requests of each kind. Failed ones count: some stores charge for them, and they are few.
    package func estimate(_ requests: [ObjectStoreError.Operation: Int]) -> Estimate {
        var estimate = Estimate()
        for (operation, count) in requests {
            switch priceClass(of: operation) {
            case .write: estimate.writes += count
            case .read: estimate.reads += count
            case .free: estimate.free += count
            }
        }
        let amount = (Double(estimate.writes) * writes + Double(estimate.reads) * reads) / 10_000
        estimate.amount = (amount * 1e8).rounded() / 1e8
        return estimate
    }

    package func priceClass(of operation: ObjectStoreError.Operation) -> Class {
        switch operation {
        case .put, .copy, .list, .createUpload, .uploadPart, .uploadPartCopy, .completeUpload, .listParts, .listUploads,
            .updateMetadata, .setAccessControl, .setTags, .setStorageClass, .restore, .move, .putSymlink, .listBuckets,
            .changeBucket,
            .versions,
            // A listing of one key.
            .checkAccess:
            .write
        case .head, .get, .accessControl, .tags, .symlinkTarget, .usage, .preflight: .read
        case .delete, .deleteMany, .deleteVersion, .abortUpload: hasFreeDeletes ? .free : .write
        // Signed here, and sent by another program.
        case .presign: .free
        }
    }
}
