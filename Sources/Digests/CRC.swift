import CLinux
import CZlib

/// A checksum of a fixed width, whose value for a whole can be computed from those of its parts.
package protocol CRC: Digest {
    associatedtype Value: FixedWidthInteger & UnsignedInteger & Sendable
    /// The checksum of everything so far.
    var value: Value { get }
    /// What `combine` moves the first of two pieces by, for a second one of `length` bytes.
    static func power(_ length: Int64) -> Value
    /// The checksum of two pieces in a row, with the `power` of the second's length.
    static func combine(_ first: Value, _ second: Value, power: Value) -> Value
}

extension CRC {
    /// The value, highest byte first: what stores put into base64.
    package func finish() -> [UInt8] { withUnsafeBytes(of: value.bigEndian) { Array($0) } }

    package static func value(of bytes: RawSpan) -> Value {
        var hasher = Self()
        hasher.update(bytes)
        return hasher.value
    }

    package static func value(of bytes: [UInt8]) -> Value { value(of: bytes.span.bytes) }

    /// The checksum of two pieces in a row; `secondLength` in bytes.
    package static func combine(_ first: Value, _ second: Value, secondLength: Int64) -> Value {
        combine(first, second, power: power(secondLength))
    }
}

/// CRC-32 of IEEE 802.3, as in zlib; by the processor where it can. `x-amz-checksum-crc32` and Kodo.
package struct CRC32: CRC {
    package private(set) var value: UInt32 = 0

    package init() {}

    /// crc32_z, where the processor has no instruction.
    package mutating func update(_ bytes: RawSpan) {
        value = bytes.withUnsafeBytes { buffer in
            if Self.inHardware { return ~linux_crc32(~value, buffer.baseAddress, buffer.count) }
            guard let base = buffer.baseAddress else { return value }
            return UInt32(crc32_z(UInt(value), base.assumingMemoryBound(to: UInt8.self), buffer.count))
        }
    }

    package static func power(_ length: Int64) -> UInt32 { table.power(length) }

    package static func combine(_ first: UInt32, _ second: UInt32, power: UInt32) -> UInt32 {
        table.combine(first, second, power: power)
    }

    private static let inHardware = linux_has_crc32() != 0
    private static let table = CRCTable<UInt32>(polynomial: 0xEDB8_8320)
}

/// CRC-32C (Castagnoli, RFC 3720 appendix B.4); by the processor where it can. Guards cached blocks.
package struct CRC32C: CRC {
    private var register = UInt32.max

    package init() {}
    package var value: UInt32 { ~register }

    package mutating func update(_ bytes: RawSpan) {
        register =
            Self.inHardware
            ? bytes.withUnsafeBytes { linux_crc32c(register, $0.baseAddress, $0.count) }
            : Self.table.update(register, with: bytes)
    }

    /// The value computed without the processor's help, for tests of the tables.
    package static func portableValue(of bytes: [UInt8]) -> UInt32 { ~table.update(.max, with: bytes.span.bytes) }

    package static func power(_ length: Int64) -> UInt32 { table.power(length) }

    package static func combine(_ first: UInt32, _ second: UInt32, power: UInt32) -> UInt32 {
        table.combine(first, second, power: power)
    }

    private static let inHardware = linux_has_crc32c() != 0
    private static let table = CRCTable<UInt32>(polynomial: 0x82F6_3B78)
}

/// CRC-64/NVME; by carry-less multiplication where the processor has it. `x-amz-checksum-crc64nvme`.
package struct CRC64NVME: CRC {
    private var register = UInt64.max

    package init() {}
    package var value: UInt64 { ~register }
    package mutating func update(_ bytes: RawSpan) { register = Self.folding.update(register, with: bytes) }

    package static func power(_ length: Int64) -> UInt64 { folding.table.power(length) }

    package static func combine(_ first: UInt64, _ second: UInt64, power: UInt64) -> UInt64 {
        folding.table.combine(first, second, power: power)
    }

    private static let folding = CRC64Folding(polynomial: 0x9A6C_9329_AC4B_C9B5)
}

/// CRC-64 of ECMA-182, reflected (CRC-64/XZ): OSS and COS.
package struct CRC64ECMA: CRC {
    private var register = UInt64.max

    package init() {}
    package var value: UInt64 { ~register }
    package mutating func update(_ bytes: RawSpan) { register = Self.folding.update(register, with: bytes) }

    package static func power(_ length: Int64) -> UInt64 { folding.table.power(length) }

    package static func combine(_ first: UInt64, _ second: UInt64, power: UInt64) -> UInt64 {
        folding.table.combine(first, second, power: power)
    }

    private static let folding = CRC64Folding(polynomial: 0xC96C_5795_D787_0F42)
}
