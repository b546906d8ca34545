import Digests
import Testing

@Suite struct CRCTests {
    /// The catalogue of parametrised CRC algorithms, check values of `123456789`.
    @Test func valuesMatchTheCatalogue() {
        let digits = Array("123456789".utf8)
        #expect(CRC32.value(of: digits) == 0xCBF4_3926)
        #expect(CRC32C.value(of: digits) == 0xE306_9283)
        #expect(CRC64NVME.value(of: digits) == 0xAE8B_1486_0A79_9888)
        #expect(CRC64ECMA.value(of: digits) == 0x995D_C9BB_DF19_39FA)
    }

    /// RFC 3720 appendix B.4.
    @Test func castagnoliMatchesTheStandardsExamples() {
        #expect(CRC32C.value(of: [UInt8](repeating: 0, count: 32)) == 0x8A91_36AA)
        #expect(CRC32C.value(of: [UInt8](repeating: 0xff, count: 32)) == 0x62A8_AB43)
        #expect(CRC32C.value(of: Array(0..<32)) == 0x46DD_794E)
    }

    @Test func theProcessorAndTheTablesAgree() {
        for count in [0, 1, 7, 8, 9, 63, 64, 65, 4096, 10_001, 16_367, 16_368, 65_536, 100_003] {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 167 &+ 13) }
            #expect(CRC32C.value(of: bytes) == CRC32C.portableValue(of: bytes))
        }
    }

    /// COS and OSS: the value of `hello oss` from OSS's protocol page.
    @Test func ecmaMatchesTheStoresExample() {
        #expect(CRC64ECMA.value(of: Array("hello oss".utf8)) == 15_021_467_531_229_347_219)
    }

    @Test func partsCombineToTheWhole() {
        func check<Kind: CRC>(_: Kind.Type) {
            let bytes = (0..<5000).map { UInt8(truncatingIfNeeded: $0 &* $0 &+ 7) }
            for cut in [0, 1, 255, 256, 2500, 4999, 5000] {
                let (first, second) = (Array(bytes[..<cut]), Array(bytes[cut...]))
                let combined = Kind.combine(
                    Kind.value(of: first), Kind.value(of: second), secondLength: Int64(second.count))
                #expect(combined == Kind.value(of: bytes), "\(Kind.self) cut at \(cut)")
            }
        }
        check(CRC32.self)
        check(CRC32C.self)
        check(CRC64NVME.self)
        check(CRC64ECMA.self)
    }
}
