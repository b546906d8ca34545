import Basics

/// What a key with narrow permissions may do, as providers decide it from their policies.
enum Permission {
    /// Requests to the service that list buckets, by their names in the dialects.
    private static let bucketLists: Set<String> = [
        "ListBuckets", "GetService", "listContainers", "buckets", "bucketsV3",
    ]

    /// Whether a policy for keys below `prefix`, with a condition on the prefix of listings, allows the request. Of requests that
    /// name their keys in the body the policy sees none here.
    static func reaches(_ prefix: String, _ request: ServerRequest, _ route: RequestRoute) -> Bool {
        if bucketLists.contains(route.operation) { return false }
        if !route.key.isEmpty { return route.key.hasPrefix(ByteString(prefix)) }
        if let listed = request.bytes("prefix") { return listed.hasPrefix(ByteString(prefix)) }
        // Kodo answers the queries for its services and for a bucket's domains without credentials.
        let isOpen = ["query", "queryV2", "domains", "domainsV3"].contains(route.operation)
        if route.bucket.isEmpty || isOpen { return true }
        return ["POST", "DELETE"].contains(request.method) && route.operation != "list"
    }

    /// Whether the answer tells a client that there is no such object; S3 tells it only to clients that may list.
    static func isOfMissingObject(_ response: ServerResponse, _ request: ServerRequest, _ route: RequestRoute) -> Bool {
        let operation = route.operation.lowercased()
        return [404, 612].contains(response.status) && !route.key.isEmpty
            && !["upload", "part", "delete"].contains { operation.contains($0) }
    }
}
