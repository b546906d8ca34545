/// The width of text on a terminal, where East Asian characters take two columns and combining marks none.
package enum TextColumns {
    package static func count(_ text: some Sequence<Character>) -> Int { text.reduce(0) { $0 + width($1) } }

    /// The longest beginning that fits in `columns`, with `mark` in place of the rest.
    package static func beginning(of text: String, in columns: Int, mark: String) -> String {
        guard count(text) > columns else { return text }
        return fitting(text, in: columns - count(mark)) + mark
    }

    /// The same for the end.
    package static func end(of text: String, in columns: Int, mark: String) -> String {
        guard count(text) > columns else { return text }
        return mark + String(fitting(String(text.reversed()), in: columns - count(mark)).reversed())
    }

    private static func fitting(_ text: String, in columns: Int) -> String {
        var room = columns
        return String(
            text.prefix { letter in
                room -= width(letter)
                return room >= 0
            })
    }

    private static func width(_ letter: Character) -> Int {
        guard let scalar = letter.unicodeScalars.first else { return 0 }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .format, .control: return 0
        default: return wide.contains { $0.contains(scalar.value) } ? 2 : 1
        }
    }

    /// Wide and full-width characters (Unicode Standard Annex 11), in blocks.
    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF,
        0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1F64F, 0x1F680...0x1F6FF, 0x1F900...0x1F9FF,
        0x20000...0x3FFFD,
    ]
}
