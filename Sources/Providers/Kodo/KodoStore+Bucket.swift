import Basics
import HTTP
package import ObjectStorage

/// Creating and deleting the bucket.
extension KodoStore: ChangeableBucket {
    /// In the region of the option, or else in the oldest one.
    package func createBucket() async throws(ObjectStoreError) {
        let region = settings.client.region ?? Self.oldestRegion
        var call = KodoClient.Call(.put, "/mkbucketv3/\(settings.bucket)/region/\(PercentEncoding.encode(region))")
        call.service = .uc
        _ = try await client.send(call)
    }

    /// Kodo answers "drop non empty bucket is not allowed" with status 403.
    package func deleteBucket() async throws(ObjectStoreError) {
        var call = KodoClient.Call(.delete, "/drop/\(settings.bucket)")
        call.service = .uc
        do { _ = try await client.send(call) } catch {
            guard error.kind == .conflict || error.message.contains("non empty") else { throw error }
            var error = error
            error.kind = .bucketNotEmpty
            throw error
        }
    }

    private static let oldestRegion = "z0"
}
