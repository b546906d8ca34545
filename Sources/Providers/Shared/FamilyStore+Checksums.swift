import Basics
import Digests
import HTTP
package import ObjectStorage

/// Checksums that S3 returns separately from the content (Amazon S3 user guide, "Checking object integrity").
extension FamilyStore {
    /// Whether a HEAD may return one. Servers with the S3 protocol that have none ignore the header that requests it.
    var tellsChecksumsToHEAD: Bool { settings.verifiesChecksums && profile.prefix == "x-amz-" }

    /// Sends a HEAD: an answer with a range has no checksum. If that is a checksum of checksums, lists the parts' as well.
    package func checksums(
        of key: ObjectKey, _ version: ObjectVersion
    ) async throws(ObjectStoreError) -> [CheckedPart] {
        try await checksums(of: key, version, id: nil)
    }

    package func checksums(
        of key: ObjectKey, _ version: ObjectVersion, id: String?
    ) async throws(ObjectStoreError) -> [CheckedPart] {
        guard tellsChecksumsToHEAD else { return [] }
        var call = Call(.head, .head, key)
        if let id { call.query = [Self.versionItem(id)] }
        call.headers["x-amz-checksum-mode"] = "ENABLED"
        Self.add(.ifMatch(version.etag), to: &call.headers)
        addCustomerKey(to: &call.headers)
        let response = try await send(call)
        if let whole = promise(response.headers) {
            if case .md5 = whole, try await makesOpaqueETags(besides: key) { return [] }
            return [CheckedPart(size: version.size, whole)]
        }
        guard response.headers["x-amz-checksum-type"] == "COMPOSITE" else { return [] }
        return try await partChecksums(key, version, id: id)
    }

    /// Empty where the listed parts are not those of the version.
    private func partChecksums(
        _ key: ObjectKey, _ version: ObjectVersion, id: String?
    ) async throws(ObjectStoreError) -> [CheckedPart] {
        var parts: [CheckedPart] = []
        var marker = 0
        while true {
            var call = Call(.head, .get, key)
            call.collectLimit = 16 << 20
            call.query = Self.query("attributes", version: id)
            call.headers["x-amz-object-attributes"] = "ETag,ObjectParts"
            call.headers["x-amz-part-number-marker"] = String(marker)
            addCustomerKey(to: &call.headers)
            let response = try await send(call)
            let page = try read(call, response) { body throws(XMLError) in try FamilyDocuments.partChecksums(body) }
            guard page.etag == version.etag, page.isWhole else { return [] }
            parts += page.parts
            guard page.isTruncated else { break }
            guard let next = page.nextMarker, next > marker else { return [] }
            marker = next
        }
        return parts
    }
}

extension FamilyDocuments {
    /// A page of `GetObjectAttributes`.
    struct PartChecksums {
        var etag: ETag?
        var parts: [CheckedPart] = []
        /// Whether each listed part has a size and a checksum.
        var isWhole = true
        var isTruncated = false
        var nextMarker: Int?
    }

    static func partChecksums(_ body: [UInt8]) throws(XMLError) -> PartChecksums {
        var answer = PartChecksums()
        var reader = XMLReader(body)
        try reader.root { reader, _ throws(XMLError) in
            try reader.elements { reader, name throws(XMLError) in
                switch name {
                case "ETag": answer.etag = ETag(try reader.text())
                case "ObjectParts":
                    try reader.elements { reader, name throws(XMLError) in
                        switch name {
                        case "IsTruncated": answer.isTruncated = try reader.text() == "true"
                        case "NextPartNumberMarker": answer.nextMarker = Int(try reader.text())
                        case "Part": try Self.addPart(&reader, to: &answer)
                        default: break
                        }
                    }
                default: break
                }
            }
        }
        return answer
    }

    private static func addPart(_ reader: inout XMLReader, to answer: inout PartChecksums) throws(XMLError) {
        var (size, checksum): (Int64?, ContentChecksum?) = (nil, nil)
        try reader.elements { reader, name throws(XMLError) in
            func digest() throws(XMLError) -> [UInt8] { Base64.decode(try reader.text()) ?? [] }
            switch name {
            case "Size": size = Int64(try reader.text())
            case "ChecksumCRC64NVME": checksum = .crc64nvme(try digest())
            case "ChecksumCRC32C": checksum = .crc32c(try digest())
            case "ChecksumCRC32": checksum = .crc32(try digest())
            case "ChecksumSHA256": checksum = .sha256(try digest())
            case "ChecksumSHA1": checksum = .sha1(try digest())
            default: break
            }
        }
        if let size, size > 0, let checksum, !checksum.digest.isEmpty {
            answer.parts.append(CheckedPart(size: size, checksum))
        } else {
            answer.isWhole = false
        }
    }
}
