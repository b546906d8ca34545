import Basics
import ObjectStorage
import Staging

/// The types of a commit's state.
extension CommitState {
    /// What a commit is asked to store.
    struct Request: Sendable {
        var key: ObjectKey
        var metadata: ObjectMetadata
        var condition: WriteCondition?
        /// Read before `extents`: it then shows a change meanwhile.
        var generation: UInt64
        var extents: ExtentMap
        /// Whether other headers can be stored afterwards; false for a request that only stores headers.
        var allowsOtherHeaders = true
        var size: Int64 { extents.size }
        /// Whether bytes are nowhere but in parts of the upload there is.
        var needsUpload: Bool { extents.has(.stored) }
    }

    /// A PUT or completion that was or may have been sent.
    struct Attempt: Sendable {
        let id: String
        let key: ObjectKey
        let metadata: ObjectMetadata
        let generation: UInt64
        /// Bytes the object has if it was made by this attempt.
        let size: Int64
    }

    /// A version that an attempt of this file made.
    struct Landed: Sendable {
        let attempt: Attempt
        var version: ObjectVersion
        var metadata: ObjectMetadata
        /// Whether a commit returned it, so that its caller knows of it.
        var isReported = false
    }

    struct Upload: Sendable {
        /// The ticket of its creation.
        let epoch: Ticket
        let key: ObjectKey
        /// Without the mtime once a program has set another one (`CommitOptions.accepts`).
        var metadata: ObjectMetadata
        let attempt: String
        let layout: PartLayout
        /// nil while it is being created.
        var id: UploadID?
        /// The generation of a completion of unknown outcome: it may still succeed, late. An object with its id must not count as
        /// one with other bytes.
        var doubtedGeneration: UInt64?
        var sent = SentParts()
        var begun = BegunParts()
    }

    /// A transfer under way.
    struct Flight: Sendable {
        let epoch: Ticket
        let part: PartTransfer
        /// Started by the commit that runs; one from before may fail without harm.
        var isOfRun: Bool
        /// Its bytes changed, or its upload is given up.
        var isStale = false
    }

    enum Action: Sendable {
        case createUpload(Ticket, PutRequest)
        case transfer(Ticket, ObjectKey, UploadID, PartTransfer)
        /// End the transfer early; its event still comes.
        case cancel(Ticket)
        case abort(Ticket, ObjectKey, UploadID)
    }

    /// What a commit does next.
    enum Step: Sendable {
        /// Something under way must end first.
        case wait
        case complete(Upload, [UploadedPart])
        case failed(CommitError)
    }
}
