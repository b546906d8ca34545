import Basics
package import Commits
import Glibc
import Journaling
import Metadata
import ObjectStorage
import Staging
import Synchronization

/// Jobs that outlive the call that began them: requests that the store has refused are retried while the mount lives.
extension BucketFileSystem {
    /// The jobs that the store has refused so far, the oldest first, for `pailfs status`.
    package func unfinishedJobs() -> [UnfinishedJob] { jobs.unfinished }

    /// To be called before a change at `key`, for a directory also before one below it: carries out first what a job has to do
    /// there.
    func finishJobs(at key: ObjectKey) async throws(FileSystemError) {
        do { try await jobs.finishJobs(at: key.bytes) } catch { throw FileSystemError(error) }
    }

    /// Retries a job of an earlier process, or the abort of an upload of its, that the store refused during recovery.
    func resumeJob(_ left: Recovery.Left) {
        switch left.row {
        case .upload(let id, let record): jobs.add(abortOf: record, id, because: left.reason)
        case .job(let id, let job, let replaced):
            if case .headers(let update) = job.intent { return followLater(update, id, because: left.reason) }
            let (act, keys) = Self.shown(job.intent)
            jobs.add(id, act, keys[0], others: Array(keys.dropFirst()), because: left.reason) {
                [weak self] () async throws(CommitError) in
                guard let self else { throw .cancelled }
                try await jobs.runner.finish(id, job, files: replaced)
                // The next use of the names asks the store.
                for key in keys {
                    try? metadata.endRemoval(of: key)
                    try? metadata.distrust(key)
                }
            }
        }
    }

    private static func shown(_ intent: JobIntent) -> (UnfinishedJob.Act, keys: [ByteString]) {
        switch intent {
        case .removal(let record): (.removal, [record.key])
        case .rename(let record): (.rename(to: record.to), record.keys)
        case .tree(let from, let to): (.tree(to: to), [from, to])
        case .removals(let below), .moved(let below, _): (.removals, [below])
        case .headers(let record): (.headers, [record.source.key])
        }
    }

    /// Retries a removal that the store has refused. The name is gone for programs, and listings do not bring it back.
    func removeLater(
        _ id: IntentID, _ job: JournalContents.Job, _ component: ByteString, in parent: InodeNumber,
        because reason: String
    ) {
        let (act, keys) = Self.shown(job.intent)
        jobs.add(id, act, keys[0], because: reason) { [weak self] () async throws(CommitError) in
            guard let self else { throw .cancelled }
            try await jobs.runner.finish(id, job)
            try? metadata.endRemoval(of: component, in: parent)
        }
    }

    /// Ends a row that would remove the object at `key`, now or as soon as the journal can be written. Until then calls at the
    /// key wait, since the row would remove a new object there. Flushed, as a power cut must not bring the row back.
    func forgetJob(_ id: IntentID, at key: ByteString, also changes: [JournalChange] = []) {
        let rows = [JournalChange.endJob(id)] + changes
        do throws(JournalingError) { try rooms.journal.write(rows, flushed: true) } catch {
            jobs.add(id, .ended, key, because: "\(error)") {
                [journal = rooms.journal] () async throws(CommitError) in
                do throws(JournalingError) { try journal.write(rows, flushed: true) } catch { throw .journal(error) }
            }
        }
    }

    /// Ends the row of a stored file, now or as soon as the journal can be written. Until then calls at the key wait: once the
    /// object is replaced, recovery could not see that the file was stored.
    func endStored(
        _ record: FileRecord, of file: ActiveFile, at key: ObjectKey, also changes: [JournalChange]
    ) {
        do throws(FileSystemError) { try end(record, also: changes) } catch {
            remember(error, "commit", file.ino)
            let rows = [JournalChange.endFile(record.id)] + changes
            jobs.add(record.id, .row, key.bytes, because: error.reason) {
                [journal = rooms.journal] () async throws(CommitError) in
                do throws(JournalingError) { try journal.write(rows, flushed: true) } catch { throw .journal(error) }
            }
        }
    }

    /// A commit that could not be recorded in the metadata cache.
    struct UnrecordedCommit: Sendable {
        let draft: ActiveFile.Draft
        let key: ObjectKey
        let attributes: Attributes
        let headers: ObjectMetadata
        /// Rows of the journal that end with the file's.
        let rows: [JournalChange]
    }

    /// Records the commit as soon as the metadata cache can be written. Until then the file stays active, so that programs do not
    /// see the version before. A commit, a rename or a removal of the file waits for the record.
    ///
    /// After a crash the row is there: the next process finds the object at the store, by the id of the commit.
    func recordLater(_ commit: UnrecordedCommit, of file: ActiveFile, because error: FileSystemError) {
        let held = files.retain(file.ino) { file }
        held.state.withLock { $0.life.isUnrecorded = true }
        let (key, draft) = (commit.key, commit.draft)
        jobs.add(rooms.journal.newID(), .row, key.bytes, because: error.reason) {
            [weak self] () async throws(CommitError) in
            guard let self else { throw .cancelled }
            do {
                try metadata.update(held.ino, commit.attributes, metadata: commit.headers, pending: false)
                try metadata.confirmDirectories(above: held.ino)
            } catch {
                throw .store(ObjectStoreError(.local(errno: EIO), .put, key: key, message: "\(error)"))
            }
            endStored(draft.record, of: held, at: key, also: commit.rows)
            draft.staged.discard()
            held.state.withLock { $0.life.isUnrecorded = false }
            releaseInBackground(held)
        }
    }

    /// Tries each job a last time, at the end of the mount. Returns those that are left to the next mount.
    func finishJobs() async -> [UnstoredFile] { await jobs.finish().map(unstored) }

    func unstored(_ job: UnfinishedJob) -> UnstoredFile {
        UnstoredFile(path: job.key, reason: "\(job.summary) is not finished: \(job.lastError)")
    }
}
