import Basics

/// The service and its buckets.
extension S3Dialect {
    func listBuckets(_ call: S3Call) throws(S3Error) -> ServerResponse {
        let request = call.request
        let prefix = request.parameter("prefix") ?? ""
        let region = request.parameter("bucket-region")
        let after = request.bytes("continuation-token").flatMap { Base64.decode($0.description) }.map { ByteString($0) }
        let limit = request.parameter("max-buckets").flatMap { Int($0) } ?? .max
        guard limit > 0 else { throw S3Error.invalidArgument("max-buckets must be positive") }
        let all = library.allBuckets.filter { bucket in
            bucket.name.hasPrefix(prefix) && (region == nil || bucket.record.region == region)
                && (after.map { $0 < ByteString(bucket.name) } ?? true)
        }
        let page = all.prefix(limit)
        return xml("ListAllMyBucketsResult") { xml in
            Self.owner(&xml)
            xml.element("Buckets") { xml in
                for bucket in page {
                    xml.element("Bucket") { xml in
                        xml.element("Name", bucket.name)
                        xml.element("CreationDate", bucket.record.created.documentTime)
                        xml.element("BucketRegion", bucket.record.region)
                    }
                }
            }
            if page.count < all.count, let last = page.last {
                xml.element("ContinuationToken", Base64.encode(Array(last.name.utf8)))
            }
            if !prefix.isEmpty { xml.element("Prefix", prefix) }
        }
    }

    func createBucket(_ call: S3Call) async throws(S3Error) -> ServerResponse {
        let body = try await call.payload.collect(limit: Self.largestDocument)
        var region = options.region
        if !body.isEmpty {
            guard let root = XMLReader.parse(body) else { throw S3Error.malformedXML }
            if let constraint = root.text("LocationConstraint"), !constraint.isEmpty {
                region = constraint == "EU" ? "eu-west-1" : constraint
            }
        }
        let name = call.target.bucket
        guard ObjectLibrary.isBucketName(name) else {
            throw S3Error(400, "InvalidBucketName", "The specified bucket is not valid.")
        }
        let access = try Self.access(fromHeaders: call.request)
        try S3Error.storing { () throws(StorageError) in
            try library.createBucket(name, region: region, access: access ?? AccessControl(), now: options.time.now())
        }
        return ServerResponse(status: 200, headers: [Field("Location", "/\(name)")])
    }

    func headBucket(_ call: S3Call) throws(S3Error) -> ServerResponse {
        let bucket = try bucket(call)
        return ServerResponse(
            status: 200,
            headers: [
                Field("x-amz-bucket-region", bucket.record.region), Field("x-amz-access-point-alias", "false"),
                Field("Content-Type", "application/xml"),
            ])
    }

    func bucketLocation(_ call: S3Call) throws(S3Error) -> ServerResponse {
        let region = try bucket(call).record.region
        // The oldest region has no name here, and the second oldest an old one.
        let constraint = region == "us-east-1" ? "" : region == "eu-west-1" ? "EU" : region
        var writer = XMLWriter()
        writer.element("LocationConstraint", attributes: Self.namespace) { $0.text(constraint) }
        return ServerResponse(
            status: 200, headers: [Field("Content-Type", "application/xml")], body: .bytes(writer.bytes))
    }

    static var noSuchVersion: S3Error { .noSuchVersion }

    static var noCORS: S3Error {
        S3Error(404, "NoSuchCORSConfiguration", "The CORS configuration does not exist")
    }

    /// What AWS answers for a configuration that was never set.
    func bucketConfiguration(_ call: S3Call) throws(S3Error) -> ServerResponse {
        _ = try bucket(call)
        let missing: [(parameter: String, code: String)] = [
            ("policy", "NoSuchBucketPolicy"), ("lifecycle", "NoSuchLifecycleConfiguration"),
            ("tagging", "NoSuchTagSet"), ("website", "NoSuchWebsiteConfiguration"),
            ("replication", "ReplicationConfigurationNotFoundError"),
            ("object-lock", "ObjectLockConfigurationNotFoundError"),
            ("publicAccessBlock", "NoSuchPublicAccessBlockConfiguration"),
            ("ownershipControls", "OwnershipControlsNotFoundError"),
            ("encryption", "ServerSideEncryptionConfigurationNotFoundError"),
        ]
        for (parameter, code) in missing where call.request.has(parameter) {
            throw S3Error(404, code, "The configuration does not exist")
        }
        throw S3Error.notImplemented
    }

    static func owner(_ xml: inout XMLWriter, as name: String = "Owner") {
        xml.element(name) { xml in
            xml.element("ID", ownerID)
            xml.element("DisplayName", "pailstore")
        }
    }
}
