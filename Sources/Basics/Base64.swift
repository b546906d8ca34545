/// Bytes as base64 text with padding (RFC 4648 section 4), or with the alphabet for URLs (section 5).
package enum Base64 {
    package enum Alphabet: Sendable {
        /// `+` and `/`.
        case standard
        /// `-` and `_`; Kodo's "URL-safe" form, padded like the other.
        case urlSafe

        fileprivate var characters: [UInt8] {
            let common = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
            return Array((common + (self == .standard ? "+/" : "-_")).utf8)
        }
    }

    private static let padding = UInt8(ascii: "=")

    package static func encode(_ bytes: some Collection<UInt8>, alphabet: Alphabet = .standard) -> String {
        let characters = alphabet.characters
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        var bits: UInt32 = 0
        var held = 0
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            held += 8
            while held >= 6 {
                held -= 6
                text.append(characters[Int(bits >> UInt32(held) & 63)])
            }
        }
        if held > 0 { text.append(characters[Int(bits << UInt32(6 - held) & 63)]) }
        while !text.count.isMultiple(of: 4) { text.append(padding) }
        return String(decoding: text, as: UTF8.self)
    }

    /// nil unless `encode` returns `text` for some bytes.
    package static func decode(_ text: some StringProtocol, alphabet: Alphabet = .standard) -> [UInt8]? {
        var values = [UInt8](repeating: 255, count: 256)
        for (value, character) in alphabet.characters.enumerated() { values[Int(character)] = UInt8(value) }
        var characters = Array(text.utf8)
        guard characters.count.isMultiple(of: 4) else { return nil }
        for _ in 0..<2 where characters.last == padding { characters.removeLast() }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(characters.count / 4 * 3 + 2)
        var bits: UInt32 = 0
        var held = 0
        for character in characters {
            let value = values[Int(character)]
            guard value < 64 else { return nil }
            bits = bits << 6 | UInt32(value)
            held += 6
            if held >= 8 {
                held -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(held)))
            }
        }
        // Six bits left over would be a lone character; other left-over bits must be zero.
        guard held < 6, bits & (1 << UInt32(held) - 1) == 0 else { return nil }
        return bytes
    }
}
