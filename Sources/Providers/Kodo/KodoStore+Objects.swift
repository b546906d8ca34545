package import Basics
import Digests
import HTTP
package import ObjectStorage
import Synchronization

/// Reading from a domain, and storing in one request (Kodo API, form upload and download).
extension KodoStore {
    package func get(
        _ request: GetRequest, into sink: any ByteSink
    ) async throws(ObjectStoreError) -> GetAnswer {
        guard request.version == nil else { throw .lacking(.get, request.key, "versions of objects") }
        guard !isImpossible(request.key) else { throw missing(.get, request.key) }
        do throws(ObjectStoreError) {
            if let answer = try await get(request, into: sink, parts: nil) { return answer }
            // The hash of an object in parts cannot be checked without their sizes.
            let object = try await stat(request.key, .get, request.condition, withParts: true).object
            if let answer = try await get(request, into: sink, parts: object.parts ?? []) { return answer }
            throw ObjectStoreError(
                .conflict, .get, key: request.key, code: "Changed", message: "the object changes while it is read")
        } catch {
            guard error.kind == .accessDenied, error.status == 403 else { throw error }
            throw await decided(await explained(error, request.key), at: request.key)
        }
    }

    /// `parts` are the sizes of the object's parts, once they were requested; nil before. Returns nil when they are needed.
    private func get(
        _ request: GetRequest, into sink: any ByteSink, parts: [Int64]?
    ) async throws(ObjectStoreError) -> GetAnswer? {
        var call = KodoClient.Call(.get, "", request.key)
        (call.method, call.authorization) = (.get, .download(request.key))
        // A body that is compressed in transit has another hash and length.
        call.headers["Accept-Encoding"] = "identity"
        if case .ifNoneMatch(let etag) = request.condition { call.headers["If-None-Match"] = "\"\(etag.text)\"" }
        if let range = request.range {
            guard !range.isEmpty else {
                throw ObjectStoreError(
                    .invalidRequest, .get, key: request.key, code: "InvalidRequest", message: "the range is empty")
            }
            call.headers["Range"] = "bytes=\(range.lowerBound)-\(range.upperBound - 1)"
        }
        let verifying = VerifyingSink(sink, atMost: request.range?.length)
        let (wanted, condition) = (request.range, request.condition)
        let refused = Mutex<Refusal?>(nil)
        let response = try await verifying.bounding(request.key) { () async throws(ObjectStoreError) in
            try await client.send(call, sink: verifying) { [self, call] response in
                guard response.isSuccess else { return .collect }
                // Bytes other than the requested ones must not reach the sink.
                if let refusal = refusal(call, response, wanted, condition) {
                    refused.withLock { $0 = refusal }
                    return .refuse
                }
                guard wanted == nil, settings.verifiesChecksums, let etag = Self.etag(response) else {
                    return .deliver
                }
                if parts == nil, QETag.dependsOnParts(etag.text) {
                    refused.withLock { $0 = .needsParts }
                    return .refuse
                }
                let digest = Base64.decode(etag.text, alphabet: .urlSafe)
                verifying.expect(
                    digest.map { .qetag($0, partSizes: QETag.dependsOnParts(etag.text) ? parts ?? [] : []) })
                return .deliver
            }
        }
        switch refused.withLock({ $0 }) {
        case .error(let error)?: throw error
        case .needsParts?: return nil
        case nil: break
        }
        let answered = wanted == nil ? nil : FamilyStore.contentRange(response.headers)
        let promised = answered?.range.length ?? response.headers["Content-Length"].flatMap { Int64($0) }
        guard promised ?? response.delivered == response.delivered else {
            throw integrity(call, response, "the length of the body is not its Content-Length")
        }
        guard verifying.isKept else { throw integrity(call, response, "the body does not match its hash") }
        let info = try info(call, response, size: answered?.total ?? response.delivered)
        return GetAnswer(
            info: info, range: ByteRange(at: answered?.range.lowerBound ?? 0, count: response.delivered))
    }

    /// The hash in an answer; the ETag of a body that was compressed all the same ends in `.gz`.
    private static func etag(_ response: HTTPResponse) -> ETag? {
        response.headers["ETag"].map { text in
            let etag = ETag(text)
            return etag.text.hasSuffix(".gz") ? ETag(String(etag.text.dropLast(3))) : etag
        }
    }

    /// Why a body is refused.
    private enum Refusal {
        case error(ObjectStoreError)
        /// The body may be right, but cannot be verified without the sizes of the parts.
        case needsParts
    }

    private func refusal(
        _ call: KodoClient.Call, _ response: HTTPResponse, _ wanted: ByteRange?, _ condition: ReadCondition?
    ) -> Refusal? {
        if let reason = FamilyStore.problem(response, asked: wanted) {
            return .error(malformed(call, response, reason))
        }
        guard let etag = Self.etag(response) else {
            return .error(malformed(call, response, "the answer has no ETag"))
        }
        return Self.check(condition, etag, call, response).map { .error($0) }
    }

    /// The cause of a refused read: it may be that the object is archived.
    private func explained(_ error: ObjectStoreError, _ key: ObjectKey) async -> ObjectStoreError {
        guard let object = try? await stat(key, .get).object, KodoStorageClass.isFrozen(object.type ?? 0),
            object.restoreStatus != 2
        else { return error }
        var error = error
        error.kind = .archived(restoring: object.restoreStatus == 1)
        return error
    }

    /// The object's properties from the headers of a download, which do not have its class.
    private func info(
        _ call: KodoClient.Call, _ response: HTTPResponse, size: Int64
    ) throws(ObjectStoreError) -> ObjectInfo {
        let headers = response.headers
        guard let etag = Self.etag(response) else { throw malformed(call, response, "the answer has no ETag") }
        let modified = headers["Last-Modified"].flatMap { Timestamp(httpDate: $0) } ?? .epoch
        var fields: [String: String] = [:]
        for field in headers.fields {
            let name = field.name.lowercased()
            if name.hasPrefix(KodoMetadata.prefix) {
                fields[String(name.dropFirst(KodoMetadata.prefix.count))] = field.value
            } else {
                fields["!\(name)"] = KodoMetadata.isHeader("!\(name)") ? field.value : nil
            }
        }
        let metadata = KodoMetadata.metadata(fields, contentType: headers["Content-Type"])
        var info = ObjectInfo(version: ObjectVersion(etag: etag, size: size, modified: modified), metadata: metadata)
        info.checksum = checksum(etag)
        return info
    }

    /// The hash, when it can be checked without the sizes of parts.
    func checksum(_ etag: ETag) -> ContentChecksum? {
        guard settings.verifiesChecksums, !QETag.dependsOnParts(etag.text) else { return nil }
        return Self.checksum(etag, parts: [])
    }

    private static func checksum(_ etag: ETag, parts: [Int64]) -> ContentChecksum? {
        Base64.decode(etag.text, alphabet: .urlSafe).flatMap { $0.count == 21 ? .qetag($0, partSizes: parts) : nil }
    }

    /// Requests the sizes of the object's parts, where its hash depends on them.
    package func checksums(
        of key: ObjectKey, _ version: ObjectVersion
    ) async throws(ObjectStoreError) -> [CheckedPart] {
        guard settings.verifiesChecksums, QETag.dependsOnParts(version.etag.text) else { return [] }
        let parts = try await stat(key, .head, .ifMatch(version.etag), withParts: true).object.parts ?? []
        let size = parts.reduce(Int64(0)) { $0.addingReportingOverflow($1).partialValue }
        guard size == version.size, let checksum = Self.checksum(version.etag, parts: parts) else { return [] }
        return [CheckedPart(size: size, checksum)]
    }

    // MARK: Storing

    package func put(
        _ request: PutRequest, body: any ByteSource
    ) async throws(ObjectStoreError) -> PutAnswer {
        try check(request.key, .put)
        try check(request.metadata, .put, request.key)
        let policy = try policy(request, size: body.count, .put)
        let digests = try digests(of: body, .put, request.key)
        var fields: [(name: String, value: [UInt8])] = [
            ("key", request.key.bytes.bytes), ("crc32", Array(String(digests.crc32).utf8)),
        ]
        for (name, value) in KodoMetadata.fields(of: request.metadata).sorted(by: { $0.key < $1.key }) {
            fields.append((KodoMetadata.wire(name), Array(value.utf8)))
        }
        for (name, value) in callback(of: request.key)?.variables.sorted(by: { $0.key < $1.key }) ?? [] {
            fields.append((name, Array(value.utf8)))
        }
        let boundary = "pailfs-\(RandomID.hex())"
        let type = settings.uploadPolicy.detectsType ? nil : request.metadata.contentType
        var call = KodoClient.Call(.put, "/", request.key)
        (call.service, call.headers["Content-Type"]) = (.up, KodoForm.contentType(boundary: boundary))
        call.authorization = .form(policy) { [fields] token in
            KodoForm(
                fields: [(name: "token", value: Array(token.utf8))] + fields, file: body, type: type,
                boundary: boundary)
        }
        let hash = QETag.text(digests.hash)
        return try await inserting(request) { () async throws(ObjectStoreError) in
            try await calledBack(call, hash: hash, size: body.count, request.metadata) {
                [call] () async throws(ObjectStoreError) in try await client.send(call)
            }
        }
    }

    /// Checks that the object is the one just stored. Kodo reports success for the same bytes even where it must not replace an
    /// object, and keeps the first writer's object: the metadata shows whose it is.
    func confirm(
        _ key: ObjectKey, _ metadata: ObjectMetadata, _ operation: ObjectStoreError.Operation
    ) async throws(ObjectStoreError) {
        let info = try await stat(key, operation).info
        let isOurs = info.metadata.hasUser(of: metadata)
        guard isOurs, info.metadata.user.count == metadata.user.count else {
            throw ObjectStoreError(
                .preconditionFailed, operation, key: key, code: "Exists",
                message: "another client stored the same bytes under this key")
        }
    }

    struct Digests {
        var md5: [UInt8]
        var crc32: UInt32
        var hash: [UInt8]
    }

    /// Reads the body once. Blocks on local reads.
    func digests(
        of body: any ByteSource, _ operation: ObjectStoreError.Operation, _ key: ObjectKey
    ) throws(ObjectStoreError) -> Digests {
        var (md5, crc32, hash) = (MD5(), CRC32(), QETag())
        do {
            try body.forEachPiece { piece in
                if operation == .uploadPart { md5.update(piece) } else { crc32.update(piece) }
                hash.update(piece)
            }
        } catch {
            throw ObjectStoreError(
                .local(errno: error.errno), operation, key: key, code: "Local", message: error.reason)
        }
        return Digests(md5: md5.finish(), crc32: crc32.value, hash: hash.finish())
    }

    /// Checks names and values against Kodo's rules (Kodo, limits of metadata).
    func check(
        _ metadata: ObjectMetadata, _ operation: ObjectStoreError.Operation, _ key: ObjectKey
    ) throws(ObjectStoreError) {
        var size = 0
        for (name, value) in KodoMetadata.fields(of: metadata) {
            size += KodoMetadata.prefix.utf8.count + name.utf8.count + value.utf8.count
            let plain = name.hasPrefix("!") ? name.dropFirst() : name[...]
            let isName = plain.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == "_") }
            guard isName, !plain.isEmpty, name.utf8.count <= 40 else {
                throw ObjectStoreError(
                    .invalidRequest, operation, key: key, code: "InvalidMetadata",
                    message:
                        "Kodo does not accept the metadata name \(name); use at most 40 letters, digits, '-' and '_'")
            }
        }
        guard size <= 1024 else {
            throw ObjectStoreError(
                .metadataTooLarge, operation, key: key, code: "MetadataTooLarge",
                message: "the metadata has \(size) bytes; Kodo keeps 1024")
        }
    }
}
