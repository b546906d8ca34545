package import Basics
package import ObjectStorage

/// The committed version below a dirty file, with the bytes that were not written.
package protocol BaseContent: Sendable {
    /// The key of the object; follows a rename.
    var key: ObjectKey { get }
    var version: ObjectVersion { get }
    /// Calls `deliver` with the bytes of `range` and their offset, piece by piece, in any order, each byte at least
    /// once. Never bytes of another version: then it throws `.preconditionFailed` or `.notFound`.
    func read(
        _ range: ByteRange, deliver: @escaping @Sendable (RawSpan, Int64) throws(ByteTransferError) -> Void
    ) async throws(ObjectStoreError)
}
