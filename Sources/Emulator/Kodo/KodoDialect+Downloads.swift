import Basics

/// Reading objects, from a bucket's domain or by `getfile` (Kodo API, download).
extension KodoDialect {
    func download(_ call: KodoCall) throws(KodoError) -> ServerResponse {
        let request = call.request
        guard ["GET", "HEAD"].contains(request.method) else { throw .notAllowed }
        guard let bucket = try? library.bucket(call.entry.bucket) else { throw KodoError(404, "no such domain") }
        if call.target.operation == .getfile {
            guard call.target.arguments.first.map(String.init) == options.credentials.accessKey else {
                throw .noSuchBucket
            }
        }
        // A public bucket asks for no token, but one that is sent must be right.
        if isPrivate(bucket) || request.has("token") { try authenticator.authorizeDownload(request) }
        guard let object = try? self.object(call.entry.key, in: bucket) else {
            throw KodoError(404, "Document not found")
        }
        let record = object.record
        guard !KodoObjects.isDisabled(record) else { throw KodoError(403, "the object is disabled") }
        guard KodoObjects.isReadable(record, at: options.time.now()) else {
            throw KodoError(403, "the archived object must be restored first")
        }
        var headers = try self.headers(of: object)
        if isUnchanged(request, object, hash: try hash(of: object)) {
            return ServerResponse(status: 304, headers: headers.filter { $0.name == "ETag" })
        }
        if let name = request.parameter("attname"), !name.isEmpty {
            headers.removeAll { $0.name == "Content-Disposition" }
            headers.append(Field("Content-Disposition", "attachment; filename*=utf-8''\(PercentEncoding.encode(name))"))
        }
        var (range, status): (ByteRange, Int) = (0..<record.size, 200)
        if let header = request.header("range"), let requested = RequestedRange(header) {
            guard let part = requested.resolve(size: record.size) else {
                var response = Self.document(of: KodoError(416, "requested range not satisfiable"))
                response.headers.append(Field("Content-Range", "bytes */\(record.size)"))
                return response
            }
            (range, status) = (part, 206)
            let last = part.upperBound - 1
            headers.append(Field("Content-Range", "bytes \(part.lowerBound)-\(last)/\(record.size)"))
        }
        return ServerResponse(
            status: status, headers: headers,
            body: request.method == "HEAD" ? .promised(length: range.length) : .content(object.content, range))
    }

    /// `If-None-Match`, else `If-Modified-Since`. `If-Match` is not looked at: whoever wants one version compares the
    /// answer's ETag.
    private func isUnchanged(_ request: ServerRequest, _ object: StoredObject, hash: String) -> Bool {
        if let tags = request.header("if-none-match").map(ReadConditions.tags) {
            return tags.contains("*") || tags.contains(hash)
        }
        guard let since = request.header("if-modified-since").flatMap(Timestamp.init(httpDate:)) else { return false }
        return object.record.modified.seconds <= since.seconds
    }

    private func headers(of object: StoredObject) throws(KodoError) -> [Field] {
        let record = object.record
        var fields = [
            Field("ETag", "\"\(try hash(of: object))\""), Field("Last-Modified", record.modified.httpDate),
            Field("Accept-Ranges", "bytes"), Field("Content-Type", KodoObjects.mimeType(of: record)),
        ]
        for header in record.description.headers where header.name != "content-type" {
            fields.append(Field(Self.capitalized(header.name), header.value))
        }
        for field in record.description.metadata {
            fields.append(Field(Self.capitalized(KodoObjects.metadataPrefix + field.name), field.value))
        }
        return fields
    }

    private static func capitalized(_ name: String) -> String {
        name.split(separator: "-", omittingEmptySubsequences: false)
            .map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined(separator: "-")
    }
}
