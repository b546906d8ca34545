import Basics
import Digests

extension CRC64ECMA {
    /// The number that a digest made by this type is.
    static func number(ofDigest digest: [UInt8]) -> UInt64 { digest.reduce(0) { $0 << 8 | UInt64($1) } }
}

extension [PartRecord] {
    /// CRC-64/ECMA of the parts in a row; nil when one of them came through a dialect that computes none.
    var crc64: UInt64? {
        reduce(Optional(UInt64(0))) { whole, part in
            guard let whole, let next = part.crc64 else { return nil }
            return CRC64ECMA.combine(whole, next, secondLength: part.size)
        }
    }
}
