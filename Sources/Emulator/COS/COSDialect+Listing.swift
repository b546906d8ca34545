import Basics

/// Listings of objects and uploads (COS API, "GET Bucket" and "Multipart Upload").
extension COSDialect {
    private func nameCoding(_ request: ServerRequest) throws(COSError) -> NameCoding {
        guard let names = NameCoding(request) else {
            throw COSError.invalidArgument("The encoding-type must be url.")
        }
        return names
    }

    private func limit(_ request: ServerRequest, _ name: String, least: Int = 0) throws(COSError) -> Int {
        guard let limit = request.pageLimit(name, default: 1000), limit >= least else {
            throw COSError.invalidArgument("\(name) must be a number from \(least) to 1000.")
        }
        return limit
    }

    /// A delimiter is one character.
    private func delimiter(_ request: ServerRequest) throws(COSError) -> ByteString {
        let delimiter = request.bytes("delimiter") ?? ""
        guard delimiter.description.count <= 1 else {
            throw COSError(400, "InvalidDelimiter", "The delimiter must be a single character.")
        }
        return delimiter
    }

    func getBucket(_ call: COSCall) throws(COSError) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        let names = try nameCoding(request)
        let (prefix, delimiter) = (request.bytes("prefix") ?? "", try delimiter(request))
        let marker = request.bytes("marker") ?? ""
        let limit = try limit(request, "max-keys")
        let page = bucket.list(ListingRequest(prefix: prefix, delimiter: delimiter, after: marker, limit: limit))
        let now = options.time.now()
        return xml("ListBucketResult") { xml in
            xml.element("Name", bucket.name)
            if names.isURL { xml.element("EncodingType", "url") }
            xml.element("Prefix", names.encode(prefix))
            xml.element("Marker", names.encode(marker))
            xml.element("MaxKeys", limit)
            if !delimiter.isEmpty { xml.element("Delimiter", names.encode(delimiter)) }
            xml.element("IsTruncated", page.next != nil)
            if let next = page.next { xml.element("NextMarker", names.encode(next)) }
            xml.commonPrefixes(of: page, names)
            for case .entry(_, let object) in page.items {
                xml.element("Contents") { xml in
                    xml.element("Key", names.encode(object.record.key))
                    Self.describe(object.record, &xml)
                    Self.describeState(object.record, now, &xml)
                }
            }
        }.adding([Field("x-cos-bucket-region", bucket.record.region)])
    }

    private static func describe(_ record: ObjectRecord, _ xml: inout XMLWriter) {
        xml.element("LastModified", record.modified.documentTime)
        xml.element("ETag", "\"\(record.etag)\"")
        xml.element("Size", record.size)
        owner(&xml)
        xml.element("StorageClass", storageClasses.name(record.description.storageClass))
    }

    /// What tells whether the bytes are at hand.
    private static func describeState(_ record: ObjectRecord, _ now: Timestamp, _ xml: inout XMLWriter) {
        if let tier = storageTier(record) { xml.element("StorageTier", tier) }
        guard record.description.storageClass.isFrozen else { return }
        let isOngoing = record.restoration.map { $0.ready > now } ?? false
        let isDone = record.restoration?.isThere(now) ?? false
        xml.element("RestoreStatus", isOngoing ? "ONGOING" : isDone ? "DONE" : "")
    }

    func getBucketObjectVersions(_ call: COSCall) throws(COSError) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        let names = try nameCoding(request)
        let (prefix, delimiter) = (request.bytes("prefix") ?? "", try delimiter(request))
        let marker = request.bytes("key-marker") ?? ""
        let limit = try limit(request, "max-keys")
        let page = bucket.listVersions(
            ListingRequest(prefix: prefix, delimiter: delimiter, after: marker, limit: limit),
            afterVersion: request.versionMarker)
        return xml("ListVersionsResult") { xml in
            xml.element("Name", bucket.name)
            if names.isURL { xml.element("EncodingType", "url") }
            xml.element("Prefix", names.encode(prefix))
            xml.element("KeyMarker", names.encode(marker))
            xml.element("VersionIdMarker", request.bytes("version-id-marker") ?? "")
            xml.element("MaxKeys", limit)
            if !delimiter.isEmpty { xml.element("Delimiter", names.encode(delimiter)) }
            xml.element("IsTruncated", page.listing.next != nil)
            xml.nextMarkers(of: page, names)
            xml.commonPrefixes(of: page.listing, names)
            Self.write(page, names, &xml) { object, xml in
                Self.describe(object.record, &xml)
            } owner: {
                Self.owner(&$0)
            }
        }
    }

    func listMultipartUploads(_ call: COSCall) throws(COSError) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        let names = try nameCoding(request)
        let (prefix, delimiter) = (request.bytes("prefix") ?? "", try delimiter(request))
        let (keyMarker, idMarker) = (request.bytes("key-marker") ?? "", request.parameter("upload-id-marker") ?? "")
        let limit = try limit(request, "max-uploads", least: 1)
        let page = bucket.listUploads(
            ListingRequest(prefix: prefix, delimiter: delimiter, after: keyMarker, limit: limit), afterID: idMarker)
        return xml("ListMultipartUploadsResult") { xml in
            xml.element("Bucket", bucket.name)
            xml.element("Encoding-Type", names.isURL ? "url" : "")
            xml.element("KeyMarker", names.encode(keyMarker))
            xml.element("UploadIdMarker", idMarker)
            xml.element("NextKeyMarker", page.isTruncated ? names.encode(page.items.last?.name ?? "") : "")
            xml.element("NextUploadIdMarker", page.isTruncated ? page.lastUploadID : "")
            xml.element("MaxUploads", limit)
            xml.element("IsTruncated", page.isTruncated)
            xml.element("Prefix", names.encode(prefix))
            xml.element("Delimiter", names.encode(delimiter))
            for case .entry(_, let upload) in page.items {
                xml.element("Upload") { xml in
                    xml.element("Key", names.encode(upload.record.key))
                    xml.element("UploadId", upload.id)
                    xml.element("StorageClass", Self.storageClasses.name(upload.record.description.storageClass))
                    Self.owner(&xml, as: "Initiator")
                    Self.owner(&xml)
                    xml.element("Initiated", upload.record.initiated.documentTime)
                }
            }
            xml.commonPrefixes(of: page.listing, names)
        }
    }
}
