import Basics
import Digests
import ObjectStorage
import Synchronization

/// Whether a server's ETags with the form of an MD5 are one.
enum ETagKind { case md5, opaque }

/// A store that learns from its server whether those ETags are MD5s.
protocol ETagStore: ObjectStore {
    /// nil until a write or a read has shown it.
    var etagKind: ETagKind? { get }
    func learn(_ kind: ETagKind)
    /// The MD5 of the stored bytes; nil when these credentials cannot read them.
    func storedMD5(_ key: ObjectKey, _ etag: ETag) async throws(ObjectStoreError) -> [UInt8]?
}

extension ETagStore {
    /// Whether the ETag of an object that was read need not be its MD5, because those of objects beside it are not either. If
    /// this process has written, or one ETag is an MD5, all are.
    func makesOpaqueETags(besides key: ObjectKey) async throws(ObjectStoreError) -> Bool {
        if let known = etagKind { return known == .opaque }
        let kind = try await showETags(besides: key)
        if let kind { learn(kind) }
        return kind == .opaque
    }

    /// Tells from objects beside `key` whether the store's ETags are MD5s; nil if these objects do not tell. It reads at most three
    /// of them. One ETag that is the MD5 of its object proves that all are.
    private func showETags(besides key: ObjectKey) async throws(ObjectStoreError) -> ETagKind? {
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
            let read = sample.version.size == 0 ? MD5.of([]) : try await storedMD5(sample.key, etag)
            guard let read else { continue }
            if read == FamilyStore.md5(etag) { return .md5 }
            kind = .opaque
        }
        return kind
    }
}

/// Computes the MD5 of a body. Locks: a leaf.
final class MD5Sink: ByteSink {
    private let state = Mutex(MD5())

    var digest: [UInt8] { state.withLock { $0.finish() } }

    func receive(_ bytes: RawSpan) { state.withLock { $0.update(bytes) } }
    func restart() { state.withLock { $0 = MD5() } }
}
