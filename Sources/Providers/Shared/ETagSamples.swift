import Basics
import Digests
import ObjectStorage
import Synchronization

/// What the ETags of a server are that look like an MD5.
enum ETagKind { case md5, opaque }

extension ObjectStore {
    /// What the objects beside `key` show, at most three of which are read by `md5`, which answers nil for one that it cannot read.
    /// nil when they show nothing. One MD5 proves that all are.
    func showETags(
        besides key: ObjectKey,
        _ md5: (ObjectKey, ETag) async throws(ObjectStoreError) -> [UInt8]?
    ) async throws(ObjectStoreError) -> ETagKind? {
        let largest: Int64 = 64 << 20
        let end = key.bytes.bytes.lastIndex(of: UInt8(ascii: "/")).map { $0 + 1 } ?? 0
        let page: ListingPage
        do { page = try await list(ListRequest(prefix: ByteString(key.bytes.bytes[..<end]), limit: 100)) } catch {
            if error.kind == .cancelled { throw error }
            return nil
        }
        let samples = page.objects.filter {
            $0.key != key && $0.version.size <= largest && FamilyStore.md5($0.version.etag) != nil
        }.sorted { $0.version.size < $1.version.size }
        var kind: ETagKind?
        for sample in samples.prefix(3) {
            let etag = sample.version.etag
            let read = sample.version.size == 0 ? MD5.of([]) : try await md5(sample.key, etag)
            guard let read else { continue }
            if read == FamilyStore.md5(etag) { return .md5 }
            kind = .opaque
        }
        return kind
    }
}

/// Computes the MD5 of a body. A leaf lock.
final class MD5Sink: ByteSink {
    private let state = Mutex(MD5())

    var digest: [UInt8] { state.withLock { $0.finish() } }

    func receive(_ bytes: RawSpan) { state.withLock { $0.update(bytes) } }
    func restart() { state.withLock { $0 = MD5() } }
}
