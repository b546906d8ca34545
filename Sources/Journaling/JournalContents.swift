/// The rows of a journal: a value that a sequence of changes leads to. The bytes of small files are not in it: each is read
/// from the journal (`Journal.content`).
///
/// The database holds the same; a process that starts reads it once and plans its recovery from it.
package struct JournalContents: Sendable, Hashable {
    package struct Upload: Sendable, Hashable {
        package var record: UploadRecord
        package var parts: [Int: PartRecord] = [:]

        package init(record: UploadRecord) { self.record = record }
    }

    package struct Job: Sendable, Hashable {
        package var intent: JobIntent
        package var items: [ItemRecord]

        package init(intent: JobIntent, items: [ItemRecord]) { (self.intent, self.items) = (intent, items) }
    }

    package var files: [IntentID: FileIntent] = [:]
    package var uploads: [IntentID: Upload] = [:]
    package var jobs: [IntentID: Job] = [:]

    package init() {}

    package var isEmpty: Bool { files.isEmpty && uploads.isEmpty && jobs.isEmpty }

    package mutating func apply(_ change: JournalChange) {
        switch change {
        case .file(let id, let intent): files[id] = intent
        case .content: break
        case .endFile(let id): files[id] = nil
        case .upload(let id, let record): uploads[id, default: Upload(record: record)].record = record
        case .part(let id, let part): uploads[id]?.parts[part.number] = part
        case .endUpload(let id): uploads[id] = nil
        case .job(let id, let intent, let items): jobs[id] = Job(intent: intent, items: items)
        case .advance(let id, let intent): jobs[id]?.intent = intent
        case .endJob(let id): jobs[id] = nil
        }
    }

    /// The uploads that take bytes of a file that is still to be committed.
    package func uploads(of file: IntentID) -> [(id: IntentID, upload: Upload)] {
        uploads.filter { $0.value.record.file == file.rawValue }.sorted { $0.key < $1.key }
            .map { (id: $0.key, upload: $0.value) }
    }

    /// Uploads without a file, or whose file has no row: to be aborted.
    package var strayUploads: [(id: IntentID, upload: Upload)] {
        uploads.filter { upload in
            upload.value.record.file.map { files[IntentID(rawValue: $0)] == nil } ?? true
        }.sorted { $0.key < $1.key }.map { (id: $0.key, upload: $0.value) }
    }
}
