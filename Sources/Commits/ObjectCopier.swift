import Basics
import Glibc
package import Journaling
package import ObjectStorage

/// Copies exactly one version of an object at the store, in one request or by parts.
///
/// An upload that copies by parts has a row that names the version it copies, before the first part. A later call for the same
/// copy, after a crash or after the store had refused the rest, resumes it: parts that the store lists are not copied twice. They
/// were copied from the named version or not at all, so their number and length say which bytes they hold.
package struct ObjectCopier: Sendable {
    /// Part copies in flight.
    private static let width = 8
    /// The usual size of a part, in bytes: of a copy that ends in the middle, little is lost.
    private static let usualPart: Int64 = 1 << 30

    private let store: any ObjectStore
    private let journal: Journal
    private let jobs: JobQueue?

    /// With `jobs` a failed upload is aborted, if need be later; without, it stays to be resumed.
    package init(store: any ObjectStore, journal: Journal, jobs: JobQueue? = nil) {
        (self.store, self.journal, self.jobs) = (store, journal, jobs)
    }

    /// Without `metadata` the copy has the source's headers. Fails with `.preconditionFailed` when the source is not `version`
    /// any more.
    package func copy(
        _ source: ObjectKey, _ version: ObjectVersion, to key: ObjectKey, metadata: ObjectMetadata? = nil,
        storageClass: String?
    ) async throws(ObjectStoreError) -> ObjectVersion {
        let from = CopySource(source, ifMatch: version.etag)
        let answer =
            version.size <= store.capabilities.largestCopy
            ? try await copyWhole(from, version, to: key, metadata, storageClass)
            : try await copyParts(from, version, to: key, metadata, storageClass)
        return ObjectVersion(
            etag: answer.etag, size: version.size, modified: answer.modified ?? .epoch, versionID: answer.versionID)
    }

    private func copyWhole(
        _ source: CopySource, _ version: ObjectVersion, to key: ObjectKey, _ metadata: ObjectMetadata?,
        _ storageClass: String?
    ) async throws(ObjectStoreError) -> PutAnswer {
        // No store copies the class by itself.
        var request = CopyRequest(
            source, to: key, metadata: metadata, storageClass: storageClass, keeping: source.key)
        request.size = version.size
        do { return try await store.copy(request) } catch {
            // SeaweedFS lists and shows directory markers but finds none to copy.
            guard error.kind == .notFound, version.size == 0, source.key.bytes.hasSuffix("/") else { throw error }
            let metadata = try await store.head(source.key, condition: nil).metadata
            return try await store.put(PutRequest(key, metadata: metadata), body: MemorySource([]))
        }
    }

    // MARK: By parts

    private struct Upload {
        let row: IntentID
        let record: UploadRecord
        /// The parts that the store has of it, by number.
        var parts: [Int: UploadedPart] = [:]

        var id: UploadID { UploadID(record.upload) }
    }

    private struct Piece: Sendable {
        let number: Int
        let range: ByteRange
    }

    private func copyParts(
        _ source: CopySource, _ version: ObjectVersion, to key: ObjectKey, _ replaced: ObjectMetadata?,
        _ storageClass: String?
    ) async throws(ObjectStoreError) -> PutAnswer {
        let metadata: ObjectMetadata
        if let replaced {
            metadata = replaced
        } else {
            metadata = try await store.head(source.key, condition: .ifMatch(version.etag)).metadata
        }
        let copied = VersionRecord(source.key, version)
        var upload = try await earlierUpload(of: copied, to: key)
        if upload == nil { upload = try await begin(copied, metadata, to: key, storageClass, keeping: source.key) }
        guard let upload else { preconditionFailure("an upload was created but is missing") }
        do throws(ObjectStoreError) {
            let size = upload.record.partSize
            let pieces = (0..<(version.size + size - 1) / size).map { index in
                Piece(number: Int(index) + 1, range: index * size..<min(version.size, (index + 1) * size))
            }
            let parts = try await concurrently(pieces, width: Self.width) {
                [store] (piece) throws(ObjectStoreError) -> UploadedPart in
                if let part = upload.parts[piece.number], part.size == piece.range.length { return part }
                return try await store.uploadPartCopy(
                    PartRequest(key, upload.id, number: piece.number), from: source, range: piece.range)
            }
            if !store.capabilities.copySourceCondition {
                let still = try await store.head(source.key, condition: nil).version.etag
                guard still == version.etag else {
                    throw ObjectStoreError(
                        .preconditionFailed, .uploadPartCopy, key: source.key,
                        message: "the source was replaced while it was copied")
                }
            }
            let answer = try await complete(upload, parts, metadata, size: version.size, key)
            // If the row stays, the next start aborts an upload that is gone.
            try? journal.write([.endUpload(upload.row)], flushed: false)
            return answer
        } catch {
            // Without `jobs` the upload stays, unless the source has changed or the store does not have the upload any more.
            if let jobs {
                await abort(upload, key, error, jobs)
            } else if error.kind == .preconditionFailed || error.kind == .noSuchUpload {
                await abort(upload, key, error, nil)
            }
            throw error
        }
    }

    /// The unfinished upload of the same copy; nil when the store has none.
    private func earlierUpload(of copied: VersionRecord, to key: ObjectKey) async throws(ObjectStoreError) -> Upload? {
        let known: JournalContents
        do { known = try journal.contents() } catch { throw failed(error, key) }
        let rows = known.uploads.filter { $0.value.record.copied == copied && $0.value.record.key == key.bytes }
        guard let (row, found) = rows.max(by: { $0.key < $1.key }), found.record.partSize > 0 else { return nil }
        var upload = Upload(row: row, record: found.record)
        do {
            for part in try await store.listParts(key, upload.id) { upload.parts[part.number] = part }
            return upload
        } catch {
            guard error.kind == .noSuchUpload || error.kind == .notFound else { throw error }
            try? journal.write([.endUpload(row)], flushed: false)
            return nil
        }
    }

    private func begin(
        _ copied: VersionRecord, _ metadata: ObjectMetadata, to key: ObjectKey, _ storageClass: String?,
        keeping source: ObjectKey
    ) async throws(ObjectStoreError) -> Upload {
        var request = PutRequest(key, metadata: metadata, storageClass: storageClass, keeping: source)
        request.size = copied.size
        let id = try await store.createUpload(request)
        // Parts of one size, as small as usual unless that makes too many.
        let largest = store.capabilities.largestPart
        let fewest = (copied.size + Int64(store.capabilities.mostParts) - 1) / Int64(store.capabilities.mostParts)
        let bound = min(largest, max(Self.usualPart, fewest))
        let count = (copied.size + bound - 1) / bound
        let record = UploadRecord(
            key: key.bytes, upload: id.text, file: nil, attempt: "", headers: HeadersRecord(standard: [:], user: [:]),
            partSize: (copied.size + count - 1) / count, layoutSize: copied.size, copied: copied)
        let upload = Upload(row: journal.newID(), record: record)
        do { try journal.write([.upload(upload.row, record)], flushed: true) } catch {
            try? await store.abortUpload(key, id)
            throw failed(error, key)
        }
        return upload
    }

    /// Completes the upload. If the answer is lost, one HEAD shows the outcome, where the headers carry the id of the commit that
    /// made the source.
    private func complete(
        _ upload: Upload, _ parts: [UploadedPart], _ metadata: ObjectMetadata, size: Int64, _ key: ObjectKey
    ) async throws(ObjectStoreError) -> PutAnswer {
        do { return try await store.completeUpload(key, upload.id, parts: parts, condition: nil) } catch {
            guard error.isRetryable || error.kind == .noSuchUpload,
                metadata.user[CommitOptions.commitHeader] != nil || error.isOfUntoldVersion,
                let found = try? await store.head(key, condition: nil),
                found.version.size == size, found.metadata.user == metadata.user
            else { throw error }
            return PutAnswer(
                etag: found.version.etag, versionID: found.version.versionID, modified: found.version.modified)
        }
    }

    private func abort(_ upload: Upload, _ key: ObjectKey, _ reason: ObjectStoreError, _ jobs: JobQueue?) async {
        do {
            try await store.abortUpload(key, upload.id)
            try journal.write([.endUpload(upload.row)], flushed: false)
        } catch { jobs?.add(abortOf: upload.record, upload.row, because: "\(error)") }
    }

    private func failed(_ error: JournalingError, _ key: ObjectKey) -> ObjectStoreError {
        ObjectStoreError(.local(errno: EIO), .createUpload, key: key, message: error.description)
    }
}
