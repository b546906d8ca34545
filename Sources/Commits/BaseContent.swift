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
