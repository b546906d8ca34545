import Basics
import FoundationEssentials
import Glibc

/// The output of commands: results only, on standard output.
enum Output {
    /// Writes control characters, which could be commands to a terminal, as `%XX`, also those from U+0080 to U+009F.
    static func text(_ bytes: ByteString) -> String { text(bytes.bytes) }

    private static func text(_ bytes: [UInt8]) -> String {
        var clean: [UInt8] = []
        for (index, byte) in bytes.enumerated() {
            let opens = byte == 0xc2 && index + 1 < bytes.count && 0x80..<0xa0 ~= bytes[index + 1]
            let follows = 0x80..<0xa0 ~= byte && index > 0 && bytes[index - 1] == 0xc2
            if byte < 32 || byte == 127 || opens || follows {
                clean += Array("%\(Hex.encode([byte]).uppercased())".utf8)
            } else {
                clean.append(byte)
            }
        }
        return String(decoding: clean, as: UTF8.self)
    }

    /// One line for a terminal. Parts of it may come from elsewhere: they must not start another line.
    static func say(_ text: String) { print(Self.text(ByteString(text))) }

    /// A line with a name in it: as it is for a program, without control characters for a terminal.
    static func line(naming bytes: ByteString) {
        line(isatty(STDOUT_FILENO) == 1 ? ByteString(text(bytes)) : bytes)
    }

    /// `text` and spaces up to `width` bytes, and no fewer than `gap` of them.
    static func padded(_ text: String, to width: Int, gap: Int = 0) -> String {
        text + String(repeating: " ", count: max(gap, width - text.utf8.count))
    }

    /// What `--json` prints: the same document gives the same text.
    static func json(_ document: some Encodable, isOneLine: Bool = false) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        if !isOneLine { encoder.outputFormatting.insert(.prettyPrinted) }
        return String(decoding: try encoder.encode(document), as: UTF8.self)
    }

    /// What `--json` has of a name: its text, and the bytes in base64 (RFC 4648) where they are no UTF-8.
    static func names(_ bytes: ByteString) -> (text: String, base64: String?) {
        let text = String(decoding: bytes.bytes, as: UTF8.self)
        return (text, Array(text.utf8) == bytes.bytes ? nil : Base64.encode(bytes.bytes))
    }

    /// One document on a line of its own.
    static func jsonLine(_ document: some Encodable) throws { line(ByteString(try json(document, isOneLine: true))) }

    /// Prints bytes as they are: a name need not be UTF-8. Ends the program when standard output is closed by its reader.
    static func line(_ bytes: ByteString) {
        guard write((bytes + "\n").bytes[...]) else { exit(EXIT_FAILURE) }
    }

    /// All of `bytes`; false, with the reason in errno, when they could not be written. write(2)
    static func write(_ bytes: ArraySlice<UInt8>) -> Bool {
        var rest = bytes
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(STDOUT_FILENO, $0.baseAddress, $0.count) }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }
}
