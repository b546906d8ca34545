import Basics
import Digests

/// Every digest against published values, and every checksum against a computation a byte at a time.
///
/// Apart from the tests' own target, so that a program for another processor can do the same (`digest-vectors`).
package enum DigestVectors {
    /// What differs, a line each; empty when nothing does.
    package static func differences() -> [String] {
        published() + lengths(CRC32.self, 0xEDB8_8320) + lengths(CRC32C.self, 0x82F6_3B78)
            + lengths(CRC64NVME.self, 0x9A6C_9329_AC4B_C9B5) + lengths(CRC64ECMA.self, 0xC96C_5795_D787_0F42)
    }

    // MARK: Published values

    /// The catalogue of parametrised CRC algorithms; RFC 3720 B.4; RFC 1321 A.5; FIPS 180-4's examples; RFC 2202; RFC 4231.
    private static func published() -> [String] {
        let digits = Array("123456789".utf8)
        let million = [UInt8](repeating: UInt8(ascii: "a"), count: 1_000_000)
        let (key, question) = (Array("Jefe".utf8), "what do ya want for nothing?")
        let rows: [(name: String, value: String, expected: String)] = [
            ("CRC-32", Hex.encode(CRC32.of(digits)), "cbf43926"),
            ("CRC-32C", Hex.encode(CRC32C.of(digits)), "e3069283"),
            ("CRC-32C of zeros", Hex.encode(CRC32C.of([UInt8](repeating: 0, count: 32))), "8a9136aa"),
            ("CRC-64/NVME", Hex.encode(CRC64NVME.of(digits)), "ae8b14860a799888"),
            ("CRC-64/XZ", Hex.encode(CRC64ECMA.of(digits)), "995dc9bbdf1939fa"),
            ("MD5", Hex.encode(MD5.of("message digest")), "f96b697d7cb7938d525a2f31aaf161d0"),
            ("MD5 of a million", Hex.encode(MD5.of(million)), "7707d6ae4e027c70eea2a935c2296f21"),
            ("SHA-1", Hex.encode(SHA1.of("abc")), "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("SHA-1 of a million", Hex.encode(SHA1.of(million)), "34aa973cd4c4daa4f61eeb2bdbad27316534016f"),
            (
                "SHA-256", Hex.encode(SHA256.of("abc")),
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
            ),
            (
                "SHA-256 of a million", Hex.encode(SHA256.of(million)),
                "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
            ),
            ("HMAC-SHA-1", Hex.encode(HMAC.sha1(question, key: key)), "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
            (
                "HMAC-SHA-256", Hex.encode(HMAC.sha256(question, key: key)),
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
            ),
        ]
        return rows.filter { $0.value != $0.expected }.map { "\($0.name): \($0.value), not \($0.expected)" }
    }

    // MARK: Lengths and alignments

    /// The lengths at which three stretches and six of CLinux/crc32.c end.
    private static let ends = [16_368, 32_736]

    /// Every length up to 300 at every alignment to 16 bytes, and those around `ends` at two, at once and in two pieces.
    private static func lengths<Kind: CRC>(_: Kind.Type, _ polynomial: Kind.Value) -> [String] {
        let table = (0..<256).map { byte in
            (0..<8).reduce(Kind.Value(byte)) { word, _ in word & 1 == 0 ? word >> 1 : word >> 1 ^ polynomial }
        }
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 32_736 + 64, alignment: 64)
        defer { memory.deallocate() }
        for index in memory.indices { memory[index] = UInt8(truncatingIfNeeded: index &* 167 &+ index >> 8) }
        var differences: [String] = []
        for alignment in 0..<16 {
            let longest = [0, 5].contains(alignment) ? 32_752 : 300
            let bytes = UnsafeRawBufferPointer(rebasing: memory[alignment..<(alignment + longest)])
            var register = Kind.Value.max
            for length in 0...bytes.count {
                if length > 0 {
                    register = register >> 8 ^ table[Int((register ^ Kind.Value(bytes[length - 1])) & 0xff)]
                }
                guard length <= 300 || ends.contains(where: { abs($0 - length) <= 9 }) else { continue }
                let whole = Kind.value(of: UnsafeRawBufferPointer(rebasing: bytes[..<length]).bytes)
                var pieces = Kind()
                pieces.update(UnsafeRawBufferPointer(rebasing: bytes[..<(length / 3)]).bytes)
                pieces.update(UnsafeRawBufferPointer(rebasing: bytes[(length / 3)..<length]).bytes)
                if whole != ~register || pieces.value != ~register {
                    differences.append("\(Kind.self) of \(length) bytes at \(alignment): \(whole), not \(~register)")
                }
            }
        }
        return Array(differences.prefix(5))
    }
}
