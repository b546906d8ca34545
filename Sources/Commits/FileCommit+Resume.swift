import Basics
package import Journaling
import ObjectStorage
import Staging

/// Resumes the upload of an earlier process: the parts that the store has are not sent again.
extension FileCommit {
    /// Takes over what the journal has of the file. To be called before the first commit; sends no request.
    package func resume(_ intent: FileIntent, uploads: [(id: IntentID, upload: JournalContents.Upload)]) {
        let generation = staged.generation
        apply { state in
            guard let id = intent.attempt else { return }
            state.attempts.resume(
                CommitState.Attempt(
                    id: id, key: ObjectKey(intent.key), metadata: intent.headers?.metadata ?? ObjectMetadata(),
                    generation: generation, size: intent.size ?? 0))
        }
        withShared { $0.resumable = uploads }
    }

    /// Gives up the uploads of earlier processes.
    func giveUpResumable() {
        let uploads = withShared { shared in
            defer { shared.resumable = [] }
            return shared.resumable.map(\.upload.record)
        }
        apply { state in
            for upload in uploads { state.giveUp(UploadID(upload.upload), of: ObjectKey(upload.key)) }
        }
    }

    /// Resumes the newest upload of the file, and aborts the others.
    func resumeUploads() async throws(CommitError) {
        while let (_, upload) = withShared({ $0.resumable.last }) {
            let id = UploadID(upload.record.upload)
            if withShared({ $0.state.hasUpload }) {
                try await abort(id, ObjectKey(upload.record.key))
            } else if let found = try await partsStillThere(upload) {
                let taken = apply { state in
                    state.adopt(
                        id, key: ObjectKey(upload.record.key), metadata: upload.record.headers.metadata,
                        attempt: upload.record.attempt, partSize: upload.record.partSize,
                        layoutSize: upload.record.layoutSize, parts: found.parts, listed: found.listed)
                }
                if !taken { try await abort(id, ObjectKey(upload.record.key)) }
            } else {
                apply { $0.attempts.lose(upload.record.attempt) }
                try await abort(id, ObjectKey(upload.record.key))
            }
            _ = withShared { $0.resumable.popLast() }
        }
    }

    /// The parts that the store lists as they were sent and whose bytes are still the file's, with the numbers of all that it
    /// lists; nil when the store does not have the upload any more.
    private func partsStillThere(
        _ upload: JournalContents.Upload
    ) async throws(CommitError) -> (parts: [SentParts.Part], listed: [Int])? {
        let listed: [UploadedPart]
        do throws(ObjectStoreError) {
            listed = try await store.listParts(ObjectKey(upload.record.key), UploadID(upload.record.upload))
        } catch {
            if error.kind == .noSuchUpload || error.kind == .notFound { return nil }
            throw CommitError(error)
        }
        let extents = staged.extents
        let parts = listed.compactMap { part -> SentParts.Part? in
            guard let row = upload.parts[part.number], row.etag == part.etag.text, row.range.length == part.size,
                row.range.upperBound <= extents.size, holds(row, extents)
            else { return nil }
            return SentParts.Part(range: row.range, uploaded: part)
        }
        return (parts, listed.map(\.number))
    }

    /// Whether the part has the bytes that the file has.
    private func holds(_ part: PartRecord, _ extents: ExtentMap) -> Bool {
        if let source = part.copiedFrom {
            return base?.version.etag.text == source && extents.isEntirely(.base, in: part.range)
        }
        if extents.isEntirely(.stored, in: part.range) { return true }
        guard let checksum = part.checksum, extents.isFree(of: .base, in: part.range) else { return false }
        return (try? FileRecord.checksum(of: staged.source(part.range))) == checksum
    }

    private func abort(_ upload: UploadID, _ key: ObjectKey) async throws(CommitError) {
        do throws(ObjectStoreError) { try await store.abortUpload(key, upload) } catch { throw CommitError(error) }
        do { try record?.ended(upload) } catch { throw .journal(error) }
    }
}
