/// The checksums whose value for a whole follows from those of its parts. The raw value is kept on disk.
package enum CRCKind: UInt8, Sendable, Hashable, CaseIterable {
    case crc32 = 1
    case crc32c = 2
    case crc64nvme = 3
    case crc64ecma = 4

    /// The checksum of `bytes`; of 32 bits in the lower half.
    package func value(of bytes: RawSpan) -> UInt64 {
        switch self {
        case .crc32: UInt64(CRC32.value(of: bytes))
        case .crc32c: UInt64(CRC32C.value(of: bytes))
        case .crc64nvme: CRC64NVME.value(of: bytes)
        case .crc64ecma: CRC64ECMA.value(of: bytes)
        }
    }

    /// The value that a digest has, highest byte first; nil when it has another length.
    package func value(ofDigest digest: [UInt8]) -> UInt64? {
        guard digest.count == width else { return nil }
        return digest.reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// In bytes.
    private var width: Int {
        switch self {
        case .crc32, .crc32c: 4
        case .crc64nvme, .crc64ecma: 8
        }
    }

    /// What moves a checksum past `length` bytes.
    fileprivate func power(_ length: Int64) -> UInt64 {
        switch self {
        case .crc32: UInt64(CRC32.power(length))
        case .crc32c: UInt64(CRC32C.power(length))
        case .crc64nvme: CRC64NVME.power(length)
        case .crc64ecma: CRC64ECMA.power(length)
        }
    }

    fileprivate func combine(_ first: UInt64, _ second: UInt64, power: UInt64) -> UInt64 {
        switch self {
        case .crc32:
            UInt64(
                CRC32.combine(
                    UInt32(truncatingIfNeeded: first), UInt32(truncatingIfNeeded: second),
                    power: UInt32(truncatingIfNeeded: power)))
        case .crc32c:
            UInt64(
                CRC32C.combine(
                    UInt32(truncatingIfNeeded: first), UInt32(truncatingIfNeeded: second),
                    power: UInt32(truncatingIfNeeded: power)))
        case .crc64nvme: CRC64NVME.combine(first, second, power: power)
        case .crc64ecma: CRC64ECMA.combine(first, second, power: power)
        }
    }
}

/// Joins the checksums of pieces in a row, nearly all of which have one length: a multiplication for each of those.
package struct CRCJoiner: Sendable {
    /// Of everything so far; 0 of nothing.
    package private(set) var value: UInt64 = 0
    private let kind: CRCKind
    private let usualLength: Int64
    private let usualPower: UInt64

    /// `usualLength` in bytes.
    package init(_ kind: CRCKind, usualLength: Int64) {
        (self.kind, self.usualLength, usualPower) = (kind, usualLength, kind.power(usualLength))
    }

    /// Adds a piece of `length` bytes.
    package mutating func append(_ piece: UInt64, length: Int64) {
        value = kind.combine(value, piece, power: length == usualLength ? usualPower : kind.power(length))
    }
}
