import Basics
import Journaling
import Logging
import ObjectStorage
import Staging

/// The requests for which `CommitState` decides: uploads begun and given up, parts sent and copied. Each is a task of the worker pool
/// and reports how it ended.
extension FileCommit {
    func perform(_ action: CommitState.Action) {
        switch action {
        case .createUpload(let epoch, let request):
            pool.start { [self] in
                let result: Result<UploadID, CommitError>
                do throws(CommitError) { result = .success(try await createUpload(epoch, request)) } catch {
                    result = .failure(error)
                    logger.debug("an upload cannot begin", metadata: ["key": "\(request.key)", "error": "\(error)"])
                }
                report { $0.created(epoch, result) }
            }
        case .transfer(let ticket, let key, let upload, let part):
            let sent = SentBytes()
            withShared { $0.partsSent[ticket] = sent }
            let task = pool.start { [self] in
                let result: Result<UploadedPart, CommitError>
                do throws(CommitError) {
                    let uploaded = try await sent.count { () async throws(CommitError) in
                        try await transfer(part, key, upload)
                    }
                    result = .success(uploaded)
                } catch {
                    result = .failure(error)
                    logger.debug(
                        "a part cannot be uploaded",
                        metadata: ["key": "\(key)", "part": "\(part.number)", "error": "\(error)"])
                }
                withShared { _ = $0.tasks.removeValue(forKey: ticket) }
                report { $0.transferred(ticket, result) }
                withShared { _ = $0.partsSent.removeValue(forKey: ticket) }
            }
            // The task may have ended, or been cancelled, before it could be kept.
            let isStale = withShared { shared in
                guard let flight = shared.state.flights[ticket] else { return false }
                shared.tasks[ticket] = task
                return flight.isStale
            }
            if isStale { task.cancel() }
        case .cancel(let ticket):
            withShared { $0.tasks[ticket] }?.cancel()
        case .abort(let epoch, let key, let upload):
            pool.start { [self] in
                do {
                    try await store.abortUpload(key, upload)
                    try record?.ended(upload)
                } catch {
                    // The row stays, and the abort is retried later.
                    logger.warning(
                        "an unfinished upload cannot be aborted now; pailfs retries",
                        metadata: ["key": "\(key)", "upload": "\(upload)", "error": "\(error)"])
                    record?.abortRefused(upload, of: key, because: "\(error)")
                }
                report { $0.aborted(epoch) }
            }
        }
    }

    /// Runs `send` in a slot of the limiter, and reports there how it ended.
    func inTurn<Answer: Sendable>(
        _ send: () async throws(CommitError) -> Answer
    ) async throws(CommitError) -> Answer {
        let slot: UploadLimiter.Slot
        do { slot = try await uploads.acquire(for: uploader) } catch { throw .cancelled }
        do throws(CommitError) {
            let answer = try await send()
            uploads.release(slot, .stored)
            return answer
        } catch {
            uploads.release(slot, UploadSlots.Ending(error))
            throw error
        }
    }

    private func transfer(
        _ part: PartTransfer, _ key: ObjectKey, _ upload: UploadID
    ) async throws(CommitError) -> UploadedPart {
        try await inTurn { () async throws(CommitError) in try await send(part, key, upload) }
    }

    private func send(
        _ part: PartTransfer, _ key: ObjectKey, _ upload: UploadID
    ) async throws(CommitError) -> UploadedPart {
        let request = PartRequest(key, upload, number: part.number)
        let sent: UploadedPart
        var row = PartRecord(number: part.number, range: part.range, etag: "", checksum: nil, copiedFrom: nil)
        if part.isCopy, let base, let copied = try await copy(part.range, of: base, request) {
            sent = copied
            row.copiedFrom = base.version.etag.text
        } else {
            let filled = try await beginFill(part.range)
            defer { endFill(filled) }
            let body = staged.source(part.range)
            if record != nil {
                do throws(ByteTransferError) { row.checksum = try FileRecord.checksum(of: body) } catch {
                    throw .staging(.failed(errno: error.errno, reason: error.reason))
                }
            }
            do { sent = try await store.uploadPart(request, body: body) } catch { throw CommitError(error) }
        }
        staged.traffic.noteStored()
        row.etag = sent.etag.text
        do { try record?.sent(row, to: upload) } catch { throw .journal(error) }
        return sent
    }

    /// nil where the store copies no such range: Ceph's Swift API copies whole segments only.
    private func copy(
        _ range: ByteRange, of base: any BaseContent, _ request: PartRequest
    ) async throws(CommitError) -> UploadedPart? {
        do throws(ObjectStoreError) {
            let source = CopySource(base.key, ifMatch: base.version.etag)
            return try await store.uploadPartCopy(request, from: source, range: range)
        } catch {
            guard error.kind == .notSupported else { throw CommitError(base: error) }
            return nil
        }
    }

    /// Begins an upload, and writes its row before anything is sent to it.
    private func createUpload(
        _ epoch: CommitState.Ticket, _ request: PutRequest
    ) async throws(CommitError) -> UploadID {
        let upload: UploadID
        do { upload = try await store.createUpload(request) } catch { throw CommitError(error) }
        guard let record else { return upload }
        let plan = withShared { $0.state.layoutPlan }
        do {
            try record.began(
                upload, request, attempt: request.metadata.user[CommitOptions.commitHeader] ?? "",
                partSize: plan.partSize, layoutSize: plan.size)
            return upload
        } catch {
            try? await store.abortUpload(request.key, upload)
            throw .journal(error)
        }
    }

    /// Ends the row of an attempt's upload.
    func recordEnd(of attempt: CommitState.Attempt) {
        guard let record, let upload = record.upload(of: attempt.id) else { return }
        // If the row stays, the next start aborts an upload that is gone.
        try? record.ended(upload)
    }
}
