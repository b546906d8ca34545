import Basics
package import ObjectStorage
import Staging

/// The commit: one PUT, or the rest of an upload; and what to do when the outcome of either is unknown.
extension FileCommit {
    /// Makes the staged file the object `key` with `metadata` if `condition` holds, and returns its version. After any error it
    /// can be called again: parts that the store has are kept. A cancelled task gets `.cancelled`, and the next commit finds out
    /// what became of the request.
    ///
    /// Requires: no writer of the file runs.
    package func commit(
        to key: ObjectKey, metadata: ObjectMetadata, condition: WriteCondition?
    ) async throws(CommitError) -> ObjectVersion {
        try await enter()
        defer { leave() }
        try await resumeUploads()
        withShared { $0.refusals = 0 }
        while true {
            let request = CommitState.Request(
                key: key, metadata: metadata, condition: condition, generation: staged.generation,
                extents: staged.extents)
            // An older try of this file may land late and change the condition; and a writer may have changed the bytes all the
            // same.
            guard let landed = try await landOverBase(request), staged.generation == request.generation else {
                continue
            }
            withShared { $0.stored = request.generation }
            apply { $0.attempts.reported() }
            recordEnd(of: landed.attempt)
            await giveUpUpload()
            return landed.version
        }
    }

    /// Lands the request. If an older try of this file, for which no call waited, has replaced the base, that try's version
    /// becomes the base and the answer is nil: the bytes that were not written are the same in it.
    private func landOverBase(_ request: CommitState.Request) async throws(CommitError) -> CommitState.Landed? {
        let before = base
        do throws(CommitError) { return try await land(request) } catch {
            guard case .baseGone = error, let before, before.key == request.key, !request.needsUpload,
                base?.version == before.version
            else { throw error }
            let info = try await info(request.key)
            guard let info, info.version.etag != before.version.etag, report({ $0.looked(info, at: request.key) }),
                let landed = withShared({ $0.state.attempts.landed })
            else { throw error }
            _ = rebase(landed)
            return nil
        }
    }

    /// nil: try again.
    private func land(_ request: CommitState.Request) async throws(CommitError) -> CommitState.Landed? {
        guard !withShared({ $0.state.isAbandoned }) else { throw .cancelled }
        if withShared({ $0.state.attempts.doubtful }) != nil { try await look() }
        let landed: CommitState.Landed?
        if let earlier = earlierLanding(for: request) {
            landed = earlier
        } else {
            let limit = options.largestSize(for: store.capabilities)
            guard request.size <= limit else {
                throw .store(
                    ObjectStoreError(
                        .tooLarge, .completeUpload, key: request.key,
                        message: "the file has \(request.size) bytes; the store allows \(limit)"))
            }
            if let source = wholeSource(of: request) {
                landed = try await copy(source, request)
            } else {
                landed =
                    request.size <= options.largestPut(for: store.capabilities)
                    ? try await put(request) : try await sendPartsOrFindThem(request)
            }
        }
        guard let landed, !accepts(landed.metadata, for: request.metadata) else { return landed }
        // Bytes that only the upload had cannot be sent again: the object keeps the upload's headers.
        if request.needsUpload, !withShared({ $0.state.canStoreHeaders(size: request.size) }) { return landed }
        return withShared { $0.state.canUpdateHeaders(size: request.size) }
            ? try await updateHeaders(of: landed, to: request.metadata)
            : try await copyOntoItself(landed, with: request.metadata)
    }

    private func accepts(_ stored: ObjectMetadata, for wanted: ObjectMetadata) -> Bool {
        options.accepts(stored, for: wanted, at: store.capabilities)
    }

    /// The version that an earlier try made of the same bytes.
    private func earlierLanding(for request: CommitState.Request) -> CommitState.Landed? {
        let (landed, canUpdate) = withShared {
            ($0.state.attempts.landed, $0.state.canStoreHeaders(size: request.size))
        }
        guard let landed, landed.attempt.key == request.key, landed.attempt.generation == request.generation,
            canUpdate || accepts(landed.metadata, for: request.metadata)
        else { return nil }
        return landed
    }

    private func put(_ request: CommitState.Request) async throws(CommitError) -> CommitState.Landed? {
        // An upload may have parts of a longer file.
        apply { $0.retire() }
        return try await inTurn { () async throws(CommitError) in try await putNow(request) }
    }

    private func putNow(_ request: CommitState.Request) async throws(CommitError) -> CommitState.Landed? {
        let filled = try await beginFill(0..<request.size)
        defer { endFill(filled) }
        let condition = try await condition(of: request)
        let attempt = newAttempt(request)
        try record(attempt.id, request)
        let put = PutRequest(
            request.key, metadata: CommitAttempts.marked(request.metadata, attempt.id), condition: condition)
        do throws(ObjectStoreError) {
            let body = staged.source(0..<request.size)
            let sent = SentBytes()
            withShared { $0.putSent = sent }
            let answer = try await self.attempt(request.key, .put) { [store] in
                do throws(ObjectStoreError) {
                    let answer = try await sent.count { () async throws(ObjectStoreError) in
                        try await store.put(put, body: body)
                    }
                    return .success(answer)
                } catch { return .failure(error) }
            }
            return landed(attempt, answer, size: request.size)
        } catch {
            withShared { $0.putSent = nil }
            return try await settle(error, attempt, condition)
        }
    }

    /// Another object whose bytes are exactly those to be stored, if one request can copy it.
    func wholeSource(of request: CommitState.Request) -> CopySource? {
        guard let base, base.key != request.key, base.version.size == request.size, request.size > 0,
            request.size <= store.capabilities.largestCopy,
            request.extents.isEntirely(.base, in: 0..<request.size)
        else { return nil }
        return CopySource(base.key, ifMatch: base.version.etag)
    }

    private func copy(
        _ source: CopySource, _ request: CommitState.Request
    ) async throws(CommitError) -> CommitState.Landed? {
        apply { $0.retire() }
        return try await inTurn { () async throws(CommitError) in try await copyNow(source, request) }
    }

    private func copyNow(
        _ source: CopySource, _ request: CommitState.Request
    ) async throws(CommitError) -> CommitState.Landed? {
        let condition = try await condition(of: request, isHeeded: store.capabilities.copyCondition)
        let attempt = newAttempt(request)
        try record(attempt.id, request)
        var copy = CopyRequest(
            source, to: request.key, metadata: CommitAttempts.marked(request.metadata, attempt.id), condition: condition
        )
        copy.size = request.size
        do throws(ObjectStoreError) {
            let answer = try await self.attempt(request.key, .copy) { [store, copy] in
                do throws(ObjectStoreError) { return .success(try await store.copy(copy)) } catch {
                    return .failure(error)
                }
            }
            return landed(attempt, answer, size: request.size)
        } catch {
            // The refused condition may be that of the source.
            if error.kind == .preconditionFailed || error.kind == .notFound,
                try await info(source.key)?.version.etag != source.ifMatch
            {
                apply { $0.doubts(attempt) }
                if let landed = try await look(), landed.attempt.generation == attempt.generation { return landed }
                throw CommitError(base: error)
            }
            return try await settle(error, attempt, condition)
        }
    }

    private func newAttempt(_ request: CommitState.Request) -> CommitState.Attempt {
        apply { state in
            let attempt = CommitState.Attempt(
                id: state.newAttemptID(), key: request.key, metadata: request.metadata, generation: request.generation,
                size: request.size)
            state.attempts.begin(attempt)
            return attempt
        }
    }

    private func sendParts(_ request: CommitState.Request) async throws(CommitError) -> CommitState.Landed {
        apply { $0.begin(request) }
        defer { report { $0.endRun() } }
        while true {
            guard let step = await decide() else { throw .cancelled }
            switch step {
            case .wait: continue
            case .failed(let error):
                // Where there are few slots, the parts that wait for one would fail one after the other.
                uploads.withdraw(uploader)
                throw error
            case .complete(let upload, let parts):
                if let landed = try await complete(upload, parts, request) { return landed }
            }
        }
    }

    /// nil: an earlier try has made the object, which has the bytes that only its upload had.
    private func sendPartsOrFindThem(
        _ request: CommitState.Request
    ) async throws(CommitError) -> CommitState.Landed? {
        do { return try await sendParts(request) } catch {
            if isRefusalOfParts(error), !request.needsUpload, request.size <= store.capabilities.largestPut {
                return try await put(request)
            }
            guard request.needsUpload, error.isLossOfUpload else { throw error }
            if staged.needsItsUpload {
                apply { $0.attempts.doubt(request.key) }
                try await look()
            }
            if staged.needsItsUpload { throw error }
            return nil
        }
    }

    /// Whether the store has no multipart uploads, or these credentials may not make them: a PUT may be allowed. Swift refuses
    /// the manifest, after all parts.
    private func isRefusalOfParts(_ error: CommitError) -> Bool {
        guard case .store(let reason) = error else { return false }
        switch reason.operation {
        case .createUpload, .uploadPart: return reason.kind == .notSupported || reason.kind == .accessDenied
        case .completeUpload: return reason.kind == .notSupported
        default: return false
        }
    }

    /// Writes the attempt down before it is sent: the next process then knows whose object it finds, and what the attempt may
    /// replace. Where the store cannot check that, the request carries no condition.
    private func record(_ attempt: String, _ request: CommitState.Request) throws(CommitError) {
        let condition = withShared { $0.state.attempts.condition(of: request) }
        do { try record?.attempting(attempt, request, condition, base: base) } catch { throw .journal(error) }
    }

    /// nil when the commit is to be tried again: the store has lost the upload, or an older try has landed. When it `looks`, a
    /// HEAD stands in for the condition.
    private func complete(
        _ upload: CommitState.Upload, _ parts: [UploadedPart], _ request: CommitState.Request, looks: Bool = false
    ) async throws(CommitError) -> CommitState.Landed? {
        guard let id = upload.id else { return nil }
        let headers = store.capabilities.headersAtCompletion ? request.metadata : nil
        let attempt = CommitState.Attempt(
            id: upload.attempt, key: upload.key, metadata: headers ?? upload.metadata, generation: request.generation,
            size: request.size)
        let condition = try await condition(
            of: request, isHeeded: !looks && store.capabilities.completionCondition)
        try await checkSource(of: request)
        apply { $0.attempts.begin(attempt) }
        try record(attempt.id, request)
        let failure: ObjectStoreError
        do throws(ObjectStoreError) {
            let answer = try await self.attempt(upload.key, .completeUpload) { [store] in
                do throws(ObjectStoreError) {
                    return .success(
                        try await store.completeUpload(
                            upload.key, id, parts: parts,
                            metadata: headers.map { CommitAttempts.marked($0, attempt.id) }, condition: condition))
                } catch { return .failure(error) }
            }
            return landed(attempt, answer, size: request.size)
        } catch { failure = error }
        do { return try await settle(failure, attempt, condition) } catch {
            switch error {
            // Bytes that only the upload has stay at the store, for "pailfs recover".
            case .conflict: if !request.needsUpload { await giveUpUpload() }
            case .store(let reason) where reason.kind == .noSuchUpload:
                if report({ $0.lostUpload() }) { return nil }
            // Ceph answers so, to every retry, when it does not have the upload any more.
            case .store(let reason) where reason.kind == .serverFault && reason.operation == .completeUpload:
                if await isGone(id, of: upload.key), report({ $0.lostUpload() }) { return nil }
            // The store has other parts than it has confirmed: a cancelled transfer came last. All parts are sent again.
            case .store(let reason) where reason.kind == .partRejected && !request.needsUpload:
                if report({ $0.rejectedParts() }) { return nil }
            // The object at the key changed after the upload was begun: Amazon S3 never completes that one under a condition.
            case .store(let reason) where reason.kind == .conflict && condition != nil:
                if request.needsUpload { return try await complete(upload, parts, request, looks: true) }
                if report({ $0.rejectedParts() }) { return nil }
            case .store, .staging, .journal, .baseGone, .cancelled: break
            }
            throw error
        }
    }

    // MARK: How it ended

    /// How often the store may refuse a condition that holds by its own HEAD.
    private static let mostRefusals = 3

    private func landed(
        _ attempt: CommitState.Attempt, _ answer: PutAnswer, size: Int64
    ) -> CommitState.Landed {
        let version = ObjectVersion(
            etag: answer.etag, size: size, modified: answer.modified ?? time.now(), versionID: answer.versionID)
        staged.traffic.noteStored()
        note(answer.callback, of: attempt.key)
        report { $0.land(attempt, version) }
        return rebase(CommitState.Landed(attempt: attempt, version: version, metadata: attempt.metadata))
    }

    /// Makes the landed version the base: the old one is gone, and the bytes that were not written are the same in the new one.
    func rebase(_ landed: CommitState.Landed) -> CommitState.Landed {
        let base = content(landed.attempt.key, landed.version)
        let isUpload = withShared { shared in
            shared.base = base
            return shared.state.attempts.completed == landed.attempt.id
        }
        if isUpload { staged.uploadLanded() }
        return landed
    }

    /// Finds out how a PUT or completion ended that failed: its answer may be lost, or a second try may have met the first. nil
    /// when it met an older try of this file with other bytes.
    private func settle(
        _ error: ObjectStoreError, _ attempt: CommitState.Attempt, _ condition: WriteCondition?
    ) async throws(CommitError) -> CommitState.Landed? {
        if error.kind == .cancelled {
            apply { $0.doubts(attempt) }
            throw .cancelled
        }
        let isRefusal = error.kind == .preconditionFailed || error.kind == .notFound
        if isRefusal || error.isRetryable || error.kind == .noSuchUpload {
            let before = withShared { $0.state.attempts.landed?.version }
            apply { $0.doubts(attempt) }
            let found = try await inspect()
            if let landed = found?.landed, landed.attempt.generation == attempt.generation { return landed }
            if isRefusal, let condition, let found, found.etag.map({ .match($0) }) ?? .absent == condition {
                // Nothing has changed that would make the next try another one.
                let refusals = withShared { shared in
                    shared.refusals += 1
                    return shared.refusals
                }
                guard refusals < Self.mostRefusals else { throw .contradiction(error, refusals) }
                return nil
            }
            // An object that was known before is no reason to try again: that would never end.
            if let landed = found?.landed, landed.version != before { return nil }
        }
        throw isRefusal && condition != nil ? .conflict(error) : .store(error)
    }

    /// Asks the store about an attempt of unknown outcome.
    @discardableResult
    private func look() async throws(CommitError) -> CommitState.Landed? { try await inspect()?.landed }

    /// The same with the ETag of the object there, whether or not an attempt has made it; nil when no outcome is unknown.
    private func inspect() async throws(CommitError) -> (landed: CommitState.Landed?, etag: ETag?)? {
        guard let key = withShared({ $0.state.attempts.doubtful }) else { return nil }
        let info = try await info(key)
        guard report({ $0.looked(info, at: key) }), let landed = withShared({ $0.state.attempts.landed }) else {
            return (nil, info?.version.etag)
        }
        return (rebase(landed), info?.version.etag)
    }

    /// Stores headers where one request cannot: another upload, whose parts the store copies from the landed version.
    private func copyOntoItself(
        _ landed: CommitState.Landed, with metadata: ObjectMetadata
    ) async throws(CommitError) -> CommitState.Landed {
        let request = CommitState.Request(
            key: landed.attempt.key, metadata: metadata, condition: .match(landed.version.etag),
            generation: landed.attempt.generation, extents: ExtentMap(baseSize: landed.version.size),
            allowsOtherHeaders: false)
        do { return try await sendParts(request) } catch {
            // Another host has replaced the version after it landed: the commit came before that.
            switch error {
            case .conflict, .baseGone: return landed
            case .store, .staging, .journal, .cancelled: throw error
            }
        }
    }

    /// Stores headers that changed after the upload was begun.
    private func updateHeaders(
        of landed: CommitState.Landed, to metadata: ObjectMetadata
    ) async throws(CommitError) -> CommitState.Landed {
        let marked = CommitAttempts.marked(metadata, landed.attempt.id)
        let version: ObjectVersion
        do throws(ObjectStoreError) {
            let answer = try await store.updateMetadata(
                landed.attempt.key, to: marked, ifMatch: landed.version.etag)
            version = ObjectVersion(
                etag: answer.etag, size: landed.version.size, modified: answer.modified ?? time.now(),
                versionID: answer.versionID)
        } catch {
            apply { $0.doubts(landed.attempt) }
            if error.kind == .cancelled { throw .cancelled }
            // Another host has replaced the version after it landed: the commit came before that.
            guard let found = try await look(), found.attempt.id == landed.attempt.id else { return landed }
            guard accepts(found.metadata, for: metadata) else { throw .store(error) }
            return found
        }
        apply { $0.attempts.headersUpdated(metadata, version) }
        return rebase(CommitState.Landed(attempt: landed.attempt, version: version, metadata: metadata))
    }
}
