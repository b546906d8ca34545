import Basics
import Digests

/// Copies of objects and of parts (COS API, "PUT Object - Copy" and "Multipart Upload").
extension COSDialect {
    /// The object a copy reads, with every condition on it checked.
    private func copySource(
        _ call: COSCall
    ) throws(COSError) -> (bucket: Bucket, object: StoredObject, isVersion: Bool) {
        let request = call.request
        let (text, named) = CopySource.split(request.header("x-cos-copy-source") ?? "")
        guard let place = place(text, request) else {
            throw COSError(
                400, "InvalidCopySource",
                "x-cos-copy-source must be the source's host and encoded key without a scheme, as in "
                    + "bucket-1250000000.cos.ap-guangzhou.myqcloud.com/key.")
        }
        let version = named.flatMap { $0.isEmpty ? nil : $0 }
        let bucket = try COSError.storing { () throws(StorageError) in try library.bucket(place.bucket) }
        let object = try object(place.key, version: version, in: bucket)
        let source = try resolved(object, in: bucket)
        try Self.checkCustomerKey(source.record.description.encryption, request, prefix: Self.sourceKeyPrefix)
        guard ReadConditions(request, prefix: "x-cos-copy-source-").check(source.record) == .go else {
            throw COSError.preconditionFailed
        }
        try checkAccessible(source.record)
        return (bucket, source, version != nil)
    }

    /// Where a source's host and path point; nil unless the host is one of COS, of ours, or the one that was asked.
    private func place(_ text: Substring, _ request: ServerRequest) -> RequestTarget? {
        guard let mark = text.utf8.firstIndex(of: UInt8(ascii: "/")), mark > text.startIndex else { return nil }
        let asked = ServerRequest(
            method: "GET", target: String(text[mark...]), fields: [Field("Host", String(text[..<mark]))])
        let target = RequestTarget(cos: asked, domains: options.domains)
        let isKnown =
            target.hostBucket != nil || COSHost.isOfCOS(asked.hostName) || asked.hostName == request.hostName
        return isKnown && target.hasValidPath && !target.bucket.isEmpty && !target.key.isEmpty ? target : nil
    }

    private func isReplaced(_ request: ServerRequest, _ name: String) throws(COSError) -> Bool {
        switch request.header(name) {
        case nil, "Copy": return false
        case "Replaced": return true
        case let directive?:
            throw COSError.invalidArgument("The \(name) '\(directive)' is neither Copy nor Replaced.")
        }
    }

    func putObjectCopy(_ call: COSCall) throws(COSError) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        try checkKey(call.key)
        let (sourceBucket, source, isVersion) = try copySource(call)
        guard source.record.size <= Self.largestPut else { throw COSError.entityTooLarge }
        let replacesMetadata = try isReplaced(request, "x-cos-metadata-directive")
        let replacesTags = try isReplaced(request, "x-cos-tagging-directive")
        // Class, access and encryption are never copied.
        var description = try description(request)
        if !replacesMetadata {
            description.metadata = source.record.description.metadata
            description.headers = source.record.description.headers
        }
        if !replacesTags { description.tags = source.record.description.tags }
        let changesNothing =
            !replacesMetadata && !isVersion && !request.hasHeader("x-cos-storage-class")
            && description.encryption == .unstated
        if sourceBucket === bucket, source.record.key == call.key, changesNothing {
            throw COSError.invalidRequest(
                "This copy request is illegal because it is trying to copy an object to itself without changing the "
                    + "object's metadata, storage class or encryption.")
        }
        let object = try copy(source, to: call.key, in: bucket, description)
        let sum = try checksum(of: object)
        return xml("CopyObjectResult") { xml in
            xml.element("ETag", "\"\(object.record.etag)\"")
            xml.element("CRC64", sum.value)
            xml.element("LastModified", Timestamp(seconds: object.record.modified.seconds).iso8601())
        }.adding(
            [sum] + Self.encryptionHeaders(description.encryption) + Self.versionHeaders(object.record)
                + Self.sourceHeaders(source, in: sourceBucket))
    }

    private func copy(
        _ source: StoredObject, to key: ByteString, in bucket: Bucket, _ description: ObjectDescription
    ) throws(COSError) -> StoredObject {
        let whole: ByteRange = 0..<source.record.size
        return try COSError.storing { () throws(StorageError) in
            // Whatever the source came in, the copy is one piece, and its tag that of the bytes.
            let digests = try source.content.digest(whole)
            let content = try bucket.duplicate(source.content, range: whole)
            let record = ObjectRecord(
                key: key, size: source.record.size, etag: description.encryption.etag(digests.md5),
                modified: options.time.now(), description: description, crc64: try source.crc64())
            return try bucket.put(record, content: content)
        }
    }

    func uploadPartCopy(_ call: COSCall) throws(COSError) -> ServerResponse {
        let bucket = try bucket(call)
        let (upload, number) = try uploadAndNumber(call, in: bucket)
        try Self.checkCustomerKey(upload.record.description.encryption, call.request)
        let source = try copySource(call).object
        var range: ByteRange = 0..<source.record.size
        // The official SDK sends the header empty for the whole object.
        if let header = call.request.header("x-cos-copy-source-range"), !header.isEmpty {
            guard let within = RequestedRange(header)?.range(within: source.record.size) else {
                throw COSError.invalidArgument(
                    "The x-cos-copy-source-range '\(header)' must be bytes=first-last, within the source's "
                        + "\(source.record.size) bytes.")
            }
            range = within
        }
        guard range.length <= Self.largestPut else { throw COSError.entityTooLarge }
        let part = try COSError.storing { () throws(StorageError) in
            let digests = try source.content.digest(range, with: CRC64ECMA())
            let part = PartRecord(
                number: number, size: range.length, md5: digests.md5, modified: options.time.now(),
                crc64: digests.digest.map { CRC64ECMA.value(ofDigest: $0) })
            let content = try bucket.duplicate(source.content, range: range)
            try upload.put(part, content: content, sync: options.sync)
            return part
        }
        return xml("CopyPartResult") { xml in
            xml.element("ETag", "\"\(Departures.ofPart(part.md5))\"")
            xml.element("LastModified", Timestamp(seconds: part.modified.seconds).iso8601())
        }
    }
}
