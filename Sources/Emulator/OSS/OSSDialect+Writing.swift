import Basics
import Digests

/// PUT, appending and DELETE.
extension OSSDialect {
    /// What one request may carry, and what appending may make.
    static let largestPut: Int64 = 5 << 30

    /// `x-oss-forbid-overwrite: true`; there are no other conditions on writes. It has no effect in a bucket that has or
    /// had versioning (OSS API, "PutObject").
    static func writeCondition(_ request: ServerRequest, _ bucket: Bucket) -> WriteCondition {
        var condition = WriteCondition()
        condition.mustBeAbsent =
            !bucket.keepsVersions && request.header("x-oss-forbid-overwrite")?.lowercased() == "true"
        return condition
    }

    /// The body as content of `bucket`, with its CRC-64; `Content-MD5` and a CRC-64 the client gave are checked.
    func receive(_ call: OSSCall, into bucket: Bucket) async throws(OSSError) -> (ReceivedContent, crc64: UInt64) {
        let received = try await call.payload.receive(into: bucket, limit: Self.largestPut, hasher: CRC64ECMA())
        let crc64 = CRC64ECMA.value(ofDigest: received.digest ?? [])
        if let given = call.request.header("x-oss-hash-crc64ecma"), given != String(crc64) {
            throw OSSError(400, "InvalidCRC64", "The CRC64 you specified did not match what we received.")
        }
        return (received, crc64)
    }

    func putObject(_ call: OSSCall) async throws(OSSError) -> ServerResponse {
        let bucket = try bucket(call)
        let hasCallback = try Self.hasCallback(call.request)
        let description = try description(call.request)
        let condition = Self.writeCondition(call.request, bucket)
        try precheck(condition, bucket, call.key)
        let (received, crc64) = try await receive(call, into: bucket)
        let record = ObjectRecord(
            key: call.key, size: received.content.size, etag: Hex.encode(received.md5), modified: options.time.now(),
            description: description, crc64: crc64)
        let object = try OSSError.storing { () throws(StorageError) in
            try bucket.put(record, content: received.content, if: condition)
        }
        return try Self.calledBack(
            hasCallback, try written(object).adding([Field("Content-MD5", Base64.encode(received.md5))]))
    }

    /// Refuses early what the commit would refuse anyway, before the client sends its body.
    private func precheck(_ condition: WriteCondition, _ bucket: Bucket, _ key: ByteString) throws(OSSError) {
        if condition.mustBeAbsent, (try? bucket.object(key)) != nil { throw OSSError(.conditionFailed) }
    }

    /// The empty answer to a write that made `object`.
    func written(_ object: StoredObject) throws(OSSError) -> ServerResponse {
        ServerResponse(
            status: 200,
            headers: try briefHeaders(of: object) + Self.encryptionHeaders(object.record.description.encryption)
                + Self.versionHeaders(object.record))
    }

    func appendObject(_ call: OSSCall) async throws(OSSError) -> ServerResponse {
        let bucket = try bucket(call)
        let position = try position(call.request)
        let current = try? bucket.object(call.key)
        try checkEnd(of: current, at: position)
        let description = try description(call.request)
        let (received, crc64) = try await receive(call, into: bucket)
        let size = position + received.content.size
        guard size <= Self.largestPut else { throw OSSError.entityTooLarge }
        let object: StoredObject
        do throws(StorageError) {
            var record = ObjectRecord(
                key: call.key, size: size, etag: Hex.encode(received.md5), modified: options.time.now(),
                description: description, crc64: crc64, kind: .appendable(isSealed: false))
            if let current {
                // What the first request said stays; of the bytes so far only the tag is at hand.
                record.description = current.record.description
                record.etag = Hex.encode(MD5.of(Array(current.record.etag.utf8) + received.md5))
                record.crc64 = CRC64ECMA.combine(try current.crc64(), crc64, secondLength: received.content.size)
                object = try bucket.append(received.content, to: current, as: record)
            } else {
                var condition = WriteCondition()
                condition.mustBeAbsent = true
                object = try bucket.put(record, content: received.content, if: condition)
            }
        } catch .conditionFailed { throw wrongPosition(try? bucket.object(call.key)) } catch { throw OSSError(error) }
        return try written(object).adding([Field("x-oss-next-append-position", String(size))])
    }

    private func position(_ request: ServerRequest) throws(OSSError) -> Int64 {
        let text = request.parameter("position")
        guard let position = text.flatMap({ Int64($0) }), position >= 0 else {
            throw OSSError.invalidArgument("The position is not a number.", name: "position", value: text)
        }
        return position
    }

    private func checkEnd(of object: StoredObject?, at position: Int64) throws(OSSError) {
        if let record = object?.record, record.kind != .appendable(isSealed: false) {
            throw OSSError(409, "ObjectNotAppendable", "The object is not appendable.")
        }
        guard position == object?.record.size ?? 0 else { throw wrongPosition(object) }
    }

    /// A refusal that says where the object ends.
    private func wrongPosition(_ object: StoredObject?) -> OSSError {
        OSSError(
            409, "PositionNotEqualToLength", "Position is not equal to file length",
            headers: [Field("x-oss-next-append-position", String(object?.record.size ?? 0))])
    }

    func sealObject(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let (bucket, object) = try object(call)
        try checkEnd(of: object, at: try position(call.request))
        try change(object, in: bucket) { $0.kind = .appendable(isSealed: true) }
        return ServerResponse(status: 200)
    }

    func deleteObject(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let removal = try remove(call.key, version: Self.versionID(call.request), in: try bucket(call))
        return ServerResponse(status: 204, headers: Self.headers(of: removal))
    }

    private func remove(
        _ key: ByteString, version: String?, in bucket: Bucket
    ) throws(OSSError) -> Bucket.Removal {
        try Self.check(version: version, in: bucket)
        return try OSSError.storing { () throws(StorageError) in
            try bucket.remove(key, version: version, now: options.time.now())
        }
    }

    func deleteObjects(_ call: OSSCall) async throws(OSSError) -> ServerResponse {
        let bucket = try bucket(call)
        guard call.request.hasHeader("content-md5") else {
            throw OSSError.invalidArgument("Missing Some Required Arguments.", name: "Content-MD5")
        }
        guard let names = NameCoding(call.request) else { throw Self.badEncoding }
        let root = try await call.payload.document("Delete")
        let objects = root.all("Object")
        guard (1...1000).contains(objects.count) else { throw OSSError.malformedXML }
        let isQuiet = root.text("Quiet") == "true"
        var removed: [(key: ByteString, version: String?, removal: Bucket.Removal)] = []
        for object in objects {
            guard let key = object["Key"]?.text, !key.isEmpty else { throw OSSError.malformedXML }
            let version = object.text("VersionId").flatMap { $0.isEmpty ? nil : $0 }
            // A version that is not there is gone as well.
            let isThere = version == nil || version == VersionRecord.null || bucket.keepsVersions
            let removal = isThere ? try remove(key, version: version, in: bucket) : Bucket.Removal()
            removed.append((key, version, removal))
        }
        // Not even a document.
        guard !isQuiet else { return ServerResponse(status: 200) }
        return xml("DeleteResult") { xml in
            if names.isURL { xml.element("EncodingType", "url") }
            for (key, version, removal) in removed {
                xml.element("Deleted") { xml in
                    xml.element("Key", names.encode(key))
                    if let version { xml.element("VersionId", version) }
                    xml.outcome(of: removal)
                }
            }
        }
    }
}
