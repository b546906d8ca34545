package import Basics
package import ObjectStorage

/// The committed version a dirty file started from, where the bytes come from that were not written.
package protocol BaseContent: Sendable {
    /// Where the object is; follows a rename.
    var key: ObjectKey { get }
    var version: ObjectVersion { get }
    /// Calls `deliver` with the bytes of `range` and their offset, piece by piece, in any order, each byte at least
    /// once. Never bytes of another version: then it throws `.preconditionFailed` or `.notFound`.
    func read(
        _ range: ByteRange, deliver: @escaping @Sendable (RawSpan, Int64) throws(ByteTransferError) -> Void
    ) async throws(ObjectStoreError)
}

/// A version read straight from the store: the base of a file that was committed while it stayed dirty.
package struct StoreContent: BaseContent {
    package let key: ObjectKey
    package let version: ObjectVersion
    private let store: any ObjectStore

    package init(_ key: ObjectKey, _ version: ObjectVersion, in store: any ObjectStore) {
        (self.key, self.version, self.store) = (key, version, store)
    }

    package func read(
        _ range: ByteRange, deliver: @escaping @Sendable (RawSpan, Int64) throws(ByteTransferError) -> Void
    ) async throws(ObjectStoreError) {
        let sink = DeliveringSink(start: range.lowerBound, deliver: deliver)
        _ = try await store.get(GetRequest(key, range: range, condition: .ifMatch(version.etag)), into: sink)
    }
}
