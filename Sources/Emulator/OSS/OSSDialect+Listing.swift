import Basics

/// Listings of objects and uploads.
extension OSSDialect {
    static let badEncoding = OSSError.invalidArgument(
        "Invalid Encoding Method specified in Request", name: "encoding-type")
    private static let longestMarker = 1023

    /// What every listing asks for.
    private struct Query {
        let names: NameCoding
        let prefix: ByteString
        let delimiter: ByteString
        let limit: Int

        /// `limitName` is `max-keys` or its kin, 1 to 1000.
        init(_ request: ServerRequest, limitName: String, default number: Int = 100) throws(OSSError) {
            guard let names = NameCoding(request) else { throw OSSDialect.badEncoding }
            self.names = names
            prefix = request.bytes("prefix") ?? ""
            delimiter = request.bytes("delimiter") ?? ""
            let text = request.parameter(limitName) ?? ""
            guard let limit = text.isEmpty ? number : Int(text), (1...1000).contains(limit) else {
                throw OSSError.invalidArgument(
                    "Argument \(limitName) must be an integer between 1 and 1000.", name: limitName, value: text)
            }
            self.limit = limit
            for name in ["prefix", "marker", "start-after", "key-marker"] {
                guard request.bytes(name)?.count ?? 0 <= OSSDialect.longestMarker else {
                    throw OSSError.invalidArgument("The \(name) is too long.", name: name)
                }
            }
        }

        func page(after: ByteString) -> ListingRequest {
            ListingRequest(prefix: prefix, delimiter: delimiter, after: after, limit: limit)
        }

        func write(_ xml: inout XMLWriter, limitElement: String, isTruncated: Bool) {
            xml.element("Prefix", names.encode(prefix))
            xml.element("Delimiter", names.encode(delimiter))
            xml.element(limitElement, limit)
            if names.isURL { xml.element("EncodingType", "url") }
            xml.element("IsTruncated", isTruncated)
        }
    }

    func listObjects(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let bucket = try bucket(call)
        let query = try Query(call.request, limitName: "max-keys")
        let marker = call.request.bytes("marker") ?? ""
        let page = bucket.list(query.page(after: marker))
        return xml("ListBucketResult") { xml in
            xml.element("Name", bucket.name)
            xml.element("Marker", query.names.encode(marker))
            query.write(&xml, limitElement: "MaxKeys", isTruncated: page.next != nil)
            if let next = page.next { xml.element("NextMarker", query.names.encode(next)) }
            contents(page, query.names, showsOwner: true, &xml)
        }
    }

    func listObjectsV2(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        let query = try Query(request, limitName: "max-keys")
        let names = query.names
        var after = request.bytes("start-after") ?? ""
        let token = request.parameter("continuation-token") ?? ""
        if !token.isEmpty {
            guard let place = ContinuationToken.place(token) else {
                throw OSSError.invalidArgument(
                    "The continuation token provided is incorrect", name: "continuation-token", value: token)
            }
            after = place
        }
        let page = bucket.list(query.page(after: after))
        return xml("ListBucketResult") { xml in
            xml.element("Name", bucket.name)
            xml.element("StartAfter", names.encode(request.bytes("start-after") ?? ""))
            if !token.isEmpty { xml.element("ContinuationToken", names.encode(ByteString(token))) }
            query.write(&xml, limitElement: "MaxKeys", isTruncated: page.next != nil)
            xml.element("KeyCount", page.items.count)
            if let next = page.next {
                xml.element("NextContinuationToken", names.encode(ByteString(ContinuationToken.text(next))))
            }
            contents(page, names, showsOwner: request.parameter("fetch-owner") == "true", &xml)
        }
    }

    private func contents(
        _ page: ListingResult<StoredObject>, _ names: NameCoding, showsOwner: Bool, _ xml: inout XMLWriter
    ) {
        let now = options.time.now()
        for case .entry(_, let object) in page.items {
            let record = object.record
            xml.element("Contents") { xml in
                xml.element("Key", names.encode(record.key))
                described(record, &xml)
                if showsOwner { Self.owner(&xml) }
                if let state = record.restoration?.header(now) { xml.element("RestoreInfo", state) }
            }
        }
        xml.commonPrefixes(of: page, names)
    }

    private func described(_ record: ObjectRecord, _ xml: inout XMLWriter) {
        xml.element("LastModified", record.modified.documentTime)
        xml.element("ETag", Self.etag(record))
        xml.element("Type", Self.typeName(record))
        xml.element("Size", record.size)
        xml.element("StorageClass", storageClassName(record))
    }

    func listObjectVersions(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let bucket = try bucket(call)
        let query = try Query(call.request, limitName: "max-keys")
        let names = query.names
        let marker = call.request.bytes("key-marker") ?? ""
        let page = bucket.listVersions(query.page(after: marker), afterVersion: call.request.versionMarker)
        return xml("ListVersionsResult") { xml in
            xml.element("Name", bucket.name)
            xml.element("KeyMarker", names.encode(marker))
            xml.element("VersionIdMarker", call.request.bytes("version-id-marker") ?? "")
            query.write(&xml, limitElement: "MaxKeys", isTruncated: page.listing.next != nil)
            xml.nextMarkers(of: page, names)
            Self.write(page, names, &xml) { object, xml in
                described(object.record, &xml)
                Self.owner(&xml)
            } owner: {
                Self.owner(&$0)
            }
            xml.commonPrefixes(of: page.listing, names)
        }
    }

    func listUploads(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        let query = try Query(request, limitName: "max-uploads", default: 1000)
        let names = query.names
        let (keyMarker, idMarker) = (request.bytes("key-marker") ?? "", request.parameter("upload-id-marker") ?? "")
        let page = bucket.listUploads(query.page(after: keyMarker), afterID: idMarker)
        return xml("ListMultipartUploadsResult") { xml in
            xml.element("Bucket", bucket.name)
            xml.element("KeyMarker", names.encode(keyMarker))
            xml.element("UploadIdMarker", idMarker)
            // Both are there on the last page too: oss2 looks for them.
            xml.element("NextKeyMarker", names.encode(page.isTruncated ? page.items.last?.name ?? "" : ""))
            xml.element("NextUploadIdMarker", page.isTruncated ? page.lastUploadID : "")
            query.write(&xml, limitElement: "MaxUploads", isTruncated: page.isTruncated)
            for case .entry(_, let upload) in page.items {
                xml.element("Upload") { xml in
                    xml.element("Key", names.encode(upload.record.key))
                    xml.element("UploadId", upload.id)
                    xml.element("StorageClass", Self.storageClasses.name(upload.record.description.storageClass))
                    xml.element("Initiated", upload.record.initiated.documentTime)
                }
            }
            xml.commonPrefixes(of: page.listing, names)
        }
    }
}
