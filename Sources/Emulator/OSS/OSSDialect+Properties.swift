import Basics
import Digests

/// Access control, tags, links, and restoring what is archived.
extension OSSDialect {
    func accessPolicy(_ access: AccessControl) -> ServerResponse {
        xml("AccessControlPolicy") { xml in
            Self.owner(&xml)
            xml.element("AccessControlList") { $0.element("Grant", CannedACL(access).rawValue) }
        }
    }

    func setObjectACL(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let (bucket, object) = try object(call)
        guard let access = try Self.access(call.request, header: "x-oss-object-acl") else {
            throw OSSError.invalidArgument("Missing Some Required Arguments.", name: "x-oss-object-acl")
        }
        try change(object, in: bucket) { $0.description.access = access }
        return ServerResponse(status: 200)
    }

    func objectTagging(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let tags = try object(call).1.record.description.tags
        return xml("Tagging") { Tagging.write(tags, &$0) }
    }

    func putSymlink(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let (bucket, request) = (try bucket(call), call.request)
        let text = request.header("x-oss-symlink-target")
        guard let target = text.flatMap({ PercentEncoding.decode($0) }), !target.isEmpty else {
            throw OSSError.invalidArgument(
                "The target of the symlink is missing.", name: "x-oss-symlink-target", value: text)
        }
        try Self.checkKey(ByteString(target))
        let record = ObjectRecord(
            key: call.key, size: 0, etag: Hex.encode(MD5.of(target)), modified: options.time.now(),
            description: try description(request), crc64: 0, kind: .symlink(target: ByteString(target)))
        let object = try OSSError.storing { () throws(StorageError) in
            try bucket.put(
                record, content: try bucket.newContent().finish(), if: Self.writeCondition(request, bucket))
        }
        return ServerResponse(
            status: 200, headers: [Field("ETag", Self.etag(object.record))] + Self.versionHeaders(object.record))
    }

    func symlink(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let record = try object(call).1.record
        guard case .symlink(let target) = record.kind else {
            throw OSSError(400, "NotSymlink", "The object is not a symlink.")
        }
        return ServerResponse(
            status: 200,
            headers: [
                Field("x-oss-symlink-target", PercentEncoding.encode(target, keepingSlash: true)),
                Field("ETag", Self.etag(record)), Field("Last-Modified", record.modified.httpDate),
            ] + record.description.metadata.map { Field("x-oss-meta-\($0.name)", $0.value) })
    }

    /// Days a restored copy may stay, and the speeds there are (OSS API, "RestoreObject").
    private static func choices(_ storageClass: StorageClass) -> (days: ClosedRange<Int64>, tiers: [String])? {
        switch storageClass {
        case .archive: (1...7, [])
        case .deepArchive: (1...365, ["Expedited", "Standard", "Bulk"])
        case .deepColdArchive: (1...365, ["Expedited", "Standard"])
        default: nil
        }
    }

    func restoreObject(_ call: OSSCall) async throws(OSSError) -> ServerResponse {
        let (bucket, object) = try object(call)
        let body = try await call.payload.collect()
        guard let choices = Self.choices(object.record.description.storageClass) else { throw OSSError.notSupported }
        var days: Int64 = 1
        if !body.isEmpty {
            guard let root = XMLReader.parse(body), root.name == "RestoreRequest" else { throw OSSError.malformedXML }
            if let text = root.text("Days") { days = Int64(text) ?? 0 }
            guard choices.days.contains(days) else {
                throw OSSError.invalidArgument("The number of days is not valid.", name: "Days")
            }
            if let tier = root["JobParameters"]?.text("Tier"), !choices.tiers.contains(tier) {
                throw OSSError.invalidArgument("The tier is not valid for this class.", name: "Tier", value: tier)
            }
        }
        let now = options.time.now()
        if let current = object.record.restoration, current.ready > now {
            throw OSSError(409, "RestoreAlreadyInProgress", "The restore operation is in progress.")
        }
        let isThere = object.record.restoration?.isThere(now) ?? false
        let ready = isThere ? now : now + options.restoreDelay
        try change(object, in: bucket) {
            $0.restoration = Restoration(ready: ready, expires: ready + .seconds(days * 86_400))
        }
        return ServerResponse(status: isThere ? 200 : 202)
    }

    /// Ends a restored copy before its time.
    func cleanRestoredObject(_ call: OSSCall) throws(OSSError) -> ServerResponse {
        let (bucket, object) = try object(call)
        guard object.record.description.storageClass.isFrozen else { throw OSSError.notSupported }
        if let restoration = object.record.restoration, restoration.ready > options.time.now() {
            throw OSSError(409, "ArchiveRestoreNotFinished", "The archive file's restore is not finished.")
        }
        try change(object, in: bucket) { $0.restoration = nil }
        return ServerResponse(status: 200)
    }
}
