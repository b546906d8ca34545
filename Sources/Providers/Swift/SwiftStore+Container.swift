import HTTP
package import ObjectStorage

/// Creating and deleting the container (OpenStack Object Storage API, "Containers").
extension SwiftStore: ChangeableBucket {
    package func createBucket() async throws(ObjectStoreError) {
        let call = call(.put, .put)
        let response = try await send(call)
        guard response.status != 202 else {
            throw error(
                .preconditionFailed, call, response, "ContainerExists", "the account has this container already")
        }
    }

    package func deleteBucket() async throws(ObjectStoreError) {
        do { try await send(call(.delete, .delete)) } catch {
            guard error.status == 409 else { throw error }
            var error = error
            error.kind = .bucketNotEmpty
            throw error
        }
    }
}
