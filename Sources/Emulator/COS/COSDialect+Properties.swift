import Basics
import Digests

/// Tags, restoring what is archived, and symbolic links (COS API, "POST Object restore" and "PUT Object tagging").
extension COSDialect {
    func getObjectTagging(_ call: COSCall) throws(COSError) -> ServerResponse {
        let tags = try object(call).1.record.description.tags
        guard !tags.isEmpty else { throw COSError(404, "NoSuchTagSet", "The tag set does not exist.") }
        return xml("Tagging") { Tagging.write(tags, &$0) }
    }

    /// A century; more days than any restored copy is kept for.
    private static let mostRestoreDays: Int64 = 36_500

    func postObjectRestore(_ call: COSCall) async throws(COSError) -> ServerResponse {
        let (bucket, object) = try object(call)
        let root = try await call.payload.document("RestoreRequest")
        let storageClass = object.record.description.storageClass
        guard storageClass.isFrozen else {
            throw COSError(405, "RestoreNonArchiveObject", "The object is not archived, so it can not be restored.")
        }
        guard let days = root.text("Days").flatMap({ Int64($0) }), (1...Self.mostRestoreDays).contains(days) else {
            throw COSError.invalidArgument("Days must be a number from 1 to \(Self.mostRestoreDays).")
        }
        let tier = root["CASJobParameters"]?.text("Tier") ?? "Standard"
        let tiers = storageClass == .archive ? ["Expedited", "Standard", "Bulk"] : ["Standard", "Bulk"]
        guard tiers.contains(tier) else {
            throw COSError.invalidArgument("The tier '\(tier)' is none of \(tiers.joined(separator: ", ")).")
        }
        let now = options.time.now()
        if let current = object.record.restoration, current.ready > now {
            throw COSError(409, "RestoreAlreadyInProgress", "The object is being restored already.")
        }
        let isThere = object.record.restoration?.isThere(now) ?? false
        let ready = isThere ? now : now + options.restoreDelay
        var restoration = Restoration(ready: ready, expires: Self.midnight(after: days, from: ready))
        restoration.order = Restoration.Order(tier: tier, date: now)
        try change(object, in: bucket) { $0.restoration = restoration }
        return ServerResponse(status: isThere ? 200 : 202)
    }

    /// Copies last until the midnight, in China, after the days asked for.
    private static func midnight(after days: Int64, from ready: Timestamp) -> Timestamp {
        let (day, zone): (Int64, Int64) = (86_400, 8 * 3600)
        return Timestamp(seconds: ((ready.seconds + zone) / day + days + 1) * day - zone)
    }

    func putSymlink(_ call: COSCall) throws(COSError) -> ServerResponse {
        let bucket = try bucket(call)
        try checkKey(call.key)
        guard let target = call.request.header("x-cos-symlink-target").flatMap({ PercentEncoding.decode($0) }),
            !target.isEmpty
        else { throw COSError.invalidArgument("x-cos-symlink-target must be the encoded key of the target.") }
        let description = try description(call.request)
        let writer = bucket.newContent()
        let object = try Self.storing { () throws(StorageError) in
            let record = ObjectRecord(
                key: call.key, size: 0, etag: description.encryption.etag(MD5.of(target)),
                modified: options.time.now(), description: description, crc64: 0,
                kind: .symlink(target: ByteString(target)))
            return try bucket.put(record, content: try writer.finish(), if: Self.writeCondition(call.request, bucket))
        }
        return ServerResponse(
            status: 200, headers: [Field("ETag", "\"\(object.record.etag)\"")] + Self.versionHeaders(object.record))
    }

    func getSymlink(_ call: COSCall) throws(COSError) -> ServerResponse {
        let record = try object(call).1.record
        guard case .symlink(let target) = record.kind else {
            throw COSError(400, "NotSymlink", "The object is no symbolic link.")
        }
        return ServerResponse(
            status: 200,
            headers: [
                Field("x-cos-symlink-target", PercentEncoding.encode(target, keepingSlash: true)),
                Field("ETag", "\"\(record.etag)\""), Field("Last-Modified", record.modified.httpDate),
            ])
    }
}
