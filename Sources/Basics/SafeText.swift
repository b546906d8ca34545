/// Makes text from another machine safe for messages: of bounded length, on one line, without commands to a terminal.
package enum SafeText {
    /// The most bytes of UTF-8 that are kept.
    package static let most = 1024

    /// `text` with control characters, also those from U+0080 to U+009F, as `%XX`; text that is too long ends in an ellipsis.
    package static func of(_ text: String) -> String {
        var isPlain = text.utf8.count <= most
        if isPlain { isPlain = text.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7f } }
        if isPlain { return text }
        var (safe, count) = ("", 0)
        for scalar in text.unicodeScalars {
            let bytes = Array(String(scalar).utf8)
            let isControl = scalar.value < 0x20 || 0x7f..<0xa0 ~= scalar.value
            let shown = isControl ? bytes.map { "%" + Hex.encode([$0]).uppercased() }.joined() : String(scalar)
            count += shown.utf8.count
            guard count <= most else { return safe + "…" }
            safe += shown
        }
        return safe
    }
}
