import Basics

/// Buckets (Kodo API, resource management).
extension KodoDialect {
    func buckets(_ call: KodoCall) throws(KodoError) -> ServerResponse {
        guard call.request.parameter("apiVersion") == "v4" else {
            return Self.json(.array(library.allBuckets.map { .string($0.name) }))
        }
        let limit = call.request.parameter("limit").flatMap { Int($0) } ?? 100
        guard limit > 0 else { throw .invalid("invalid limit") }
        let after = call.request.bytes("marker") ?? ""
        let rest = library.allBuckets.filter { ByteString($0.name) > after }
        let page = rest.prefix(limit)
        return Self.json([
            "buckets": .array(page.map { describe($0) }),
            "next_marker": .string(page.count < rest.count ? page.last?.name ?? "" : ""),
            "is_truncated": .bool(page.count < rest.count),
        ])
    }

    func bucketsOfRegion(_ call: KodoCall) throws(KodoError) -> ServerResponse {
        let region = call.request.parameter("region").map(KodoRegion.region)
        let found = library.allBuckets.filter { region == nil || $0.record.region == region }
        return Self.json(.array(found.map { describe($0) }))
    }

    private func describe(_ bucket: Bucket) -> JSONValue {
        [
            "name": .string(bucket.name), "tbl": .string(bucket.name),
            "region": .string(KodoRegion.id(of: bucket.record.region)), "private": isPrivate(bucket) ? 1 : 0,
            "ctime": .number(bucket.record.created.seconds),
        ]
    }

    func makeBucket(_ call: KodoCall) throws(KodoError) -> ServerResponse {
        let (name, words) = (call.entry.bucket, call.target.arguments)
        guard ObjectLibrary.isBucketName(name), !name.contains(".") else { throw .invalid("invalid bucket name") }
        guard words.count < 2 || words.count == 3 && words[1] == "region" else { throw .invalid("invalid path") }
        let region = words.count == 3 ? KodoRegion.region(of: String(words[2])) : options.region
        try KodoError.storing { () throws(StorageError) in
            try library.createBucket(name, region: region, now: options.time.now())
        }
        return Self.json(nil)
    }

    func dropBucket(_ call: KodoCall) throws(KodoError) -> ServerResponse {
        try KodoError.storing { () throws(StorageError) in try library.deleteBucket(call.entry.bucket) }
        return Self.json(nil)
    }

    func bucketInfo(_ call: KodoCall) throws(KodoError) -> ServerResponse {
        let bucket = try bucket(call.entry.bucket)
        let region = KodoRegion.id(of: bucket.record.region)
        return Self.json([
            "region": .string(region), "zone": .string(region), "private": isPrivate(bucket) ? 1 : 0, "protected": 0,
        ])
    }

    func domains(_ call: KodoCall) throws(KodoError) -> ServerResponse {
        let bucket = try bucket(call.entry.bucket)
        let domains = [downloadDomain(call, of: bucket)].compactMap(\.self)
        guard call.target.operation == .domainsV3 else { return Self.json(.array(domains.map { .string($0) })) }
        let created = bucket.record.created.seconds
        return Self.json(
            .array(
                domains.map { domain in
                    [
                        "domain": .string(domain), "tbl": .string(bucket.name), "uid": 1, "refresh": false,
                        "ctime": .number(created), "utime": .number(created),
                    ]
                }))
    }

    func bucketQuota(_ call: KodoCall) throws(KodoError) -> ServerResponse {
        _ = try bucket(call.entry.bucket)
        return Self.json(["size": -1, "count": -1])
    }

    /// Who may read without a token is what S3 calls a grant to all users.
    private static let publicRead = AccessControl.Grant(grantee: .everyone, permission: "READ")

    func isPrivate(_ bucket: Bucket) -> Bool {
        !bucket.record.access.grants.contains {
            $0.grantee == Self.publicRead.grantee && ["READ", "FULL_CONTROL"].contains($0.permission)
        }
    }

    /// In the query, as the Python SDK has it, or in the form.
    func setPrivate(_ call: KodoCall, _ body: [UInt8]) throws(KodoError) -> ServerResponse {
        let items = call.request.query + ServerRequest.parse(Substring(decoding: body, as: UTF8.self))
        func value(_ name: String) -> String? { items.first { $0.name == name }?.value.description }
        guard let name = value("bucket"), let flag = value("private"), ["0", "1"].contains(flag) else {
            throw .invalid("invalid arguments")
        }
        let bucket = try bucket(name)
        var access = bucket.record.access
        access.grants.removeAll { $0.grantee == Self.publicRead.grantee }
        if flag == "0" { access.grants.append(Self.publicRead) }
        try KodoError.storing { () throws(StorageError) in try bucket.setAccess(access) }
        return Self.json(nil)
    }
}
