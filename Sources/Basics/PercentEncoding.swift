/// Bytes as text of a URL: everything but letters, digits and `-._~` as `%XX` (RFC 3986 section 2.3), upper-case digits.
package enum PercentEncoding {
    private static let digits = Array("0123456789ABCDEF".utf8)

    /// `keepingSlash` leaves `/` as it is, for paths.
    package static func encode(_ bytes: some Sequence<UInt8>, keepingSlash: Bool = false) -> String {
        var text: [UInt8] = []
        text.reserveCapacity(bytes.underestimatedCount)
        for byte in bytes {
            if isUnreserved(byte) || keepingSlash && byte == UInt8(ascii: "/") {
                text.append(byte)
            } else {
                text.append(UInt8(ascii: "%"))
                text.append(digits[Int(byte >> 4)])
                text.append(digits[Int(byte & 15)])
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    package static func encode(_ text: String, keepingSlash: Bool = false) -> String {
        encode(text.utf8, keepingSlash: keepingSlash)
    }

    package static func encode(_ bytes: ByteString, keepingSlash: Bool = false) -> String {
        encode(bytes.bytes, keepingSlash: keepingSlash)
    }

    /// nil when a `%` is not followed by two hexadecimal digits. `plusIsSpace` is the rule of HTML forms, which S3's
    /// listings follow too.
    package static func decode(_ text: some StringProtocol, plusIsSpace: Bool = false) -> [UInt8]? {
        var bytes: [UInt8] = []
        var rest = text.utf8.makeIterator()
        while let byte = rest.next() {
            switch byte {
            case UInt8(ascii: "%"):
                guard let high = rest.next().flatMap(Hex.value), let low = rest.next().flatMap(Hex.value) else {
                    return nil
                }
                bytes.append(high << 4 | low)
            case UInt8(ascii: "+") where plusIsSpace: bytes.append(UInt8(ascii: " "))
            default: bytes.append(byte)
            }
        }
        return bytes
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"):
            true
        default: false
        }
    }
}
