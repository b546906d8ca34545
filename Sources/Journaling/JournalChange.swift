/// One change of the journal. Changes written together are applied together or not at all.
package enum JournalChange: Sendable, Hashable {
    /// Adds the row of a dirty file, or replaces it.
    case file(IntentID, FileIntent)
    /// Keeps the bytes of a small file beside its row, in place of those in `staging/`; nil: `staging/` has them. Removed
    /// with the row.
    case content(IntentID, [UInt8]?)
    /// The file is an object now, or is given up. Its uploads stay, to be aborted.
    case endFile(IntentID)
    case upload(IntentID, UploadRecord)
    case part(upload: IntentID, PartRecord)
    /// The upload became an object, was aborted, or is unknown to the store; its parts go with it.
    case endUpload(IntentID)
    case job(IntentID, JobIntent, items: [ItemRecord])
    /// Replaces the job by what is left of it; its items stay.
    case advance(IntentID, JobIntent)
    case endJob(IntentID)

    /// The step's name for stop points and the log.
    package var name: String {
        switch self {
        case .file(_, let intent):
            intent.isAcknowledged ? "acknowledge" : intent.attempt == nil ? "open" : "attempt"
        case .content: "content"
        case .endFile: "end-file"
        case .upload: "upload"
        case .part: "part"
        case .endUpload: "end-upload"
        case .job(_, let job, _): job.name
        case .advance: "advance"
        case .endJob: "end-job"
        }
    }
}
