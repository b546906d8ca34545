import Basics
import FoundationEssentials
import Glibc

/// What commands print: results only, on standard output.
enum Output {
    /// Control characters, which could be commands to a terminal, as `%XX`.
    static func text(_ bytes: ByteString) -> String {
        var clean: [UInt8] = []
        for byte in bytes.bytes {
            if byte < 32 || byte == 127 {
                clean += Array("%\(Hex.encode([byte]).uppercased())".utf8)
            } else {
                clean.append(byte)
            }
        }
        return String(decoding: clean, as: UTF8.self)
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

    /// Bytes as they are: a name that is no UTF-8 arrives as such. When nobody reads any more the program ends.
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
