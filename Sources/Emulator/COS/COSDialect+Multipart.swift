import Basics
import Digests

/// Uploads in parts (COS API, "Multipart Upload").
extension COSDialect {
    /// In bytes; binds all parts but the last.
    private static let smallestPart: Int64 = 1 << 20
    private static let namespace = "xmlns=\"http://www.qcloud.com/document/product/436/7751\""

    func initiateMultipartUpload(_ call: COSCall) throws(COSError) -> ServerResponse {
        let bucket = try bucket(call)
        try checkKey(call.key)
        let record = UploadRecord(
            key: call.key, initiated: options.time.now(), description: try description(call.request),
            checksumAlgorithm: nil, wantsFullChecksum: false)
        let upload = try COSError.storing { () throws(StorageError) in try bucket.beginUpload(record) }
        return xml("InitiateMultipartUploadResult") { xml in
            xml.element("Bucket", bucket.name)
            xml.element("Key", call.key)
            xml.element("UploadId", upload.id)
        }.adding(Self.encryptionHeaders(record.description.encryption))
    }

    static func badPartNumber(_ text: String?) -> COSError {
        .invalidArgument("partNumber must be a number from 1 to \(mostParts).")
    }

    func uploadPart(_ call: COSCall) async throws(COSError) -> ServerResponse {
        let bucket = try bucket(call)
        let (upload, number) = try uploadAndNumber(call, in: bucket)
        let encryption = upload.record.description.encryption
        try Self.checkCustomerKey(encryption, call.request)
        try checkTrafficLimit(call.request)
        let received = try await receive(call, into: bucket)
        let part = PartRecord(
            number: number, size: received.content.size, md5: received.md5, modified: options.time.now(),
            crc64: received.crc64)
        try COSError.storing { () throws(StorageError) in
            try upload.put(part, content: received.content, sync: options.sync)
        }
        let headers = [
            Field("ETag", "\"\(Departures.ofPart(part.md5))\""), Field("x-cos-hash-crc64ecma", String(received.crc64)),
        ]
        return ServerResponse(status: 200, headers: headers + Self.encryptionHeaders(encryption))
    }

    func listParts(_ call: COSCall) throws(COSError) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        let upload = try upload(call, in: bucket)
        guard let names = NameCoding(request) else {
            throw COSError.invalidArgument("The encoding-type must be url.")
        }
        guard let limit = request.pageLimit("max-parts", default: 1000), limit > 0 else {
            throw COSError.invalidArgument("max-parts must be a number from 1 to 1000.")
        }
        let marker = request.parameter("part-number-marker").flatMap { Int($0) } ?? 0
        let rest = upload.parts.filter { $0.number > marker }
        let page = rest.prefix(limit)
        return xml("ListPartsResult") { xml in
            xml.element("Bucket", bucket.name)
            xml.element("Encoding-type", names.isURL ? "url" : "")
            xml.element("Key", names.encode(call.key))
            xml.element("UploadId", upload.id)
            Self.owner(&xml, as: "Initiator")
            Self.owner(&xml)
            xml.element("StorageClass", Self.storageClasses.name(upload.record.description.storageClass))
            xml.element("PartNumberMarker", marker)
            xml.element("NextPartNumberMarker", page.last?.number ?? marker)
            xml.element("MaxParts", limit)
            xml.element("IsTruncated", rest.count > page.count)
            for part in page {
                xml.element("Part") { xml in
                    xml.element("PartNumber", part.number)
                    xml.element("LastModified", part.modified.documentTime)
                    xml.element("ETag", "\"\(Departures.ofPart(part.md5))\"")
                    xml.element("Size", part.size)
                }
            }
        }
    }

    /// A completion that is repeated finds no upload any more: then only HEAD tells what became of the first.
    func completeMultipartUpload(_ call: COSCall) async throws(COSError) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        let root = try await call.payload.document("CompleteMultipartUpload")
        let upload = try upload(call, in: bucket)
        try Self.checkCustomerKey(upload.record.description.encryption, request)
        let chosen = try Self.chosenParts(root)
        let condition = Self.writeCondition(request, bucket)
        let smallest = min(options.smallestPart, Self.smallestPart)
        let parts = try COSError.storing { () throws(StorageError) in
            try bucket.parts(of: upload, chosen, smallestPart: smallest)
        }
        try Self.checkContiguous(parts)
        let record = Self.assemble(upload, parts, modified: options.time.now())
        let object = try Self.storing { () throws(StorageError) in
            try bucket.complete(upload, parts: parts, as: record, if: condition)
        }
        let host = request.header("host") ?? ""
        return xml("CompleteMultipartUploadResult", attributes: Self.namespace) { xml in
            xml.element("Location", "http://\(host)\(request.path)")
            xml.element("Bucket", bucket.name)
            xml.element("Key", call.key)
            xml.element("ETag", "\"\(object.record.etag)\"")
        }.adding(
            [try checksum(of: object)] + Self.encryptionHeaders(record.description.encryption)
                + Self.versionHeaders(object.record))
    }

    /// Parts are counted from 1 without a gap, unlike those of S3.
    private static func checkContiguous(_ parts: [PartRecord]) throws(COSError) {
        for (index, part) in parts.enumerated() where part.number != index + 1 {
            throw COSError(.invalidPart(number: index + 1))
        }
    }

    private static func assemble(_ upload: Upload, _ parts: [PartRecord], modified: Timestamp) -> ObjectRecord {
        let description = upload.record.description
        let tag = description.encryption.etag(MD5.of(parts.flatMap(\.md5)))
        return ObjectRecord(
            key: upload.record.key, size: parts.reduce(0) { $0 + $1.size }, etag: "\(tag)-\(parts.count)",
            modified: modified, description: description, crc64: CRC64ECMA.combine(parts),
            parts: parts.map { $0.with(segments: []) })
    }
}
