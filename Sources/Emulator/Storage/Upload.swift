package import Basics
import Synchronization

/// Where an upload stands among a bucket's: by key, then by the time it began.
package struct UploadPlace: Comparable, Sendable {
    package let key: ByteString
    package let sequence: UInt64

    package static func < (left: UploadPlace, right: UploadPlace) -> Bool {
        if left.key != right.key { return left.key < right.key }
        return left.sequence < right.sequence
    }
}

/// What was said when an upload began.
package struct UploadRecord: Hashable, Sendable {
    package let key: ByteString
    package let initiated: Timestamp
    package let description: ObjectDescription
    package let checksumAlgorithm: ChecksumAlgorithm?
    /// The whole object's checksum is wanted rather than one composed of the parts'.
    package let wantsFullChecksum: Bool

    package init(
        key: ByteString, initiated: Timestamp, description: ObjectDescription, checksumAlgorithm: ChecksumAlgorithm?,
        wantsFullChecksum: Bool
    ) {
        self.key = key
        self.initiated = initiated
        self.description = description
        self.checksumAlgorithm = checksumAlgorithm
        self.wantsFullChecksum = wantsFullChecksum
    }
}

/// An upload in parts, from its beginning to its completion or abortion.
///
/// Kept under `uploads/<id>/` by the bucket: `upload` says what it is, `<number>-<sequence>` is one part. Like objects,
/// parts are renamed into place and the highest sequence counts. Locked by its own mutex, a leaf.
package final class Upload: Sendable {
    struct Part {
        let record: PartRecord
        let content: Content
        let sequence: UInt64
    }

    struct State {
        var parts: [Int: Part] = [:]
        var sequence: UInt64 = 0
        var isClosed = false
    }

    package let id: String
    package let record: UploadRecord
    let place: UploadPlace
    let directory: String
    let state: Mutex<State>

    init(id: String, record: UploadRecord, sequence: UInt64, directory: String, state: consuming State = State()) {
        self.id = id
        self.record = record
        self.directory = directory
        place = UploadPlace(key: record.key, sequence: sequence)
        self.state = Mutex(state)
    }

    /// The parts uploaded so far by ascending number.
    package var parts: [PartRecord] {
        state.withLock { $0.parts.values.map(\.record) }.sorted { $0.number < $1.number }
    }

    /// Adds a part or replaces the one of the same number.
    package func put(_ part: PartRecord, content: Content, sync: Bool) throws(StorageError) {
        var writer = RecordWriter()
        writer.line("pailstore-part", "1")
        writer.part(part.with(segments: content.segments))
        let temporary = "\(directory)/\(Bucket.temporaryPrefix)\(RandomID.hex())"
        // A missing directory means that the upload ended meanwhile.
        do { try Disk.write(writer.finish(), to: temporary, sync: sync) } catch {
            throw Disk.exists(directory) ? error : .noSuchUpload
        }
        let outcome: (sequence: UInt64, old: Part?)? = state.withLock { state in
            guard !state.isClosed else { return nil }
            state.sequence += 1
            let new = Part(
                record: part.with(segments: content.segments), content: content, sequence: state.sequence)
            return (state.sequence, state.parts.updateValue(new, forKey: part.number))
        }
        guard let outcome else {
            Disk.unlink(temporary)
            throw .noSuchUpload
        }
        content.keep()
        do {
            try Disk.rename(temporary, to: "\(directory)/\(Upload.partName(part.number, outcome.sequence))")
        } catch {
            throw Disk.exists(directory) ? error : .noSuchUpload
        }
        if sync { try Disk.syncDirectory(directory) }
        if let old = outcome.old {
            Disk.unlink("\(directory)/\(Upload.partName(part.number, old.sequence))")
            old.content.discard()
        }
    }

    static func partName(_ number: Int, _ sequence: UInt64) -> String { "\(number)-\(sequence)" }

    /// No more parts are taken; false when somebody closed it before.
    func close() -> Bool {
        state.withLock { state in
            defer { state.isClosed = true }
            return !state.isClosed
        }
    }

    /// Takes parts again, after a completion that was refused.
    func reopen() { state.withLock { $0.isClosed = false } }
}

/// What a completion names: a part by number and ETag.
package struct ChosenPart: Sendable {
    package let number: Int
    /// Without quotes; nil takes the part whatever it is.
    package let etag: String?

    package init(number: Int, etag: String?) { (self.number, self.etag) = (number, etag) }
}

extension Bucket {
    package func beginUpload(_ record: UploadRecord) throws(StorageError) -> Upload {
        let id = RandomID.hex()
        let directory = "\(uploadsDirectory)/\(id)"
        try Disk.makeDirectory(directory)
        let sequence = state.withLock { state in
            state.sequence += 1
            return state.sequence
        }
        var writer = RecordWriter()
        writer.line("pailstore-upload", "1")
        writer.line("key", bytes: record.key)
        writer.line("sequence", String(sequence))
        writer.time("initiated", record.initiated)
        writer.describe(record.description)
        if let algorithm = record.checksumAlgorithm {
            writer.line("wants", algorithm.rawValue, record.wantsFullChecksum ? "full" : "composite")
        }
        let temporary = "\(directory)/\(Bucket.temporaryPrefix)upload"
        try Disk.write(writer.finish(), to: temporary, sync: sync)
        try Disk.rename(temporary, to: "\(directory)/upload")
        if sync {
            try Disk.syncDirectory(directory)
            try Disk.syncDirectory(uploadsDirectory)
        }
        let upload = Upload(id: id, record: record, sequence: sequence, directory: directory)
        try state.withLock { (state) throws(StorageError) in
            guard !state.isDeleted else { throw .noSuchBucket }
            state.uploads.replace(upload.place, with: upload)
        }
        return upload
    }

    /// The upload `id` of `key`.
    package func upload(_ id: String, of key: ByteString) throws(StorageError) -> Upload {
        let upload = state.withLock { state in
            var place = state.uploads.firstPosition { $0.key < key }
            while let entry = state.uploads.entry(at: place), entry.key.key == key {
                if entry.value.id == id { return Optional(entry.value) }
                place = state.uploads.position(after: place)
            }
            return nil
        }
        guard let upload else { throw .noSuchUpload }
        return upload
    }

    /// The parts that `chosen` names, checked; `smallestPart` in bytes binds all but the last.
    package func parts(
        of upload: Upload, _ chosen: [ChosenPart], smallestPart: Int64
    ) throws(StorageError) -> [PartRecord] {
        let held = upload.state.withLock { $0.parts }
        var parts: [PartRecord] = []
        for choice in chosen {
            if let last = parts.last, last.number >= choice.number { throw .partOrder }
            guard let part = held[choice.number],
                choice.etag == nil || choice.etag == Departures.ofPart(part.record.md5)
            else { throw .invalidPart(number: choice.number) }
            parts.append(part.record)
        }
        for part in parts.dropLast() where part.size < smallestPart {
            throw .partTooSmall(
                number: part.number, size: part.size, smallest: smallestPart, etag: Hex.encode(part.md5))
        }
        return parts
    }

    /// Joins `parts` of the upload into the object `record` without copying a byte, and ends the upload. One that
    /// `refusesOvertaken` takes a condition that holds only of a key that has not changed since the upload began.
    package func complete(
        _ upload: Upload, parts: [PartRecord], as record: ObjectRecord, if condition: WriteCondition,
        refusesOvertaken: Bool = false
    ) throws(StorageError) -> StoredObject {
        guard upload.close() else { throw .noSuchUpload }
        let held = upload.state.withLock { $0.parts }
        let contents = parts.compactMap { part in
            held[part.number].flatMap { $0.record == part ? $0.content : nil }
        }
        guard contents.count == parts.count else {
            upload.reopen()
            throw .invalidPart(number: parts.first?.number ?? 0)
        }
        // Kept from the start: until the commit succeeds the files belong to the parts.
        let joined = Content(contents.flatMap(\.segments), in: contentDirectory, kept: true)
        let object: StoredObject
        let begun = refusesOvertaken && !condition.isEmpty ? upload.place.sequence : nil
        do { object = try put(record, content: joined, if: condition, begun: begun) } catch {
            upload.reopen()
            throw error
        }
        let used = Set(parts.map(\.number))
        for (number, part) in held where !used.contains(number) { part.content.discard() }
        end(upload)
        return object
    }

    /// Ends the upload and drops its parts.
    package func abort(_ upload: Upload) throws(StorageError) {
        guard upload.close() else { throw .noSuchUpload }
        for part in upload.state.withLock({ $0.parts }).values { part.content.discard() }
        end(upload)
    }

    private func end(_ upload: Upload) {
        state.withLock { state in
            _ = state.uploads.remove(upload.place)
            if !state.hasUpload(of: upload.place.key) { state.removals[upload.place.key] = nil }
        }
        // Whoever still holds the upload must not keep the bytes of its parts alive.
        let parts = upload.state.withLock { state in
            defer { state.parts = [:] }
            return state.parts
        }
        _ = consume parts
        Disk.removeTree(upload.directory)
    }
}
