import Basics
import Digests

/// Uploads in parts.
extension S3Dialect {
    func createUpload(_ call: S3Call) throws(S3Error) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        try checkKey(call.key)
        var algorithm: ChecksumAlgorithm?
        if let name = request.header("x-amz-checksum-algorithm") {
            guard let known = ChecksumAlgorithm(rawValue: name.uppercased()) else {
                throw S3Error.invalidRequest("Checksum algorithm provided is unsupported.")
            }
            algorithm = known
        }
        let type = request.header("x-amz-checksum-type")?.uppercased()
        guard type != "FULL_OBJECT" || algorithm?.isLinear ?? false, type != "COMPOSITE" || algorithm != .crc64nvme
        else {
            throw S3Error.invalidRequest("The \(type ?? "") checksum type cannot be used with this checksum algorithm.")
        }
        let record = UploadRecord(
            key: call.key, initiated: options.time.now(), description: try description(request),
            checksumAlgorithm: algorithm, wantsFullChecksum: type == "FULL_OBJECT" || algorithm == .crc64nvme)
        let upload = try S3Error.storing { () throws(StorageError) in try bucket.beginUpload(record) }
        var headers = Self.encryptionHeaders(record.description.encryption)
        if let algorithm {
            headers.append(Field("x-amz-checksum-algorithm", algorithm.rawValue))
            headers.append(Field("x-amz-checksum-type", record.wantsFullChecksum ? "FULL_OBJECT" : "COMPOSITE"))
        }
        return xml("InitiateMultipartUploadResult") { xml in
            xml.element("Bucket", bucket.name)
            xml.element("Key", call.key)
            xml.element("UploadId", upload.id)
        }.adding(headers)
    }

    static func badPartNumber(_ text: String?) -> S3Error {
        .invalidArgument("Part number must be an integer between 1 and 10000, inclusive")
    }

    func uploadPart(_ call: S3Call) async throws(S3Error) -> ServerResponse {
        let bucket = try bucket(call)
        let (upload, number) = try uploadAndNumber(call, in: bucket)
        let encryption = upload.record.description.encryption
        try Self.checkCustomerKey(upload, call.request)
        let (received, checksum) = try await receive(
            call, into: bucket, defaultAlgorithm: upload.record.checksumAlgorithm)
        if let wanted = upload.record.checksumAlgorithm, let got = checksum, got.algorithm != wanted {
            throw S3Error.invalidRequest(
                "Checksum Type mismatch occurred, expected checksum Type: \(wanted.rawValue.lowercased()), actual "
                    + "checksum Type: \(got.algorithm.rawValue.lowercased())")
        }
        let part = PartRecord(
            number: number, size: received.content.size, md5: received.md5, modified: options.time.now(),
            checksum: checksum, segments: [])
        try S3Error.storing { () throws(StorageError) in
            try upload.put(part, content: received.content, sync: options.sync)
        }
        var headers = [Field("ETag", "\"\(Departures.ofPart(part.md5))\"")] + Self.encryptionHeaders(encryption)
        if let checksum = part.checksum { headers.append(Field(checksum.algorithm.header, checksum.text)) }
        return ServerResponse(status: 200, headers: headers)
    }

    private static func checkCustomerKey(_ upload: Upload, _ request: ServerRequest) throws(S3Error) {
        guard case .customer(let keyMD5) = upload.record.description.encryption else { return }
        guard try customerKey(request, prefix: "x-amz-server-side-encryption-customer-") == keyMD5 else {
            throw S3Error.invalidRequest(
                "The multipart upload initiate requested encryption. Subsequent part requests must include the "
                    + "appropriate encryption parameters.")
        }
    }

    func listParts(_ call: S3Call) throws(S3Error) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        let upload = try upload(call, in: bucket)
        if upload.record.checksumAlgorithm != nil { try Self.checkCustomerKey(upload, request) }
        let limit = min(request.parameter("max-parts").flatMap { Int($0) } ?? 1000, 1000)
        let marker = request.parameter("part-number-marker").flatMap { Int($0) } ?? 0
        let rest = upload.parts.filter { $0.number > marker }
        let page = rest.prefix(max(0, limit))
        return xml("ListPartsResult") { xml in
            xml.element("Bucket", bucket.name)
            xml.element("Key", call.key)
            xml.element("UploadId", upload.id)
            Self.owner(&xml, as: "Initiator")
            Self.owner(&xml)
            xml.element("StorageClass", Self.storageClasses.name(upload.record.description.storageClass))
            if let algorithm = upload.record.checksumAlgorithm {
                xml.element("ChecksumAlgorithm", algorithm.rawValue)
                xml.element("ChecksumType", upload.record.wantsFullChecksum ? "FULL_OBJECT" : "COMPOSITE")
            }
            xml.element("PartNumberMarker", marker)
            if let last = page.last { xml.element("NextPartNumberMarker", last.number) }
            xml.element("MaxParts", limit)
            xml.element("IsTruncated", rest.count > page.count)
            for part in page {
                xml.element("Part") { xml in
                    xml.element("PartNumber", part.number)
                    xml.element("LastModified", part.modified.documentTime)
                    xml.element("ETag", "\"\(Departures.ofPart(part.md5))\"")
                    xml.element("Size", part.size)
                    if let checksum = part.checksum { xml.element(checksum.algorithm.element, checksum.text) }
                }
            }
        }
    }

    func completeUpload(_ call: S3Call) async throws(S3Error) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        let body = try await call.payload.collect(limit: Self.largestDocument)
        guard let root = XMLReader.parse(body), root.name == "CompleteMultipartUpload" else {
            throw S3Error.malformedXML
        }
        let id = request.parameter("uploadId") ?? ""
        if let record = completions.record(id, of: call.key) {
            return completed(record, call, tellsETag: options.tellsRepeatedCompletions)
        }
        let upload = try upload(call, in: bucket)
        let chosen = try Self.chosenParts(root)
        let condition = try Self.writeCondition(request)
        let parts = try S3Error.storing { () throws(StorageError) in
            try bucket.parts(of: upload, chosen, smallestPart: options.smallestPart)
        }
        try Self.compareChecksums(Self.checksums(root), parts)
        let record = try assemble(upload, parts, request)
        let stored = try S3Error.storing { () throws(StorageError) in
            try bucket.complete(upload, parts: parts, as: record, if: condition, refusesOvertaken: true)
        }
        completions.add(id, stored.record)
        return completed(stored.record, call)
    }

    /// The checksum that a completion gives for each of its parts.
    private static func checksums(_ root: XMLElement) -> [[UInt8]?] {
        root.all("Part").map { part in
            let text = ChecksumAlgorithm.allCases.lazy.compactMap { part.text($0.element) }.first
            return text.flatMap { Base64.decode($0) }
        }
    }

    private static func compareChecksums(_ given: [[UInt8]?], _ parts: [PartRecord]) throws(S3Error) {
        for (checksum, part) in zip(given, parts) {
            if let checksum, let held = part.checksum, checksum != held.digest {
                throw S3Error(.invalidPart(number: part.number))
            }
        }
    }

    /// The record of the whole object, with its tag and checksum.
    private func assemble(_ upload: Upload, _ parts: [PartRecord], _ request: ServerRequest) throws(S3Error)
        -> ObjectRecord
    {
        let size = parts.reduce(0) { $0 + $1.size }
        if let promised = request.header("x-amz-mp-object-size"), promised != String(size) {
            throw S3Error.invalidRequest(
                "The provided 'x-amz-mp-object-size' header value does not match what was computed.")
        }
        var checksum: StoredChecksum?
        if let algorithm = upload.record.checksumAlgorithm {
            let digests = parts.map { (digest: $0.checksum?.digest ?? [], length: $0.size) }
            if upload.record.wantsFullChecksum {
                checksum = StoredChecksum(algorithm: algorithm, digest: algorithm.combine(digests))
                let given = request.header(algorithm.header)
                guard given == nil || given == checksum?.text else { throw S3Error.badDigest }
            } else {
                var hasher = algorithm.makeHasher()
                for part in digests { hasher.update(part.digest) }
                checksum = StoredChecksum(algorithm: algorithm, digest: hasher.finish(), composedOf: parts.count)
            }
        }
        let md5 = MD5.of(parts.flatMap(\.md5))
        return ObjectRecord(
            key: upload.record.key, size: size,
            etag: "\(upload.record.description.encryption.etag(md5))-\(parts.count)",
            modified: options.time.now(), description: upload.record.description, checksum: checksum,
            parts: parts.map { $0.with(segments: []) }, segments: [])
    }

    private func completed(_ record: ObjectRecord, _ call: S3Call, tellsETag: Bool = true) -> ServerResponse {
        let host = call.request.header("host") ?? ""
        return xml("CompleteMultipartUploadResult") { xml in
            xml.element("Location", "http://\(host)\(call.request.path)")
            xml.element("Bucket", call.target.bucket)
            xml.element("Key", call.key)
            xml.element("ETag", tellsETag ? "\"\(Departures.told(record.etag))\"" : "")
            if let checksum = record.checksum {
                xml.element(checksum.algorithm.element, checksum.text)
                xml.element("ChecksumType", checksum.type)
            }
        }.adding(Self.encryptionHeaders(record.description.encryption) + Self.versionHeaders(record))
    }
}
