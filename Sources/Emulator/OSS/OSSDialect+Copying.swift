import Basics
import Digests

/// CopyObject and UploadPartCopy.
extension OSSDialect {
    /// Larger objects are copied in parts.
    private static let largestCopy: Int64 = 1 << 30

    private enum Source {
        case object(StoredObject, bucket: Bucket)
        /// A condition on it says that there is nothing to copy.
        case notModified
    }

    /// The object a copy reads, with every condition on it checked.
    private func copySource(_ call: OSSCall, into bucket: Bucket) throws(OSSError) -> Source {
        let header = call.request.header("x-oss-copy-source") ?? ""
        guard let source = CopySource(header) else {
            throw OSSError.invalidArgument(
                "Copy Source must mention the source bucket and key: /sourcebucket/sourcekey.",
                name: "x-oss-copy-source", value: header)
        }
        let from = try OSSError.storing { () throws(StorageError) in try library.bucket(source.bucket) }
        let object = try object(source.key, version: source.version, in: from)
        guard from.record.region == bucket.record.region else {
            throw OSSError(
                403, "AccessDenied", "Target object does not reside in the same data center as source object.")
        }
        switch ReadConditions(call.request, prefix: "x-oss-copy-source-", foldsCase: true).check(object.record) {
        case .go: break
        case .failed: throw OSSError.preconditionFailed
        case .notModified: return .notModified
        }
        if case .appendable = object.record.kind { throw OSSError.notSupported }
        try checkAccessible(object.record)
        return .object(object, bucket: from)
    }

    func copyObject(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        guard case .object(let source, let sourceBucket) = try copySource(call, into: bucket) else {
            return ServerResponse(status: 304)
        }
        guard source.record.size <= Self.largestCopy else {
            throw OSSError(
                400, "EntityTooLarge",
                "The source object is too large to be copied by one request; copy it in parts.")
        }
        // Onto itself, a copy always replaces, whatever the request says (OSS API, "CopyObject").
        let isOntoItself = sourceBucket === bucket && source.record.key == call.key
        let replacesMetadata = try replaces(request, "x-oss-metadata-directive") || isOntoItself
        let replacesTags = try replaces(request, "x-oss-tagging-directive")
        // Class, access and encryption are never copied.
        var description = try description(request)
        if !replacesMetadata {
            (description.headers, description.metadata) =
                (source.record.description.headers, source.record.description.metadata)
        }
        if !replacesTags { description.tags = source.record.description.tags }
        let whole: ByteRange = 0..<source.record.size
        let object = try OSSError.storing { () throws(StorageError) in
            // A source that came in parts becomes one piece: its tag is that of the bytes.
            let isMD5 = source.record.parts.isEmpty && source.record.description.encryption.showsMD5
            let etag = isMD5 ? source.record.etag : Hex.encode(try source.content.digest(whole).md5)
            let record = ObjectRecord(
                key: call.key, size: source.record.size, etag: etag, modified: options.time.now(),
                description: description, crc64: try source.crc64(), kind: source.record.kind)
            let content = try bucket.duplicate(source.content, range: whole)
            return try bucket.put(record, content: content, if: Self.writeCondition(request, bucket))
        }
        return xml("CopyObjectResult") { xml in
            xml.element("ETag", Self.etag(object.record))
            xml.element("LastModified", object.record.modified.documentTime)
        }.adding(try written(object).headers + Self.sourceHeaders(source, in: sourceBucket))
    }

    private func replaces(_ request: ServerRequest, _ name: String) throws(OSSError) -> Bool {
        switch request.header(name)?.uppercased() {
        case nil, "COPY": return false
        case "REPLACE": return true
        case let value?: throw OSSError.invalidArgument("Unknown directive.", name: name, value: value)
        }
    }

    func uploadPartCopy(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let bucket = try bucket(call)
        let (upload, number) = try uploadAndNumber(call, in: bucket)
        guard case .object(let source, _) = try copySource(call, into: bucket) else {
            return ServerResponse(status: 304)
        }
        var range: ByteRange = 0..<source.record.size
        if let header = call.request.header("x-oss-copy-source-range") {
            guard let within = RequestedRange(header)?.range(within: source.record.size) else {
                throw OSSError(
                    416, "InvalidRange", "The requested range cannot be satisfied.",
                    elements: [
                        Field("ActualObjectSize", String(source.record.size)), Field("RangeRequested", header),
                    ])
            }
            range = within
        }
        guard range.length <= Self.largestPut else { throw OSSError.entityTooLarge }
        let part = try OSSError.storing { () throws(StorageError) in
            let digests = try source.content.digest(range, with: CRC64ECMA())
            let part = PartRecord(
                number: number, size: range.length, md5: digests.md5, modified: options.time.now(),
                crc64: CRC64ECMA.value(ofDigest: digests.digest ?? []))
            try upload.put(part, content: try bucket.duplicate(source.content, range: range), sync: options.sync)
            return part
        }
        return xml("CopyPartResult") { xml in
            xml.element("LastModified", part.modified.documentTime)
            xml.element("ETag", Self.etag(part))
        }.adding(headers(of: part))
    }
}
