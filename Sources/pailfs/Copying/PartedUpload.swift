import Basics
import Commits
import ObjectStorage

/// Makes one object from parts, several at a time, and resumes the upload that an earlier process has left.
///
/// The caller sends a part, from a file or from another store. With a journal, an upload that was cut off stays at the store, and the
/// next run for the same source resumes it; the journal names it before its first part. After any other failure it is aborted.
struct PartedUpload: Sendable {
    typealias Sending = @Sendable (PartRequest, ByteRange) async throws(ObjectStoreError) -> UploadedPart

    let store: any ObjectStore
    /// The object to be made.
    let request: PutRequest
    let size: Int64
    /// Size of the parts where the store's limits allow it, unless an earlier process has begun with another.
    let partSize: Int64
    /// Identifies the bytes of the source.
    let source: String
    var journal: CopyJournal?
    /// Names the copy in the journal.
    var item: ByteString = ""
    var width = CopyPlan.transfersPerFile
    /// Called with the bytes that need not be sent again.
    var skipped: @Sendable (Int64) -> Void = { _ in }

    private struct Upload {
        let id: UploadID
        let parts: [CopyPlan.Part]
        var stored: [UploadedPart] = []
        var missing: [CopyPlan.Part]
    }

    /// `check` is called before the object is completed, and throws if the source has changed meanwhile.
    func run(
        sending send: @escaping Sending, check: @escaping @Sendable () async throws(ObjectStoreError) -> Void
    ) async throws(ObjectStoreError) -> PutAnswer {
        let upload: Upload
        if let earlier = try await earlier() { upload = earlier } else { upload = try await begin() }
        do throws(ObjectStoreError) {
            skipped(upload.stored.reduce(0) { $0 + $1.size })
            let key = request.key
            let sent = try await concurrently(upload.missing, width: width) {
                (part) throws(ObjectStoreError) -> UploadedPart in
                try await send(PartRequest(key, upload.id, number: part.number), part.range)
            }
            try await check()
            let parts = (upload.stored + sent).sorted { $0.number < $1.number }
            let answer = try await complete(upload.id, parts)
            journal?.add(.ended(item: item))
            return answer
        } catch {
            if journal == nil || !error.leavesWorkToResume { await abort(upload.id) }
            throw error
        }
    }

    private func parts(_ partSize: Int64) -> [CopyPlan.Part] {
        CopyPlan.parts(size: size, partSize: partSize, limits: store.capabilities)
    }

    /// The upload that an earlier process has left; nil where there is none that can become this object. One for another source, or
    /// whose parts these credentials may not list, is aborted.
    private func earlier() async throws(ObjectStoreError) -> Upload? {
        guard let known = journal?.upload(of: item) else { return nil }
        let id = UploadID(known.id)
        guard known.source == source else {
            await abort(id)
            return nil
        }
        let listed: [UploadedPart]
        do throws(ObjectStoreError) { listed = try await store.listParts(request.key, id) } catch {
            if error.leavesWorkToResume { throw error }
            if error.kind == .noSuchUpload || error.kind == .notFound {
                journal?.add(.ended(item: item))
            } else {
                await abort(id)
            }
            return nil
        }
        let parts = parts(known.partSize)
        guard let (stored, missing) = CopyPlan.resume(parts, listed: listed) else {
            await abort(id)
            return nil
        }
        return Upload(id: id, parts: parts, stored: stored, missing: missing)
    }

    private func begin() async throws(ObjectStoreError) -> Upload {
        var creation = request
        creation.condition = nil
        creation.size = size
        let id = try await store.createUpload(creation)
        journal?.add(.upload(item: item, id: id.text, partSize: partSize, source: source))
        let parts = parts(partSize)
        return Upload(id: id, parts: parts, missing: parts)
    }

    private func abort(_ id: UploadID) async {
        // Where this fails, "pailfs uploads list" shows the upload.
        try? await store.abortUpload(request.key, id)
        journal?.add(.ended(item: item))
    }

    private func complete(_ id: UploadID, _ parts: [UploadedPart]) async throws(ObjectStoreError) -> PutAnswer {
        do throws(ObjectStoreError) {
            return try await store.completeUpload(request.key, id, parts: parts, condition: request.condition)
        } catch { return try await store.found(request, size: size, after: error) }
    }
}

extension ObjectStore {
    /// The object of a request whose answer was lost: a HEAD shows it, as its headers have the times of the source. Throws `error`
    /// when the object is not there, or is an earlier one with other headers or of another storage class.
    func found(
        _ request: PutRequest, size: Int64, after error: ObjectStoreError
    ) async throws(ObjectStoreError) -> PutAnswer {
        let isInDoubt = error.isRetryable || error.isOfUntoldVersion || error.kind == .noSuchUpload
        guard isInDoubt, request.metadata.user["ctime"] != nil || error.isOfUntoldVersion,
            let found = try? await head(request.key, condition: nil), found.version.size == size,
            found.metadata.hasUser(of: request.metadata), error.isOfUntoldVersion || hasHeaders(found, of: request)
        else { throw error }
        return PutAnswer(
            etag: found.version.etag, versionID: found.version.versionID, modified: found.version.modified)
    }

    /// Whether the object has the standard headers and the storage class of the request. Without a content type or a class in the
    /// request, the store chooses them.
    private func hasHeaders(_ info: ObjectInfo, of request: PutRequest) -> Bool {
        let standard = capabilities.storageClasses.first
        let isOfClass = request.storageClass.map { $0 == info.storageClass ?? standard ?? "STANDARD" } ?? true
        return isOfClass
            && capabilities.headers.allSatisfy { header in
                let wanted = request.metadata[header]
                return wanted == nil && header == .contentType || wanted == info.metadata[header]
            }
    }
}
