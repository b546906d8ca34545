package import Basics
import Digests
import HTTP
package import ObjectStorage
import Synchronization

/// HEAD, GET, PUT, POST, DELETE of objects (OpenStack Object Storage API, objects).
extension SwiftStore {
    package func head(_ key: ObjectKey, condition: ReadCondition?) async throws(ObjectStoreError) -> ObjectInfo {
        try requireVisible(key, .head)
        var call = call(.head, .head, key)
        try await add(condition, to: &call)
        let response = try await send(call)
        if let refusal = refusal(call, response, condition) { throw refusal }
        return try info(call, response, size: nil)
    }

    package func get(_ request: GetRequest, into sink: any ByteSink) async throws(ObjectStoreError) -> GetAnswer {
        try requireVisible(request.key, .get)
        guard request.version == nil else { throw .lacking(.get, request.key, "versions of objects") }
        var call = call(.get, .get, request.key)
        try await add(request.condition, to: &call)
        if let range = request.range {
            guard !range.isEmpty else { throw invalid(call, "the range is empty") }
            call.headers["Range"] = "bytes=\(range.lowerBound)-\(range.upperBound - 1)"
        }
        let verifying = VerifyingSink(sink, atMost: request.range?.length)
        let wanted = request.range
        let condition = request.condition
        let refused = Mutex<ObjectStoreError?>(nil)
        let response = try await verifying.bounding(request.key) { () async throws(ObjectStoreError) in
            try await send(call, sink: verifying) { [self, call] response in
                guard response.isSuccess else { return .collect }
                // A body that starts at another offset must not reach the sink.
                if let problem = FamilyStore.problem(response, asked: wanted) {
                    refused.withLock { $0 = malformed(call, response, problem) }
                    return .refuse
                }
                // Nor one of another version, or without an ETag, from a server that ignores the condition.
                if let problem = refusal(call, response, condition) {
                    refused.withLock { $0 = problem }
                    return .refuse
                }
                if wanted == nil, settings.verifiesChecksums {
                    verifying.expect(md5(response.headers).map { .md5($0) })
                }
                return .deliver
            }
        }
        if let error = refused.withLock({ $0 }) { throw error }
        let answered = wanted == nil ? nil : FamilyStore.contentRange(response.headers)
        let promised = answered?.range.length ?? response.headers["Content-Length"].flatMap { Int64($0) }
        guard promised ?? response.delivered == response.delivered else {
            throw integrity(call, response, "the length of the body is not its Content-Length")
        }
        if !verifying.isKept {
            guard try await makesOpaqueETags(besides: request.key) else {
                throw integrity(call, response, "the body does not match its ETag")
            }
        }
        var info = try info(call, response, size: answered?.total ?? response.delivered)
        // With a condition, the answer for a large object by prefix has the content type of an error (Swift documentation,
        // dynamic large objects).
        if request.condition != nil, response.headers["X-Object-Manifest"] != nil {
            info.metadata.contentType = try await head(request.key, condition: nil).metadata.contentType
        }
        return GetAnswer(
            info: info, range: ByteRange(at: answered?.range.lowerBound ?? 0, count: response.delivered))
    }

    package func put(_ request: PutRequest, body: any ByteSource) async throws(ObjectStoreError) -> PutAnswer {
        var call = call(.put, .put, request.key)
        try addNewObject(request, to: &call)
        let replaced = try await segmentsToReplace(request.key, request.condition, for: call)
        let md5 = try seal(&call, body)
        leave(replaced, at: request.key)
        let response = try await send(call, body: body)
        let etag = try await stored(call, response, md5: md5)
        await replace(replaced, at: request.key, by: .plain)
        return PutAnswer(etag: etag, answered: response.date)
    }

    package func updateMetadata(
        _ key: ObjectKey, to metadata: ObjectMetadata, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer {
        try requireVisible(key, .updateMetadata)
        // A POST removes the headers that it does not have, so those that are not metadata must be read and repeated.
        var look = call(.updateMetadata, .head, key)
        try await add(ifMatch.map { .ifMatch($0) }, to: &look)
        let current = try await send(look)
        if let refusal = refusal(look, current, ifMatch.map { .ifMatch($0) }) { throw refusal }
        let info = try info(look, current, size: nil)
        var call = call(.updateMetadata, .post, key)
        try SwiftMetadata.add(metadata, to: &call)
        for name in ["X-Object-Manifest", "X-Delete-At", SwiftMetadata.uploadHeader] {
            call.headers[name] = current.headers[name]
        }
        if try await isCeph() {
            // An empty header removes it.
            for name in SwiftMetadata.systemHeaders where call.headers[name] == nil && current.headers[name] != nil {
                call.headers[name] = ""
            }
        }
        try await send(call)
        return PutAnswer(etag: info.version.etag)
    }

    package func delete(_ key: ObjectKey, ifMatch: ETag?) async throws(ObjectStoreError) {
        guard ifMatch == nil else { throw .lacking(.delete, key, "conditional deletes") }
        try requireUnreserved(key, .delete)
        let owned: Set<String>
        switch learned.withLock({ $0.shapes.value(for: key) }) {
        case .plain: owned = []
        case .large, nil:
            let look = call(.delete, .head, key)
            do throws(ObjectStoreError) { owned = try await segmentsOwned(by: try await send(look), look) } catch {
                // The DELETE itself shows whether these credentials may, as at other stores.
                guard error.kind == .notFound else { throw error }
                owned = []
            }
        }
        leave(owned, at: key)
        do { try await send(call(.delete, .delete, key)) } catch { guard error.kind == .notFound else { throw error } }
        await replace(owned, at: key, by: nil)
    }

    // MARK: Pieces of requests

    static func add(_ condition: ReadCondition?, to headers: inout HTTPHeaders) {
        switch condition {
        case .ifMatch(let etag): headers["If-Match"] = "\"\(etag.text)\""
        case .ifNoneMatch(let etag): headers["If-None-Match"] = "\"\(etag.text)\""
        case nil: break
        }
    }

    /// Adds metadata and condition of a new object. A write can only have the condition `*` (OpenStack Object Storage API,
    /// objects).
    func addNewObject(_ request: PutRequest, to call: inout Call) throws(ObjectStoreError) {
        guard request.storageClass == nil else { throw .lacking(call.operation, request.key, "storage classes") }
        try checkKey(call)
        try SwiftMetadata.add(request.metadata, to: &call)
        try Self.add(request.condition, to: &call)
    }

    static func add(_ condition: WriteCondition?, to call: inout Call) throws(ObjectStoreError) {
        switch condition {
        case .absent: call.headers["If-None-Match"] = "*"
        case .match: throw .lacking(call.operation, call.key, "conditional overwrites")
        case nil: break
        }
    }

    /// Checks the key before any byte is sent: the server's answer would not name the exceeded limit.
    func checkKey(_ call: Call) throws(ObjectStoreError) {
        guard let key = call.key else { return }
        guard key.bytes.count <= 1024 else {
            throw ObjectStoreError(
                .keyTooLong, call.operation, key: key, code: "KeyTooLong",
                message: "the key has \(key.bytes.count) bytes; the store allows 1024")
        }
        guard String(validating: key.bytes.bytes, as: UTF8.self) != nil, !key.bytes.bytes.contains(0) else {
            throw invalid(call, "the store accepts only keys in UTF-8")
        }
        try requireUnreserved(key, call.operation)
    }

    /// Adds the digest with which the server compares the body, and returns it.
    func seal(_ call: inout Call, _ body: any ByteSource) throws(ObjectStoreError) -> [UInt8] {
        let digests: BodyDigests
        do { digests = try BodyDigests(of: body, sha256: false, crc64: nil) } catch {
            throw ObjectStoreError(
                .local(errno: error.errno), call.operation, key: call.key, code: "Local", message: error.reason)
        }
        call.headers["ETag"] = Hex.encode(digests.md5)
        return digests.md5
    }

    // MARK: Answers

    /// Whether headers are those of a large object, whose ETag is made of its segments' (Swift documentation, large objects).
    static func isLarge(_ headers: HTTPHeaders) -> Bool {
        headers["X-Object-Manifest"] != nil || headers["X-Static-Large-Object"]?.lowercased() == "true"
    }

    /// The MD5 of the content, when the ETag is one: for plain objects it has no quotes.
    func md5(_ headers: HTTPHeaders) -> [UInt8]? {
        guard !hasOpaqueETags, !Self.isLarge(headers), let etag = headers["Etag"], etag.utf8.count == 32 else {
            return nil
        }
        return Hex.decode(etag)
    }

    /// The object's properties from the headers of a HEAD or GET.
    func info(_ call: Call, _ response: HTTPResponse, size: Int64?) throws(ObjectStoreError) -> ObjectInfo {
        let headers = response.headers
        guard let etag = headers["Etag"], let size = size ?? headers["Content-Length"].flatMap({ Int64($0) }) else {
            throw malformed(call, response, "the answer has no ETag or no length")
        }
        if let key = call.key {
            let parts = foreignParts(headers, at: key)
            learned.withLock { learned in
                learned.shapes.insert(Self.isLarge(headers) ? .large : .plain, for: key)
                if let parts { learned.foreign.insert(parts, for: key) } else { learned.foreign.removeValue(for: key) }
            }
        }
        var info = ObjectInfo(
            version: ObjectVersion(etag: ETag(etag), size: size, modified: modified(headers)),
            metadata: SwiftMetadata.read(headers))
        if settings.verifiesChecksums { info.checksum = md5(headers).map { .md5($0) } }
        return info
    }

    /// `Last-Modified` is rounded up to a second; listings show `X-Timestamp` (OpenStack Object Storage API, objects).
    private func modified(_ headers: HTTPHeaders) -> Timestamp {
        if let text = headers["X-Timestamp"] {
            let halves = text.split(separator: ".", maxSplits: 1)
            let fraction = halves.count == 2 ? halves[1].prefix(9) : ""
            if let seconds = halves.first.flatMap({ Int64($0) }), fraction.utf8.allSatisfy({ (48...57).contains($0) }) {
                let fraction = learned.withLock { $0.server } == .ceph ? fraction.prefix(3) : fraction
                let padded = fraction + String(repeating: "0", count: 9 - fraction.utf8.count)
                return Timestamp(seconds: seconds, nanoseconds: Int32(padded) ?? 0)
            }
        }
        return headers["Last-Modified"].flatMap { Timestamp(httpDate: $0) } ?? .epoch
    }
}
