import Basics

/// Listings (OpenStack Object Storage API, containers): of a container's objects, and of an account's containers.
extension CSSPDialect {
    private enum Format { case json, xml, plain }

    /// One line of a listing.
    private enum Entry {
        case object(name: ByteString, hash: String, bytes: Int64, type: String, modified: String, largeETag: String?)
        case directory(ByteString)
    }

    private func format(_ request: ServerRequest) throws(CSSPError) -> Format {
        if let format = request.parameter("format") {
            switch format.lowercased() {
            case "json": return .json
            case "xml": return .xml
            default: return .plain
            }
        }
        let accept = request.header("accept") ?? "*/*"
        if accept.contains("application/json") { return .json }
        if accept.contains("xml") { return .xml }
        guard accept.contains("text/plain") || accept.contains("*/*") || accept.contains("text/*") else {
            throw CSSPError(406)
        }
        return .plain
    }

    /// What is no number is not looked at.
    private func limit(_ request: ServerRequest) throws(CSSPError) -> Int {
        guard let limit = request.parameter("limit").flatMap({ Int($0) }), limit >= 0 else { return Self.largestPage }
        guard limit <= Self.largestPage else { throw .plain(412, "Maximum limit is \(Self.largestPage)") }
        return limit
    }

    func listObjects(_ call: CSSPCall) throws(CSSPError) -> ServerResponse {
        let (bucket, request) = (try bucket(call.target.container), call.request)
        let (format, limit) = (try format(request), try limit(request))
        var listing = ListingRequest(
            prefix: request.bytes("prefix") ?? "", delimiter: request.bytes("delimiter") ?? "",
            after: request.bytes("marker") ?? "", limit: limit)
        // The older form: what is in a directory, without the directories in it.
        let path = request.bytes("path")
        if let path {
            listing.prefix = path.isEmpty || path.hasSuffix("/") ? path : path + "/"
            listing.delimiter = "/"
        }
        let end = request.bytes("end_marker") ?? ""
        var entries: [Entry] = []
        while entries.count < limit {
            listing.limit = limit - entries.count
            let page = bucket.list(listing)
            for item in page.items where end.isEmpty || item.name < end {
                switch item {
                case .commonPrefix(let name): if path == nil { entries.append(.directory(name)) }
                case .entry(let name, let object):
                    if let entry = try entry(name, object, in: bucket) { entries.append(entry) }
                }
            }
            guard let next = page.next, end.isEmpty || next < end else { break }
            listing.after = next
        }
        var response = answer(entries, format, root: "container", name: call.target.container)
        response.headers += containerHeaders(bucket)
        return response
    }

    /// nil for the directory itself in a listing of `path`.
    private func entry(_ name: ByteString, _ object: StoredObject, in bucket: Bucket) throws(CSSPError) -> Entry? {
        let description = object.record.description
        let type = description.headers.value(of: "content-type") ?? "application/octet-stream"
        let modified = Self.listed(object.record.modified)
        // Nobody looks at segments for a listing, so a large object by prefix is as empty as it was put.
        if description.properties.value(of: Self.manifestProperty) != nil {
            return .object(
                name: name, hash: Self.emptyHash, bytes: 0, type: type, modified: modified, largeETag: nil)
        }
        let view = try view(object, in: bucket, checksSegments: false)
        guard case .named(let manifest) = view.kind else {
            return .object(
                name: name, hash: view.etag, bytes: view.size, type: type, modified: modified, largeETag: nil)
        }
        return .object(
            name: name, hash: manifest.storedHash, bytes: view.size, type: type, modified: modified,
            largeETag: view.etagHeader)
    }

    func listContainers(_ call: CSSPCall) throws(CSSPError) -> ServerResponse {
        let request = call.request
        let (format, limit) = (try format(request), try limit(request))
        let (after, end) = (request.bytes("marker") ?? "", request.bytes("end_marker") ?? "")
        let prefix = request.bytes("prefix") ?? ""
        let buckets = library.allBuckets.filter { bucket in
            let name = ByteString(bucket.name)
            return name > after && (end.isEmpty || name < end) && name.hasPrefix(prefix)
        }.prefix(limit)
        switch format {
        case .json:
            let items = buckets.map { bucket -> JSONValue in
                let figures = bucket.figures { $0.size }
                return .object([
                    ("name", .string(bucket.name)), ("count", .number(figures.objects)),
                    ("bytes", .number(figures.bytes)),
                    ("last_modified", .string(Self.listed(bucket.record.created))),
                ])
            }
            return Self.json(.array(items))
        case .xml:
            var writer = XMLWriter()
            writer.element("account") { writer in
                for bucket in buckets { writer.element("container") { $0.element("name", bucket.name) } }
            }
            return Self.xml(writer)
        case .plain: return Self.lines(buckets.map { ByteString($0.name) })
        }
    }

    private func answer(_ entries: [Entry], _ format: Format, root: String, name: String) -> ServerResponse {
        switch format {
        case .plain:
            return Self.lines(
                entries.map { entry in
                    switch entry {
                    case .directory(let name), .object(let name, _, _, _, _, _): name
                    }
                })
        case .json:
            let items = entries.map { entry -> JSONValue in
                switch entry {
                case .directory(let name): return .object([("subdir", .string(name.description))])
                case .object(let name, let hash, let bytes, let type, let modified, let largeETag):
                    var members: [(name: String, value: JSONValue)] = [
                        ("bytes", .number(bytes)), ("hash", .string(hash)), ("name", .string(name.description)),
                        ("content_type", .string(type)), ("last_modified", .string(modified)),
                    ]
                    if let largeETag { members.append(("slo_etag", .string(largeETag))) }
                    return .object(members)
                }
            }
            return Self.json(.array(items))
        case .xml:
            var writer = XMLWriter()
            writer.element(root, attributes: "name=\"\(name)\"") { writer in
                for entry in entries { Self.write(entry, to: &writer) }
            }
            return Self.xml(writer)
        }
    }

    private static func write(_ entry: Entry, to writer: inout XMLWriter) {
        switch entry {
        case .directory(let name): writer.element("subdir") { $0.element("name", name) }
        case .object(let name, let hash, let bytes, let type, let modified, _):
            writer.element("object") { writer in
                writer.element("name", name)
                writer.element("hash", hash)
                writer.element("bytes", bytes)
                writer.element("content_type", type)
                writer.element("last_modified", modified)
            }
        }
    }

    static func json(_ value: JSONValue) -> ServerResponse {
        ServerResponse(
            status: 200, headers: [Field("Content-Type", "application/json; charset=utf-8")], body: .bytes(value.bytes))
    }

    private static func xml(_ writer: XMLWriter) -> ServerResponse {
        ServerResponse(
            status: 200, headers: [Field("Content-Type", "application/xml; charset=utf-8")],
            body: .bytes(writer.bytes))
    }

    /// One name a line; nothing to say has a status of its own.
    private static func lines(_ names: [ByteString]) -> ServerResponse {
        guard !names.isEmpty else { return ServerResponse(status: 204) }
        let text = names.flatMap { $0.bytes + [UInt8(ascii: "\n")] }
        return ServerResponse(
            status: 200, headers: [Field("Content-Type", "text/plain; charset=utf-8")], body: .bytes(text))
    }
}
