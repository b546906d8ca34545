package import Basics
package import HTTP
package import ObjectStorage

/// The buckets of a Kodo account (Kodo API, resource management).
package struct KodoBuckets: BucketDirectory {
    private let client: KodoClient

    /// Throws when the endpoint cannot be parsed; sends no request.
    package init(
        _ settings: KodoClient.Settings, credentials: any CredentialsProvider, engine: HTTPEngine, time: any TimeSource
    ) throws(ObjectStoreError) {
        client = try KodoClient(bucket: "", settings, credentials: credentials, engine: engine, time: time)
    }

    package func buckets() async throws(ObjectStoreError) -> [BucketEntry] {
        var call = KodoClient.Call(.listBuckets, "/buckets")
        (call.method, call.service, call.collectLimit) = (.get, .uc, 16 << 20)
        let response = try await client.send(call)
        guard let names = KodoDocuments.decode([String].self, response.body) else {
            throw ObjectStoreError(
                .malformedAnswer, .listBuckets, status: response.status, code: "MalformedAnswer",
                message: "the answer is not a list of buckets", requestID: response.headers["X-Reqid"])
        }
        return names.map { BucketEntry(name: $0) }.sorted { ByteString($0.name) < ByteString($1.name) }
    }
}
