import Basics
import Testing

@Suite struct PathPatternTests {
    struct Row: CustomTestStringConvertible, Sendable {
        let pattern: String
        let name: ByteString
        let fits: Bool
        var testDescription: String { "\(pattern) and \(name)" }

        init(_ pattern: String, _ name: ByteString, _ fits: Bool) {
            (self.pattern, self.name, self.fits) = (pattern, name, fits)
        }
    }

    @Test(arguments: [
        Row("abc", "abc", true), Row("abc", "abcd", false), Row("a*c", "ac", true), Row("a*c", "abbc", true),
        Row("a*c", "a/c", false), Row("a**c", "a/b/c", true), Row("a?c", "abc", true), Row("a?c", "a/c", false),
        Row("a?c", "a\u{e4}c", true), Row("?", ByteString([0xff]), true), Row("[a-c]x", "bx", true),
        Row("[!a-c]x", "bx", false), Row("[!a-c]x", "dx", true), Row("[]]", "]", true), Row("[a-c]", "/", false),
        Row("[\u{e0}-\u{ef}]", "\u{e4}", true), Row("\\*", "*", true), Row("\\*", "a", false),
        Row("*", "", true), Row("", "a", false),
        // Many stars take no more than the product of both lengths.
        Row(String(repeating: "*a", count: 30), ByteString(String(repeating: "a", count: 29) + "b"), false),
    ])
    func aPatternStandsForNames(_ row: Row) throws {
        #expect(try #require(PathPattern(row.pattern)).matches(row.name) == row.fits)
    }

    @Test(arguments: ["[", "[a", "[!]", "a\\", "[z-a]"]) func anErrorIsNoPattern(_ text: String) {
        #expect(PathPattern(text) == nil)
    }
}
