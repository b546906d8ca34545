import Basics
import Digests

/// Uploads in parts.
extension OSSDialect {
    /// In bytes; binds all parts but the last, and only when the upload is completed.
    private static let smallestPart: Int64 = 100 << 10

    static func etag(_ part: PartRecord) -> String { "\"\(Departures.ofPart(part.md5).uppercased())\"" }

    func headers(of part: PartRecord) -> [Field] {
        [Field("ETag", Self.etag(part))] + (part.crc64.map { [Field("x-oss-hash-crc64ecma", String($0))] } ?? [])
    }

    func initiateUpload(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        guard let names = NameCoding(request) else { throw Self.badEncoding }
        let condition = Self.writeCondition(request, bucket)
        if condition.mustBeAbsent, (try? bucket.object(call.key)) != nil { throw OSSError(.conditionFailed) }
        let record = UploadRecord(
            key: call.key, initiated: options.time.now(), description: try description(request),
            checksumAlgorithm: nil, wantsFullChecksum: false)
        let upload = try OSSError.storing { () throws(StorageError) in try bucket.beginUpload(record) }
        return xml("InitiateMultipartUploadResult") { xml in
            if names.isURL { xml.element("EncodingType", "url") }
            xml.element("Bucket", bucket.name)
            xml.element("Key", names.encode(call.key))
            xml.element("UploadId", upload.id)
        }.adding(Self.encryptionHeaders(record.description.encryption))
    }

    static func badPartNumber(_ text: String?) -> OSSError {
        .invalidArgument("PartNumber must be an integer between 1 and 10000.", name: "partNumber", value: text)
    }

    func uploadPart(_ call: OSSCall) async throws(OSSError) -> ServerResponse {
        let bucket = try bucket(call)
        let (upload, number) = try uploadAndNumber(call, in: bucket)
        let (received, crc64) = try await receive(call, into: bucket)
        let part = PartRecord(
            number: number, size: received.content.size, md5: received.md5, modified: options.time.now(), crc64: crc64)
        try OSSError.storing { () throws(StorageError) in
            try upload.put(part, content: received.content, sync: options.sync)
        }
        return ServerResponse(
            status: 200, headers: headers(of: part) + [Field("Content-MD5", Base64.encode(part.md5))])
    }

    func listParts(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        guard let names = NameCoding(request) else { throw Self.badEncoding }
        let upload = try upload(call, in: bucket)
        guard let limit = request.pageLimit("max-parts", default: 1000), limit > 0 else {
            throw OSSError.invalidArgument("max-parts must be between 1 and 1000.", name: "max-parts")
        }
        let marker = request.parameter("part-number-marker").flatMap { Int($0) } ?? 0
        let rest = upload.parts.filter { $0.number > marker }
        let page = rest.prefix(limit)
        return xml("ListPartsResult") { xml in
            xml.element("Bucket", bucket.name)
            if names.isURL { xml.element("EncodingType", "url") }
            xml.element("Key", names.encode(call.key))
            xml.element("UploadId", upload.id)
            xml.element("PartNumberMarker", marker)
            xml.element("NextPartNumberMarker", page.last?.number ?? 0)
            xml.element("MaxParts", limit)
            xml.element("IsTruncated", rest.count > page.count)
            xml.element("StorageClass", Self.storageClasses.name(upload.record.description.storageClass))
            for part in page {
                xml.element("Part") { xml in
                    xml.element("PartNumber", part.number)
                    xml.element("LastModified", part.modified.documentTime)
                    xml.element("ETag", Self.etag(part))
                    if let crc64 = part.crc64 { xml.element("HashCrc64ecma", String(crc64)) }
                    xml.element("Size", part.size)
                }
            }
        }
    }

    func completeUpload(_ call: OSSCall) async throws(OSSError) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        guard let names = NameCoding(request) else { throw Self.badEncoding }
        let hasCallback = try Self.hasCallback(request)
        let body = try await call.payload.collect()
        let upload = try upload(call, in: bucket)
        let chosen = try chosenParts(body, upload, request)
        let access = try Self.access(request, header: "x-oss-object-acl")
        let stored: StoredObject
        do throws(StorageError) {
            let parts = try bucket.parts(
                of: upload, chosen, smallestPart: min(options.smallestPart, Self.smallestPart))
            var record = ObjectRecord(
                key: upload.record.key, size: parts.reduce(0) { $0 + $1.size }, etag: MultipartTag.text(parts),
                modified: options.time.now(), description: upload.record.description,
                crc64: CRC64ECMA.combine(parts), parts: parts.map { $0.with(segments: []) })
            if let access { record.description.access = access }
            stored = try bucket.complete(upload, parts: parts, as: record, if: Self.writeCondition(request, bucket))
        } catch .conditionFailed {
            throw OSSError(409, "FileAlreadyExists", OSSError(.conditionFailed).message, ec: "0042-00000214")
        } catch { throw OSSError(error) }
        let response = xml("CompleteMultipartUploadResult") { xml in
            if names.isURL { xml.element("EncodingType", "url") }
            xml.element("Location", "http://\(request.header("host") ?? "")\(request.path)")
            xml.element("Bucket", call.target.bucket)
            xml.element("Key", names.encode(call.key))
            xml.element("ETag", Self.etag(stored.record))
        }.adding(try written(stored).headers)
        return try Self.calledBack(hasCallback, response)
    }

    /// The parts that the body names, or all of them with `x-oss-complete-all: yes` and no body.
    private func chosenParts(
        _ body: [UInt8], _ upload: Upload, _ request: ServerRequest
    ) throws(OSSError) -> [ChosenPart] {
        if request.header("x-oss-complete-all")?.lowercased() == "yes" {
            guard body.isEmpty else {
                throw OSSError.invalidArgument(
                    "The body must be empty when all parts are completed.", name: "x-oss-complete-all")
            }
            let all = upload.parts.map { ChosenPart(number: $0.number, etag: nil) }
            guard !all.isEmpty else { throw OSSError(.invalidPart(number: 1)) }
            return all
        }
        guard let root = XMLReader.parse(body), root.name == "CompleteMultipartUpload" else {
            throw OSSError.malformedXML
        }
        return try Self.chosenParts(root)
    }
}
