import Basics
import Glibc
package import Journaling
package import ObjectStorage

/// Copies an object at the store, in one request or by parts, and vouches for the copy. An upload that a crash leaves is
/// in the journal.
package struct ObjectCopier: Sendable {
    private let store: any ObjectStore
    private let journal: Journal

    package init(store: any ObjectStore, journal: Journal) {
        (self.store, self.journal) = (store, journal)
    }

    /// Fails with `.preconditionFailed` when the source is not `version` any more.
    package func copy(
        _ source: ObjectKey, _ version: ObjectVersion, to key: ObjectKey, storageClass: String?
    ) async throws(ObjectStoreError) -> ObjectVersion {
        let from = CopySource(source, ifMatch: version.etag)
        if version.size <= store.capabilities.largestCopy {
            let answer: PutAnswer
            var request = CopyRequest(from, to: key)
            // No store copies it by itself.
            request.storageClass = storageClass
            do { answer = try await store.copy(request) } catch {
                // SeaweedFS lists and shows directory markers but finds none to copy.
                guard error.kind == .notFound, version.size == 0, source.bytes.hasSuffix("/") else { throw error }
                let metadata = try await store.head(source, condition: nil).metadata
                answer = try await store.put(PutRequest(key, metadata: metadata), body: MemorySource([]))
            }
            return ObjectVersion(
                etag: answer.etag, size: version.size, modified: answer.modified ?? .epoch,
                versionID: answer.versionID)
        }
        let metadata = try await store.head(source, condition: .ifMatch(version.etag)).metadata
        let upload = try await store.createUpload(PutRequest(key, metadata: metadata, storageClass: storageClass))
        let row = journal.newID()
        do {
            try note(.upload(row, record(of: upload, key)), key)
            // Parts as large as allowed, in one size.
            let count = (version.size + store.capabilities.largestPart - 1) / store.capabilities.largestPart
            let size = (version.size + count - 1) / count
            var parts: [UploadedPart] = []
            for index in 0..<count {
                let range = index * size..<min(version.size, (index + 1) * size)
                parts.append(
                    try await store.uploadPartCopy(
                        PartRequest(key, upload, number: Int(index) + 1), from: from, range: range))
            }
            let answer = try await store.completeUpload(key, upload, parts: parts, condition: nil)
            // A row that stays is an abort of nothing at the next start.
            try? journal.write([.endUpload(row)], flushed: false)
            return ObjectVersion(
                etag: answer.etag, size: version.size, modified: answer.modified ?? .epoch,
                versionID: answer.versionID)
        } catch {
            if (try? await store.abortUpload(key, upload)) != nil {
                try? journal.write([.endUpload(row)], flushed: false)
            }
            throw error
        }
    }

    private func record(of upload: UploadID, _ key: ObjectKey) -> UploadRecord {
        UploadRecord(
            key: key.bytes, upload: upload.text, file: nil, attempt: "",
            headers: HeadersRecord(standard: [:], user: [:]), partSize: 0, layoutSize: 0)
    }

    private func note(_ change: JournalChange, _ key: ObjectKey) throws(ObjectStoreError) {
        do { try journal.write([change], flushed: true) } catch {
            throw ObjectStoreError(.local(errno: EIO), .createUpload, key: key, message: error.description)
        }
    }
}
