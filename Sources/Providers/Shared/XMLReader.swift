import Basics

/// Why a document could not be parsed: the offset in bytes, and the reason.
struct XMLError: Error, Sendable, CustomStringConvertible {
    let offset: Int
    let reason: String
    /// Whether the document violates the protocol, and was not merely cut off.
    var isFinal = false
    var description: String { "\(reason) at byte \(offset)" }
}

/// Reads the small, regular XML of object stores in one pass, without building a tree.
///
/// Elements are visited with `elements`, whose closure reads each child by `text`, `elements` or not at all. Names come without
/// their namespace prefix; attributes, comments and processing instructions are skipped. Document types are not supported, nor
/// entities other than the five of XML and character references, and nesting is bounded, so the time for a document is
/// proportional to its length.
struct XMLReader {
    private static let deepest = 32

    private let bytes: [UInt8]
    private var position = 0
    /// Raw names of the open elements.
    private var open: [Range<Int>] = []
    /// The element just opened ended with `/>`.
    private var isSelfClosed = false

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Visits the root element; its name goes to `body`, which reads its content.
    mutating func root(_ body: (inout XMLReader, String) throws(XMLError) -> Void) throws(XMLError) {
        guard let name = try nextTag() else { throw error("no root element") }
        try visit(name, body)
        guard try nextTag() == nil, open.isEmpty else { throw error("content after the root element") }
    }

    /// The name of the root element, before anything was read; nil for an empty document.
    func rootName() throws(XMLError) -> String? {
        var copy = self
        return try copy.nextTag()
    }

    /// Calls `body` with the name of each child of the element being read, to the end of that element.
    mutating func elements(_ body: (inout XMLReader, String) throws(XMLError) -> Void) throws(XMLError) {
        if endSelfClosed() { return }
        while let name = try nextTag() { try visit(name, body) }
    }

    /// The text of the element being read, which has no children.
    mutating func text() throws(XMLError) -> String { String(decoding: try rawText(), as: UTF8.self) }

    /// The text as bytes.
    mutating func content() throws(XMLError) -> ByteString { ByteString(try rawText()) }

    /// The text of the element being read without that of its children; `body` is called with each child.
    mutating func mixed(_ body: (inout XMLReader, String) throws(XMLError) -> Void) throws(XMLError) -> String {
        if endSelfClosed() { return "" }
        var text: [UInt8] = []
        while true {
            while let byte = peek(), byte != UInt8(ascii: "<") {
                if byte == UInt8(ascii: "&") {
                    try readReference(into: &text)
                } else {
                    text.append(byte)
                    position += 1
                }
            }
            if starts(with: "<![CDATA[") {
                let start = position + 9
                try skip(past: "]]>")
                text += bytes[start..<position - 3]
                continue
            }
            guard let name = try nextTag() else { return String(decoding: text, as: UTF8.self) }
            try visit(name, body)
        }
    }

    private mutating func visit(
        _ name: String, _ body: (inout XMLReader, String) throws(XMLError) -> Void
    ) throws(XMLError) {
        let depth = open.count
        try body(&self, name)
        while open.count >= depth { try skip() }
    }

    /// Skips the rest of the element being read.
    private mutating func skip() throws(XMLError) {
        if endSelfClosed() { return }
        let depth = open.count
        while open.count >= depth {
            if try nextTag() != nil { _ = endSelfClosed() }
        }
    }

    private mutating func endSelfClosed() -> Bool {
        guard isSelfClosed else { return false }
        isSelfClosed = false
        open.removeLast()
        return true
    }

    // MARK: Tags

    /// Opens the next element and returns its name; nil when an end tag closed the current one, or at the end.
    private mutating func nextTag() throws(XMLError) -> String? {
        while position < bytes.count {
            guard bytes[position] == UInt8(ascii: "<") else {
                position += 1
                continue
            }
            position += 1
            switch peek() {
            case UInt8(ascii: "/"):
                try closeTag()
                return nil
            case UInt8(ascii: "?"): try skip(past: "?>")
            case UInt8(ascii: "!"):
                if starts(with: "!--") {
                    try skip(past: "-->")
                } else if starts(with: "![CDATA[") {
                    try skip(past: "]]>")
                } else {
                    throw refusal("document types are not supported")
                }
            default: return try openTag()
            }
        }
        guard open.isEmpty else { throw error("the document ends inside an element") }
        return nil
    }

    private mutating func openTag() throws(XMLError) -> String {
        let name = try readName()
        guard open.count < Self.deepest else { throw refusal("elements nested deeper than \(Self.deepest)") }
        var quote: UInt8?
        while position < bytes.count {
            let byte = bytes[position]
            position += 1
            if let open = quote {
                if byte == open { quote = nil }
            } else if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
                quote = byte
            } else if byte == UInt8(ascii: ">") {
                isSelfClosed = bytes[position - 2] == UInt8(ascii: "/")
                open.append(name)
                let local = bytes[name].lastIndex(of: UInt8(ascii: ":")).map { $0 + 1 } ?? name.lowerBound
                return String(decoding: bytes[local..<name.upperBound], as: UTF8.self)
            }
        }
        throw error("a tag has no end")
    }

    private mutating func closeTag() throws(XMLError) {
        position += 1
        let name = try readName()
        while let byte = peek(), byte != UInt8(ascii: ">") {
            guard Self.isSpace(byte) else { throw error("an end tag has more than a name") }
            position += 1
        }
        guard peek() != nil else { throw error("a tag has no end") }
        position += 1
        guard let opened = open.popLast(), bytes[opened].elementsEqual(bytes[name]) else {
            throw error("an end tag does not match its start tag")
        }
    }

    private mutating func readName() throws(XMLError) -> Range<Int> {
        let start = position
        while let byte = peek(), !Self.isSpace(byte), byte != UInt8(ascii: ">"), byte != UInt8(ascii: "/"),
            byte != UInt8(ascii: "<")
        {
            position += 1
        }
        guard position > start else { throw error("a tag without a name") }
        return start..<position
    }

    // MARK: Text

    private mutating func rawText() throws(XMLError) -> [UInt8] {
        if endSelfClosed() { return [] }
        var text: [UInt8] = []
        while true {
            guard let byte = peek() else { throw error("the document ends inside an element") }
            switch byte {
            case UInt8(ascii: "&"): try readReference(into: &text)
            case UInt8(ascii: "<"):
                position += 1
                if starts(with: "![CDATA[") {
                    let start = position + 8
                    try skip(past: "]]>")
                    text += bytes[start..<position - 3]
                } else if starts(with: "!--") {
                    try skip(past: "-->")
                } else if peek() == UInt8(ascii: "/") {
                    try closeTag()
                    return text
                } else {
                    throw error("an element where text was expected")
                }
            default:
                text.append(byte)
                position += 1
            }
        }
    }

    /// `&name;` or `&#number;` (XML 1.0 section 4.1).
    private mutating func readReference(into text: inout [UInt8]) throws(XMLError) {
        let start = position + 1
        guard let end = bytes[start..<min(bytes.count, start + 12)].firstIndex(of: UInt8(ascii: ";")) else {
            throw error("an entity reference has no end")
        }
        let name = String(decoding: bytes[start..<end], as: UTF8.self)
        position = end + 1
        switch name {
        case "amp": text.append(UInt8(ascii: "&"))
        case "lt": text.append(UInt8(ascii: "<"))
        case "gt": text.append(UInt8(ascii: ">"))
        case "quot": text.append(UInt8(ascii: "\""))
        case "apos": text.append(UInt8(ascii: "'"))
        default:
            let isHex = name.hasPrefix("#x") || name.hasPrefix("#X")
            guard name.hasPrefix("#"),
                let number = UInt32(name.dropFirst(isHex ? 2 : 1), radix: isHex ? 16 : 10),
                let scalar = Unicode.Scalar(number)
            else { throw error("the entity &\(name); is unknown") }
            text += Array(String(Character(scalar)).utf8)
        }
    }

    // MARK: Bytes

    private func peek() -> UInt8? { position < bytes.count ? bytes[position] : nil }

    private func starts(with text: StaticString) -> Bool {
        let wanted = text.description.utf8
        return bytes[position...].starts(with: wanted)
    }

    private mutating func skip(past text: StaticString) throws(XMLError) {
        let wanted = Array(text.description.utf8)
        while position + wanted.count <= bytes.count {
            if bytes[position...].starts(with: wanted) {
                position += wanted.count
                return
            }
            position += 1
        }
        throw error("\(text) is missing")
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 32 || (9...13).contains(byte) }

    func error(_ reason: String) -> XMLError { XMLError(offset: position, reason: reason) }

    private func refusal(_ reason: String) -> XMLError { XMLError(offset: position, reason: reason, isFinal: true) }
}

/// Writes request documents.
enum XMLText {
    /// Whether XML 1.0 (section 2.2) can represent the bytes: UTF-8 without control characters except tab and line ends.
    static func canHold(_ bytes: ByteString) -> Bool {
        guard let text = String(validating: bytes.bytes, as: UTF8.self) else { return false }
        return text.unicodeScalars.allSatisfy { scalar in
            scalar.value >= 0x20 && scalar.value != 0xFFFE && scalar.value != 0xFFFF || scalar.value == 9
        }
    }

    static func escape(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
