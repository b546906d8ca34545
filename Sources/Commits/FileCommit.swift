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
        /// How far the parts under way have come.
        var partsSent: [CommitState.Ticket: SentBytes] = [:]
        /// How far the PUT of the whole file has come.
        var putSent: SentBytes?
        /// The generation of the bytes that a commit has made an object.
        var stored: UInt64?
        /// The version with the bytes that were not written; once a commit has landed, the version that it made.
        var base: (any BaseContent)?
        /// How often bytes that were read from the base turned out to be damaged.
        var baseLosses = 0
        var isCommitting = false
        /// How often the store refused the condition of this commit although it has that version.
        var refusals = 0
        /// PUTs and completions under way, also those for which no commit waits any more.
        var attemptsUnderWay = 0
        /// Why the last object that this commit made was stored without its callback.
        var callbackFailure: String?
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
    let pool: WorkerPool
    let logger: Logger
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

    /// Why the store has the file, but the application's server does not know of it; nil after a callback that was answered.
    package var callbackFailure: String? { shared.withLock { $0.callbackFailure } }

    /// Logs how a callback ended, and keeps a failure.
    func note(_ callback: CallbackResult?, of key: ObjectKey) {
        shared.withLock { $0.callbackFailure = callback.flatMap { $0.isFailure ? $0.text : nil } }
        guard let callback else { return }
        if callback.isFailure {
            logger.warning(
                "a file is stored, but its callback failed", metadata: ["key": "\(key)", "reason": "\(callback.text)"])
        } else {
            logger.debug("a callback is answered", metadata: ["key": "\(key)", "answer": "\(callback.text)"])
        }
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
}

/// The answer to an attempt. A leaf lock.
private final class AttemptAnswer: Sendable {
    private let answer = Mutex<Result<PutAnswer, ObjectStoreError>?>(nil)
    var value: Result<PutAnswer, ObjectStoreError>? { answer.withLock { $0 } }
    func set(_ value: Result<PutAnswer, ObjectStoreError>) { answer.withLock { $0 = value } }
}
