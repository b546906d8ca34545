import Basics

/// The service and its buckets.
extension COSDialect {
    private static let mostBuckets = 2000

    /// All buckets, or those of the region whose host was asked.
    func getService(_ call: COSCall) throws(COSError) -> ServerResponse {
        let request = call.request
        let region = request.parameter("region").flatMap { $0.isEmpty ? nil : $0 } ?? COSHost.region(request.hostName)
        let marker = request.bytes("marker") ?? ""
        guard let limit = request.pageLimit("max-keys", default: Self.mostBuckets, most: Self.mostBuckets) else {
            throw COSError.invalidArgument("max-keys must be a number from 0 to \(Self.mostBuckets).")
        }
        let isOfAge = try creationFilter(request)
        // Buckets have no tags here, so none has the one asked for.
        let isTagged = request.parameter("tagkey")?.isEmpty == false
        let all = library.allBuckets.filter { bucket in
            !isTagged && (region == nil || bucket.record.region == region) && isOfAge(bucket.record.created)
                && marker < ByteString(bucket.name)
        }
        let page = all.prefix(limit)
        return xml("ListAllMyBucketsResult") { xml in
            Self.owner(&xml)
            xml.element("Buckets") { xml in
                for bucket in page {
                    xml.element("Bucket") { xml in
                        xml.element("Name", bucket.name)
                        xml.element("Location", bucket.record.region)
                        xml.element("CreationDate", Timestamp(seconds: bucket.record.created.seconds).iso8601())
                        xml.element("BucketType", "cos")
                    }
                }
            }
            xml.element("Marker", marker)
            xml.element("IsTruncated", page.count < all.count)
            if page.count < all.count { xml.element("NextMarker", page.last?.name ?? "") }
        }
    }

    /// What `create-time` and `range` let through.
    private func creationFilter(_ request: ServerRequest) throws(COSError) -> (Timestamp) -> Bool {
        guard let range = request.parameter("range"), !range.isEmpty else { return { _ in true } }
        guard let seconds = request.parameter("create-time").flatMap({ Int64($0) }) else {
            throw COSError.invalidArgument("create-time must be a time in Unix seconds.")
        }
        switch range {
        case "lt": return { $0.seconds < seconds }
        case "lte": return { $0.seconds <= seconds }
        case "gt": return { $0.seconds > seconds }
        case "gte": return { $0.seconds >= seconds }
        default: throw COSError.invalidArgument("range must be lt, lte, gt or gte.")
        }
    }

    /// Lower-case letters, digits and hyphens, and `-<APPID>` at the end (COS, "Regions and Access Endpoints").
    private static func isBucketName(_ name: String) -> Bool {
        guard let mark = name.lastIndex(of: "-") else { return false }
        let account = name[mark...].dropFirst()
        return ObjectLibrary.isBucketName(name) && !name.contains(".") && !account.isEmpty
            && account.allSatisfy { $0.isASCII && $0.isNumber }
    }

    func putBucket(_ call: COSCall) async throws(COSError) -> ServerResponse {
        let name = call.target.bucket
        guard Self.isBucketName(name) else {
            throw COSError(
                400, "InvalidBucketName",
                "The bucket name '\(name)' is not valid: it must be lower-case letters, digits and '-', then '-' and the "
                    + "number of the account (APPID).")
        }
        _ = try await call.payload.collect()
        let access = try Self.access(fromHeaders: call.request) ?? AccessControl()
        let region = COSHost.region(call.request.hostName) ?? options.region
        try COSError.storing { () throws(StorageError) in
            try library.createBucket(name, region: region, access: access, now: options.time.now())
        }
        return ServerResponse(status: 200)
    }

    func headBucket(_ call: COSCall) throws(COSError) -> ServerResponse {
        ServerResponse(status: 200, headers: [Field("x-cos-bucket-region", try bucket(call).record.region)])
    }

    func getBucketLocation(_ call: COSCall) throws(COSError) -> ServerResponse {
        let region = try bucket(call).record.region
        return xml("LocationConstraint") { $0.text(region) }
    }

    static var noCORS: COSError {
        COSError(404, "NoSuchCORSConfiguration", "The CORS configuration does not exist.")
    }

    static var noSuchVersion: COSError { .noSuchVersion }
    /// COS documentation, "GET Object": 404.
    static var missesMarkers: Bool { true }
}
