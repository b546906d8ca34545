import Basics

/// Writes an XML document element by element; text is escaped, and bytes that XML cannot hold become references.
struct XMLWriter {
    private(set) var bytes: [UInt8] = Array("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".utf8)

    /// An element with children; `attributes` is put into the tag as it is.
    mutating func element(_ name: String, attributes: String = "", _ children: (inout XMLWriter) -> Void) {
        bytes += "<\(name)\(attributes.isEmpty ? "" : " ")\(attributes)>".utf8
        children(&self)
        bytes += "</\(name)>".utf8
    }

    mutating func element(_ name: String, _ text: String) { element(name, bytes: text.utf8) }
    mutating func element(_ name: String, _ text: ByteString) { element(name, bytes: text.bytes) }
    mutating func element(_ name: String, _ number: some BinaryInteger) { element(name, String(number)) }
    mutating func element(_ name: String, _ truth: Bool) { element(name, truth ? "true" : "false") }

    private mutating func element(_ name: String, bytes text: some Sequence<UInt8>) {
        bytes.append(UInt8(ascii: "<"))
        bytes += name.utf8
        bytes.append(UInt8(ascii: ">"))
        append(text)
        bytes += "</".utf8
        bytes += name.utf8
        bytes.append(UInt8(ascii: ">"))
    }

    /// Text of the element that is open.
    mutating func text(_ text: String) { append(text.utf8) }

    private mutating func append(_ text: some Sequence<UInt8>) {
        for byte in text {
            switch byte {
            case UInt8(ascii: "&"): bytes += "&amp;".utf8
            case UInt8(ascii: "<"): bytes += "&lt;".utf8
            case UInt8(ascii: ">"): bytes += "&gt;".utf8
            case UInt8(ascii: "\""): bytes += "&quot;".utf8
            case 0..<0x20: bytes += "&#x\(String(byte, radix: 16));".utf8
            default: bytes.append(byte)
            }
        }
    }
}
