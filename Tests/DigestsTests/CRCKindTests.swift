import Digests
import Testing

struct CRCKindTests {
    @Test(arguments: CRCKind.allCases) func piecesJoinToTheWhole(_ kind: CRCKind) {
        let bytes = (0..<100_003).map { UInt8(truncatingIfNeeded: $0 &* $0 &+ 7) }
        for length in [1, 1000, 4096, 65_536, 100_003] {
            var joiner = CRCJoiner(kind, usualLength: Int64(length))
            for start in stride(from: 0, to: bytes.count, by: length) {
                let piece = Array(bytes[start..<min(bytes.count, start + length)])
                joiner.append(kind.value(of: piece.span.bytes), length: Int64(piece.count))
            }
            #expect(joiner.value == kind.value(of: bytes.span.bytes), "pieces of \(length)")
        }
    }

    /// The catalogue of parametrised CRC algorithms, check values of `123456789`.
    @Test func aDigestHasTheValue() {
        let digits = Array("123456789".utf8)
        #expect(CRCKind.crc32.value(ofDigest: CRC32.of(digits)) == 0xCBF4_3926)
        #expect(CRCKind.crc32c.value(ofDigest: CRC32C.of(digits)) == 0xE306_9283)
        #expect(CRCKind.crc64nvme.value(ofDigest: CRC64NVME.of(digits)) == 0xAE8B_1486_0A79_9888)
        #expect(CRCKind.crc64ecma.value(ofDigest: CRC64ECMA.of(digits)) == 0x995D_C9BB_DF19_39FA)
        #expect(CRCKind.crc64ecma.value(ofDigest: CRC32.of(digits)) == nil)
    }
}
