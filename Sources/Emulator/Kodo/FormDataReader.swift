import Basics
import NIOCore

/// Takes a `multipart/form-data` body (RFC 7578, RFC 2046 section 5.1.1) apart as it arrives. Owned by one task.
struct FormDataReader {
    /// What a part says of itself.
    struct Part: Hashable {
        var name = ""
        /// nil for a plain field.
        var fileName: String?
        var contentType: String?
    }

    enum Event: Hashable {
        case part(Part)
        case data(ByteBuffer)
        case partEnd
        case end
    }

    private enum Place {
        case data, boundary, headers, end
    }

    private static let longestHeaders = 16 << 10
    private let delimiter: [UInt8]
    private var pending = ByteBuffer(string: "\r\n")
    private var place = Place.data
    /// Bytes in front of the first boundary belong to nobody.
    private var isInPart = false

    /// nil when the content type is no form with a boundary.
    init?(contentType: String) {
        guard contentType.lowercased().hasPrefix("multipart/form-data"),
            let boundary = Self.parameter("boundary", of: contentType), (1...70).contains(boundary.utf8.count)
        else { return nil }
        delimiter = Array("\r\n--\(boundary)".utf8)
    }

    mutating func feed(_ chunk: ByteBuffer) {
        pending.discardReadBytes()
        var chunk = chunk
        pending.writeBuffer(&chunk)
    }

    /// The next piece of the form; nil until more bytes are fed.
    mutating func next() throws(KodoError) -> Event? {
        while true {
            switch place {
            case .data:
                if let data = takeData() {
                    if isInPart { return .data(data) }
                } else if place == .data {
                    return nil
                } else if isInPart {
                    isInPart = false
                    return .partEnd
                }
            case .boundary:
                guard let end = pending.readBytes(length: 2) else { return nil }
                guard end == [13, 10] || end == [45, 45] else { throw .invalid("invalid multipart boundary") }
                place = end == [45, 45] ? .end : .headers
            case .headers:
                guard let part = try takeHeaders() else { return nil }
                (place, isInPart) = (.data, true)
                return .part(part)
            case .end: return .end
            }
        }
    }

    /// The bytes up to the next delimiter, which is taken too when nothing is in front of it.
    private mutating func takeData() -> ByteBuffer? {
        let view = pending.readableBytesView
        var candidate = view.firstIndex(of: delimiter[0])
        while let start = candidate {
            let rest = view[start...].prefix(delimiter.count)
            if delimiter.starts(with: rest) {
                // All of it, or as much of it as there is yet.
                guard start == view.startIndex else { return pending.readSlice(length: start - view.startIndex) }
                guard rest.count == delimiter.count else { return nil }
                pending.moveReaderIndex(forwardBy: delimiter.count)
                place = .boundary
                return nil
            }
            candidate = view[(start + 1)...].firstIndex(of: delimiter[0])
        }
        return view.isEmpty ? nil : pending.readSlice(length: view.count)
    }

    private mutating func takeHeaders() throws(KodoError) -> Part? {
        let bytes = Array(pending.readableBytesView.prefix(Self.longestHeaders))
        var lines: [String] = []
        var start = 0
        while let end = bytes[start...].firstIndex(of: 10) {
            let line = bytes[start..<end].last == 13 ? bytes[start..<(end - 1)] : bytes[start..<end]
            start = end + 1
            if line.isEmpty {
                pending.moveReaderIndex(forwardBy: start)
                return Self.part(lines)
            }
            lines.append(String(decoding: line, as: UTF8.self))
        }
        guard bytes.count < Self.longestHeaders else { throw .invalid("the headers of a form part are too long") }
        return nil
    }

    private static func part(_ lines: [String]) -> Part {
        var part = Part()
        for line in lines {
            guard let colon = line.firstIndex(of: ":") else { continue }
            let value = line[line.index(after: colon)...].drop { $0 == " " }
            switch line[..<colon].lowercased() {
            case "content-disposition":
                part.name = parameter("name", of: value) ?? ""
                part.fileName =
                    parameter("filename", of: value) ?? parameter("filename*", of: value).map(decodedExtension)
            case "content-type": part.contentType = String(value)
            default: break
            }
        }
        return part
    }

    /// `name=value` or `name="value"` behind a semicolon.
    private static func parameter(_ name: String, of text: some StringProtocol) -> String? {
        var rest = Substring(text)
        while let semicolon = rest.firstIndex(of: ";") {
            rest = rest[rest.index(after: semicolon)...].drop { $0 == " " }
            guard rest.lowercased().hasPrefix("\(name)=") else { continue }
            rest = rest.dropFirst(name.count + 1)
            guard rest.first == "\"" else { return String(rest.prefix { $0 != ";" }) }
            var value = ""
            var isEscaped = false
            for character in rest.dropFirst() {
                if !isEscaped, character == "\\" {
                    isEscaped = true
                } else if !isEscaped, character == "\"" {
                    break
                } else {
                    value.append(character)
                    isEscaped = false
                }
            }
            return value
        }
        return nil
    }

    /// `utf-8''na%C3%AFve` (RFC 8187).
    private static func decodedExtension(_ text: String) -> String {
        guard let mark = text.lastIndex(of: "'") else { return text }
        return PercentEncoding.decode(text[text.index(after: mark)...]).map { ByteString($0).description } ?? text
    }
}
