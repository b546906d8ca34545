import Basics

/// GET and HEAD (COS API, "GET Object").
extension COSDialect {
    /// The object the call names, or the version of it.
    func object(_ call: COSCall) throws(COSError) -> (Bucket, StoredObject) {
        let bucket = try bucket(call)
        return (bucket, try object(call.key, version: Self.versionID(call.request), in: bucket))
    }

    /// What a symbolic link stands for; other objects stand for themselves.
    func resolved(_ object: StoredObject, in bucket: Bucket) throws(COSError) -> StoredObject {
        guard case .symlink(let target) = object.record.kind else { return object }
        let found = try COSError.storing { () throws(StorageError) in try bucket.object(target) }
        if case .symlink = found.record.kind {
            throw COSError.invalidArgument("A symbolic link must not lead to another.")
        }
        return found
    }

    func readObject(_ call: COSCall) throws(COSError) -> ServerResponse {
        let (bucket, named) = try object(call)
        let object = try resolved(named, in: bucket)
        let (record, request) = (object.record, call.request)
        try Self.checkCustomerKey(record.description.encryption, request)
        try checkTrafficLimit(request)
        var headers = try headers(of: object) + Self.versionHeaders(named, in: bucket)
        switch ReadConditions(request).check(record) {
        case .go: break
        case .failed: throw COSError.preconditionFailed
        case .notModified:
            let kept: Set = ["ETag", "Last-Modified", "x-cos-hash-crc64ecma"]
            return ServerResponse(status: 304, headers: headers.filter { kept.contains($0.name) })
        }
        let isReading = call.operation == .getObject
        if isReading { try checkAccessible(record) }
        headers = request.overriding(headers)
        var (range, status): (ByteRange, Int) = (0..<record.size, 200)
        if let header = request.header("range"), let requested = RequestedRange(header) {
            guard let within = requested.resolve(size: record.size) else {
                throw COSError(
                    416, "InvalidRange", "The requested range is not satisfiable.",
                    headers: [Field("Content-Range", "bytes */\(record.size)")])
            }
            (range, status) = (within, 206)
            headers.append(
                Field("Content-Range", "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(record.size)"))
        }
        return ServerResponse(
            status: status, headers: headers,
            body: isReading ? .content(object.content, range) : .promised(length: range.length))
    }

    /// Archived bytes are only there while a restored copy is.
    func checkAccessible(_ record: ObjectRecord) throws(COSError) {
        guard record.description.storageClass.isFrozen else { return }
        guard record.restoration?.isThere(options.time.now()) == true else {
            throw COSError(
                403, "InvalidObjectState",
                "The object is archived as \(Self.storageClasses.name(record.description.storageClass)) and not restored."
            )
        }
    }
}
