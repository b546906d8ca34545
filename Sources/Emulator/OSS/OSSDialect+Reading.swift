import Basics

/// GET, HEAD and GetObjectMeta.
extension OSSDialect {
    /// The object the call names, or the version of it.
    func object(_ call: OSSCall) throws(OSSError) -> (Bucket, StoredObject) {
        let bucket = try bucket(call)
        return (bucket, try object(call.key, version: Self.versionID(call.request), in: bucket))
    }

    func readObject(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let (bucket, named) = try object(call)
        let object = try target(of: named, in: bucket)
        let (record, request) = (object.record, call.request)
        var headers = try headers(of: object) + Self.versionHeaders(named, in: bucket)
        if object !== named {
            // Through a link: the later time, and its own type.
            let modified = max(named.record.modified, record.modified)
            headers.removeAll { $0.name == "Last-Modified" || $0.name == "x-oss-object-type" }
            headers += [Field("Last-Modified", modified.httpDate), Field("x-oss-object-type", "Symlink")]
        }
        switch ReadConditions(request, foldsCase: true).check(record) {
        case .go: break
        case .failed: throw OSSError.preconditionFailed
        case .notModified:
            return ServerResponse(
                status: 304, headers: headers.filter { $0.name == "ETag" || $0.name == "Last-Modified" })
        }
        if call.operation == .getObject { try checkAccessible(record) }
        let range = try requestedRange(request, size: record.size)
        headers = request.overriding(headers)
        if let range {
            headers.append(
                Field("Content-Range", "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(record.size)"))
        }
        let shown = range ?? 0..<record.size
        return ServerResponse(
            status: range == nil ? 200 : 206, headers: headers,
            body: call.operation == .getObject ? .content(object.content, shown) : .promised(length: shown.length))
    }

    /// The object itself, or the one that a link stands for.
    private func target(of object: StoredObject, in bucket: Bucket) throws(OSSError) -> StoredObject {
        guard case .symlink(let key) = object.record.kind else { return object }
        guard let target = try? bucket.object(key) else {
            throw OSSError(404, "SymlinkTargetNotExist", "The symlink target object does not exist.")
        }
        if case .symlink = target.record.kind {
            throw OSSError(400, "InvalidTargetType", "The symbolic's target file type is invalid.")
        }
        return target
    }

    /// The bytes asked for by `Range`, nil for all. Unless the request says `x-oss-range-behavior: standard`, a range that
    /// is not wholly inside the object asks for all of it (OSS API, "GetObject").
    private func requestedRange(_ request: ServerRequest, size: Int64) throws(OSSError) -> ByteRange? {
        guard let header = request.header("range"), let requested = RequestedRange(header) else { return nil }
        let range = requested.resolve(size: size)
        guard request.header("x-oss-range-behavior") == "standard" else {
            return requested.isInside(size: size) ? range : nil
        }
        guard let range else {
            throw OSSError(
                416, "InvalidRange", "The requested range cannot be satisfied.",
                elements: [Field("ActualObjectSize", String(size)), Field("RangeRequested", header)],
                headers: [Field("Content-Range", "bytes */\(size)")])
        }
        return range
    }

    /// Archived bytes are only there while a restored copy is.
    func checkAccessible(_ record: ObjectRecord) throws(OSSError) {
        guard record.description.storageClass.isFrozen, record.restoration?.isThere(options.time.now()) != true else {
            return
        }
        throw OSSError(403, "InvalidObjectState", "The operation is not valid for the object's state.")
    }

    /// The cheap part of HEAD, about a link itself.
    func objectMeta(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let (bucket, object) = try object(call)
        let headers =
            try briefHeaders(of: object) + [Field("Last-Modified", object.record.modified.httpDate)]
            + Self.versionHeaders(object, in: bucket)
        return ServerResponse(status: 200, headers: headers, body: .promised(length: object.record.size))
    }
}
