import Basics
import Digests
import ObjectStorage
import Synchronization

/// Digests of a body that is about to be sent, computed in one pass over its source.
struct BodyDigests {
    var md5: [UInt8] = []
    var sha256: [UInt8]?
    var crc64: [UInt8]?

    /// Reads `source` once. Blocks on local reads, so it runs on the worker pool. `crc` is an empty digest of the wanted kind.
    init(of source: any ByteSource, sha256 wantsSHA: Bool, crc64 crc: (any Digest)?) throws(ByteTransferError) {
        var md5 = MD5()
        var sha = SHA256()
        var crc = crc
        try source.forEachPiece { piece in
            md5.update(piece)
            if wantsSHA { sha.update(piece) }
            crc?.update(piece)
        }
        self.md5 = md5.finish()
        if wantsSHA { sha256 = sha.finish() }
        crc64 = crc?.finish()
    }
}

/// Passes a whole object on to another sink and computes the digest that the headers announce; its kind is chosen when they
/// arrive.
///
/// Locks: the mutex is held while bytes pass through, by the transport's one thread.
final class VerifyingSink: ByteSink {
    private struct State {
        var promise: ContentChecksum?
        var digest: (any Digest)?
        var received: Int64 = 0
        var isTooLong = false
    }

    private let target: any ByteSink
    private let most: Int64?
    private let state = Mutex(State())

    /// `most` is the number of requested bytes, if known: no more are passed on.
    init(_ target: any ByteSink, atMost most: Int64? = nil) { (self.target, self.most) = (target, most) }

    /// Runs the transfer into this sink. A body with more bytes than requested is an error of the store.
    func bounding<Answer>(
        _ key: ObjectKey, _ transfer: () async throws(ObjectStoreError) -> Answer
    ) async throws(ObjectStoreError) -> Answer {
        do throws(ObjectStoreError) { return try await transfer() } catch {
            guard state.withLock({ $0.isTooLong }) else { throw error }
            throw ObjectStoreError(
                .integrity, .get, key: key, code: "OtherLength",
                message: "the store sent more bytes than were requested")
        }
    }

    /// Call it when the headers have arrived, before the first byte.
    func expect(_ promise: ContentChecksum?) {
        state.withLock { state in
            state.promise = promise
            state.digest = promise?.begin()
        }
    }

    func receive(_ bytes: RawSpan) throws(ByteTransferError) {
        let isTooLong = state.withLock { state in
            state.received += Int64(bytes.byteCount)
            state.isTooLong = most.map { state.received > $0 } ?? false
            if !state.isTooLong { state.digest?.update(bytes) }
            return state.isTooLong
        }
        // EIO
        guard !isTooLong else {
            throw ByteTransferError(errno: 5, reason: "the store sent more bytes than were requested")
        }
        try target.receive(bytes)
    }

    func restart() {
        state.withLock { state in
            state.digest = state.promise?.begin()
            (state.received, state.isTooLong) = (0, false)
        }
        target.restart()
    }

    /// Whether the received bytes have the announced checksum; true when there is none.
    var isKept: Bool {
        state.withLock { state in
            guard let promise = state.promise, let digest = state.digest else { return true }
            return digest.finish() == promise.digest
        }
    }
}
