package import Basics
import Journaling
package import Logging
package import ObjectStorage
package import Staging
import Synchronization

/// Uploads one dirty file: parts behind the writer, then the object.
///
/// One for each `StagedFile`, from its first write until its bytes are committed or given up. `CommitState` decides; this class
/// locks it, performs its actions on the worker pool and feeds the answers back. The staged file reports every change, so that a
/// part whose bytes have changed is sent again. Locks: `shared` is a leaf; nothing is awaited under it. Any thread may call
/// anything; commits run one after the other.
/// After a crash: the staged file and perhaps an upload at the store are left, and the rows of `record` say what to do with both.
package final class FileCommit: Sendable {
    struct Shared {
        var state: CommitState
        var tasks: [CommitState.Ticket: Task<Void, Never>] = [:]
        /// The version with the bytes that were not written; once a commit has landed, the version that it made.
        var base: (any BaseContent)?
        /// How often bytes that were read from the base turned out to be damaged.
        var baseLosses = 0
        var isCommitting = false
        /// How often the store refused the condition of this commit although it has that version.
        var refusals = 0
        /// PUTs and completions under way, also those for which no commit waits any more.
        var attemptsUnderWay = 0
        /// Uploads that an earlier process has begun. The first commit looks at them.
        var resumable: [(id: IntentID, upload: JournalContents.Upload)] = []
    }

    let store: any ObjectStore
    let staged: StagedFile
    let options: CommitOptions
    let uploads: UploadLimiter
    /// The number of this file at the limiter.
    let uploader: UInt64
    let time: any TimeSource
    let record: FileRecord?
    private let pool: WorkerPool
    private let logger: Logger
    private let shared: Mutex<Shared>
    private let signal = ChangeSignal()
    /// Reads a version that this commit has made.
    let content: @Sendable (ObjectKey, ObjectVersion) -> any BaseContent

    /// `base` is the version below `staged`, nil for a new file; once a commit has landed, it is the version that this made,
    /// which `content` reads. `uploads` bounds the transfers of the whole mount. Without a `record` nothing can be resumed after
    /// a crash.
    package init(
        store: any ObjectStore, staged: StagedFile, base: (any BaseContent)?, options: CommitOptions,
        uploads: UploadLimiter, pool: WorkerPool, time: any TimeSource, logger: Logger, record: FileRecord? = nil,
        content: @escaping @Sendable (ObjectKey, ObjectVersion) -> any BaseContent
    ) {
        (self.store, self.staged, self.options, self.uploads) = (store, staged, options, uploads)
        (self.pool, self.time, self.logger, self.record, self.content) = (pool, time, logger, record, content)
        uploader = uploads.newFile()
        let state = CommitState(
            identity: record?.identity ?? RandomID.hex(), options: options, capabilities: store.capabilities,
            ancestors: record?.intent.ancestors ?? [])
        shared = Mutex(Shared(state: state, base: base))
        staged.observeChanges { [weak self] range in self?.apply { $0.changed(range) } }
    }

    // MARK: While the file is written

    /// The writer has staged `range`. Cheap: transfers of full parts behind it begin in the background. `metadata` returns the
    /// headers; it is called only when an upload has to be begun.
    package func noteWrite(_ range: ByteRange, key: ObjectKey, metadata: @Sendable () -> ObjectMetadata) {
        // The first commit resumes an upload of an earlier process, and no other upload may take its place.
        let parts = shared.withLock { $0.resumable.isEmpty ? $0.state.passed(by: range) : [] }
        guard !parts.isEmpty else { return }
        let extents = staged.extents
        guard !apply({ $0.stream(parts, extents, key: key) }) else { return }
        let headers = metadata()
        apply { $0.beginStreaming(key, headers) }
    }

    /// The file was truncated, extended or zeroed. Parts of the bytes that changed were dropped when they changed; from now on
    /// the writer starts anew wherever it writes next.
    package func noteTruncate() { shared.withLock { $0.state.forgetWriter() } }

    /// A program has set the modification time: the object has to carry exactly that one.
    package func noteTimeSet() { shared.withLock { $0.state.timeIsSet() } }

    /// The file has this key from now on: an upload of another one cannot become its object.
    package func moved(to key: ObjectKey) { apply { $0.moved(to: key) } }

    /// The file, which is empty and of which the store has nothing, takes its bytes from another object's version.
    package func takeBase(_ base: any BaseContent) { shared.withLock { $0.base = base } }

    /// How the file can give local space back.
    package enum Relief: Sendable { case drop, wait, commit }

    package var relief: Relief {
        let extents = staged.extents
        return shared.withLock { shared in
            if !shared.isCommitting, !shared.state.droppable(extents).isEmpty { return .drop }
            return shared.state.isStreaming || shared.isCommitting ? .wait : .commit
        }
    }

    /// Frees the local space of bytes that the store has in parts of the upload. The row of the file says so first. False when
    /// there are none.
    ///
    /// Requires: no writer and no commit of the file runs.
    package func dropSent() throws(CommitError) -> Bool {
        guard let record else { return false }
        var extents = staged.extents
        let ranges = shared.withLock { $0.isCommitting ? [] : $0.state.droppable(extents) }
        guard !ranges.isEmpty else { return false }
        for range in ranges { extents.set(range, to: .stored) }
        do { try staged.prepareToLeave(ranges) } catch { throw .staging(error) }
        do { try record.dropping(extents) } catch { throw .journal(error) }
        staged.leaveToStore(ranges)
        return true
    }

    /// Whether the file has to become an object before `range` of it changes: the bytes there are only in its upload.
    package func needsCommit(before range: ByteRange) -> Bool {
        guard staged.needsItsUpload else { return false }
        let extents = staged.extents
        return shared.withLock { $0.state.needsCommit(before: range, extents) }
    }

    /// Gives the file up: nothing more is sent, and an upload is aborted, best effort. Returns when all of that has ended. Staged
    /// bytes stay readable; later commits fail with `.cancelled`.
    package func abandon() async {
        report { $0.abandon() }
        await waitUntil(cancellable: false) { !$0.isCommitting }
        giveUpResumable()
        await waitUntil(cancellable: false) {
            $0.state.isQuiet && !$0.isCommitting && $0.attemptsUnderWay == 0
        }
    }

    /// Ends everything but the upload, which stays at the store with its rows, to be resumed. If no bytes are in the upload
    /// alone, it is aborted.
    package func leaveUpload() async {
        guard staged.needsItsUpload else { return await abandon() }
        report { $0.stop() }
        await waitUntil(cancellable: false) { $0.state.isQuiet && $0.attemptsUnderWay == 0 }
    }

    /// Returns when no PUT or completion is under way that could still change the object. A cancelled commit leaves its own
    /// running: if it were cut off, the store might carry it out all the same, long after.
    package func quiesce() async { await waitUntil(cancellable: false) { $0.attemptsUnderWay == 0 } }

    /// The same; false when the task was cancelled before.
    package func quiesced() async -> Bool { await waitUntil(cancellable: true) { $0.attemptsUnderWay == 0 } }

    package var hasAttemptUnderWay: Bool { shared.withLock { $0.attemptsUnderWay > 0 } }

    /// Adds commits of another file whose object this one replaces: what they make may still be found at the key.
    package func replaces(_ commits: [String]) { apply { $0.attempts.addAncestors(commits) } }

    /// Sends a PUT or completion, which runs to its end whether or not the task is cancelled. On cancellation `.cancelled` is
    /// thrown at once.
    func attempt(
        _ key: ObjectKey, _ operation: ObjectStoreError.Operation,
        _ send: @escaping @Sendable () async -> Result<PutAnswer, ObjectStoreError>
    ) async throws(ObjectStoreError) -> PutAnswer {
        let answer = AttemptAnswer()
        shared.withLock { $0.attemptsUnderWay += 1 }
        pool.start { [self] in
            answer.set(await send())
            shared.withLock { $0.attemptsUnderWay -= 1 }
            signal.change()
        }
        await waitUntil(cancellable: true) { _ in answer.value != nil }
        guard let value = answer.value else {
            throw ObjectStoreError(.cancelled, operation, key: key, code: "Cancelled", message: "cancelled")
        }
        return try value.get()
    }

    // MARK: The state

    /// Changes the state and performs the actions that follow.
    @discardableResult
    func apply<Value: Sendable>(_ body: (inout CommitState) -> Value) -> Value {
        let (value, actions) = shared.withLock { shared in
            let value = body(&shared.state)
            defer { shared.state.actions = [] }
            return (value, shared.state.actions)
        }
        for action in actions { perform(action) }
        return value
    }

    /// The same for changes that other tasks may wait for.
    @discardableResult
    func report<Value: Sendable>(_ body: (inout CommitState) -> Value) -> Value {
        let value = apply(body)
        signal.change()
        return value
    }

    func withShared<Value: Sendable>(_ body: (inout Shared) -> Value) -> Value { shared.withLock { body(&$0) } }

    var base: (any BaseContent)? { shared.withLock { $0.base } }

    /// The version with the bytes that were not written: once a try has landed, the one it made, even if a later try has failed.
    package var below: (key: ObjectKey, version: ObjectVersion)? { base.map { ($0.key, $0.version) } }

    /// Waits until `isTrue`, which only reported changes make true. False when the task was cancelled before.
    @discardableResult
    func waitUntil(cancellable: Bool, _ isTrue: (inout Shared) -> Bool) async -> Bool {
        while true {
            let seen = signal.changes
            if shared.withLock({ isTrue(&$0) }) { return true }
            if cancellable, Task.isCancelled { return false }
            await signal.wait(after: seen, cancellable: cancellable)
        }
    }

    /// Proceeds until the next step is not to wait; nil when the task was cancelled.
    func decide() async -> CommitState.Step? {
        while true {
            let seen = signal.changes
            let baseSize = base?.version.size ?? 0
            let step = apply { $0.proceed(baseSize: baseSize) }
            guard case .wait = step else { return step }
            if Task.isCancelled { return nil }
            await signal.wait(after: seen, cancellable: true)
        }
    }

    /// One commit at a time.
    func enter() async throws(CommitError) {
        let isAlone = await waitUntil(cancellable: true) { shared in
            if shared.isCommitting || shared.attemptsUnderWay > 0 { return false }
            shared.isCommitting = true
            return true
        }
        guard isAlone else { throw .cancelled }
    }

    func leave() {
        shared.withLock { $0.isCommitting = false }
        signal.change()
    }

    // MARK: Actions

    private func perform(_ action: CommitState.Action) {
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
            let task = pool.start { [self] in
                let result: Result<UploadedPart, CommitError>
                do throws(CommitError) { result = .success(try await transfer(part, key, upload)) } catch {
                    result = .failure(error)
                    logger.debug(
                        "a part cannot be uploaded",
                        metadata: ["key": "\(key)", "part": "\(part.number)", "error": "\(error)"])
                }
                shared.withLock { _ = $0.tasks.removeValue(forKey: ticket) }
                report { $0.transferred(ticket, result) }
            }
            // The task may have ended, or been cancelled, before it could be kept.
            let isStale = shared.withLock { shared in
                guard let flight = shared.state.flights[ticket] else { return false }
                shared.tasks[ticket] = task
                return flight.isStale
            }
            if isStale { task.cancel() }
        case .cancel(let ticket):
            shared.withLock { $0.tasks[ticket] }?.cancel()
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

    /// Base bytes that a commit has read into the staged file, and their share of what all commits may read.
    struct Fill: Sendable {
        let range: ByteRange
        let bytes: Int
    }

    /// Reads the bytes of `range` that are still the base's into the staged file, once they fit the share of all commits.
    func beginFill(_ range: ByteRange) async throws(CommitError) -> Fill {
        let missing = staged.pieces(in: range).filter { $0.source == .base }
            .reduce(Int64(0)) { $0 + $1.range.length + 2 * staged.unit.bytes }
        let bytes = Int(clamping: missing)
        do { try await staged.fills.reserve(bytes) } catch { throw .cancelled }
        let fill = Fill(range: range, bytes: bytes)
        do { try await self.fill(range) } catch {
            endFill(fill)
            throw error
        }
        return fill
    }

    /// To be called when the bytes have been sent, or not. They stay as long as there is room: the committed object is cached.
    func endFill(_ fill: Fill) {
        guard fill.bytes > 0 else { return }
        if staged.isSpaceShort { staged.unfill(fill.range) }
        staged.fills.release(fill.bytes)
    }

    private func fill(_ range: ByteRange) async throws(CommitError) {
        for piece in staged.pieces(in: range) where piece.source == .base {
            var isThere = false
            while !isThere {
                let losses = withShared { $0.baseLosses }
                try await fill(piece.range, partOf: range)
                // If it were confirmed after `forgetBase`, damaged bytes would stay.
                isThere = losses == withShared { $0.baseLosses }
                if !isThere { staged.unfill(piece.range) }
            }
        }
    }

    private func fill(_ piece: ByteRange, partOf range: ByteRange) async throws(CommitError) {
        guard let base else { throw .staging(.notStaged) }
        let failure = StagingFailure()
        do throws(ObjectStoreError) {
            try await base.read(piece) { [staged] (bytes, offset) throws(ByteTransferError) in
                do throws(StagingError) { try staged.prepareFill(bytes, at: offset) } catch {
                    failure.note(error)
                    throw ByteTransferError(errno: error.errno, reason: error.description)
                }
            }
        } catch {
            if let error = failure.error { throw .staging(error) }
            if error.kind == .integrity { forgetBase(except: range) }
            throw CommitError(base: error)
        }
        staged.confirmFill(piece)
    }

    /// Drops the bytes that were read of the base, which may be damaged, and every part but the one of `range`, which fails: both
    /// are read and sent anew.
    private func forgetBase(except range: ByteRange) {
        let size = staged.size
        withShared { $0.baseLosses += 1 }
        staged.unfill(0..<size)
        for other in [0..<min(range.lowerBound, size), min(range.upperBound, size)..<size] where !other.isEmpty {
            apply { $0.changed(other) }
        }
    }
}

/// The answer to an attempt. A leaf lock.
private final class AttemptAnswer: Sendable {
    private let answer = Mutex<Result<PutAnswer, ObjectStoreError>?>(nil)
    var value: Result<PutAnswer, ObjectStoreError>? { answer.withLock { $0 } }
    func set(_ value: Result<PutAnswer, ObjectStoreError>) { answer.withLock { $0 = value } }
}

/// Keeps why staging refused bytes while the error travels through the store as an errno.
private final class StagingFailure: Sendable {
    private let first = Mutex<StagingError?>(nil)
    var error: StagingError? { first.withLock { $0 } }
    func note(_ error: StagingError) { first.withLock { $0 = $0 ?? error } }
}
