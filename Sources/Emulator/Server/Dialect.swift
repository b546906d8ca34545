package import Basics

/// What a request asks for, as faults and the log name it.
package struct RequestRoute: Sendable {
    /// The dialect's own name of the operation.
    package let operation: String
    /// Empty for requests to the service.
    package let bucket: String
    /// Empty for requests to a bucket.
    package let key: ByteString

    package init(operation: String, bucket: String = "", key: ByteString = "") {
        (self.operation, self.bucket, self.key) = (operation, bucket, key)
    }
}

/// How one provider speaks: reads requests, checks their signatures, acts on the storage, writes answers and errors.
///
/// Called on worker threads, many requests at a time.
package protocol Dialect: Sendable {
    /// The name under which the endpoint is announced.
    var name: String { get }
    /// What the request asks for, before any signature is checked.
    func route(_ request: ServerRequest) -> RequestRoute
    /// Does it.
    func answer(_ request: ServerRequest, _ route: RequestRoute, body: RequestBody) async -> ServerResponse
    /// The answer of a fault: an error of this status, or of expired credentials.
    func failure(status: Int, retryAfter: Int?, _ request: ServerRequest, _ route: RequestRoute) -> ServerResponse
    func expired(_ request: ServerRequest, _ route: RequestRoute) -> ServerResponse
}
