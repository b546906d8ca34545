import Basics
import FoundationEssentials

/// Listings (Kodo API, list).
extension KodoDialect {
    private static let largestPage = 1000

    /// What a marker holds: the last name of the page before, as JSON in base64.
    private struct Marker: Decodable {
        let k: String
    }

    static func marker(after name: ByteString) -> String {
        let document: JSONValue = ["c": 0, "k": .string(name.description)]
        return Base64.encode(document.bytes, alphabet: .urlSafe)
    }

    private static func name(ofMarker text: String) throws(KodoError) -> ByteString {
        guard let bytes = Base64.decode(text, alphabet: .urlSafe),
            let marker = try? JSONDecoder().decode(Marker.self, from: Data(bytes))
        else { throw .badMarker }
        return ByteString(marker.k)
    }

    private func page(_ items: [QueryItem]) throws(KodoError) -> (Bucket, ListingResult<StoredObject>) {
        func value(_ name: String) -> ByteString? { items.first { $0.name == name }?.value }
        let bucket = try bucket(value("bucket")?.description ?? "")
        var limit = Self.largestPage
        if let text = value("limit")?.description, !text.isEmpty {
            guard let number = Int(text), (1...Self.largestPage).contains(number) else {
                throw .invalid("invalid limit")
            }
            limit = number
        }
        var after = ByteString("")
        if let marker = value("marker")?.description, !marker.isEmpty { after = try Self.name(ofMarker: marker) }
        let request = ListingRequest(
            prefix: value("prefix") ?? "", delimiter: value("delimiter") ?? "", after: after, limit: limit)
        return (bucket, bucket.list(request))
    }

    func list(_ call: KodoCall, _ body: [UInt8]) throws(KodoError) -> ServerResponse {
        let form = ServerRequest.parse(Substring(decoding: body, as: UTF8.self))
        let (_, page) = try page(call.request.query + form)
        var items: [JSONValue] = []
        var prefixes: [JSONValue] = []
        for item in page.items {
            switch item {
            case .entry(_, let object):
                if let fields = try describeListed(object) { items.append(.object(fields)) }
            case .commonPrefix(let name): prefixes.append(.string(name.description))
            }
        }
        var fields: [(name: String, value: JSONValue)] = [("items", .array(items))]
        if let next = page.next { fields.append(("marker", .string(Self.marker(after: next)))) }
        if !prefixes.isEmpty { fields.append(("commonPrefixes", .array(prefixes))) }
        return Self.json(.object(fields))
    }

    /// The older form: one document a line, each with the marker to go on from.
    func listLines(_ call: KodoCall) throws(KodoError) -> ServerResponse {
        let (_, page) = try page(call.request.query)
        var lines = ""
        for item in page.items {
            var line: [(name: String, value: JSONValue)] = [("item", .null)]
            switch item {
            case .entry(_, let object):
                guard let fields = try describeListed(object) else { continue }
                line = [("item", .object(fields)), ("dir", "")]
            case .commonPrefix(let name): line.append(("dir", .string(name.description)))
            }
            line.append(("marker", .string(Self.marker(after: item.name))))
            lines += JSONValue.object(line).text + "\n"
        }
        return ServerResponse(
            status: 200, headers: [Field("Content-Type", "application/json")], body: .bytes(Array(lines.utf8)))
    }

    /// nil for an object whose days are over.
    private func describeListed(_ object: StoredObject) throws(KodoError) -> [(name: String, value: JSONValue)]? {
        guard !KodoObjects.isExpired(object.record, at: options.time.now()) else { return nil }
        return [("key", .string(object.record.key.description))] + (try describe(object))
    }
}
