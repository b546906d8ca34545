package import Basics
import Digests
import Synchronization

/// An object, or one version of it, as it is now: its record, which never changes, and its bytes.
package final class StoredObject: Sendable {
    package let record: ObjectRecord
    package let content: Content
    /// Grows with every change in the bucket; of two records of a key on disk the higher one counts.
    let sequence: UInt64
    let fileName: String

    init(record: ObjectRecord, content: Content, sequence: UInt64) {
        (self.record, self.content, self.sequence) = (record, content, sequence)
        fileName = Bucket.recordName(of: record.key, sequence)
    }

    /// The ID of this version of the key; `null` in a bucket that never kept versions.
    package var versionID: String { record.version?.id ?? VersionRecord.null }
    package var isDeleteMarker: Bool { record.version?.isDeleteMarker ?? false }
    /// Sorts the versions of a key by age.
    var order: UInt64 { record.version?.order ?? sequence }

    /// CRC-64/ECMA of the object's bytes; reads them all the first time when no dialect computed it before.
    package func crc64() throws(StorageError) -> UInt64 {
        if let known = record.crc64 { return known }
        let digest = try content.digest("crc64-ecma") { () throws(StorageError) in
            var sum = CRC64ECMA()
            try content.forEachPiece(of: 0..<content.size) { (piece) throws(StorageError) in
                sum.update(piece)
            } onError: {
                $0
            }
            return sum.finish()
        }
        return digest.reduce(0) { $0 << 8 | UInt64($1) }
    }
}

/// What must hold of the object a write replaces, decided together with the replacement.
package struct WriteCondition: Sendable {
    /// The key must not exist.
    package var mustBeAbsent = false
    /// The key must exist with one of these ETags (without quotes); `*` stands for any.
    package var etags: [String]?

    package init() {}

    var isEmpty: Bool { !mustBeAbsent && etags == nil }

    func check(_ current: StoredObject?) throws(StorageError) {
        if mustBeAbsent, current != nil { throw .conditionFailed }
        guard let etags else { return }
        guard let current else { throw .noSuchKey }
        guard etags.contains("*") || etags.contains(current.record.etag) else { throw .conditionFailed }
    }
}

/// What a bucket knows of itself.
package struct BucketRecord: Hashable, Sendable {
    package let name: String
    package let created: Timestamp
    package let region: String
    package var access: AccessControl
    package var cors: [CORSRule] = []
    /// What only one dialect knows of; every name starts with the dialect's.
    package var properties: [Field] = []
    /// nil until versioning is enabled for the first time.
    package var versioning: Versioning?
}

/// One bucket: objects and uploads on disk, and their index in memory.
///
/// On disk `DIR/<bucket>/bucket` describes it; `objects/<key hash>-<sequence>` is the record of one object, `content/<id>`
/// an immutable file of bytes that records name, `uploads/<id>/` an upload with a record for each part. Names come
/// from hashes and random numbers, never from keys, so any key is safe and no file system limit shortens one.
///
/// A write puts its bytes into a fresh content file and its record into a temporary file, then takes its place in the
/// index under the lock, where conditions are decided and the sequence number is given, and then renames the record to
/// its final name. So no I/O happens under the lock, racing writers end on disk as they did in memory, and a crash
/// leaves either the old object or the new one. What a dead process left unnamed is removed at the next opening.
///
/// A bucket that keeps versions has a record for each version and each delete marker (see `Bucket+Versions.swift`).
package final class Bucket: Sendable {
    struct State {
        var record: BucketRecord
        /// What GET of a key without a version reads.
        var objects = SortedIndex<ByteString, StoredObject>()
        /// Every other version of a key and its delete markers, oldest first. Empty unless the bucket keeps versions.
        var histories = SortedIndex<ByteString, [StoredObject]>()
        var uploads = SortedIndex<UploadPlace, Upload>()
        var sequence: UInt64 = 0
        /// When keys that uploads are in progress of were last removed.
        var removals: [ByteString: UInt64] = [:]
        var isDeleted = false

        func hasUpload(of key: ByteString) -> Bool {
            uploads.entry(at: uploads.firstPosition { $0.key < key })?.key.key == key
        }

        mutating func noteRemoval(of key: ByteString) {
            guard hasUpload(of: key) else { return }
            sequence += 1
            removals[key] = sequence
        }
    }

    let directory: String
    let sync: Bool
    let state: Mutex<State>
    package let name: String

    init(directory: String, state: consuming State, sync: Bool) {
        self.directory = directory
        self.sync = sync
        name = state.record.name
        self.state = Mutex(state)
    }

    var objectsDirectory: String { "\(directory)/objects" }
    var contentDirectory: String { "\(directory)/content" }
    var uploadsDirectory: String { "\(directory)/uploads" }

    package var record: BucketRecord { state.withLock { $0.record } }
    package var objectCount: Int { state.withLock { $0.objects.count } }

    package func setAccess(_ access: AccessControl) throws(StorageError) { try change { $0.access = access } }
    package func setCORS(_ rules: [CORSRule]) throws(StorageError) { try change { $0.cors = rules } }
    package func setProperties(_ properties: ([Field]) -> [Field]) throws(StorageError) {
        try change { $0.properties = properties($0.properties) }
    }

    /// How many objects there are, and how many bytes they have by `size`; looks at each.
    package func figures(_ size: (ObjectRecord) -> Int64) -> (objects: Int64, bytes: Int64) {
        state.withLock { state in
            var (objects, bytes): (Int64, Int64) = (0, 0)
            var position = state.objects.firstPosition { _ in false }
            while let entry = state.objects.entry(at: position) {
                (objects, bytes) = (objects + 1, bytes + size(entry.value.record))
                position = state.objects.position(after: position)
            }
            return (objects, bytes)
        }
    }

    func change(_ change: (inout BucketRecord) -> Void) throws(StorageError) {
        let record = state.withLock { state in
            change(&state.record)
            return state.record
        }
        try Bucket.write(record, to: directory, sync: sync)
    }

    /// Where the bytes of a new object or part go first.
    package func newContent() -> ContentWriter { ContentWriter(directory: contentDirectory, sync: sync) }

    /// Bytes of an object of this or another bucket, as content of this one.
    package func duplicate(_ content: Content, range: ByteRange) throws(StorageError) -> Content {
        try content.duplicate(range, in: contentDirectory, sync: sync)
    }

    package func object(_ key: ByteString) throws(StorageError) -> StoredObject {
        guard let object = state.withLock({ $0.objects[key] }) else { throw .noSuchKey }
        return object
    }

    package func list(_ request: ListingRequest) -> ListingResult<StoredObject> {
        state.withLock { $0.objects.list(request) }
    }

    /// Makes `content` the object that `record` describes; the record's segments are taken from the content. Refused when the
    /// key has changed since the upload that had `begun`.
    package func put(
        _ record: ObjectRecord, content: Content, if condition: WriteCondition = WriteCondition(), begun: UInt64? = nil
    ) throws(StorageError) -> StoredObject {
        var record = record
        record.segments = content.segments
        return try commit(record, content: content, begun: begun) { current throws(StorageError) in
            try condition.check(current)
        }
    }

    /// Changes what is said of an object without touching its bytes.
    package func update(
        _ object: StoredObject, _ change: (inout ObjectRecord) -> Void
    ) throws(StorageError) -> StoredObject {
        var record = object.record
        change(&record)
        return try commit(record, content: object.content, inPlaceOf: object) { current throws(StorageError) in
            guard let current else { throw .noSuchKey }
            guard current.content === object.content else { throw .conditionFailed }
        }
    }

    /// Puts the bytes of `tail` behind those of `object`, which must be the current one, and makes them what `record`
    /// describes.
    package func append(
        _ tail: Content, to object: StoredObject, as record: ObjectRecord
    ) throws(StorageError) -> StoredObject {
        let head = try duplicate(object.content, range: 0..<object.content.size)
        // From here on the files belong to the joined content, which removes them unless it is kept.
        let joined = Content(head.segments + tail.segments, in: contentDirectory, kept: false)
        head.keep()
        tail.keep()
        var record = record
        record.segments = joined.segments
        return try commit(record, content: joined, inPlaceOf: object) { current throws(StorageError) in
            guard current === object else { throw .conditionFailed }
        }
    }

    /// Makes `content`, the bytes of `source` under names of their own, the object that `record` describes, and removes
    /// `source` at the same moment; in a bucket that keeps versions, right after it, with a delete marker.
    package func move(
        _ source: StoredObject, to record: ObjectRecord, content: Content, if condition: WriteCondition
    ) throws(StorageError) -> StoredObject {
        precondition(source.record.key != record.key, "a move onto itself")
        if keepsVersions {
            let moved = try put(record, content: content, if: condition)
            try delete(source.record.key, now: record.modified)
            return moved
        }
        var record = record
        record.segments = content.segments
        return try commit(record, content: content, removing: source) { current throws(StorageError) in
            try condition.check(current)
        }
    }

    /// Removes the object and returns it; one that is not there is only an error to a condition. In a bucket that keeps
    /// versions it becomes one that is not the latest.
    @discardableResult
    package func delete(
        _ key: ByteString, now: Timestamp, if condition: WriteCondition = WriteCondition()
    ) throws(StorageError) -> StoredObject? {
        if keepsVersions { return try mark(key, now: now, if: condition).former }
        let removed = try state.withLock { (state) throws(StorageError) in
            try condition.check(state.objects[key])
            let removed = state.objects.remove(key)
            if removed != nil { state.noteRemoval(of: key) }
            return removed
        }
        guard let removed else { return nil }
        Disk.unlink("\(objectsDirectory)/\(removed.fileName)")
        removed.content.discard()
        if sync { try Disk.syncDirectory(objectsDirectory) }
        return removed
    }

    /// Makes `record` the latest version of its key, or the one `inPlaceOf` which it is written; `check` gets the object
    /// that it replaces.
    func commit(
        _ record: ObjectRecord, content: Content, removing source: StoredObject? = nil, begun: UInt64? = nil,
        inPlaceOf former: StoredObject? = nil, check: (StoredObject?) throws(StorageError) -> Void
    ) throws(StorageError) -> StoredObject {
        var record = record
        record.version = newVersion(record, inPlaceOf: former)
        let temporary = "\(objectsDirectory)/\(Bucket.temporaryPrefix)\(RandomID.hex())"
        try Disk.write(record.text, to: temporary, sync: sync)
        let object: StoredObject
        let old: [StoredObject]
        do {
            (object, old) = try state.withLock { (state) throws(StorageError) in
                guard !state.isDeleted else { throw .noSuchBucket }
                let replaced = former.flatMap { state.version($0.versionID, of: record.key) }
                try check(former == nil ? state.objects[record.key] : replaced)
                let changed = max(state.objects[record.key]?.sequence ?? 0, state.removals[record.key] ?? 0)
                if let begun, changed > begun { throw .overtaken }
                if let source {
                    guard state.objects[source.record.key] === source else { throw .noSuchKey }
                    _ = state.objects.remove(source.record.key)
                    state.noteRemoval(of: source.record.key)
                }
                state.sequence += 1
                let object = StoredObject(record: record, content: content, sequence: state.sequence)
                return (object, state.place(object, inPlaceOf: replaced))
            }
        } catch {
            Disk.unlink(temporary)
            throw error
        }
        content.keep()
        try Disk.rename(temporary, to: "\(objectsDirectory)/\(object.fileName)")
        if sync { try Disk.syncDirectory(objectsDirectory) }
        for former in old + [source].compactMap(\.self) {
            Disk.unlink("\(objectsDirectory)/\(former.fileName)")
            if former.content !== content { former.content.discard() }
        }
        // Whoever replaced or removed this object meanwhile could not yet remove a record of this name.
        let isHeld = state.withLock { $0.version(object.versionID, of: record.key) === object }
        if !isHeld { Disk.unlink("\(objectsDirectory)/\(object.fileName)") }
        return object
    }

    /// Marks the bucket as gone if nothing is in it.
    func close() throws(StorageError) {
        try state.withLock { (state) throws(StorageError) in
            guard state.objects.isEmpty, state.histories.isEmpty else { throw .bucketNotEmpty }
            state.isDeleted = true
        }
    }
}
