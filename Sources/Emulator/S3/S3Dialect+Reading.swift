import Basics

/// GET, HEAD and what else tells about an object.
extension S3Dialect {
    /// The object the call names, or the version of it.
    func object(_ call: S3Call) throws(S3Error) -> (Bucket, StoredObject) {
        let bucket = try bucket(call)
        return (bucket, try object(call.key, version: Self.versionID(call.request), in: bucket))
    }

    func readObject(_ call: S3Call) throws(S3Error) -> ServerResponse {
        let (bucket, object) = try object(call)
        let (record, request) = (object.record, call.request)
        try Self.checkCustomerKey(record, request)
        var headers = headers(of: record) + Self.versionHeaders(object, in: bucket)
        switch ReadConditions(request).check(record) {
        case .go: break
        case .failed: throw S3Error.preconditionFailed
        case .notModified:
            return ServerResponse(
                status: 304, headers: headers.filter { $0.name == "ETag" || $0.name == "Last-Modified" })
        }
        let isReading = call.operation == .getObject
        if isReading { try checkAccessible(record) }
        let selection = try select(record, request)
        headers = request.overriding(headers)
        if selection.isPartial {
            let (range, size) = (selection.range, record.size)
            headers.append(Field("Content-Range", "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(size)"))
        }
        if let count = selection.partsCount { headers.append(Field("x-amz-mp-parts-count", String(count))) }
        if request.header("x-amz-checksum-mode")?.uppercased() == "ENABLED", let checksum = selection.checksum {
            headers.append(Field(checksum.algorithm.header, checksum.text))
            headers.append(Field("x-amz-checksum-type", record.checksum?.type ?? checksum.type))
        }
        return ServerResponse(
            status: selection.isPartial ? 206 : 200, headers: headers,
            body: isReading ? .content(object.content, selection.range) : .promised(length: selection.range.length))
    }

    private struct Selection {
        var range: ByteRange
        var isPartial = false
        var partsCount: Int?
        var checksum: StoredChecksum?
    }

    /// The bytes asked for by `Range` or `partNumber`.
    private func select(_ record: ObjectRecord, _ request: ServerRequest) throws(S3Error) -> Selection {
        if let text = request.parameter("partNumber") {
            guard let number = Int(text), (1...10_000).contains(number) else {
                throw S3Error.invalidArgument("Part number must be an integer between 1 and 10000, inclusive")
            }
            return try select(part: number, of: record)
        }
        let whole = Selection(range: 0..<record.size, checksum: record.checksum)
        guard let header = request.header("range"), let requested = RequestedRange(header) else { return whole }
        guard let range = requested.resolve(size: record.size) else {
            throw S3Error(
                416, "InvalidRange", "The requested range is not satisfiable",
                elements: [Field("RangeRequested", header), Field("ActualObjectSize", String(record.size))],
                headers: [Field("Content-Range", "bytes */\(record.size)")])
        }
        return Selection(range: range, isPartial: true, checksum: range.length == record.size ? record.checksum : nil)
    }

    private func select(part number: Int, of record: ObjectRecord) throws(S3Error) -> Selection {
        let outOfRange = S3Error(416, "InvalidPartNumber", "The requested partnumber is not satisfiable")
        guard !record.parts.isEmpty else {
            guard number == 1 else { throw outOfRange }
            return Selection(range: 0..<record.size, isPartial: record.size > 0, checksum: record.checksum)
        }
        var start: Int64 = 0
        // Parts count from 1 in the order of the object, whatever their numbers were.
        guard number <= record.parts.count else { throw outOfRange }
        for part in record.parts[..<(number - 1)] { start += part.size }
        let part = record.parts[number - 1]
        return Selection(
            range: start..<(start + part.size), isPartial: part.size > 0, partsCount: record.parts.count,
            checksum: part.checksum)
    }

    /// Archived bytes are only there while a restored copy is.
    func checkAccessible(_ record: ObjectRecord) throws(S3Error) {
        guard record.description.storageClass.isFrozen else { return }
        if record.restoration?.isThere(options.time.now()) == true { return }
        throw S3Error(
            403, "InvalidObjectState", "The operation is not valid for the object's storage class",
            elements: [Field("StorageClass", storageClassName(record))])
    }

    func objectAttributes(_ call: S3Call) throws(S3Error) -> ServerResponse {
        let record = try object(call).1.record
        try Self.checkCustomerKey(record, call.request)
        let asked = Set(
            (call.request.header("x-amz-object-attributes") ?? "").split(separator: ",").map { $0.filter { $0 != " " } }
        )
        guard !asked.isEmpty else {
            throw S3Error.invalidRequest(
                "The x-amz-object-attributes header specifying the attributes to be retrieved is missing")
        }
        let limit = max(0, min(call.request.header("x-amz-max-parts").flatMap { Int($0) } ?? 1000, 1000))
        let marker = call.request.header("x-amz-part-number-marker").flatMap { Int($0) } ?? 0
        var response = xml("GetObjectAttributesResponse") { xml in
            if asked.contains("ETag") { xml.element("ETag", record.etag) }
            if asked.contains("Checksum"), let checksum = record.checksum {
                xml.element("Checksum") { xml in
                    xml.element(checksum.algorithm.element, checksum.text)
                    xml.element("ChecksumType", checksum.type)
                }
            }
            if asked.contains("ObjectParts"), !record.parts.isEmpty {
                let rest = record.parts.filter { $0.number > marker }
                xml.element("ObjectParts") { xml in
                    xml.element("PartsCount", record.parts.count)
                    xml.element("PartNumberMarker", marker)
                    xml.element("NextPartNumberMarker", rest.prefix(limit).last?.number ?? 0)
                    xml.element("MaxParts", limit)
                    xml.element("IsTruncated", rest.count > limit)
                    for part in rest.prefix(limit) {
                        xml.element("Part") { xml in
                            xml.element("PartNumber", part.number)
                            xml.element("Size", part.size)
                            if let checksum = part.checksum {
                                xml.element(checksum.algorithm.element, checksum.text)
                            }
                        }
                    }
                }
            }
            if asked.contains("StorageClass") { xml.element("StorageClass", storageClassName(record)) }
            if asked.contains("ObjectSize") { xml.element("ObjectSize", record.size) }
        }
        response.headers.append(Field("Last-Modified", record.modified.httpDate))
        return response
    }
}
