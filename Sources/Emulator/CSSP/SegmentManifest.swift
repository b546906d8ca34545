import Basics
import Digests
import FoundationEssentials

/// The manifest of a large object whose segments are named (Swift documentation, static large objects): as a client sends it,
/// and as it is stored once every segment was checked.
struct SegmentManifest {
    struct Segment: Codable, Sendable {
        /// `/container/object`; empty for data.
        var path = ""
        var etag = ""
        /// In bytes; of the segment, or of the range.
        var size: Int64 = 0
        /// `first-last`.
        var range: String?
        /// Base64.
        var data: String?
        var contentType: String?
        var modified: String?

        var isData: Bool { data != nil }

        /// What the ETag of the whole is computed over.
        fileprivate var mark: String {
            if let data { return Hex.encode(MD5.of(Base64.decode(data) ?? [])) }
            return range.map { "\(etag):\($0);" } ?? etag
        }
    }

    var segments: [Segment]

    var etag: String { Hex.encode(MD5.of(segments.map(\.mark).joined())) }

    init(_ segments: [Segment]) { self.segments = segments }

    // MARK: Stored

    init?(stored text: String) {
        guard let segments = try? JSONDecoder().decode([Segment].self, from: Data(text.utf8)) else { return nil }
        self.segments = segments
    }

    var storedText: String? {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        return (try? encoder.encode(segments)).map { String(decoding: $0, as: UTF8.self) }
    }

    // MARK: Shown

    /// `multipart-manifest=get`, with `format=raw` as it could be put.
    func shown(isRaw: Bool) -> JSONValue {
        .array(
            segments.map { segment in
                if let data = segment.data { return .object([("data", .string(data))]) }
                var members: [(name: String, value: JSONValue)] =
                    isRaw
                    ? [
                        ("path", .string(segment.path)), ("etag", .string(segment.etag)),
                        ("size_bytes", .number(segment.size)),
                    ]
                    : [
                        ("name", .string(segment.path)), ("bytes", .number(segment.size)),
                        ("hash", .string(segment.etag)),
                        ("content_type", .string(segment.contentType ?? "application/octet-stream")),
                        ("last_modified", .string(segment.modified ?? "")),
                    ]
                if let range = segment.range { members.append(("range", .string(range))) }
                return .object(members)
            })
    }

    // MARK: Sent

    /// One element as it came.
    struct Element: Decodable {
        var path: String?
        var etag: String?
        var size: Int64?
        var range: String?
        var data: String?
        var extraneous: [String] = []

        private struct Key: CodingKey {
            var stringValue: String
            var intValue: Int? { nil }
            init(stringValue: String) { self.stringValue = stringValue }
            init?(intValue: Int) { nil }
        }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: Key.self)
            for key in container.allKeys {
                switch key.stringValue {
                case "path": path = try container.decode(String.self, forKey: key)
                case "etag": etag = try container.decodeIfPresent(String.self, forKey: key)
                case "size_bytes": size = try container.decodeIfPresent(Int64.self, forKey: key)
                case "range": range = try container.decodeIfPresent(String.self, forKey: key)
                case "data": data = try container.decode(String.self, forKey: key)
                default: extraneous.append(key.stringValue)
                }
            }
        }
    }

    static func elements(_ body: [UInt8]) throws(CSSPError) -> [Element] {
        guard let elements = try? JSONDecoder().decode([Element].self, from: Data(body)) else {
            throw .plain(400, "Manifest must be valid JSON.\n")
        }
        for (index, element) in elements.enumerated() {
            if !element.extraneous.isEmpty {
                let names = element.extraneous.sorted().map { "\"\($0)\"" }.joined(separator: ", ")
                throw .plain(400, "Index \(index): extraneous keys \(names)\n")
            }
            guard (element.path == nil) != (element.data == nil) else {
                throw .plain(400, "Index \(index): expected keys to include one of \"path\" or \"data\"\n")
            }
        }
        guard elements.count <= 1000 else { throw .plain(413, "Number of segments must be <= 1000\n") }
        return elements
    }
}
