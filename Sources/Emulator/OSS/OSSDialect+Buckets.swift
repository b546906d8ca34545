import Basics

/// The service and its buckets.
extension OSSDialect {
    func listBuckets(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let request = call.request
        let (prefix, marker) = (request.parameter("prefix") ?? "", request.bytes("marker") ?? "")
        guard let limit = request.pageLimit("max-keys", default: 100), limit > 0 else {
            throw OSSError.invalidArgument("Argument max-keys must be between 1 and 1000.", name: "max-keys")
        }
        let rest = library.allBuckets.filter { $0.name.hasPrefix(prefix) && ByteString($0.name) > marker }
        let page = rest.prefix(limit)
        return xml("ListAllMyBucketsResult") { xml in
            Self.owner(&xml)
            xml.element("Prefix", prefix)
            xml.element("Marker", marker)
            xml.element("MaxKeys", limit)
            xml.element("IsTruncated", rest.count > page.count)
            if rest.count > page.count, let last = page.last { xml.element("NextMarker", last.name) }
            xml.element("Buckets") { xml in
                for bucket in page { xml.element("Bucket") { describe(bucket.record, &$0) } }
            }
        }
    }

    /// What a listing of buckets and GetBucketInfo both say.
    private func describe(_ record: BucketRecord, _ xml: inout XMLWriter) {
        xml.element("CreationDate", record.created.documentTime)
        xml.element("ExtranetEndpoint", endpoint(record.region))
        xml.element("IntranetEndpoint", endpoint(record.region, isInternal: true))
        xml.element("Location", "oss-\(record.region)")
        xml.element("Name", record.name)
        xml.element("Region", record.region)
        xml.element("StorageClass", "Standard")
    }

    /// Made where the signature says it is; without a region in it, where the store is.
    func putBucket(_ call: OSSCall) async throws(OSSError) -> ServerResponse {
        let body = try await call.payload.collect()
        if !body.isEmpty {
            guard let root = XMLReader.parse(body), root.name == "CreateBucketConfiguration" else {
                throw OSSError.malformedXML
            }
            let storageClass = root.text("StorageClass") ?? "Standard"
            guard storageClass == "Standard" else { throw OSSError.notImplemented }
        }
        let name = call.target.bucket
        guard ObjectLibrary.isBucketName(name), !name.contains(".") else {
            throw OSSError(400, "InvalidBucketName", "The specified bucket is not valid.")
        }
        let access = try Self.access(call.request, header: "x-oss-acl") ?? AccessControl()
        var claim = try OSSClaim.header(call.request)
        if claim == nil { claim = try OSSClaim.query(call.request) }
        let region = claim?.region ?? options.region
        try OSSError.storing { () throws(StorageError) in
            try library.createBucket(name, region: region, access: access, now: options.time.now())
        }
        return ServerResponse(status: 200, headers: [Field("Location", "/\(name)")])
    }

    func bucketInfo(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let record = try bucket(call).record
        return xml("BucketInfo") { xml in
            xml.element("Bucket") { xml in
                describe(record, &xml)
                xml.element("DataRedundancyType", "LRS")
                xml.element("AccessMonitor", "Disabled")
                xml.element("BlockPublicAccess", false)
                xml.element("Comment", "")
                xml.element("CrossRegionReplication", "Disabled")
                xml.element("TransferAcceleration", "Disabled")
                Self.owner(&xml)
                xml.element("AccessControlList") { $0.element("Grant", CannedACL(record.access).rawValue) }
                xml.element("BucketPolicy") { xml in
                    xml.element("LogBucket", "")
                    xml.element("LogPrefix", "")
                }
            }
        }
    }

    func bucketLocation(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let region = try bucket(call).record.region
        return xml("LocationConstraint") { $0.text("oss-\(region)") }
    }

    /// OSS counts now and then; this counts at once.
    func bucketStat(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let bucket = try bucket(call)
        let now = options.time.now()
        var totals: [StorageClass: (bytes: Int64, count: Int)] = [:]
        for case .entry(_, let object) in bucket.list(ListingRequest(limit: .max)).items {
            totals[object.record.description.storageClass, default: (0, 0)].bytes += object.record.size
            totals[object.record.description.storageClass, default: (0, 0)].count += 1
        }
        let uploads = bucket.listUploads(ListingRequest(limit: .max), afterID: "").items.count
        return xml("BucketStat") { xml in
            xml.element("Storage", totals.values.reduce(0) { $0 + $1.bytes })
            xml.element("ObjectCount", totals.values.reduce(0) { $0 + $1.count })
            xml.element("MultipartUploadCount", uploads)
            xml.element("LiveChannelCount", 0)
            xml.element("LastModifiedTime", now.seconds)
            for (name, own) in [
                ("Standard", StorageClass.standard), ("InfrequentAccess", .infrequentAccess), ("Archive", .archive),
                ("ColdArchive", .deepArchive), ("DeepColdArchive", .deepColdArchive),
            ] {
                // With those of other dialects' classes that are shown as this one.
                let shown = totals.filter { Self.storageClasses.name($0.key) == Self.storageClasses.name(own) }.values
                xml.element("\(name)Storage", shown.reduce(0) { $0 + $1.bytes })
                xml.element("\(name)ObjectCount", shown.reduce(0) { $0 + $1.count })
            }
        }
    }

    func setBucketACL(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let bucket = try bucket(call)
        guard let access = try Self.access(call.request, header: "x-oss-acl") else {
            throw OSSError.invalidArgument("Missing Some Required Arguments.", name: "x-oss-acl")
        }
        try OSSError.storing { () throws(StorageError) in try bucket.setAccess(access) }
        return ServerResponse(status: 200)
    }

    static var noCORS: OSSError {
        OSSError(404, "NoSuchCORSConfiguration", "The CORS Configuration does not exist.")
    }

    static var noSuchVersion: OSSError { .noSuchVersion }

    /// What OSS answers for a configuration that was never set.
    func bucketConfiguration(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        _ = try bucket(call)
        let missing: [(parameter: String, code: String)] = [
            ("policy", "NoSuchBucketPolicy"), ("lifecycle", "NoSuchLifecycle"),
            ("website", "NoSuchWebsiteConfiguration"), ("replication", "NoSuchReplicationConfiguration"),
            ("encryption", "NoSuchServerSideEncryptionRule"), ("worm", "NoSuchWORMConfiguration"),
            ("inventory", "NoSuchInventory"),
        ]
        for (parameter, code) in missing where call.request.has(parameter) {
            throw OSSError(404, code, "The configuration does not exist.")
        }
        throw OSSError.notImplemented
    }

    static func owner(_ xml: inout XMLWriter) {
        xml.element("Owner") { xml in
            xml.element("ID", ownerID)
            xml.element("DisplayName", "pailstore")
        }
    }
}
