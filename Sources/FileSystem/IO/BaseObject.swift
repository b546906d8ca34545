import Basics
import Blocks
import Commits
import ObjectStorage
import Synchronization

/// The committed bytes below a draft, for parts that need them. Reads through the block cache.
struct BaseObject: BaseContent {
    let object: CachedObject
    let buffers: BufferPool
    private let history: History

    init(object: CachedObject, buffers: BufferPool) {
        (self.object, self.buffers, history) = (object, buffers, History(object))
    }

    /// The ranges of the object that went into the new one, whose commit fails if any of them was damaged.
    private final class History: Sendable {
        private let watch: Mutex<DamageWatch>

        init(_ object: CachedObject) { watch = Mutex(DamageWatch(object)) }

        func note(_ range: ByteRange, of object: CachedObject) throws(ObjectStoreError) {
            if let error = watch.withLock({ $0.note(range, of: object) }) { throw error }
        }
    }

    /// Bytes asked for at once: what one ranged GET brings, if there is memory for it.
    static func step(_ buffers: BufferPool) -> Int64 { Int64(min(8 << 20, buffers.budget.limit)) }

    var key: ObjectKey { object.key }
    var version: ObjectVersion { object.version }

    func read(
        _ range: ByteRange, deliver: @escaping @Sendable (RawSpan, Int64) throws(ByteTransferError) -> Void
    ) async throws(ObjectStoreError) {
        var offset = range.lowerBound
        let step = Self.step(buffers)
        while offset < range.upperBound {
            let piece = offset..<min(range.upperBound, offset + step)
            let buffer: Buffer
            do { buffer = try await buffers.borrow(Int(piece.length)) } catch { throw failure(.cancelled, "cancelled") }
            do { try await object.read(piece, into: buffer, at: 0) } catch {
                switch error {
                case .stale(let cause), .store(let cause): throw cause
                case .cancelled: throw failure(.cancelled, "cancelled")
                }
            }
            do throws(ByteTransferError) {
                try buffer.withBytes(0..<Int(piece.length)) { bytes throws(ByteTransferError) in
                    try deliver(bytes, offset)
                }
            } catch { throw failure(.local(errno: error.errno), error.reason) }
            try history.note(piece, of: object)
            offset = piece.upperBound
        }
    }

    private func failure(_ kind: ObjectStoreError.Kind, _ reason: String) -> ObjectStoreError {
        ObjectStoreError(kind, .get, key: key, message: reason)
    }
}
