package import Basics
import Synchronization

/// Whether a bucket keeps the versions of its objects; no bucket goes back to having never kept any.
package enum Versioning: String, Sendable {
    /// Each write makes a version with an ID of its own.
    case enabled = "Enabled"
    /// Each write makes or replaces the version `null`; older versions stay.
    case suspended = "Suspended"
}

extension Bucket.State {
    /// Every version and delete marker of `key`, oldest first; the last is the latest.
    func versions(of key: ByteString) -> [StoredObject] {
        (histories[key] ?? []) + (objects[key].map { [$0] } ?? [])
    }

    func version(_ id: String, of key: ByteString) -> StoredObject? {
        if let current = objects[key], current.versionID == id { return current }
        return histories[key]?.first { $0.versionID == id }
    }

    /// Sets all versions of `key`, oldest first. The latest is what GET reads, unless it is a delete marker.
    mutating func set(_ versions: [StoredObject], of key: ByteString) {
        var history = versions
        if let last = versions.last, !last.isDeleteMarker {
            objects.replace(key, with: last)
            history.removeLast()
        } else {
            objects.remove(key)
        }
        if history.isEmpty { histories.remove(key) } else { histories.replace(key, with: history) }
    }

    /// Puts `object` in the place of the version `replaced`, or makes it the latest of its key. Returns the versions that
    /// are gone.
    mutating func place(_ object: StoredObject, inPlaceOf replaced: StoredObject?) -> [StoredObject] {
        let key = object.record.key
        guard record.versioning != nil else { return objects.replace(key, with: object).map { [$0] } ?? [] }
        let versions = versions(of: key)
        if let replaced {
            set(versions.map { $0 === replaced ? object : $0 }, of: key)
            return [replaced]
        }
        // An ID is taken once: only `null` can be there already.
        set(versions.filter { $0.versionID != object.versionID } + [object], of: key)
        return versions.filter { $0.versionID == object.versionID }
    }

    mutating func remove(_ id: String, of key: ByteString) -> StoredObject? {
        guard let removed = version(id, of: key) else { return nil }
        set(versions(of: key).filter { $0 !== removed }, of: key)
        noteRemoval(of: key)
        return removed
    }

    /// Takes what was on disk, in the order of keys.
    mutating func load(_ stored: [StoredObject]) {
        guard record.versioning != nil else {
            objects = SortedIndex(ascending: stored.map { .init(key: $0.record.key, value: $0) })
            return
        }
        var rest = stored[...]
        while let first = rest.first {
            let end = rest.firstIndex { $0.record.key != first.record.key } ?? rest.endIndex
            set(rest[..<end].sorted { $0.order < $1.order }, of: first.record.key)
            rest = rest[end...]
        }
    }
}

/// Versions. A delete without a version makes a delete marker, a record without bytes that is the latest of its key; one
/// of a version removes that for good, and what was the latest before it is the latest again.
extension Bucket {
    /// Whether versioning is or was enabled.
    package var keepsVersions: Bool { state.withLock { $0.record.versioning != nil } }

    package func setVersioning(_ versioning: Versioning) throws(StorageError) {
        try change { $0.versioning = versioning }
    }

    /// The version or delete marker `id` of `key`; nil when there is none.
    package func version(_ id: String, of key: ByteString) -> StoredObject? {
        state.withLock { $0.version(id, of: key) }
    }

    /// The delete marker because of which `key` has no object; nil for other keys.
    package func latestMarker(of key: ByteString) -> StoredObject? {
        state.withLock { state in state.objects[key] == nil ? state.histories[key]?.last : nil }
    }

    /// Makes a delete marker the latest version of `key`. Returns it, and the object that was the latest before.
    func mark(
        _ key: ByteString, now: Timestamp, if condition: WriteCondition
    ) throws(StorageError) -> (marker: StoredObject, former: StoredObject?) {
        var record = ObjectRecord(key: key, size: 0, etag: "", modified: now, description: ObjectDescription())
        record.version = VersionRecord(id: VersionRecord.null, isDeleteMarker: true)
        var former: StoredObject?
        let content = Content([], in: contentDirectory, kept: true)
        let marker = try commit(record, content: content) { current throws(StorageError) in
            try condition.check(current)
            former = current
        }
        if former != nil { state.withLock { $0.noteRemoval(of: key) } }
        return (marker, former)
    }

    /// Which version a record will be; in place of `former` it has that one's ID and age.
    func newVersion(_ record: ObjectRecord, inPlaceOf former: StoredObject?) -> VersionRecord? {
        guard let versioning = state.withLock({ $0.record.versioning }) else { return nil }
        if let former { return VersionRecord(id: former.versionID, order: former.order) }
        return VersionRecord(
            id: versioning == .enabled ? RandomID.hex() : VersionRecord.null,
            isDeleteMarker: record.version?.isDeleteMarker ?? false)
    }

    /// What a delete did, for the answer to it.
    package struct Removal: Sendable {
        /// The version that was named, or the delete marker that was made; nil in a bucket that never kept versions.
        package var versionID: String?
        /// That version is or was a delete marker.
        package var isMarker = false
    }

    /// Deletes `key` with a delete marker, or `version` of it for good. A version that is not there is no error.
    package func remove(
        _ key: ByteString, version: String?, now: Timestamp, if condition: WriteCondition = WriteCondition()
    ) throws(StorageError) -> Removal {
        guard keepsVersions else {
            try delete(key, now: now, if: condition)
            return Removal()
        }
        guard let version else {
            let marker = try mark(key, now: now, if: condition).marker
            return Removal(versionID: marker.versionID, isMarker: true)
        }
        guard let removed = state.withLock({ $0.remove(version, of: key) }) else { return Removal(versionID: version) }
        Disk.unlink("\(objectsDirectory)/\(removed.fileName)")
        removed.content.discard()
        if sync { try Disk.syncDirectory(objectsDirectory) }
        return Removal(versionID: version, isMarker: removed.isDeleteMarker)
    }
}
