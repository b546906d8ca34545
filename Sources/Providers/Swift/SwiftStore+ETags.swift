import Basics
import Digests
import HTTP
import ObjectStorage
import Synchronization

/// Whether an ETag of 32 hexadecimal digits is the MD5 of what was sent. Gateways make others that look the same: a difference is
/// the upload's fault only at a server whose ETags are known to be MD5s. The stored bytes show it, once.
extension SwiftStore {
    /// The ETag of what was stored, compared with what was sent.
    func stored(
        _ call: Call, _ response: HTTPResponse, md5: [UInt8]
    ) async throws(ObjectStoreError) -> ETag {
        guard let text = response.headers["Etag"] else { throw malformed(call, response, "the answer has no ETag") }
        let etag = ETag(text)
        guard settings.verifiesChecksums, !hasOpaqueETags else { return etag }
        if etag.text == Hex.encode(md5) {
            learned.withLock { $0.tellsMD5 = true }
            return etag
        }
        guard !learned.withLock({ $0.tellsMD5 }), try await storedMD5(call, etag) == md5 else {
            throw integrity(call, response, "the store has other bytes than were sent")
        }
        learned.withLock { _ = $0.quirks.insert(.opaqueETags) }
        return etag
    }

    var hasOpaqueETags: Bool { learned.withLock { $0.quirks.contains(.opaqueETags) } }

    /// Whether the ETag of an object that was read need not be its MD5, because those of others beside it are none either.
    func makesOpaqueETags(besides key: ObjectKey) async throws(ObjectStoreError) -> Bool {
        if hasOpaqueETags { return true }
        if learned.withLock({ $0.tellsMD5 }) { return false }
        let kind = try await showETags(besides: key) { key, etag async throws(ObjectStoreError) in
            try await storedMD5(call(.get, .get, key), etag)
        }
        switch kind {
        case .md5: learned.withLock { $0.tellsMD5 = true }
        case .opaque: learned.withLock { _ = $0.quirks.insert(.opaqueETags) }
        case nil: break
        }
        return kind == .opaque
    }

    /// The MD5 of the bytes that the store has where `written` put them; nil when these credentials do not read them.
    private func storedMD5(_ written: Call, _ etag: ETag) async throws(ObjectStoreError) -> [UInt8]? {
        var call = written
        (call.operation, call.method, call.headers) = (.get, .get, HTTPHeaders())
        let sink = MD5Sink()
        do throws(ObjectStoreError) {
            let response = try await send(call, sink: sink)
            guard response.headers["Etag"].map({ ETag($0) }) == etag else { return nil }
        } catch {
            if error.isRetryable || error.kind == .cancelled { throw error }
            return nil
        }
        return sink.digest
    }
}
