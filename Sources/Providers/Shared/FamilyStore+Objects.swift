package import Basics
import Digests
import HTTP
package import ObjectStorage
import Synchronization

/// HEAD, GET, PUT, COPY, DELETE (Amazon S3 API, GetObject).
extension FamilyStore {
    package func head(
        _ key: ObjectKey, condition: ReadCondition?
    ) async throws(ObjectStoreError) -> ObjectInfo {
        let found = try await look(at: key, condition: condition)
        let look = Look(found: found, at: time.uptime())
        learned.withLock { _ = $0.looks.insert(look, for: key) }
        return found.info
    }

    /// The result of a HEAD: the caller's properties, and those that a copy has to restate.
    struct Found: Sendable {
        let info: ObjectInfo
        let encryption: [(name: String, value: String)]
    }

    /// A HEAD and the time since boot at which it was answered.
    struct Look: Sendable {
        let found: Found
        let at: Duration
    }

    /// The result of a HEAD of a moment ago for this version: a change needs no other. Used once.
    func recentLook(at key: ObjectKey, _ version: ETag?) -> Found? {
        guard let look = learned.withLock({ $0.looks.removeValue(for: key) }), look.found.info.version.etag == version,
            time.uptime() - look.at < .seconds(1)
        else { return nil }
        return look.found
    }

    func look(at key: ObjectKey, condition: ReadCondition?) async throws(ObjectStoreError) -> Found {
        do { return try await lookOnce(at: key, condition: condition) } catch {
            throw await decided(await blaming(key, for: error), at: key)
        }
    }

    func lookOnce(
        at key: ObjectKey, version: String? = nil, condition: ReadCondition?
    ) async throws(ObjectStoreError) -> Found {
        var call = Call(.head, .head, key)
        if let version { call.query = [Self.versionItem(version)] }
        for header in profile.readHeaders { call.headers[header.name] = header.value }
        Self.add(condition, to: &call.headers)
        addCustomerKey(to: &call.headers)
        if tellsChecksumsToHEAD { call.headers["x-amz-checksum-mode"] = "ENABLED" }
        let response = try await send(call)
        let isUntold = response.headers["Content-Length"] == nil
        let size = isUntold ? try await sizeUntold(by: response, of: key, version: version) : nil
        let names = ["server-side-encryption", profile.encryptionKeyHeader, profile.encryptionContextHeader]
        let encryption = names.compactMap { name -> (name: String, value: String)? in
            guard let name = name.map({ profile.header($0) }), let value = response.headers[name] else { return nil }
            return (name, value)
        }
        return Found(info: try info(call, response, size: size), encryption: encryption)
    }

    package func get(
        _ request: GetRequest, into sink: any ByteSink
    ) async throws(ObjectStoreError) -> GetAnswer {
        var call = Call(.get, .get, request.key)
        if let version = request.version {
            guard capabilities.versions else { throw notSupported(call, "versions of objects") }
            call.query = [Self.versionItem(version)]
        }
        for header in profile.readHeaders { call.headers[header.name] = header.value }
        Self.add(request.condition, to: &call.headers)
        addCustomerKey(to: &call.headers)
        addTrafficLimit(to: &call.headers)
        if let range = request.range {
            guard !range.isEmpty else { throw invalid(call, "the range is empty") }
            call.headers["Range"] = "bytes=\(range.lowerBound)-\(range.upperBound - 1)"
            for header in profile.rangeHeaders { call.headers[header.name] = header.value }
        } else if profile.checksum == .crc64nvme {
            call.headers["x-amz-checksum-mode"] = "ENABLED"
        }
        let verifying = VerifyingSink(sink, atMost: request.range?.length)
        let wanted = request.range
        let condition = request.condition
        let refused = Mutex<ObjectStoreError?>(nil)
        let response: HTTPResponse
        do throws(ObjectStoreError) {
            response = try await verifying.bounding(request.key) { () async throws(ObjectStoreError) in
                try await send(call, sink: verifying) { [self, call] response in
                    guard response.isSuccess else { return .collect }
                    // A body that starts at another offset must not reach the sink.
                    if let problem = Self.problem(response, asked: wanted) {
                        refused.withLock { $0 = malformed(call, response, problem) }
                        return .refuse
                    }
                    // Nor one of another version, or without an ETag, from a store that ignores the condition.
                    if case .ifMatch = condition, response.headers["ETag"] == nil {
                        refused.withLock { $0 = malformed(call, response, "the answer has no ETag") }
                        return .refuse
                    }
                    if case .ifMatch(let etag) = condition, let answered = response.headers["ETag"],
                        ETag(answered) != etag
                    {
                        refused.withLock {
                            $0 = ObjectStoreError(
                                .preconditionFailed, .get, key: call.key, status: response.status, code: "OtherVersion",
                                message: "the object was replaced",
                                requestID: errors.requestID(response))
                        }
                        return .refuse
                    }
                    if wanted == nil { verifying.expect(promise(response.headers)) }
                    return .deliver
                }
            }
        } catch {
            if request.version != nil { throw error.ofMissingVersion }
            throw await decided(await lookInto(error), at: request.key)
        }
        if let error = refused.withLock({ $0 }) { throw error }
        let answered = request.range == nil ? nil : Self.contentRange(response.headers)
        let total = answered?.total ?? response.delivered
        let start = answered?.range.lowerBound ?? 0
        let promised = answered?.range.length ?? response.headers["Content-Length"].flatMap { Int64($0) }
        guard promised ?? response.delivered == response.delivered else {
            throw integrity(call, response, "the length of the body is not its Content-Length")
        }
        if !verifying.isKept {
            guard case .md5 = promise(response.headers), try await makesOpaqueETags(besides: request.key) else {
                throw integrity(call, response, "the body does not match its checksum")
            }
        }
        return GetAnswer(
            info: try info(call, response, size: total), range: ByteRange(at: start, count: response.delivered))
    }

    /// The cause of a refused read. An object that is being restored is refused like an archived one: a HEAD shows the
    /// difference.
    private func lookInto(_ refusal: ObjectStoreError) async -> ObjectStoreError {
        guard case .archived = refusal.kind, let key = refusal.key,
            let info = try? await head(key, condition: nil), info.restore == .ongoing
        else { return refusal }
        var refusal = refusal
        refusal.kind = .archived(restoring: true)
        return refusal
    }

    package func put(
        _ request: PutRequest, body: any ByteSource
    ) async throws(ObjectStoreError) -> PutAnswer {
        try await put(request, body: body, restated: [])
    }

    func put(
        _ request: PutRequest, body: any ByteSource, restated: [(name: String, value: String)]
    ) async throws(ObjectStoreError) -> PutAnswer {
        let restated = restated + (try await keptHeaders(request))
        let answer: PutAnswer
        do {
            answer = try await conditionally(on: request.condition, .put, request.key) {
                asked async throws(ObjectStoreError) in try await put(request, asked, body: body, restated)
            }
        } catch {
            throw await blaming(request.key, for: error, isBare: request.metadata.user.isEmpty)
        }
        try await checkKept(request.key, size: body.count) { () async throws(ObjectStoreError) in
            _ = try await put(request, nil, body: body, restated)
        }
        learnTaken(request)
        return try await confirmed(answer, request)
    }

    private func put(
        _ request: PutRequest, _ asked: AskedCondition?, body: any ByteSource,
        _ restated: [(name: String, value: String)]
    ) async throws(ObjectStoreError) -> PutAnswer {
        var call = Call(.put, .put, request.key)
        addNewObject(request, size: body.count, to: &call.headers)
        restate(restated, in: &call.headers)
        addTrafficLimit(to: &call.headers)
        try await add(asked, call, to: &call.headers)
        try addCallback(call, to: &call.headers)
        let digests = try seal(&call, body)
        let response = try await send(call, body: body)
        let crc = digests.crc64.map { $0.reduce(UInt64(0)) { $0 << 8 | UInt64($1) } }
        return try await calledBack(call, response, size: body.count, crc64: crc) {
            [call] () async throws(ObjectStoreError) in try await answer(call, response, digests)
        }
    }

    package func delete(_ key: ObjectKey, ifMatch: ETag?) async throws(ObjectStoreError) {
        var call = Call(.delete, .delete, key)
        if let ifMatch {
            guard capabilities.deleteIfMatch else { throw notSupported(call, "conditional deletes") }
            call.headers["If-Match"] = ETagSpelling.quoted.text(of: ifMatch)
        }
        do { _ = try await send(call) } catch {
            guard error.kind == .notFound, ifMatch == nil else { throw await blaming(key, for: error) }
        }
    }
}
