import Basics
import Commits
import ObjectStorage
import Synchronization

/// Hands the bytes of one ranged GET on with their offsets.
final class DeliveringSink: ByteSink {
    private let start: Int64
    private let received = Mutex<Int64>(0)
    private let deliver: @Sendable (RawSpan, Int64) throws(ByteTransferError) -> Void

    init(start: Int64, deliver: @escaping @Sendable (RawSpan, Int64) throws(ByteTransferError) -> Void) {
        (self.start, self.deliver) = (start, deliver)
    }

    func receive(_ bytes: RawSpan) throws(ByteTransferError) {
        let count = Int64(bytes.byteCount)
        let offset = received.withLock { received in
            defer { received += count }
            return start + received
        }
        try deliver(bytes, offset)
    }

    func restart() { received.withLock { $0 = 0 } }
}

/// A version read straight from the store.
struct StoreContent: BaseContent {
    let key: ObjectKey
    let version: ObjectVersion
    private let store: any ObjectStore

    init(_ key: ObjectKey, _ version: ObjectVersion, in store: any ObjectStore) {
        (self.key, self.version, self.store) = (key, version, store)
    }

    func read(
        _ range: ByteRange, deliver: @escaping @Sendable (RawSpan, Int64) throws(ByteTransferError) -> Void
    ) async throws(ObjectStoreError) {
        let sink = DeliveringSink(start: range.lowerBound, deliver: deliver)
        _ = try await store.get(GetRequest(key, range: range, condition: .ifMatch(version.etag)), into: sink)
    }
}
