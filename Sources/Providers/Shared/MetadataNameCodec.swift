import Basics

/// Names of user metadata in the characters that a store accepts.
///
/// At stores that refuse underscores (OSS API, "PutObject"; COS API, "PUT Object"), `--` and two hexadecimal digits replace any
/// character other than a lower-case letter, digit or `-`, and a dash that would otherwise be read as the start of such an
/// escape. Names of those characters alone, as other programs use them there, are unchanged.
extension FamilyProfile.MetadataNames {
    func encode(_ name: String) -> String {
        guard self == .noUnderscore else { return name }
        let bytes = Array(name.utf8)
        var text = ""
        for (index, byte) in bytes.enumerated() {
            let isPlain = Self.isPlain(byte) && !(byte == Self.dash && Self.escaped(bytes[index...]) != nil)
            text += isPlain ? String(UnicodeScalar(byte)) : "--" + Hex.encode([byte])
        }
        return text
    }

    func decode(_ name: String) -> String {
        guard self == .noUnderscore else { return name }
        var rest = Array(name.utf8)[...]
        var bytes: [UInt8] = []
        while let byte = rest.first {
            if let escaped = Self.escaped(rest) {
                bytes.append(escaped)
                rest = rest.dropFirst(4)
            } else {
                bytes.append(byte)
                rest = rest.dropFirst()
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static let dash = UInt8(ascii: "-")

    private static func isPlain(_ byte: UInt8) -> Bool {
        byte == dash || (97...122).contains(byte) || (48...57).contains(byte)
    }

    /// The character that `--XX` at the front encodes: a dash, or one that is not allowed itself.
    private static func escaped(_ bytes: ArraySlice<UInt8>) -> UInt8? {
        let front = Array(bytes.prefix(4))
        guard front.count == 4, front[0] == dash, front[1] == dash, let high = Hex.value(front[2]),
            let low = Hex.value(front[3])
        else { return nil }
        let byte = high << 4 | low
        return (33...126).contains(byte) && (byte == dash || !isPlain(byte)) ? byte : nil
    }
}
