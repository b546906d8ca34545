import Basics
import Digests
import HTTP
import ObjectStorage

/// Parses answers: headers of objects, ranges, checksums, outcomes.
extension FamilyStore {
    /// The object's properties from the headers of a HEAD or GET.
    func info(_ call: Call, _ response: HTTPResponse, size: Int64?) throws(ObjectStoreError) -> ObjectInfo {
        let headers = response.headers
        guard let etag = headers["ETag"], let size = size ?? headers["Content-Length"].flatMap({ Int64($0) }) else {
            throw malformed(call, response, "the answer has no ETag or no length")
        }
        let modified = headers["Last-Modified"].flatMap { Timestamp(httpDate: $0) } ?? .epoch
        let version = ObjectVersion(
            etag: ETag(etag), size: size, modified: modified, versionID: versionID(response))
        var metadata = ObjectMetadata(contentType: headers["Content-Type"])
        metadata.cacheControl = headers["Cache-Control"]
        metadata.contentDisposition = headers["Content-Disposition"]
        metadata.contentEncoding = Self.withoutChunking(headers["Content-Encoding"])
        metadata.contentLanguage = headers["Content-Language"]
        metadata.expires = headers["Expires"]
        metadata.user = userMetadata(response)
        metadata.kept.isTagged = headers[profile.header("tagging-count")].flatMap { Int($0) } ?? 0 > 0
        let storageClass = headers[profile.header("storage-class")]
        var info = ObjectInfo(
            version: version, metadata: metadata,
            storageClass: storageClass == profile.standardClass ? nil : storageClass,
            restore: headers[profile.header("restore")].map(Self.restore))
        info.crc64 = crc64ecma(headers)
        info.checksum = wholeChecksum(response)
        info.encryption = encryption(headers)
        return info
    }

    /// The headers that a program or a mount has stored with the object, by name.
    func userMetadata(_ response: HTTPResponse) -> [String: String] {
        var user: [String: String] = [:]
        let prefix = profile.header("meta-")
        for field in response.headers.fields {
            let name = field.name.lowercased()
            guard name.hasPrefix(prefix) else { continue }
            user[profile.metadataNames.decode(String(name.dropFirst(prefix.count)))] = field.value
        }
        return user
    }

    private func encryption(_ headers: HTTPHeaders) -> String? {
        if let mode = headers[profile.header("server-side-encryption")] {
            return ([mode] + [headers[profile.header(profile.encryptionKeyHeader)]].compactMap(\.self))
                .joined(separator: " ")
        }
        return headers[profile.header("server-side-encryption-customer-algorithm")].map { "customer's key, \($0)" }
    }

    func versionID(_ response: HTTPResponse) -> String? {
        response.headers[profile.header("version-id")].flatMap { $0 == "null" ? nil : $0 }
    }

    /// Some servers store the framing's token with the encoding.
    private static func withoutChunking(_ encoding: String?) -> String? {
        let rest = encoding?.split(separator: ",").map { $0.drop { $0 == " " } }.filter { $0 != "aws-chunked" }
        guard let rest, !rest.isEmpty else { return nil }
        return rest.joined(separator: ",")
    }

    /// `ongoing-request="false", expiry-date="Fri, 21 Dec 2012 00:00:00 GMT"`.
    private static func restore(_ header: String) -> RestoreState {
        if header.hasPrefix("ongoing-request=\"true\"") { return .ongoing }
        let quoted = header.split(separator: "\"", omittingEmptySubsequences: false)
        return .restored(until: quoted.count > 3 ? Timestamp(httpDate: String(quoted[3])) : nil)
    }

    /// `bytes 0-9/100` (RFC 9110 section 14.4).
    static func contentRange(_ headers: HTTPHeaders) -> (range: ByteRange, total: Int64)? {
        guard let text = headers["Content-Range"], text.hasPrefix("bytes ") else { return nil }
        let parts = text.dropFirst(6).split(separator: "/")
        guard parts.count == 2, let total = Int64(parts[1]) else { return nil }
        // OSS documents a tilde between the ends as well (OSS API, "GetObject").
        let ends = parts[0].split { $0 == "-" || $0 == "~" }
        guard ends.count == 2, let first = Int64(ends[0]), let last = Int64(ends[1]), first >= 0, last >= first,
            last < total
        else { return nil }
        return (first..<last + 1, total)
    }

    /// Why a successful answer does not match the request.
    static func problem(_ response: HTTPResponse, asked: ByteRange?) -> String? {
        guard let asked else {
            return response.status == 200 ? nil : "requested the whole object, received status \(response.status)"
        }
        // Content-Range decides, not the status: rclone serve s3 sends a range with status 200.
        guard let answered = contentRange(response.headers) else {
            return "requested a range, received status \(response.status) without Content-Range"
        }
        guard answered.range.lowerBound == asked.lowerBound,
            answered.range.upperBound == min(asked.upperBound, answered.total)
        else { return "requested bytes \(asked), received \(answered.range) of \(answered.total)" }
        return nil
    }

    /// The checksum that a whole body must have: one of the full object, or an ETag that is an MD5; nil when the mount does not
    /// verify checksums.
    func promise(_ headers: HTTPHeaders) -> ContentChecksum? {
        guard settings.verifiesChecksums else { return nil }
        if let crc = crc64ecma(headers) { return .crc64ecma(Self.bytes(crc)) }
        func checksum(_ name: String) -> [UInt8]? {
            // Composite checksums end in -N and are checksums of checksums, not of bytes.
            guard let text = headers["x-amz-checksum-\(name)"], !text.contains("-") else { return nil }
            return Base64.decode(text)
        }
        if headers["x-amz-checksum-type"] != "COMPOSITE" {
            if let sum = checksum("crc64nvme") { return .crc64nvme(sum) }
            if let sum = checksum("crc32c") { return .crc32c(sum) }
            if let sum = checksum("crc32") { return .crc32(sum) }
            if let sum = checksum("sha256") { return .sha256(sum) }
            if let sum = checksum("sha1") { return .sha1(sum) }
        }
        return md5(headers)
    }

    private func md5(_ headers: HTTPHeaders) -> ContentChecksum? {
        guard isETagOfContent(headers), let etag = headers["ETag"], let digest = Self.md5(ETag(etag)) else {
            return nil
        }
        return .md5(digest)
    }

    /// The checksum of the whole object from an answer that may be of a range. S3's checksum in such an answer is of a part,
    /// which the range may be. And where HEAD has a CRC, the MD5 is not used: its bytes must be hashed in order.
    private func wholeChecksum(_ response: HTTPResponse) -> ContentChecksum? {
        guard response.status == 206, tellsChecksumsToHEAD else { return promise(response.headers) }
        return profile.checksum == .crc64nvme ? nil : md5(response.headers)
    }

    /// The CRC-64 of the whole object or the part in an answer; nil without one, or when the mount does not verify checksums.
    func crc64ecma(_ headers: HTTPHeaders) -> UInt64? {
        guard settings.verifiesChecksums, case .crc64ecma(let name) = profile.checksum else { return nil }
        return headers[name].flatMap { UInt64($0) }
    }

    /// Highest byte first, as digests are.
    static func bytes(_ value: UInt64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: value >> (56 - 8 * UInt64($0))) }
    }

    /// Whether an ETag is the MD5 of the content: not if the object is encrypted with a customer's or a managed key, nor at
    /// servers that were seen to make other ETags.
    func isETagOfContent(_ headers: HTTPHeaders) -> Bool {
        if capabilities.quirks.contains(.opaqueETags) { return false }
        let encryption = headers[profile.header("server-side-encryption")]
        return profile.etagIsMD5 && encryption.map { profile.plainEncryptions.contains($0) } ?? true
            && headers[profile.header("server-side-encryption-customer-algorithm")] == nil
    }

    static func md5(_ etag: ETag) -> [UInt8]? {
        guard etag.text.utf8.count == 32 else { return nil }
        return Hex.decode(etag.text)
    }

    /// The outcome of a copy or completion, whose 200 can carry an error; nil when it has succeeded without naming the version.
    func outcome(_ call: Call, _ response: HTTPResponse) async throws(ObjectStoreError) -> PutAnswer? {
        let outcome = try read(call, response) { body throws(XMLError) in try FamilyDocuments.outcome(body) }
        switch outcome {
        case .done(let etag, let modified):
            return etag.map {
                PutAnswer(etag: $0, versionID: versionID(response), modified: modified, answered: response.date)
            }
        case .failed(let document): throw errors.error(response, call.operation, call.key, document: document)
        case .unknown:
            throw ObjectStoreError(
                .interrupted, call.operation, key: call.key, status: response.status, code: "EmptyAnswer",
                message: "the answer ended before its result", requestID: errors.requestID(response))
        }
    }
}
