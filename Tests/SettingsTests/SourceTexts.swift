import Foundation

/// A string literal of a source file, or several that `+` joins.
struct SourceText: Hashable {
    var file: String
    var line: Int
    /// As written, interpolations included.
    var shown: String
    /// Each interpolation is `Self.hole`.
    var constant: String
    /// The calls around it, the innermost last.
    var calls: [String]
    /// The label of the argument that it is, or the whole expression before it in the innermost brackets.
    var before: String

    static let hole = "\u{FFFC}"
}

/// Finds the string literals of Swift source. Comments are skipped; literals inside interpolations are found too.
struct SourceTextScanner {
    private let file: String
    private let source: [UInt8]
    private var index = 0
    private var line = 1
    private var brackets: [(call: String, before: [UInt8])] = [("", [])]
    private var texts: [SourceText] = []

    private init(_ source: String, file: String) { (self.source, self.file) = (Array(source.utf8), file) }

    static func texts(in source: String, file: String = "") -> [SourceText] {
        var scanner = SourceTextScanner(source, file: file)
        scanner.code(until: nil)
        return scanner.texts.sorted { $0.line < $1.line }
    }

    private static func text(_ bytes: some Sequence<UInt8>) -> String { String(decoding: Array(bytes), as: UTF8.self) }

    private var byte: UInt8? { index < source.count ? source[index] : nil }

    private func starts(with text: String) -> Bool { source[index...].starts(with: text.utf8) }

    /// Whether a literal begins here; `#` may stand before its quotes.
    private var isAtLiteral: Bool {
        guard let byte else { return false }
        return byte == UInt8(ascii: "\"")
            || byte == UInt8(ascii: "#") && source[index...].first { $0 != UInt8(ascii: "#") } == UInt8(ascii: "\"")
    }

    private mutating func advance(_ count: Int = 1) {
        for _ in 0..<min(count, source.count - index) {
            if source[index] == UInt8(ascii: "\n") { line += 1 }
            index += 1
        }
    }

    /// Reads up to `end`, which closes nothing that was opened here.
    private mutating func code(until end: UInt8?) {
        let depth = brackets.count
        while let byte {
            if byte == end, brackets.count == depth { return }
            if byte == UInt8(ascii: "/"), starts(with: "//") {
                while self.byte.map({ $0 != UInt8(ascii: "\n") }) ?? false { advance() }
            } else if byte == UInt8(ascii: "/"), starts(with: "/*") {
                while index < source.count, !starts(with: "*/") { advance() }
                advance(2)
            } else if isAtLiteral {
                literals()
            } else {
                bracket(byte, above: depth)
                advance()
            }
        }
    }

    private mutating func bracket(_ byte: UInt8, above depth: Int) {
        let top = brackets.count - 1
        switch byte {
        case UInt8(ascii: "("), UInt8(ascii: "["), UInt8(ascii: "{"):
            let name = brackets[top].before.reversed().prefix { Self.isOfName($0) }.reversed()
            brackets[top].before.append(byte)
            brackets.append((byte == UInt8(ascii: "(") ? Self.text(name) : "", []))
        case UInt8(ascii: ")"), UInt8(ascii: "]"), UInt8(ascii: "}"): if top >= depth { brackets.removeLast() }
        case UInt8(ascii: ","): brackets[top].before = []
        default: brackets[top].before.append(byte)
        }
    }

    private static func isOfName(_ byte: UInt8) -> Bool {
        let character = Character(Unicode.Scalar(byte))
        return byte >= 0x80 || character.isLetter || character.isNumber || character == "_"
    }

    /// A literal and those that `+` adds to it.
    private mutating func literals() {
        let (start, calls, before) = (line, brackets.map(\.call), brackets.last?.before ?? [])
        var whole = literal()
        while true {
            let place = (index, line)
            skipSpace()
            guard byte == UInt8(ascii: "+") else {
                (index, line) = place
                break
            }
            advance()
            skipSpace()
            guard isAtLiteral else {
                (index, line) = place
                break
            }
            let next = literal()
            whole = (whole.shown + next.shown, whole.constant + next.constant)
        }
        texts.append(
            SourceText(
                file: file, line: start, shown: whole.shown, constant: whole.constant, calls: calls,
                before: Self.text(before)))
    }

    private mutating func skipSpace() {
        while byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\n") { advance() }
    }

    private mutating func literal() -> (shown: String, constant: String) {
        var hashes = ""
        while byte == UInt8(ascii: "#") {
            hashes += "#"
            advance()
        }
        let quotes = starts(with: "\"\"\"") ? "\"\"\"" : "\""
        advance(quotes.utf8.count)
        let (close, escape) = (quotes + hashes, "\\" + hashes)
        var (shown, constant): ([UInt8], [UInt8]) = ([], [])
        while let byte, !starts(with: close) {
            guard byte == UInt8(ascii: "\\"), starts(with: escape) else {
                shown.append(byte)
                constant.append(byte)
                advance()
                continue
            }
            advance(escape.utf8.count)
            guard let escaped = self.byte else { break }
            if escaped == UInt8(ascii: "(") {
                let start = index
                advance()
                brackets.append(("", []))
                code(until: UInt8(ascii: ")"))
                brackets.removeLast()
                advance()
                shown += escape.utf8 + source[start..<index]
                constant += SourceText.hole.utf8
            } else {
                let bytes = Self.meaning(of: escaped)
                shown += bytes
                constant += bytes
                advance()
            }
        }
        advance(close.utf8.count)
        return (Self.line(Self.text(shown)), Self.line(Self.text(constant)))
    }

    /// The end of a line that goes on is nothing, an end of line a space, every other escape its character.
    private static func meaning(of escaped: UInt8) -> [UInt8] {
        switch escaped {
        case UInt8(ascii: "\n"): []
        case UInt8(ascii: "n"), UInt8(ascii: "r"): [UInt8(ascii: " ")]
        default: [escaped]
        }
    }

    /// Lines of a long literal as one.
    private static func line(_ text: String) -> String {
        guard text.contains("\n") else { return text }
        return text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }
}
