import Basics
import Digests
import HTTP
import ObjectStorage
import Synchronization

/// Whether an ETag of 32 hexadecimal digits is the MD5 of the sent bytes. Buckets that encrypt by default, and gateways that make
/// their own ETags, have others of the same form: a difference means a damaged upload only at a server whose ETags are known to
/// be MD5s. Bytes or a part of known content show that, once for each kind of write.
extension FamilyStore: ETagStore {
    /// The answer to a PUT or an uploaded part, compared with the sent bytes.
    func answer(
        _ call: Call, _ response: HTTPResponse, _ sent: BodyDigests
    ) async throws(ObjectStoreError) -> PutAnswer {
        guard let text = response.headers["ETag"] else {
            throw malformed(call, response, "the answer has no ETag")
        }
        let etag = ETag(text)
        let answer = PutAnswer(etag: etag, versionID: versionID(response), answered: response.date)
        let crc = crc64ecma(response.headers).map { Self.bytes($0) == sent.crc64 }
        let isComparable = settings.verifiesChecksums && isETagOfContent(response.headers)
        let stored = isComparable ? Self.md5(etag) : nil
        guard crc ?? true else { throw integrity(call, response, Self.otherBytes) }
        guard let stored else { return answer }
        guard stored != sent.md5 else {
            learned.withLock { $0.conduct.tellsMD5[call.operation] = true }
            return answer
        }
        // By its CRC the store has the right bytes, so their ETag is no MD5.
        if crc == true {
            note(.opaqueETags)
            return answer
        }
        guard try await isOpaque(etag, call, sent) else { throw integrity(call, response, Self.otherBytes) }
        note(.opaqueETags)
        return answer
    }

    private static let otherBytes = "the store has other bytes than were sent"

    /// Whether an ETag that differs from the MD5 of the sent bytes is no MD5.
    private func isOpaque(
        _ etag: ETag, _ call: Call, _ sent: BodyDigests
    ) async throws(ObjectStoreError) -> Bool {
        guard let key = call.key, learned.withLock({ $0.conduct.tellsMD5[call.operation] }) == nil
        else { return false }
        if call.operation == .put, let stored = try await storedMD5(key, etag) { return stored == sent.md5 }
        return try await makesOpaqueETags(ofParts: key)
    }

    var etagKind: ETagKind? {
        if capabilities.quirks.contains(.opaqueETags) { return .opaque }
        return learned.withLock { $0.conduct.tellsMD5[.put] } == nil ? nil : .md5
    }

    func learn(_ kind: ETagKind) {
        switch kind {
        case .md5: learned.withLock { $0.conduct.tellsMD5[.put] = true }
        case .opaque: note(.opaqueETags)
        }
    }

    func storedMD5(_ key: ObjectKey, _ etag: ETag) async throws(ObjectStoreError) -> [UInt8]? {
        var call = Call(.get, .get, key)
        Self.add(.ifMatch(etag), to: &call.headers)
        addCustomerKey(to: &call.headers)
        let sink = MD5Sink()
        do throws(ObjectStoreError) { _ = try await send(call, sink: sink) } catch {
            if error.isRetryable || error.kind == .cancelled { throw error }
            return nil
        }
        return sink.digest
    }

    /// Uploads a part of known bytes, and aborts the upload, which makes no object.
    private func makesOpaqueETags(ofParts key: ObjectKey) async throws(ObjectStoreError) -> Bool {
        let body = MemorySource(Array("pailfs".utf8))
        let upload = try await createUpload(PutRequest(key))
        var call = Call(.uploadPart, .put, key)
        call.query = [QueryItem("partNumber", "1"), QueryItem("uploadId", upload.text)]
        addCustomerKey(to: &call.headers)
        let digests = try seal(&call, body)
        let response: HTTPResponse
        do { response = try await send(call, body: body) } catch {
            try? await abortUpload(key, upload)
            throw error
        }
        try? await abortUpload(key, upload)
        return response.headers["ETag"].flatMap { Self.md5(ETag($0)) } != digests.md5
    }
}
