import Basics
import Digests
import NIOCore

/// PUT, POST and DELETE of objects (OpenStack Object Storage API, objects).
extension CSSPDialect {
    private static let storedHeaders = [
        "content-type", "content-encoding", "content-disposition", "cache-control", "content-language", "expires",
        "x-robots-tag",
    ]

    func putObject(_ call: CSSPCall) async throws(CSSPError) -> ServerResponse {
        let (bucket, request) = (try bucket(call.target.container), call.request)
        try checkKey(call.key)
        var description = try description(request)
        let condition = try Self.condition(request)
        if condition.mustBeAbsent, (try? stored(call.key, in: bucket)) != nil { throw CSSPError(412) }
        guard request.contentLength != nil || request.hasHeader("transfer-encoding") else { throw CSSPError(411) }
        guard request.contentLength ?? 0 <= Self.largestPut else { throw CSSPError(413) }
        if request.parameter("multipart-manifest") == "put" {
            return try await putManifest(call, description, condition, in: bucket)
        }
        let received = try await receive(call, into: bucket)
        if let wanted = request.header("etag"), ETagText.bare(wanted) != Hex.encode(received.md5) {
            throw CSSPError(422)
        }
        guard let manifest = request.header("x-object-manifest") else {
            let etag = description.encryption.etag(received.md5)
            let object = try commit(call.key, received.content, etag, description, condition, in: bucket)
            return written(etag, object)
        }
        guard ETagText.bare(manifest).split(separator: "/", maxSplits: 1).count == 2 else {
            throw .plain(400, "X-Object-Manifest must be in the format container/prefix")
        }
        description.properties.append(Field(Self.manifestProperty, manifest))
        let object = try commitPrefixed(call.key, description, condition, in: bucket)
        return written(Hex.encode(received.md5), object)
    }

    /// Other dialects see what the prefix holds now.
    private func commitPrefixed(
        _ key: ByteString, _ description: ObjectDescription, _ condition: WriteCondition, in bucket: Bucket
    ) throws(CSSPError) -> StoredObject {
        let record = ObjectRecord(
            key: key, size: 0, etag: Self.emptyHash, modified: options.time.now(), description: description)
        let nothing = Content([], in: bucket.contentDirectory, kept: true)
        let preview = try view(StoredObject(record: record, content: nothing, sequence: 0), in: bucket)
        let content = try join([(preview.content, 0..<preview.size)], in: bucket)
        // No dialect may take it for the MD5 of the bytes.
        let etag = preview.size == 0 ? Self.emptyHash : "\(preview.etag)-\(preview.content.segments.count)"
        return try commit(key, content, etag, description, condition, in: bucket)
    }

    private func putManifest(
        _ call: CSSPCall, _ description: ObjectDescription, _ condition: WriteCondition, in bucket: Bucket
    ) async throws(CSSPError) -> ServerResponse {
        let document: [UInt8]
        do { document = try await call.body.collect(limit: Self.largestDocument) } catch {
            throw error == .tooLarge ? CSSPError(413) : .disconnected
        }
        var segments: [SegmentManifest.Segment] = []
        var pieces: [(content: Content, range: ByteRange)] = []
        var problems: [(path: String, reason: String)] = []
        for element in try SegmentManifest.elements(document) {
            do throws(SegmentProblem) {
                let (segment, piece) = try check(element, in: bucket)
                segments.append(segment)
                pieces.append(piece)
            } catch { problems.append((element.path ?? "", error.reason)) }
        }
        guard problems.isEmpty else { throw refusal(problems, call.request) }
        let manifest = SegmentManifest(segments)
        if let wanted = call.request.header("etag"), ETagText.bare(wanted) != manifest.etag { throw CSSPError(422) }
        var description = description
        description.properties.append(Field(Self.segmentsProperty, manifest.storedText ?? ""))
        let content = try join(pieces, in: bucket)
        let object = try commit(
            call.key, content, "\(manifest.etag)-\(segments.count)", description, condition, in: bucket)
        return written("\"\(manifest.etag)\"", object)
    }

    private struct SegmentProblem: Error { let reason: String }

    /// Whether an element's segment is there as the element says.
    private func check(
        _ element: SegmentManifest.Element, in bucket: Bucket
    ) throws(SegmentProblem) -> (SegmentManifest.Segment, (content: Content, range: ByteRange)) {
        var segment = SegmentManifest.Segment()
        if let data = element.data {
            guard let bytes = Base64.decode(data), !bytes.isEmpty else { throw SegmentProblem(reason: "Invalid data") }
            (segment.data, segment.size) = (data, Int64(bytes.count))
            do throws(StorageError) {
                let writer = bucket.newContent()
                try writer.write(bytes)
                return (segment, (try writer.finish(), 0..<Int64(bytes.count)))
            } catch { throw SegmentProblem(reason: "\(error)") }
        }
        let path = element.path ?? ""
        segment.path = path.hasPrefix("/") ? path : "/" + path
        let found: CSSPObject
        do { found = try resolve(segment) } catch { throw SegmentProblem(reason: "404 Not Found") }
        guard element.etag.map({ $0 == found.etag }) ?? true else { throw SegmentProblem(reason: "Etag Mismatch") }
        guard element.size.map({ $0 == found.size }) ?? true else { throw SegmentProblem(reason: "Size Mismatch") }
        (segment.etag, segment.size) = (found.etag, found.size)
        segment.contentType = found.record.description.headers.value(of: "content-type")
        segment.modified = Self.listed(found.record.modified)
        var range: ByteRange = 0..<found.size
        if let text = element.range {
            guard let asked = RequestedRange("bytes=\(text)")?.resolve(size: found.size) else {
                throw SegmentProblem(reason: "Unsatisfiable Range")
            }
            range = asked
            segment.range = "\(asked.lowerBound)-\(asked.upperBound - 1)"
        }
        return (segment, (found.content, range))
    }

    private func refusal(_ problems: [(path: String, reason: String)], _ request: ServerRequest) -> CSSPError {
        if request.header("accept")?.contains("json") == true {
            let errors = problems.map { JSONValue.array([.string($0.path), .string($0.reason)]) }
            return .plain(400, JSONValue.object([("Errors", .array(errors))]).text)
        }
        return .plain(400, "Errors:\n" + problems.map { "\($0.path), \($0.reason)\n" }.joined())
    }

    // MARK: POST and DELETE

    /// Replaces all metadata: what is not sent again is gone, but for the type (OpenStack Object Storage API, object metadata).
    func setObjectMetadata(_ call: CSSPCall) throws(CSSPError) -> ServerResponse {
        let (bucket, request) = (try bucket(call.target.container), call.request)
        let object = try stored(call.key, in: bucket)
        var description = object.record.description
        let new = try self.description(request)
        let type = request.header("content-type") ?? description.headers.value(of: "content-type")
        description.headers = new.headers.filter { $0.name != "content-type" }
        if let type { description.headers.insert(Field("content-type", type), at: 0) }
        description.metadata = new.metadata
        let kept = description.properties.filter { $0.name == Self.segmentsProperty }
        description.properties = kept + new.properties
        if let manifest = request.header("x-object-manifest") {
            description.properties.append(Field(Self.manifestProperty, manifest))
        } else if object.record.description.properties.value(of: Self.manifestProperty) != nil {
            // Without its manifest it is the empty object that was put.
            let nothing = Content([], in: bucket.contentDirectory, kept: true)
            _ = try commit(call.key, nothing, Self.emptyHash, description, WriteCondition(), in: bucket)
            return CSSPError(202).response
        }
        let (changed, now) = (description, options.time.now())
        _ = try CSSPError.storing { () throws(StorageError) in
            try bucket.update(object) { record in (record.description, record.modified) = (changed, now) }
        }
        return CSSPError(202).response
    }

    /// A large object goes without its segments, unless they are asked to go too.
    func deleteObject(_ call: CSSPCall) throws(CSSPError) -> ServerResponse {
        let bucket = try bucket(call.target.container)
        if call.request.parameter("multipart-manifest") == "delete" { return try deleteWithSegments(call, in: bucket) }
        // What is over is removed as well, and yet it was not there.
        let isThere = (try? stored(call.key, in: bucket)) != nil
        let removed = try CSSPError.storing { () throws(StorageError) in
            try bucket.delete(call.key, now: options.time.now())
        }
        guard isThere, removed != nil else { throw .notFound }
        return ServerResponse(status: 204)
    }

    // MARK: Pieces of writes

    func receive(_ call: CSSPCall, into bucket: Bucket) async throws(CSSPError) -> ReceivedContent {
        var receiver = ContentReceiver(into: bucket)
        var size: Int64 = 0
        while true {
            let chunk: ByteBuffer?
            do { chunk = try await call.body.next() } catch { throw .disconnected }
            guard let chunk else { break }
            size += Int64(chunk.readableBytes)
            guard size <= Self.largestPut else { throw CSSPError(413) }
            do { try receiver.take(chunk) } catch { throw CSSPError(error) }
        }
        if let announced = call.request.contentLength, announced != size { throw .disconnected }
        return try CSSPError.storing { () throws(StorageError) in try receiver.finish() }
    }

    func commit(
        _ key: ByteString, _ content: Content, _ etag: String, _ description: ObjectDescription,
        _ condition: WriteCondition, in bucket: Bucket
    ) throws(CSSPError) -> StoredObject {
        // An object whose time is over is not there, whatever the index says.
        if condition.mustBeAbsent, let old = try? bucket.object(key), (try? stored(key, in: bucket)) == nil {
            try CSSPError.storing { () throws(StorageError) in
                _ = try bucket.delete(old.record.key, now: options.time.now())
            }
        }
        let record = ObjectRecord(
            key: key, size: content.size, etag: etag, modified: options.time.now(), description: description)
        return try CSSPError.storing { () throws(StorageError) in
            try bucket.put(record, content: content, if: condition)
        }
    }

    func written(_ etag: String, _ object: StoredObject) -> ServerResponse {
        ServerResponse(
            status: 201,
            headers: [
                Field("Etag", etag), Field("Last-Modified", object.record.modified.httpDate),
                Field("Content-Type", "text/html; charset=UTF-8"),
            ])
    }

    func checkKey(_ key: ByteString) throws(CSSPError) {
        guard key.count <= Self.longestKey else {
            throw .plain(400, "Object name length of \(key.count) longer than \(Self.longestKey)")
        }
    }

    /// `If-None-Match: *` is the only condition on a write; `If-Match` is not looked at (OpenStack Object Storage API,
    /// objects).
    static func condition(_ request: ServerRequest) throws(CSSPError) -> WriteCondition {
        var condition = WriteCondition()
        if let header = request.header("if-none-match") {
            guard header == "*" else { throw .plain(400, "If-None-Match only supports *") }
            condition.mustBeAbsent = true
        }
        return condition
    }

    func description(_ request: ServerRequest) throws(CSSPError) -> ObjectDescription {
        var description = ObjectDescription()
        description.headers = Self.storedHeaders.compactMap { name in request.header(name).map { Field(name, $0) } }
        description.metadata = request.fields(below: Self.metadataPrefix)
        try Self.checkMetadata(description.metadata)
        let now = options.time.now().seconds
        var end = request.header("x-delete-at").map { Int64($0) ?? 0 }
        if let after = request.header("x-delete-after") { end = Int64(after).map { now + $0 } ?? 0 }
        if let end {
            guard end > now else { throw .plain(400, "X-Delete-At in past") }
            description.properties.append(Field(Self.expiryProperty, String(end)))
        }
        return description
    }

    /// The limits of metadata (OpenStack Object Storage API, object metadata).
    private static func checkMetadata(_ fields: [Field]) throws(CSSPError) {
        var bytes = 0
        for field in fields {
            if field.name.isEmpty { throw .plain(400, "Metadata name cannot be empty") }
            if field.name.utf8.count > 128 { throw .plain(400, "Metadata name too long: \(field.name)") }
            if field.value.utf8.count > 256 { throw .plain(400, "Metadata value longer than 256: \(field.name)") }
            bytes += field.name.utf8.count + field.value.utf8.count
        }
        if fields.count > 90 { throw .plain(400, "Too many metadata items; max 90") }
        if bytes > 4096 { throw .plain(400, "Total metadata too large; max 4096") }
    }
}

enum ETagText {
    /// Without quotes.
    static func bare(_ text: String) -> String { String(text.filter { $0 != "\"" }) }
}
