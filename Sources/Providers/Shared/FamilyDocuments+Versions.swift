import Basics
import ObjectStorage

/// Documents about versions.
extension FamilyDocuments {
    /// `VersioningConfiguration`.
    static func versioning(_ body: [UInt8]) throws(XMLError) -> Versioning {
        var status = ""
        var reader = XMLReader(body)
        try reader.root { reader, root throws(XMLError) in
            guard root == "VersioningConfiguration" else { throw reader.error("<\(root)> has no status of versioning") }
            try reader.elements { reader, name throws(XMLError) in
                if name == "Status" { status = try reader.text() }
            }
        }
        return status == "Enabled" ? .enabled : status.isEmpty ? .never : .suspended
    }

    /// `ListVersionsResult`, in the order of keys and, of a key, newest first.
    func versions(_ body: [UInt8]) throws(XMLError) -> VersionsPage {
        var found: [Version] = []
        var prefixes: [ByteString] = []
        var (isEncoded, isTruncated) = (false, false)
        var (nextKey, nextVersion): (ByteString?, String) = (nil, "")
        var reader = XMLReader(body)
        try reader.root { reader, root throws(XMLError) in
            guard root == "ListVersionsResult" else { throw reader.error("<\(root)> is not a listing of versions") }
            try reader.elements { reader, name throws(XMLError) in
                switch name {
                case "Version", "DeleteMarker":
                    found.append(try Self.version(&reader, isDeleteMarker: name == "DeleteMarker"))
                case "CommonPrefixes":
                    try reader.elements { reader, name throws(XMLError) in
                        if name == "Prefix" { prefixes.append(try reader.content()) }
                    }
                case "IsTruncated": isTruncated = try Self.isTrue(&reader)
                case "NextKeyMarker": nextKey = try reader.content()
                case "NextVersionIdMarker": nextVersion = try reader.text()
                case "EncodingType", "Encoding-Type", "Encoding-type": isEncoded = try reader.text() == "url"
                default: break
                }
            }
        }
        if isTruncated, nextKey == nil {
            throw reader.error("the listing is not complete but does not name the next page")
        }
        var page = VersionsPage()
        page.versions = sorted(found, isEncoded).compactMap { version in
            // As in other listings, such a version is left out, so that the others are listed all the same.
            guard let size = version.size else { return nil }
            return StoredVersion(
                key: ObjectKey(version.key), id: version.id,
                version: ObjectVersion(
                    etag: version.etag, size: size, modified: version.modified,
                    versionID: version.id == StoredVersion.null ? nil : version.id),
                storageClass: version.storageClass == standardClass ? nil : version.storageClass,
                isLatest: version.isLatest, isDeleteMarker: version.isDeleteMarker)
        }
        page.commonPrefixes = prefixes.map { decode($0, isEncoded) }.filter { !$0.isEmpty }.map { ObjectKey($0) }
        if isTruncated, let nextKey {
            page.next = VersionsCursor(key: decode(nextKey, isEncoded), version: nextVersion)
        }
        return page
    }

    private struct Version {
        /// As the document has it, perhaps encoded.
        var key: ByteString = ""
        var id = StoredVersion.null
        var etag = ETag("")
        /// nil for an impossible length.
        var size: Int64? = 0
        var modified = Timestamp.epoch
        var storageClass: String?
        var isLatest = false
        let isDeleteMarker: Bool
    }

    private static func version(_ reader: inout XMLReader, isDeleteMarker: Bool) throws(XMLError) -> Version {
        var version = Version(isDeleteMarker: isDeleteMarker)
        try reader.elements { reader, name throws(XMLError) in
            switch name {
            case "Key": version.key = try reader.content()
            case "VersionId":
                let id = try reader.text()
                if !id.isEmpty { version.id = id }
            case "ETag": version.etag = ETag(try reader.text())
            case "Size": version.size = Self.size(try reader.text())
            case "LastModified": version.modified = Timestamp(iso8601: try reader.text()) ?? .epoch
            case "StorageClass": version.storageClass = try reader.text()
            case "IsLatest": version.isLatest = try isTrue(&reader)
            default: break
            }
        }
        return version
    }

    /// By key; the versions of a key keep the order of the document, newest first. Where the document has the delete markers behind
    /// all versions, they go between them by their times.
    private func sorted(_ found: [Version], _ isEncoded: Bool) -> [Version] {
        let decoded = found.map { version in
            var version = version
            version.key = decode(version.key, isEncoded)
            return version
        }
        let lastVersion = decoded.lastIndex { !$0.isDeleteMarker } ?? -1
        let areApart = decoded.firstIndex { $0.isDeleteMarker }.map { $0 > lastVersion } ?? false
        return decoded.enumerated().filter { !$0.element.key.isEmpty }.sorted { left, right in
            let (one, other) = (left.element, right.element)
            if one.key != other.key { return one.key < other.key }
            if areApart, one.isLatest != other.isLatest { return one.isLatest }
            if areApart, one.modified != other.modified { return one.modified > other.modified }
            return left.offset < right.offset
        }.map(\.element)
    }
}
