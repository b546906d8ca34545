import HTTP
package import ObjectStorage

/// The container itself (OpenStack Object Storage API, "Containers").
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

    // MARK: Metadata and access control

    private static let metadata = "x-container-meta-"
    private static let (readers, writers) = ("X-Container-Read", "X-Container-Write")
    /// Metadata of a meaning of its own: the quota, which has its own field, and the secrets of URLs without credentials.
    private static let special: Set<String> = ["quota-bytes", "temp-url-key", "temp-url-key-2"]

    /// The container's own counts, which lag behind (Swift documentation, container updater), the quota of its middleware, and its
    /// properties.
    package func usage() async throws(ObjectStoreError) -> BucketUsage {
        let call = call(.usage, .head)
        let response = try await send(call)
        guard let objects = response.headers["X-Container-Object-Count"].flatMap({ Int64($0) }),
            let bytes = response.headers["X-Container-Bytes-Used"].flatMap({ Int64($0) })
        else { throw malformed(call, response, "the answer has no object counts of the container") }
        var usage = BucketUsage(
            bytes: bytes, objects: objects,
            quota: response.headers[Self.metadata + "quota-bytes"].flatMap { Int64($0) })
        for field in response.headers.fields {
            let header = field.name.lowercased()
            guard header.hasPrefix(Self.metadata) else { continue }
            let name = String(header.dropFirst(Self.metadata.utf8.count))
            if !Self.special.contains(name) { usage.metadata[name] = field.value }
        }
        usage.readers = response.headers[Self.readers].flatMap { $0.isEmpty ? nil : $0 }
        usage.writers = response.headers[Self.writers].flatMap { $0.isEmpty ? nil : $0 }
        return usage
    }

    package func changeBucket(_ change: BucketChange) async throws(ObjectStoreError) {
        var call = call(.changeBucket, .post)
        for (name, value) in change.metadata {
            guard name.utf8.count <= SwiftMetadata.longestName, value.utf8.count <= SwiftMetadata.longestValue else {
                throw ObjectStoreError(
                    .metadataTooLarge, .changeBucket, code: "MetadataTooLarge",
                    message:
                        "metadata of a container has names of up to \(SwiftMetadata.longestName) bytes and values of "
                        + "up to \(SwiftMetadata.longestValue)")
            }
            guard !Self.special.contains(name) else {
                throw ObjectStoreError(
                    .invalidRequest, .changeBucket, code: "InvalidName",
                    message: "the store gives the container's metadata \(name) a meaning of its own")
            }
            // Some servers would keep an empty value: what goes is named by a header of its own.
            if value.isEmpty {
                call.headers["X-Remove-Container-Meta-" + name] = "x"
            } else {
                call.headers[Self.metadata + name] = value
            }
        }
        // Ceph removes no list by such a header, and takes an empty one.
        if let readers = change.readers { call.headers[Self.readers] = readers }
        if let writers = change.writers {
            guard profile.hasWriters else {
                throw .lacking(.changeBucket, nil, "a list of who may write into a container")
            }
            call.headers[Self.writers] = writers
        }
        try await send(call)
    }
}
