import Basics

/// Kodo's names of regions, beside those of its S3 endpoints, by which buckets are kept (Kodo, storage regions and their
/// hosts).
enum KodoRegion {
    private static let names = [
        (id: "z0", s3: "cn-east-1"), (id: "cn-east-2", s3: "cn-east-2"), (id: "z1", s3: "cn-north-1"),
        (id: "z2", s3: "cn-south-1"), (id: "na0", s3: "us-north-1"), (id: "as0", s3: "ap-southeast-1"),
    ]

    /// A region that Kodo does not have shows by the name it has.
    static func id(of region: String) -> String { names.first { $0.s3 == region }?.id ?? region }
    static func region(of id: String) -> String { names.first { $0.id == id }?.s3 ?? id }
}

/// Region discovery, unsigned: every service is where the question was asked.
extension KodoDialect {
    /// How long clients may keep an answer.
    private static let lifetime: Int64 = 86400

    private func askedBucket(_ call: KodoCall) throws(KodoError) -> Bucket {
        guard call.request.parameter("ak") == options.credentials.accessKey else { throw .noSuchFile }
        return try bucket(call.entry.bucket)
    }

    private func host(_ call: KodoCall) -> String { call.request.header("host") ?? "" }

    /// The domain that serves the bucket's objects; only loopback has names that resolve without a name server.
    func downloadDomain(_ call: KodoCall, of bucket: Bucket) -> String? {
        let host = host(call)
        let port = host.lastIndex(of: ":").map { String(host[$0...]) } ?? ""
        guard EmulatorServer.isLoopback(String(host.dropLast(port.utf8.count))), !bucket.name.contains(".") else {
            return nil
        }
        return "\(bucket.name).localhost\(port)"
    }

    func queryRegions(_ call: KodoCall) throws(KodoError) -> ServerResponse {
        let bucket = try askedBucket(call)
        let region = bucket.record.region
        let here: JSONValue = ["domains": [.string(host(call))]]
        var services: [(name: String, value: JSONValue)] = [
            ("region", .string(KodoRegion.id(of: region))), ("ttl", .number(Self.lifetime)), ("up", here), ("io", here),
            ("rs", here), ("rsf", here), ("uc", here), ("api", here),
        ]
        if let domain = downloadDomain(call, of: bucket) {
            services.append(("io_src", ["domains": [.string(domain)]]))
        }
        return Self.json(["hosts": [.object(services)]])
    }

    func queryRegionV2(_ call: KodoCall) throws(KodoError) -> ServerResponse {
        let bucket = try askedBucket(call)
        let hosts: JSONValue = ["main": [.string(host(call))]]
        var services: [(name: String, value: JSONValue)] = [
            ("region", .string(KodoRegion.id(of: bucket.record.region))), ("ttl", .number(Self.lifetime)),
            ("io", ["src": hosts]), ("up", ["acc": hosts, "src": hosts]), ("rs", ["acc": hosts]),
            ("rsf", ["acc": hosts]), ("uc", ["acc": hosts]), ("api", ["acc": hosts]),
        ]
        if let domain = downloadDomain(call, of: bucket) {
            services.append(("io_src", ["src": ["main": [.string(domain)]]]))
        }
        return Self.json(.object(services))
    }
}
