package import Basics

/// An element of a parsed XML document; names come without their namespace prefix.
package struct XMLElement: Sendable {
    package let name: String
    /// Names as written, values unescaped.
    package var attributes: [Field] = []
    package var children: [XMLElement] = []
    /// Only of an element without children: between elements, text is layout.
    package var text = ByteString("")

    init(name: String) { self.name = name }

    subscript(name: String) -> XMLElement? { children.first { $0.name == name } }
    package func all(_ name: String) -> [XMLElement] { children.filter { $0.name == name } }
    /// The text of a child; nil without that child.
    func text(_ name: String) -> String? { self[name]?.text.description }
}

/// Parses the XML that clients send: elements, attributes, text, CDATA, comments, character references. No document
/// types, hence no entities of the sender's.
package struct XMLReader {
    private let bytes: [UInt8]
    private var index = 0
    private static let deepest = 32
    private static let endsOfName = Set(" \t\r\n/>=<".utf8)

    private init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// The root element; nil for anything that is not well formed.
    package static func parse(_ bytes: [UInt8]) -> XMLElement? {
        var reader = XMLReader(bytes)
        reader.skipProlog()
        guard let root = reader.element(depth: 0) else { return nil }
        reader.skipProlog()
        return reader.index == bytes.count ? root : nil
    }

    private func starts(with text: String) -> Bool { bytes[index...].starts(with: text.utf8) }

    private mutating func skipSpace() {
        while index < bytes.count, [0x20, 0x09, 0x0a, 0x0d].contains(bytes[index]) { index += 1 }
    }

    /// What lies before `end`, which is skipped too.
    private mutating func skip(past end: String) -> ArraySlice<UInt8>? {
        let start = index
        while index < bytes.count {
            if starts(with: end) {
                defer { index += end.utf8.count }
                return bytes[start..<index]
            }
            index += 1
        }
        return nil
    }

    private mutating func skipProlog() {
        if index == 0, bytes.starts(with: [0xef, 0xbb, 0xbf]) { index = 3 }
        while true {
            skipSpace()
            if starts(with: "<?") {
                if skip(past: "?>") == nil { return }
            } else if starts(with: "<!--") {
                if skip(past: "-->") == nil { return }
            } else {
                return
            }
        }
    }

    private mutating func name() -> String? {
        let start = index
        while index < bytes.count, !Self.endsOfName.contains(bytes[index]) { index += 1 }
        return index > start ? String(decoding: bytes[start..<index], as: UTF8.self) : nil
    }

    private mutating func take(_ byte: Unicode.Scalar) -> Bool {
        guard index < bytes.count, bytes[index] == UInt8(ascii: byte) else { return false }
        index += 1
        return true
    }

    private mutating func element(depth: Int) -> XMLElement? {
        guard depth < Self.deepest, take("<"), let fullName = name() else { return nil }
        var element = XMLElement(name: fullName.split(separator: ":").last.map(String.init) ?? fullName)
        while true {
            skipSpace()
            if take("/") { return take(">") ? element : nil }
            if take(">") { break }
            guard let attribute = self.name() else { return nil }
            skipSpace()
            guard take("=") else { return nil }
            skipSpace()
            let quoted = take("\"") ? skip(past: "\"") : take("'") ? skip(past: "'") : nil
            guard let quoted, let value = Self.unescape(quoted) else { return nil }
            element.attributes.append(Field(attribute, String(decoding: value, as: UTF8.self)))
        }
        return content(of: element, closedBy: fullName, depth: depth)
    }

    private mutating func content(of open: XMLElement, closedBy fullName: String, depth: Int) -> XMLElement? {
        var element = open
        var text: [UInt8] = []
        while index < bytes.count {
            if starts(with: "</") {
                index += 2
                guard name() == fullName else { return nil }
                skipSpace()
                element.text = ByteString(element.children.isEmpty ? text : [])
                return take(">") ? element : nil
            } else if starts(with: "<!--") {
                guard skip(past: "-->") != nil else { return nil }
            } else if starts(with: "<![CDATA[") {
                index += 9
                guard let plain = skip(past: "]]>") else { return nil }
                text += plain
            } else if bytes[index] == UInt8(ascii: "<") {
                guard let child = self.element(depth: depth + 1) else { return nil }
                element.children.append(child)
            } else {
                let start = index
                while index < bytes.count, bytes[index] != UInt8(ascii: "<") { index += 1 }
                guard let plain = Self.unescape(bytes[start..<index]) else { return nil }
                text += plain
            }
        }
        return nil
    }

    private static func unescape(_ raw: ArraySlice<UInt8>) -> [UInt8]? {
        var result: [UInt8] = []
        var rest = raw
        while let start = rest.firstIndex(of: UInt8(ascii: "&")) {
            result += rest[..<start]
            guard let end = rest[start...].firstIndex(of: UInt8(ascii: ";")) else { return nil }
            switch String(decoding: rest[(start + 1)..<end], as: UTF8.self) {
            case "amp": result.append(UInt8(ascii: "&"))
            case "lt": result.append(UInt8(ascii: "<"))
            case "gt": result.append(UInt8(ascii: ">"))
            case "quot": result.append(UInt8(ascii: "\""))
            case "apos": result.append(UInt8(ascii: "'"))
            case let reference:
                let number =
                    reference.hasPrefix("#x")
                    ? UInt32(reference.dropFirst(2), radix: 16) : UInt32(reference.dropFirst(1))
                guard reference.hasPrefix("#"), let number, let scalar = Unicode.Scalar(number) else { return nil }
                result += Array(String(Character(scalar)).utf8)
            }
            rest = rest[(end + 1)...]
        }
        return result + rest
    }
}
