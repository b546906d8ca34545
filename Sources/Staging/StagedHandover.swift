package import Basics

/// A staging file on its way to a new owner.
package struct StagedHandover: Sendable, Hashable {
    package let path: String
    /// The file's length in bytes.
    package let size: Int64
    /// The bytes that are right; elsewhere the file holds anything.
    package let present: [ByteRange]
    /// What the ledger was charged, now the new owner's to give back.
    package let reservedBytes: Int64
}
