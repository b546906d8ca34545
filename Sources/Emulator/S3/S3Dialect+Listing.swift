import Basics

/// Listings of objects and uploads.
extension S3Dialect {
    private func names(_ request: ServerRequest) throws(S3Error) -> NameCoding {
        guard let names = NameCoding(request) else {
            throw S3Error.invalidArgument("Invalid Encoding Method specified in Request")
        }
        return names
    }

    private func limit(_ request: ServerRequest, _ name: String) throws(S3Error) -> Int {
        guard let number = request.pageLimit(name, default: 1000) else {
            throw S3Error.invalidArgument("Provided \(name) not an integer or within integer range")
        }
        return number
    }

    func listObjectsV2(_ call: S3Call) throws(S3Error) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        let names = try names(request)
        let (prefix, delimiter) = (request.bytes("prefix") ?? "", request.bytes("delimiter") ?? "")
        let limit = try limit(request, "max-keys")
        var after = request.bytes("start-after") ?? ""
        if let token = request.parameter("continuation-token") {
            guard let place = ContinuationToken.place(token) else {
                throw S3Error.invalidArgument("The continuation token provided is incorrect")
            }
            after = place
        }
        let page = bucket.list(ListingRequest(prefix: prefix, delimiter: delimiter, after: after, limit: limit))
        let showsOwner = request.parameter("fetch-owner") == "true"
        return xml("ListBucketResult") { xml in
            xml.element("Name", bucket.name)
            xml.element("Prefix", names.encode(prefix))
            if !delimiter.isEmpty { xml.element("Delimiter", names.encode(delimiter)) }
            if let start = request.bytes("start-after") { xml.element("StartAfter", names.encode(start)) }
            if let token = request.bytes("continuation-token") { xml.element("ContinuationToken", token) }
            if let next = page.next {
                xml.element("NextContinuationToken", ContinuationToken.text(next))
            }
            xml.element("KeyCount", page.items.count)
            xml.element("MaxKeys", limit)
            if names.isURL { xml.element("EncodingType", "url") }
            xml.element("IsTruncated", page.next != nil)
            contents(page, names, showsOwner: showsOwner, request, &xml)
        }
    }

    func listObjects(_ call: S3Call) throws(S3Error) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        let names = try names(request)
        let (prefix, delimiter) = (request.bytes("prefix") ?? "", request.bytes("delimiter") ?? "")
        let marker = request.bytes("marker") ?? ""
        let limit = try limit(request, "max-keys")
        let page = bucket.list(ListingRequest(prefix: prefix, delimiter: delimiter, after: marker, limit: limit))
        return xml("ListBucketResult") { xml in
            xml.element("Name", bucket.name)
            xml.element("Prefix", names.encode(prefix))
            xml.element("Marker", names.encode(marker))
            // Only with a delimiter: otherwise the last key serves.
            if let next = page.next, !delimiter.isEmpty { xml.element("NextMarker", names.encode(next)) }
            if !delimiter.isEmpty { xml.element("Delimiter", names.encode(delimiter)) }
            xml.element("MaxKeys", limit)
            if names.isURL { xml.element("EncodingType", "url") }
            xml.element("IsTruncated", page.next != nil)
            contents(page, names, showsOwner: true, request, &xml)
        }
    }

    private func contents(
        _ page: ListingResult<StoredObject>, _ names: NameCoding, showsOwner: Bool, _ request: ServerRequest,
        _ xml: inout XMLWriter
    ) {
        let showsRestore = request.header("x-amz-optional-object-attributes")?.contains("RestoreStatus") ?? false
        let now = options.time.now()
        for case .entry(_, let object) in page.items {
            let record = object.record
            xml.element("Contents") { xml in
                xml.element("Key", names.encode(record.key))
                xml.element("LastModified", record.modified.documentTime)
                xml.element("ETag", "\"\(record.etag)\"")
                if let checksum = record.checksum {
                    xml.element("ChecksumAlgorithm", checksum.algorithm.rawValue)
                    xml.element("ChecksumType", checksum.type)
                }
                xml.element("Size", record.size)
                xml.element("StorageClass", storageClassName(record))
                if showsOwner { Self.owner(&xml) }
                if showsRestore, let restoration = record.restoration {
                    xml.element("RestoreStatus") { xml in
                        xml.element("IsRestoreInProgress", restoration.ready > now)
                        if restoration.ready <= now, let expires = restoration.expires {
                            xml.element("RestoreExpiryDate", expires.documentTime)
                        }
                    }
                }
            }
        }
        xml.commonPrefixes(of: page, names)
    }

    func listObjectVersions(_ call: S3Call) throws(S3Error) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        let names = try names(request)
        let (prefix, delimiter) = (request.bytes("prefix") ?? "", request.bytes("delimiter") ?? "")
        let marker = request.bytes("key-marker") ?? ""
        let limit = try limit(request, "max-keys")
        let page = bucket.listVersions(
            ListingRequest(prefix: prefix, delimiter: delimiter, after: marker, limit: limit),
            afterVersion: request.versionMarker)
        return xml("ListVersionsResult") { xml in
            xml.element("Name", bucket.name)
            xml.element("Prefix", names.encode(prefix))
            xml.element("KeyMarker", names.encode(marker))
            xml.element("VersionIdMarker", request.bytes("version-id-marker") ?? "")
            xml.nextMarkers(of: page, names)
            xml.element("MaxKeys", limit)
            if !delimiter.isEmpty { xml.element("Delimiter", names.encode(delimiter)) }
            if names.isURL { xml.element("EncodingType", "url") }
            xml.element("IsTruncated", page.listing.next != nil)
            Self.write(page, names, &xml) { object, xml in
                xml.element("LastModified", object.record.modified.documentTime)
                xml.element("ETag", "\"\(object.record.etag)\"")
                xml.element("Size", object.record.size)
                xml.element("StorageClass", storageClassName(object.record))
                Self.owner(&xml)
            } owner: {
                Self.owner(&$0)
            }
            xml.commonPrefixes(of: page.listing, names)
        }
    }

    func listUploads(_ call: S3Call) throws(S3Error) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        let names = try names(request)
        let (prefix, delimiter) = (request.bytes("prefix") ?? "", request.bytes("delimiter") ?? "")
        let (keyMarker, idMarker) = (request.bytes("key-marker") ?? "", request.parameter("upload-id-marker") ?? "")
        let limit = try limit(request, "max-uploads")
        let page = bucket.listUploads(
            ListingRequest(prefix: prefix, delimiter: delimiter, after: keyMarker, limit: limit), afterID: idMarker)
        return xml("ListMultipartUploadsResult") { xml in
            xml.element("Bucket", bucket.name)
            xml.element("KeyMarker", names.encode(keyMarker))
            xml.element("UploadIdMarker", idMarker)
            if page.isTruncated {
                xml.element("NextKeyMarker", names.encode(page.items.last?.name ?? ""))
                xml.element("NextUploadIdMarker", page.lastUploadID)
            }
            xml.element("Prefix", names.encode(prefix))
            if !delimiter.isEmpty { xml.element("Delimiter", names.encode(delimiter)) }
            if names.isURL { xml.element("EncodingType", "url") }
            xml.element("MaxUploads", limit)
            xml.element("IsTruncated", page.isTruncated)
            for case .entry(_, let upload) in page.items {
                xml.element("Upload") { xml in
                    xml.element("Key", names.encode(upload.record.key))
                    xml.element("UploadId", upload.id)
                    Self.owner(&xml, as: "Initiator")
                    Self.owner(&xml)
                    xml.element("StorageClass", Self.storageClasses.name(upload.record.description.storageClass))
                    xml.element("Initiated", upload.record.initiated.documentTime)
                    if let algorithm = upload.record.checksumAlgorithm {
                        xml.element("ChecksumAlgorithm", algorithm.rawValue)
                        xml.element("ChecksumType", upload.record.wantsFullChecksum ? "FULL_OBJECT" : "COMPOSITE")
                    }
                }
            }
            xml.commonPrefixes(of: page.listing, names)
        }
    }
}
