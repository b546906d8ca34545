import Basics
import HTTP
package import ObjectStorage
import Synchronization

/// Creating and deleting the bucket (Amazon S3 API Reference, "CreateBucket" and "DeleteBucket").
extension FamilyStore: ChangeableBucket {
    package func createBucket() async throws(ObjectStoreError) {
        var call = Call(.put, .put)
        let (region, endpoint) = learned.withLock { ($0.region, $0.endpoint) }
        // Amazon creates a bucket in another region than its oldest only if the document names it. Other servers have one region,
        // or take that of the host.
        let isAmazon = profile.namesRegionOfNewBuckets && profile.endpoints.owns(endpoint.origin.host)
        if isAmazon, let region, region != "us-east-1" {
            let constraint = "<LocationConstraint>\(XMLText.escape(region))</LocationConstraint>"
            _ = try await send(
                &call,
                document: "<CreateBucketConfiguration\(xmlns)>\(constraint)</CreateBucketConfiguration>")
        } else {
            _ = try await send(call)
        }
    }

    package func deleteBucket() async throws(ObjectStoreError) { _ = try await send(Call(.delete, .delete)) }
}
