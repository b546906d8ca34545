import CLinux

/// A reflected CRC-64 that moves 64 bytes at a time by the processor's carry-less multiplication, and what is left by tables.
///
/// Built once for each polynomial.
struct CRC64Folding: Sendable {
    let table: CRCTable<UInt64>
    /// x^575, x^511, x^191 and x^127 modulo the polynomial: past 64 bytes and past 16 (CLinux/crc64.c).
    private let powers: [UInt64]

    /// `polynomial` in reflected form, its highest power left out.
    init(polynomial: UInt64) {
        table = CRCTable(polynomial: polynomial)
        powers = [575, 511, 191, 127].map { exponent in
            (0..<exponent).reduce(1 << 63) { power, _ in power & 1 == 0 ? power >> 1 : power >> 1 ^ polynomial }
        }
    }

    /// Takes `bytes` into `register`, the CRC without its final inversion.
    func update(_ register: UInt64, with bytes: RawSpan) -> UInt64 {
        // For less the tables are as fast.
        guard Self.inHardware, bytes.byteCount >= 128 else { return table.update(register, with: bytes) }
        return bytes.withUnsafeBytes { buffer in
            var folded: [UInt64] = [0, 0]
            let taken = linux_crc64_fold(powers, register, buffer.baseAddress, buffer.count, &folded)
            return table.update(
                table.update(0, with: folded.span.bytes),
                with: UnsafeRawBufferPointer(rebasing: buffer[taken...]).bytes)
        }
    }

    private static let inHardware = linux_has_crc64_fold() != 0
}
