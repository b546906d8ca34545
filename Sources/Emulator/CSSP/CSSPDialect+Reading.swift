import Basics
import Digests

/// HEAD and GET of objects (OpenStack Object Storage API, objects).
extension CSSPDialect {
    func readObject(_ call: CSSPCall) throws(CSSPError) -> ServerResponse {
        let (bucket, request) = (try bucket(call.target.container), call.request)
        let object = try stored(call.key, in: bucket)
        if request.parameter("multipart-manifest") == "get" { return try manifest(of: object, in: bucket, call) }
        let view = try view(object, in: bucket)
        let headers = headers(of: view)
        switch ReadConditions(request).check(etag: view.etag, modified: view.record.modified) {
        case .go: break
        case .failed: return ServerResponse(status: 412, headers: headers)
        case .notModified: return ServerResponse(status: 304, headers: headers)
        }
        let isReading = call.target.operation == .getObject
        // Another dialect archived it; here nothing could thaw it.
        if isReading, view.record.description.storageClass.isFrozen,
            view.record.restoration?.isThere(options.time.now()) != true
        {
            throw CSSPError(403)
        }
        guard let header = request.header("range"), let requested = RequestedRange(header) else {
            return ServerResponse(
                status: 200, headers: headers,
                body: isReading ? .content(view.content, 0..<view.size) : .promised(length: view.size))
        }
        if case .last = requested, view.size == 0 { return ServerResponse(status: 200, headers: headers) }
        guard let range = requested.resolve(size: view.size) else {
            throw CSSPError(416, headers: [Field("Content-Range", "bytes */\(view.size)")])
        }
        let place = Field("Content-Range", "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(view.size)")
        return ServerResponse(
            status: 206, headers: headers + [place],
            body: isReading ? .content(view.content, range) : .promised(length: range.length))
    }

    /// What a large object is made of; of any other, itself.
    private func manifest(
        of object: StoredObject, in bucket: Bucket, _ call: CSSPCall
    ) throws(CSSPError) -> ServerResponse {
        let view = try view(object, in: bucket, checksSegments: false)
        var headers = headers(of: view)
        switch view.kind {
        case .plain: return ServerResponse(status: 200, headers: headers, body: .content(view.content, 0..<view.size))
        case .prefixed:
            headers = headers.filter { $0.name != "Etag" } + [Field("Etag", Self.emptyHash)]
            return ServerResponse(status: 200, headers: headers)
        case .named(let manifest):
            let document = manifest.shown(isRaw: call.request.parameter("format") == "raw").bytes
            headers = headers.filter { !["Etag", "Content-Type"].contains($0.name) }
            headers.append(Field("Etag", manifest.storedHash))
            headers.append(Field("Content-Type", "application/json; charset=utf-8"))
            return ServerResponse(status: 200, headers: headers, body: .bytes(document))
        }
    }

    /// All headers of an answer about the object but those of length and range.
    func headers(of view: CSSPObject) -> [Field] {
        let record = view.record
        var fields = [
            Field("Etag", view.etagHeader), Field("Last-Modified", Self.roundedUp(record.modified).httpDate),
            Field("X-Timestamp", Self.timestamp(record.modified)), Field("Accept-Ranges", "bytes"),
        ]
        fields += record.description.capitalizedHeaders
        if record.description.headers.value(of: "content-type") == nil {
            fields.append(Field("Content-Type", "application/octet-stream"))
        }
        for field in record.description.metadata {
            fields.append(Field("X-Object-Meta-\(Self.capitalized(field.name))", field.value))
        }
        if let end = record.description.properties.value(of: Self.expiryProperty) {
            fields.append(Field("X-Delete-At", end))
        }
        switch view.kind {
        case .plain: break
        case .prefixed(let manifest): fields.append(Field("X-Object-Manifest", manifest))
        case .named(let manifest):
            fields.append(Field("X-Static-Large-Object", "True"))
            fields.append(Field("X-Manifest-Etag", manifest.storedHash))
        }
        return fields
    }

    static func capitalized(_ name: String) -> String {
        name.split(separator: "-", omittingEmptySubsequences: false)
            .map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined(separator: "-")
    }

    private static func roundedUp(_ time: Timestamp) -> Timestamp {
        Timestamp(seconds: time.seconds + (hundredThousandths(time) > 0 ? 1 : 0))
    }

    /// Swift keeps five digits of a second.
    private static func hundredThousandths(_ time: Timestamp) -> Int { Int(time.nanoseconds) / 10_000 }

    /// `1700000000.36050`
    static func timestamp(_ time: Timestamp) -> String {
        let digits = String(hundredThousandths(time))
        return "\(time.seconds).\(String(repeating: "0", count: 5 - digits.utf8.count))\(digits)"
    }

    /// As listings have it: UTC without saying so, and microseconds of which the last is none.
    static func listed(_ time: Timestamp) -> String {
        let cut = Timestamp(seconds: time.seconds, nanoseconds: Int32(hundredThousandths(time) * 10_000))
        return String(cut.iso8601(fraction: 6).dropLast())
    }
}

extension SegmentManifest {
    /// What listings show as the hash: the MD5 of what is stored.
    var storedHash: String { Hex.encode(MD5.of(storedText ?? "")) }
}
