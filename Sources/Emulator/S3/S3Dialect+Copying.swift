import Basics
import Digests

/// CopyObject and UploadPartCopy.
extension S3Dialect {
    /// The object a copy reads, with every condition on it checked.
    func copySource(_ call: S3Call) throws(S3Error) -> (bucket: Bucket, object: StoredObject, isVersion: Bool) {
        guard let source = CopySource(call.request.header("x-amz-copy-source") ?? "") else {
            throw S3Error.invalidArgument("Copy Source must mention the source bucket and key: sourcebucket/sourcekey")
        }
        let bucket = try S3Error.storing { () throws(StorageError) in try library.bucket(source.bucket) }
        if let version = source.version, bucket.version(version, of: source.key)?.isDeleteMarker == true {
            throw S3Error.invalidRequest(
                "The source of a copy request may not specifically refer to a delete marker by version id.")
        }
        let object = try object(source.key, version: source.version, in: bucket)
        try Self.checkCustomerKey(
            object.record, call.request, prefix: "x-amz-copy-source-server-side-encryption-customer-")
        guard
            Departures.current.ignoresConditions
                || ReadConditions(call.request, prefix: "x-amz-copy-source-").check(object.record) == .go
        else { throw S3Error.preconditionFailed }
        try checkAccessible(object.record)
        return (bucket, object, source.version != nil)
    }

    func copyObject(_ call: S3Call) throws(S3Error) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        try checkKey(call.key)
        let (sourceBucket, source, isVersion) = try copySource(call)
        guard source.record.size <= Self.largestPut else {
            throw S3Error.invalidRequest(
                "The specified copy source is larger than the maximum allowable size for a copy source: 5368709120")
        }
        let replacesMetadata = try replaces(request.header("x-amz-metadata-directive"))
        let replacesTags = try replaces(request.header("x-amz-tagging-directive"))
        // Class, access and encryption are never copied.
        var description = try description(request)
        if !replacesMetadata {
            description.metadata = source.record.description.metadata
            let redirect = description.headers.filter { $0.name == "x-amz-website-redirect-location" }
            description.headers =
                source.record.description.headers.filter { $0.name != "x-amz-website-redirect-location" } + redirect
        }
        if !replacesTags { description.tags = source.record.description.tags }
        let changesNothing =
            !replacesMetadata && !isVersion && !request.hasHeader("x-amz-storage-class")
            && !request.hasHeader("x-amz-server-side-encryption")
            && !request.hasHeader("x-amz-website-redirect-location")
        if sourceBucket === bucket, source.record.key == call.key, changesNothing {
            throw S3Error.invalidRequest(
                "This copy request is illegal because it is trying to copy an object to itself without changing the "
                    + "object's metadata, storage class, website redirect location or encryption attributes.")
        }
        let object = try copy(source, to: call.key, in: bucket, description, request)
        return xml("CopyObjectResult") { xml in
            xml.element("LastModified", object.record.modified.documentTime)
            xml.element("ETag", "\"\(Departures.told(object.record.etag))\"")
            if let checksum = object.record.checksum {
                xml.element(checksum.algorithm.element, checksum.text)
                xml.element("ChecksumType", checksum.type)
            }
        }.adding(
            Self.encryptionHeaders(description.encryption) + Self.versionHeaders(object.record)
                + Self.sourceHeaders(source, in: sourceBucket))
    }

    private func copy(
        _ source: StoredObject, to key: ByteString, in bucket: Bucket, _ description: ObjectDescription,
        _ request: ServerRequest
    ) throws(S3Error) -> StoredObject {
        let whole: ByteRange = 0..<source.record.size
        // A source that came in parts or by appending becomes one piece: its tag and checksum are those of the bytes.
        let asked = request.header("x-amz-checksum-algorithm").flatMap { ChecksumAlgorithm(rawValue: $0.uppercased()) }
        let algorithm = asked ?? source.record.checksum?.algorithm
        var checksum = source.record.checksum
        var md5 = Hex.decode(source.record.etag)
        if !source.record.etagIsMD5 || algorithm != checksum?.algorithm || checksum?.composedOf != nil {
            let digests = try digest(source.content, whole, algorithm)
            (md5, checksum) = (digests.md5, digests.checksum)
        }
        let condition = try Self.writeCondition(request)
        return try S3Error.storing { () throws(StorageError) in
            let content = try bucket.duplicate(source.content, range: whole)
            let record = ObjectRecord(
                key: key, size: source.record.size, etag: description.encryption.etag(md5 ?? []),
                modified: options.time.now(), description: description, checksum: checksum, segments: [])
            return try bucket.put(record, content: content, if: condition)
        }
    }

    private func digest(
        _ content: Content, _ range: ByteRange, _ algorithm: ChecksumAlgorithm?
    ) throws(S3Error) -> (md5: [UInt8], checksum: StoredChecksum?) {
        let digests = try S3Error.storing { () throws(StorageError) in
            try content.digest(range, with: algorithm?.makeHasher())
        }
        let checksum = algorithm.flatMap { algorithm in
            digests.digest.map { StoredChecksum(algorithm: algorithm, digest: $0) }
        }
        return (digests.md5, checksum)
    }

    private func replaces(_ directive: String?) throws(S3Error) -> Bool {
        switch directive {
        case nil, "COPY": return false
        case "REPLACE": return true
        default: throw S3Error.invalidArgument("Unknown metadata directive.")
        }
    }

    func uploadPartCopy(_ call: S3Call) throws(S3Error) -> ServerResponse {
        let bucket = try bucket(call)
        let (upload, number) = try uploadAndNumber(call, in: bucket)
        let source = try copySource(call).object
        var range: ByteRange = 0..<source.record.size
        if let header = call.request.header("x-amz-copy-source-range") {
            guard let within = RequestedRange(header)?.range(within: source.record.size) else {
                throw S3Error.invalidArgument(
                    "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are "
                        + "the zero-based offsets of the first and last bytes to copy")
            }
            range = within
        }
        guard range.length <= Self.largestPut else { throw S3Error.entityTooLarge }
        let digests = try digest(source.content, range, upload.record.checksumAlgorithm)
        let part = PartRecord(
            number: number, size: range.length, md5: digests.md5, modified: options.time.now(),
            checksum: digests.checksum, segments: [])
        try S3Error.storing { () throws(StorageError) in
            let content = try bucket.duplicate(source.content, range: range)
            try upload.put(part, content: content, sync: options.sync)
        }
        return xml("CopyPartResult") { xml in
            xml.element("LastModified", part.modified.documentTime)
            xml.element("ETag", "\"\(Departures.ofPart(part.md5))\"")
            if let checksum = part.checksum { xml.element(checksum.algorithm.element, checksum.text) }
        }
    }
}
