import Basics
import TestSupport
import Testing

@Suite struct BytesTests {
    @Test func byteStringsCompareByUnsignedBytes() {
        let sorted: [ByteString] = ["", "Z", "a", "a.txt", "a/b", ByteString([0x61, 0xff]), ByteString([0xff])]
        #expect(sorted.shuffled().sorted() == sorted)
    }

    @Test func byteStringsAreTakenApart() {
        let name: ByteString = "name.txt"
        #expect(name.hasPrefix("name") && !name.hasPrefix("names"))
        #expect(name.hasSuffix(".txt") && !name.hasSuffix("a very long name.txt"))
        #expect(name.dropFirst(5) == "txt")
        #expect(name.dropLast(4) == "name")
        #expect(name.dropFirst(99).isEmpty)
        #expect(name + "!" == "name.txt!")
    }

    @Test func illFormedBytesKeepTheirIdentity() {
        #expect(ByteString([0xff]) != ByteString([0xfe]))
        #expect(ByteString([0xff]).description == ByteString([0xfe]).description)
    }

    @Test func rangesAlignOutwardAndStayInTheLimit() {
        #expect(ByteRange(at: 5, count: 10).aligned(to: 8, limit: 100) == 0..<16)
        #expect(ByteRange(at: 8, count: 8).aligned(to: 8, limit: 100) == 8..<16)
        #expect(ByteRange(at: 90, count: 5).aligned(to: 64, limit: 100) == 64..<100)
        #expect(ByteRange(at: 200, count: 5).aligned(to: 64, limit: 100) == 192..<192)
        #expect((Int64.max - 3..<Int64.max).aligned(to: 8, limit: .max) == Int64.max - 7..<Int64.max)
        #expect(ByteRange(at: 5, count: 10).length == 10)
    }

    @Test func aBodyInMemoryIsReadFromAnyOffset() throws {
        let source = MemorySource(Array(0..<100))
        #expect(source.count == 100)
        #expect(try source.collect(piece: 7) == Array(0..<100))
        #expect(try source.collect(from: 90) == Array(90..<100))
        #expect(try source.collect(from: 100) == [])
    }

    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ])
    func base64MatchesItsStandard(plain: String, text: String) {
        // RFC 4648 section 10.
        #expect(Base64.encode(Array(plain.utf8)) == text)
        #expect(Base64.decode(text) == Array(plain.utf8))
    }

    @Test func base64ForURLsHasItsOwnAlphabet() {
        #expect(Base64.encode([0xfb, 0xff]) == "+/8=")
        #expect(Base64.encode([0xfb, 0xff], alphabet: .urlSafe) == "-_8=")
        #expect(Base64.decode("-_8=", alphabet: .urlSafe) == [0xfb, 0xff])
        #expect(Base64.decode("-_8=") == nil)
    }

    @Test(arguments: ["A", "AA", "AAA", "AB==", "A===", "====", "AA=A", "AA==AAAA", "ä==="])
    func badBase64IsRefused(text: String) {
        #expect(Base64.decode(text) == nil)
    }

    @Test func hexGoesBothWays() {
        #expect(Hex.encode([0x00, 0xab, 0xff]) == "00abff")
        #expect(Hex.encode([0xab], uppercase: true) == "AB")
        #expect(Hex.decode("00aBFf") == [0x00, 0xab, 0xff])
        #expect(Hex.decode("0") == nil)
        #expect(Hex.decode("0g") == nil)
    }

    @Test func randomIDsDiffer() {
        #expect(RandomID.hex(bytes: 8).count == 16)
        #expect(Set((0..<100).map { _ in RandomID.hex() }).count == 100)
    }
}
