package import Basics
package import Journaling
package import ObjectStorage
package import Staging

/// Conversions between the journal's plain values and the types of the store.
extension VersionRecord {
    package init(_ key: ObjectKey, _ version: ObjectVersion) {
        self.init(
            key: key.bytes, etag: version.etag.text, size: version.size, modified: version.modified,
            versionID: version.versionID)
    }

    package var version: ObjectVersion {
        ObjectVersion(etag: ETag(etag), size: size, modified: modified, versionID: versionID)
    }
}

extension ConditionRecord {
    init(_ condition: WriteCondition?) {
        self =
            switch condition {
            case .absent: .absent
            case .match(let etag): .match(etag: etag.text)
            case nil: .any
            }
    }

    package var condition: WriteCondition? {
        switch self {
        case .any: nil
        case .absent: .absent
        case .match(let etag): .match(ETag(etag))
        }
    }
}

extension HeadersRecord {
    package init(_ metadata: ObjectMetadata) {
        var standard: [String: String] = [:]
        for header in StoredHeader.allCases { standard[header.rawValue] = metadata[header] }
        // No header has these names.
        if metadata.kept.isTagged { standard["tagged"] = "yes" }
        if metadata.kept.isOfObject { standard["replaces"] = "yes" }
        standard["storage-class"] = metadata.kept.storageClass
        self.init(standard: standard, user: metadata.user)
    }

    package var metadata: ObjectMetadata {
        var metadata = ObjectMetadata(user: user)
        for header in StoredHeader.allCases { metadata[header] = standard[header.rawValue] }
        metadata.kept.isTagged = standard["tagged"] != nil
        metadata.kept.isOfObject = standard["replaces"] != nil
        metadata.kept.storageClass = standard["storage-class"]
        return metadata
    }
}

extension ObjectKey {
    /// This key, which is below `from`, below `to` instead; both end in a slash.
    package func moved(from: ByteString, to: ByteString) -> ObjectKey { ObjectKey(to + bytes.dropFirst(from.count)) }
}

extension JobIntent {
    /// Whether the acknowledged bytes of `file`, in row `row`, end with this job, whose row is `job`. A file that got the name
    /// later stays.
    func ends(_ file: FileIntent, _ row: IntentID, job: IntentID) -> Bool {
        switch self {
        // An older file may have been renamed to the key since, so the number of its row shows nothing.
        case .removal(let record): record.commits.contains(file.identity)
        case .rename(let record):
            row < job && file.key == record.to || record.displaced?.commits.contains(file.identity) ?? false
        case .tree, .moved, .removals, .headers: false
        }
    }

    /// Whether `file` was to replace the object that this job has removed.
    func hasRemovedWhatIsReplaced(by file: FileIntent) -> Bool {
        guard case .removal(let record) = self, let etag = record.etag else { return false }
        return file.key == record.key && file.condition == .match(etag: etag)
    }
}

extension FileIntent {
    /// The map of the row; nil when the row has none, or one that no file can have.
    package var map: ExtentMap? {
        guard let extents else { return nil }
        var map = ExtentMap(baseSize: 0)
        for extent in extents {
            guard extent.end > map.size, let source = PieceSource(rawValue: extent.source) else { return nil }
            map.set(map.size..<extent.end, to: source)
        }
        return map
    }

    /// Whether bytes of the file are nowhere but in parts of an upload at the store.
    package var needsUpload: Bool { map?.has(.stored) ?? false }

    /// Sets the map. Bytes that a commit has read from the base count as the base's: they can be read again.
    mutating func setMap(_ map: ExtentMap) {
        var map = map
        map.replace(.filled, with: .base)
        extents = map.pieces(in: 0..<map.size).map {
            ExtentRecord(end: $0.range.upperBound, source: $0.source.rawValue)
        }
    }

    /// Whether an object with this commit id was made by this file's commits.
    func isOurs(_ id: String) -> Bool {
        CommitOptions.isCommit(id, of: [identity] + ancestors)
    }
}
