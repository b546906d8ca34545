import Basics
import DigestVectors
import Digests
import Testing

/// The check string of the CRC catalogue and of the providers' tables.
private let digits = Array("123456789".utf8)
private let partA = [UInt8](repeating: UInt8(ascii: "a"), count: 5_242_880)
private let partB = Array("b".utf8)

@Suite struct DigestTests {
    @Test func digestsMatchTheirPublishedVectors() {
        #expect(
            Hex.encode(SHA256.of("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        #expect(
            Hex.encode(SHA256.of("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        #expect(Hex.encode(SHA1.of("abc")) == "a9993e364706816aba3e25717850c26c9cd0d89d")
        #expect(Hex.encode(MD5.of("message digest")) == "f96b697d7cb7938d525a2f31aaf161d0")  // RFC 1321 A.5
    }

    /// protocols: S3's checksum headers, base64 of the digest of `123456789`.
    @Test func digestsMatchTheStoresTables() {
        #expect(Base64.encode(CRC32.of(digits)) == "y/Q5Jg==")
        #expect(Base64.encode(CRC32C.of(digits)) == "4waSgw==")
        #expect(Base64.encode(CRC64NVME.of(digits)) == "rosUhgp5mIg=")
        #expect(Base64.encode(SHA1.of(digits)) == "98O8HYCOBHMq32eZZczDTKeuNEE=")
        #expect(Base64.encode(SHA256.of(digits)) == "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=")
        #expect(Base64.encode(MD5.of(digits)) == "JfnnlDI7RTiF9RgfG2JNCw==")
        #expect(Hex.encode(MD5.of(digits)) == "25f9e794323b453885f5181f1b624d0b")
        #expect(Base64.encode(CRC32.of("")) == "AAAAAA==")
    }

    @Test func multipartDigestsMatchTheStoresExample() {
        let (first, second) = (MD5.of(partA), MD5.of(partB))
        #expect(Hex.encode(first) == "79b281060d337b9b2b84ccf390adcf74")
        #expect(Hex.encode(second) == "92eb5ffee6ae2fec3ad71c777531578f")
        #expect(Hex.encode(MD5.of(first + second)) == "e5a8c5272b26fc10581a21089559b006")
        #expect(Base64.encode(CRC32.of(partA)) == "r/zBbw==")
        #expect(Base64.encode(CRC32.of(partB)) == "cb7v+Q==")
        #expect(Base64.encode(CRC32.of(CRC32.of(partA) + CRC32.of(partB))) == "dYPmEQ==")
        #expect(Base64.encode(CRC32.of(partA + partB)) == "rBxv8Q==")
        #expect(
            Base64.encode(SHA256.of(SHA256.of(partA) + SHA256.of(partB)))
                == "tfmzeY9XeH2OXmxrtS4iDWlNIKUTAFv0/csHs2lsoD8=")
    }

    /// RFC 4231 test case 2 and RFC 2202 test case 2; S3's signing key from the example of its documentation.
    @Test func codesMatchTheirPublishedVectors() {
        let (key, text) = (Array("Jefe".utf8), "what do ya want for nothing?")
        #expect(
            Hex.encode(HMAC.sha256(text, key: key))
                == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        #expect(Hex.encode(HMAC.sha1(text, key: key)) == "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79")
        let secret = "AWS4wJalrXUtnFEMIEXAMPLESECRETKEY0000000000"
        let signing = ["20231114", "us-east-1", "s3", "aws4_request"]
            .reduce(Array(secret.utf8)) { HMAC.sha256($1, key: $0) }
        #expect(Hex.encode(signing) == "6d8cd85cc1657a8e18f7929685c85c72cb4b27eceabd1c50efca41df3bf9747e")
    }

    @Test func everyLengthAtEveryAlignmentIsAsComputedByteByByte() {
        #expect(DigestVectors.differences() == [])
    }

    @Test func codesAreComparedWhole() {
        #expect(HMAC.isEqual([1, 2], [1, 2]))
        #expect(!HMAC.isEqual([1, 2], [1, 3]))
        #expect(!HMAC.isEqual([1, 2], [1, 2, 3]))
    }

    @Test func aDigestIsTheSameInPieces() {
        func check<Kind: Digest>(_: Kind.Type) {
            let bytes = (0..<1000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 3) }
            var hasher = Kind()
            var rest = bytes[...]
            var size = 0
            while !rest.isEmpty {
                hasher.update(Array(rest.prefix(size)))
                rest = rest.dropFirst(size)
                size += 1
            }
            #expect(hasher.finish() == Kind.of(bytes))
            #expect(hasher.finish() == hasher.finish())
        }
        check(SHA256.self)
        check(SHA1.self)
        check(MD5.self)
        check(CRC32.self)
        check(CRC32C.self)
        check(CRC64NVME.self)
        check(CRC64ECMA.self)
    }
}
