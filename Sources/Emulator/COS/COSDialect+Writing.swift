import Basics
import Digests

/// PUT, append and DELETE (COS API, "PUT Object", "APPEND Object" and "DELETE Object").
extension COSDialect {
    /// What one request may carry, and what appending may make, in bytes.
    static let largestPut: Int64 = 5 << 30

    /// Bytes that arrived, with their CRC-64.
    struct Received {
        let content: Content
        let md5: [UInt8]
        let crc64: UInt64
    }

    /// CRC-64 and SHA-1 one behind the other.
    private struct BothDigests: Digest {
        private var crc64 = CRC64ECMA()
        private var sha1 = SHA1()

        mutating func update(_ bytes: RawSpan) {
            crc64.update(bytes)
            sha1.update(bytes)
        }

        func finish() -> [UInt8] { crc64.finish() + sha1.finish() }
    }

    /// Streams the body into a new content file of `bucket`, checking every digest the request gives. Only whole objects
    /// may come without their length.
    func receive(_ call: COSCall, into bucket: Bucket, mayBeChunked: Bool = false) async throws(COSError) -> Received {
        guard call.request.contentLength != nil || mayBeChunked else { throw COSError.missingLength }
        let sha1 = call.request.header("x-cos-content-sha1")
        let received = try await call.payload.receive(
            into: bucket, limit: Self.largestPut, hasher: sha1 == nil ? CRC64ECMA() : BothDigests())
        let digest = received.digest ?? []
        if let sha1, sha1.lowercased() != Hex.encode(digest.dropFirst(8)) {
            throw COSError(
                400, "InvalidSHA1Digest", "The x-cos-content-sha1 you specified did not match what we received.")
        }
        return Received(
            content: received.content, md5: received.md5, crc64: CRC64ECMA.value(ofDigest: Array(digest.prefix(8))))
    }

    /// `x-cos-forbid-overwrite`; the conditions of HTTP are not COS's on writes, and pass unseen. It has no effect in a
    /// bucket that has or had versioning (COS API, "PUT Object").
    static func writeCondition(_ request: ServerRequest, _ bucket: Bucket) -> WriteCondition {
        var condition = WriteCondition()
        condition.mustBeAbsent =
            !bucket.keepsVersions && request.header("x-cos-forbid-overwrite")?.lowercased() == "true"
        return condition
    }

    /// Used where an object is put under a condition.
    static func storing(_ body: () throws(StorageError) -> StoredObject) throws(COSError) -> StoredObject {
        do { return try body() } catch .conditionFailed { throw COSError.fileAlreadyExists } catch {
            throw COSError(error)
        }
    }

    func putObject(_ call: COSCall) async throws(COSError) -> ServerResponse {
        let bucket = try bucket(call)
        try checkKey(call.key)
        try checkTrafficLimit(call.request)
        let description = try description(call.request)
        let condition = Self.writeCondition(call.request, bucket)
        // Early, before the client sends its body; the commit decides for good.
        if condition.mustBeAbsent, (try? bucket.object(call.key)) != nil { throw COSError.fileAlreadyExists }
        let received = try await receive(call, into: bucket, mayBeChunked: true)
        let record = ObjectRecord(
            key: call.key, size: received.content.size, etag: description.encryption.etag(received.md5),
            modified: options.time.now(), description: description, crc64: received.crc64)
        let object = try Self.storing { () throws(StorageError) in
            try bucket.put(record, content: received.content, if: condition)
        }
        return try written(object)
    }

    /// The empty answer to a write that made `object`.
    private func written(_ object: StoredObject) throws(COSError) -> ServerResponse {
        let headers = [Field("ETag", "\"\(object.record.etag)\""), try checksum(of: object)]
        return ServerResponse(
            status: 200,
            headers: headers + Self.encryptionHeaders(object.record.description.encryption)
                + Self.versionHeaders(object.record))
    }

    func appendObject(_ call: COSCall) async throws(COSError) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        try checkKey(call.key)
        try checkTrafficLimit(request)
        guard let position = request.parameter("position").flatMap({ Int64($0) }), position >= 0 else {
            throw COSError.invalidArgument("position must be the length of the object so far.")
        }
        let current = try? bucket.object(call.key)
        try Self.check(position, of: current)
        // What the first append said stays.
        let described = try description(request)
        let description = current?.record.description ?? described
        let received = try await receive(call, into: bucket)
        guard position + received.content.size <= Self.largestPut else { throw COSError.entityTooLarge }
        let object: StoredObject
        do throws(StorageError) {
            object = try append(received, to: current, call.key, description, in: bucket)
        } catch .conditionFailed { throw Self.positionError } catch { throw COSError(error) }
        let next = Field("x-cos-next-append-position", String(object.record.size))
        return try written(object).adding([next])
    }

    private func append(
        _ received: Received, to current: StoredObject?, _ key: ByteString, _ description: ObjectDescription,
        in bucket: Bucket
    ) throws(StorageError) -> StoredObject {
        var (md5, crc64) = (received.md5, received.crc64)
        if let current {
            // The tag of all appends so far is theirs in a row, without reading them again.
            md5 = MD5.of(Array(current.record.etag.utf8) + received.md5)
            crc64 = CRC64ECMA.combine(try current.crc64(), received.crc64, secondLength: received.content.size)
        }
        let record = ObjectRecord(
            key: key, size: (current?.record.size ?? 0) + received.content.size,
            etag: description.encryption.etag(md5), modified: options.time.now(), description: description,
            crc64: crc64, kind: .appendable(isSealed: false))
        guard let current else {
            var condition = WriteCondition()
            condition.mustBeAbsent = true
            return try bucket.put(record, content: received.content, if: condition)
        }
        return try bucket.append(received.content, to: current, as: record)
    }

    private static let positionError = COSError(
        409, "AppendPositionErr", "The position is not the length of the object.")

    private static func check(_ position: Int64, of current: StoredObject?) throws(COSError) {
        if let current {
            guard case .appendable(isSealed: false) = current.record.kind else {
                throw COSError(409, "ObjectNotAppendable", "The object can not be appended to.")
            }
        }
        guard position == current?.record.size ?? 0 else { throw positionError }
    }

    func deleteObject(_ call: COSCall) throws(COSError) -> ServerResponse {
        let removal = try remove(call.key, version: Self.versionID(call.request), in: try bucket(call))
        return ServerResponse(status: 204, headers: Self.headers(of: removal))
    }

    private func remove(
        _ key: ByteString, version: String?, in bucket: Bucket
    ) throws(COSError) -> Bucket.Removal {
        try Self.check(version: version, in: bucket)
        return try COSError.storing { () throws(StorageError) in
            try bucket.remove(key, version: version, now: options.time.now())
        }
    }

    func deleteMultipleObjects(_ call: COSCall) async throws(COSError) -> ServerResponse {
        let bucket = try bucket(call)
        guard call.request.hasHeader("content-md5") else {
            throw COSError.invalidRequest("Missing required header for this request: Content-MD5")
        }
        let root = try await call.payload.document("Delete")
        let objects = root.all("Object")
        guard (1...1000).contains(objects.count) else { throw COSError.malformedXML }
        let isQuiet = root.text("Quiet")?.lowercased() == "true"
        var results: [(key: ByteString, version: String?, removal: Bucket.Removal, error: COSError?)] = []
        for object in objects {
            guard let key = object["Key"]?.text, !key.isEmpty else { throw COSError.malformedXML }
            let version = object.text("VersionId").flatMap { $0.isEmpty ? nil : $0 }
            do {
                let removal = try remove(key, version: version, in: bucket)
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
