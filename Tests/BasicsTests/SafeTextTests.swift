import Basics
import Testing

struct SafeTextTests {
    @Test func plainTextsStay() {
        for text in ["", "Access Denied", "größer ∞"] { #expect(SafeText.of(text) == text) }
    }

    @Test func controlCharactersMakeNoLineAndNoCommand() {
        #expect(SafeText.of("a\nlast-error: none\r\u{1b}[2J\u{9b}\u{7f}") == "a%0Alast-error: none%0D%1B[2J%C2%9B%7F")
    }

    @Test func longTextsAreCut() {
        let cut = SafeText.of(String(repeating: "ü\n", count: 50_000))
        #expect(cut.utf8.count <= SafeText.most + 3 && cut.hasSuffix("…") && !cut.contains("\n"))
    }
}
