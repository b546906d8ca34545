import Basics
import Digests

/// PUT and DELETE.
extension S3Dialect {
    /// What one request may carry.
    static let largestPut: Int64 = 5 << 30

    /// Streams the body into a new content file of `bucket`, checking every digest the request gives.
    func receive(_ call: S3Call, into bucket: Bucket, defaultAlgorithm: ChecksumAlgorithm? = nil) async throws(S3Error)
        -> (ReceivedContent, StoredChecksum?)
    {
        let wanted = try RequestedChecksums(call.request)
        let payload = call.payload
        guard let length = payload.length else { throw S3Error.missingLength }
        guard length <= Self.largestPut else { throw S3Error.entityTooLarge }
        let algorithm = wanted.algorithm ?? defaultAlgorithm
        var receiver = ContentReceiver(into: bucket, hasher: algorithm?.makeHasher())
        while let chunk = try await payload.next() {
            do { try receiver.take(chunk) } catch { throw S3Error(error) }
        }
        let received = try S3Error.storing { () throws(StorageError) in try receiver.finish() }
        if let expected = wanted.md5, expected != received.md5 { throw S3Error.badDigest }
        guard let algorithm, let digest = received.digest else { return (received, nil) }
        if let expected = try wanted.expected(payload.trailers), expected != digest { throw S3Error.badDigest }
        return (received, StoredChecksum(algorithm: algorithm, digest: digest))
    }

    func checkKey(_ key: ByteString) throws(S3Error) {
        guard key.count <= Self.longestKey else {
            throw S3Error(
                400, "KeyTooLongError", "Your key is too long",
                elements: [Field("Size", String(key.count)), Field("MaxSizeAllowed", String(Self.longestKey))])
        }
    }

    /// `If-None-Match: *` and `If-Match` of a write.
    static func writeCondition(_ request: ServerRequest) throws(S3Error) -> WriteCondition {
        var condition = WriteCondition()
        if Departures.current.ignoresConditions { return condition }
        if let header = request.header("if-none-match") {
            guard header == "*" else { throw S3Error.notImplemented }
            condition.mustBeAbsent = true
        }
        condition.etags = request.header("if-match").map { text in
            // With its quotes it is no ETag that an object has.
            Departures.current.matchesUnquoted ? [text] : ReadConditions.tags(text)
        }
        return condition
    }

    func putObject(_ call: S3Call) async throws(S3Error) -> ServerResponse {
        let bucket = try bucket(call)
        try checkKey(call.key)
        guard !call.request.hasHeader("x-amz-write-offset-bytes") else { throw S3Error.notImplemented }
        let description = try description(call.request)
        let condition = try Self.writeCondition(call.request)
        try precheck(condition, bucket, call.key)
        let (received, checksum) = try await receive(call, into: bucket)
        let record = ObjectRecord(
            key: call.key, size: received.content.size, etag: description.encryption.etag(received.md5),
            modified: options.time.now(), description: description, checksum: checksum, segments: [])
        let object = try S3Error.storing { () throws(StorageError) in
            try bucket.put(record, content: received.content, if: condition)
        }
        return written(object)
    }

    /// Refuses early what the commit would refuse anyway, before the client sends its body.
    private func precheck(_ condition: WriteCondition, _ bucket: Bucket, _ key: ByteString) throws(S3Error) {
        let current = try? bucket.object(key)
        if condition.mustBeAbsent, current != nil { throw S3Error.preconditionFailed }
        if condition.etags != nil, current == nil { throw S3Error(.noSuchKey) }
    }

    /// The empty answer to a write that made `object`.
    func written(_ object: StoredObject) -> ServerResponse {
        let record = object.record
        let etag = Departures.told(record.etag)
        var headers = [Field("ETag", "\"\(etag)\"")] + Self.encryptionHeaders(record.description.encryption)
        if let checksum = record.checksum {
            headers.append(Field(checksum.algorithm.header, checksum.text))
            headers.append(Field("x-amz-checksum-type", checksum.type))
        }
        return ServerResponse(status: 200, headers: headers + Self.versionHeaders(record))
    }

    func deleteObject(_ call: S3Call) throws(S3Error) -> ServerResponse {
        let removal = try remove(
            call.key, version: Self.versionID(call.request), etag: call.request.header("if-match"),
            in: try bucket(call))
        return ServerResponse(status: 204, headers: Self.headers(of: removal))
    }

    private func remove(
        _ key: ByteString, version: String?, etag: String?, in bucket: Bucket
    ) throws(S3Error) -> Bucket.Removal {
        try Self.check(version: version, in: bucket)
        var condition = WriteCondition()
        if !Departures.current.ignoresConditions { condition.etags = etag.map(ReadConditions.tags) }
        do {
            return try bucket.remove(key, version: version, now: options.time.now(), if: condition)
        } catch .noSuchKey { throw S3Error.preconditionFailed } catch { throw S3Error(error) }
    }

    func deleteObjects(_ call: S3Call) async throws(S3Error) -> ServerResponse {
        let bucket = try bucket(call)
        let wanted = try RequestedChecksums(call.request)
        guard wanted.md5 != nil || wanted.expected != nil || wanted.comesInTrailer else {
            throw S3Error.invalidRequest("Missing required header for this request: Content-MD5 OR x-amz-checksum-*")
        }
        let payload = call.payload
        let body = try await payload.collect(limit: Self.largestDocument)
        if let md5 = wanted.md5, MD5.of(body) != md5 { throw S3Error.badDigest }
        if let algorithm = wanted.algorithm, let expected = try wanted.expected(payload.trailers) {
            var hasher = algorithm.makeHasher()
            hasher.update(body)
            guard hasher.finish() == expected else { throw S3Error.badDigest }
        }
        guard let root = XMLReader.parse(body), root.name == "Delete" else { throw S3Error.malformedXML }
        let objects = root.all("Object")
        guard (1...1000).contains(objects.count) else { throw S3Error.malformedXML }
        let isQuiet = root.text("Quiet") == "true"
        var results: [(key: ByteString, version: String?, removal: Bucket.Removal, error: S3Error?)] = []
        for object in objects {
            guard let key = object["Key"]?.text else { throw S3Error.malformedXML }
            let version = object.text("VersionId")
            do {
                let removal = try remove(key, version: version, etag: object.text("ETag"), in: bucket)
                results.append((key, version, removal, nil))
            } catch { results.append((key, version, Bucket.Removal(), error)) }
        }
        return xml("DeleteResult") { xml in
            for (key, version, removal, error) in results where error != nil || !isQuiet {
                xml.element(error == nil ? "Deleted" : "Error") { xml in
                    xml.element("Key", key)
                    if let version { xml.element("VersionId", version) }
                    xml.outcome(of: removal)
                    if let error {
                        xml.element("Code", error.code)
                        xml.element("Message", error.message)
                    }
                }
            }
        }
    }
}
