import Basics
import Digests
import HTTP
import ObjectStorage
import Synchronization

/// Whether an ETag of 32 hexadecimal digits is the MD5 of the sent bytes. Gateways make others of the same form: a difference
/// means a damaged upload only at a server whose ETags are known to be MD5s. The stored bytes show that, once.
extension SwiftStore: ETagStore {
    /// The ETag of the stored object, compared with the sent bytes.
    func stored(
        _ call: Call, _ response: HTTPResponse, md5: [UInt8]
    ) async throws(ObjectStoreError) -> ETag {
        guard let text = response.headers["Etag"] else { throw malformed(call, response, "the answer has no ETag") }
        let etag = ETag(text)
        guard settings.verifiesChecksums, !hasOpaqueETags else { return etag }
        if etag.text == Hex.encode(md5) {
            learn(.md5)
            return etag
        }
        guard etagKind == nil, try await storedMD5(call, etag) == md5 else {
            throw integrity(call, response, "the store has other bytes than were sent")
        }
        learn(.opaque)
        return etag
    }

    var hasOpaqueETags: Bool { learned.withLock { $0.quirks.contains(.opaqueETags) } }

    var etagKind: ETagKind? {
        learned.withLock { $0.quirks.contains(.opaqueETags) ? .opaque : $0.tellsMD5 ? .md5 : nil }
    }

    func learn(_ kind: ETagKind) {
        learned.withLock { learned in
            switch kind {
            case .md5: learned.tellsMD5 = true
            case .opaque: learned.quirks.insert(.opaqueETags)
            }
        }
    }

    func storedMD5(_ key: ObjectKey, _ etag: ETag) async throws(ObjectStoreError) -> [UInt8]? {
        try await storedMD5(call(.get, .get, key), etag)
    }

    /// The MD5 of the bytes that `written` has stored; nil when these credentials cannot read them.
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
