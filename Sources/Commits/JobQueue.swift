package import Basics
package import Journaling
package import Logging
package import ObjectStorage
import Synchronization

/// A job that the store has refused so far and that the mount keeps trying.
package struct UnfinishedJob: Sendable, Hashable {
    /// What is to be done.
    package enum Act: Sendable, Hashable {
        case removal
        /// The removal of objects below a directory that has another name by now.
        case removals
        case rename(to: ByteString)
        case tree(to: ByteString)
        /// A change of headers of unknown outcome.
        case headers
        /// The abort of a multipart upload of this mount that nothing will complete.
        case abort
        /// A file is stored, and the journal or the metadata cache could not be written.
        case row
        /// The job was done or given up, and the journal still has the row.
        case ended
    }

    /// Its row in the journal.
    package let id: IntentID
    package let act: Act
    /// Below the mount's prefix; of a tree the directory's, with the slash.
    package let key: ByteString
    /// Other keys at which it deletes something.
    package let others: [ByteString]
    /// When it was first refused.
    package let since: Timestamp
    package var tries: Int
    package var lastError: String

    package init(
        id: IntentID, act: Act, key: ByteString, others: [ByteString] = [], since: Timestamp, tries: Int = 1,
        lastError: String
    ) {
        (self.id, self.act, self.key, self.since, self.tries, self.lastError) = (id, act, key, since, tries, lastError)
        self.others = others
    }

    /// In words, for people: what is not finished, without the key.
    package var summary: String {
        switch act {
        case .removal: "its removal"
        case .removals: "the removal of the objects below it"
        case .rename(let key), .tree(let key): "its rename to \(key)"
        case .headers: "the check whether the store has its new attributes"
        case .abort: "the abort of an unfinished upload of it"
        case .row: "the note in the journal that it is stored"
        case .ended: "the note in the journal that nothing is left to do"
        }
    }

    /// Whether the job may act on `other`, which for a directory ends in a slash and stands for all below it.
    package func touches(_ other: ByteString) -> Bool {
        func meets(_ one: ByteString) -> Bool {
            one == other || one.hasSuffix("/") && other.hasPrefix(one) || other.hasSuffix("/") && one.hasPrefix(other)
        }
        switch act {
        case .abort: return false
        case .row, .headers: return key == other
        case .removal, .removals, .ended: return meets(key)
        case .rename(let to), .tree(let to): return meets(key) || meets(to) || others.contains(where: meets)
        }
    }
}

/// Jobs whose rows are in the journal and that the store has refused: retried while the mount lives, ever more seldom, and once
/// more at its end.
///
/// Owns the list, never the rows: an attempt ends its own row when it succeeds, so a crash at any moment leaves the rest to the
/// next start. One attempt of a job runs at a time, a few of them at once. A call that is about to change a key on which a job
/// may act calls `finishJobs` first, so that a job begun long ago never acts on a newer object. A leaf lock; attempts run outside
/// it, and may take any other.
package final class JobQueue: Sendable {
    /// Carries the job out and ends its row, or throws the reason.
    package typealias Attempt = @Sendable () async throws(CommitError) -> Void

    private struct Job {
        var shown: UnfinishedJob
        let attempt: Attempt
        var isRunning = false
    }

    private struct State {
        var jobs: [IntentID: Job] = [:]
        var isStopped = false
    }

    private static let delays = (first: Duration.seconds(1), longest: Duration.seconds(60))
    /// A job that the store refuses for good is retried less often.
    private static let longestAfterRefusal = Duration.seconds(600)
    private static let width = 4

    // A memory budget is a fair semaphore with cancellation; a slot is a unit of it.
    private let slots = MemoryBudget(limit: JobQueue.width)
    /// Carries out what is in the journal, for attempts.
    package let runner: JobRunner
    private let journal: Journal
    let pool: WorkerPool
    let time: any TimeSource
    private let logger: Logger
    /// Removals that are acknowledged and not sent yet.
    let removals = RemovalBatch()
    private let state = Mutex(State())
    private let signal = ChangeSignal()

    package init(
        store: any ObjectStore, journal: Journal, pool: WorkerPool, time: any TimeSource, logger: Logger
    ) {
        (self.journal, self.pool, self.time, self.logger) = (journal, pool, time, logger)
        runner = JobRunner(store: store, journal: journal, time: time, logger: logger)
    }

    /// Whether an object at `key` is still to be removed.
    package func removes(_ key: ByteString) -> Bool {
        if removals.touches(key) { return true }
        return state.withLock { $0.jobs.values.contains { $0.shown.act == .removal && $0.shown.key == key } }
    }

    /// Every job that is not finished, the oldest first.
    package var unfinished: [UnfinishedJob] {
        state.withLock { $0.jobs.values.map(\.shown) }.sorted { ($0.since, $0.id) < ($1.since, $1.id) }
    }

    /// Adds a job that was refused with `error`.
    package func add(
        _ id: IntentID, _ act: UnfinishedJob.Act, _ key: ByteString, others: [ByteString] = [], because error: String,
        _ attempt: @escaping Attempt
    ) {
        let shown = UnfinishedJob(id: id, act: act, key: key, others: others, since: time.now(), lastError: error)
        let isNew = state.withLock { state in
            defer { state.jobs[id] = Job(shown: state.jobs[id]?.shown ?? shown, attempt: attempt) }
            return state.jobs[id] == nil
        }
        guard isNew else { return }
        logger.warning(
            "a change of the bucket is not finished; pailfs retries",
            metadata: ["key": "\(key)", "op": "\(shown.summary)", "reason": "\(error)"])
        pool.start { [self] in await keepTrying(id) }
    }

    /// Adds the abort of an upload that the store has refused.
    package func add(abortOf upload: UploadRecord, _ row: IntentID, because error: String) {
        add(row, .abort, upload.key, because: error) { [runner] () async throws(CommitError) in
            try await runner.abort(row, upload)
        }
    }

    /// Drops a job whose work another call has done, or whose row it has ended.
    package func forget(_ id: IntentID) {
        state.withLock { _ = $0.jobs.removeValue(forKey: id) }
        signal.change()
    }

    /// To be called before a change at `key`, for a directory also before one below it: tries the jobs that act there now. Throws
    /// when one cannot be done yet. A job that the store refuses for good is given up instead, unless a program was told that it
    /// is done.
    package func finishJobs(at key: ByteString) async throws(CommitError) {
        await sendRemovals(at: key)
        while let job = await claim(where: { $0.touches(key) }) {
            do throws(CommitError) { try await attempt(job) } catch {
                guard !error.mayPass, job.shown.isOpen else { throw error }
                do { try journal.write([.endJob(job.shown.id)], flushed: true) } catch { throw .journal(error) }
                forget(job.shown.id)
                logger.error(
                    "an unfinished change is dropped: the store refuses it, and a later change needs the same key",
                    metadata: ["key": "\(job.shown.key)", "op": "\(job.shown.summary)", "reason": "\(error)"])
            }
        }
    }

    /// Begins no more retries, waits for those that run, and tries each job once more as long as the store answers. Returns the
    /// jobs that stay.
    package func finish() async -> [UnfinishedJob] {
        await sendRemovals()
        state.withLock { $0.isStopped = true }
        var seen: Set<IntentID> = []
        await withTaskGroup(of: Bool.self) { group in
            var isAway = false
            while !isAway, let job = await claim(where: { !seen.contains($0.id) }) {
                seen.insert(job.shown.id)
                group.addTask { [self] in
                    await LockOrder.inChild {
                        do throws(CommitError) { try await attempt(job) } catch { return error.isOfAStoreThatIsAway }
                        return false
                    }
                }
                if seen.count >= 2 * Self.width { isAway = await group.next() ?? false }
            }
        }
        return unfinished
    }

    // MARK: Attempts

    /// A job that fits, once it does not run; from now on it runs for the caller. nil when there is none.
    private func claim(where fits: (UnfinishedJob) -> Bool) async -> Job? {
        while true {
            let seen = signal.changes
            let (job, isWanted) = state.withLock { state -> (Job?, Bool) in
                let wanted = state.jobs.values.filter { fits($0.shown) }
                guard let job = wanted.filter({ !$0.isRunning }).min(by: { $0.shown.id < $1.shown.id }) else {
                    return (nil, !wanted.isEmpty)
                }
                state.jobs[job.shown.id]?.isRunning = true
                return (job, true)
            }
            if job != nil || !isWanted { return job }
            await signal.wait(after: seen, cancellable: false)
        }
    }

    private func attempt(_ job: Job) async throws(CommitError) {
        let id = job.shown.id
        defer { signal.change() }
        do throws(CommitError) { try await job.attempt() } catch {
            state.withLock { state in
                state.jobs[id]?.isRunning = false
                state.jobs[id]?.shown.tries += 1
                // A cancellation shows nothing about the job.
                if error != .cancelled { state.jobs[id]?.shown.lastError = "\(error)" }
            }
            throw error
        }
        state.withLock { _ = $0.jobs.removeValue(forKey: id) }
        logger.info(
            "a retried change of the bucket is finished",
            metadata: ["key": "\(job.shown.key)", "op": "\(job.shown.summary)"])
    }

    /// Retries a job as long as it is in the queue.
    private func keepTrying(_ id: IntentID) async {
        var delay = Self.delays.first
        var longest = Self.delays.longest
        while true {
            do {
                try await time.sleep(for: delay)
                try await slots.reserve(1)
            } catch { return }
            defer { slots.release(1) }
            delay = min(delay * 2, longest)
            let (job, isOver) = state.withLock { state -> (Job?, Bool) in
                guard !state.isStopped, let job = state.jobs[id] else { return (nil, true) }
                // Another task is running it.
                guard !job.isRunning else { return (nil, false) }
                state.jobs[id]?.isRunning = true
                return (job, false)
            }
            if isOver { return }
            guard let job else { continue }
            let failure = await CallDeadline.run { [self] () async -> CommitError? in
                do throws(CommitError) { try await attempt(job) } catch { return error }
                return nil
            }
            if let failure { longest = failure.mayPass ? Self.delays.longest : Self.longestAfterRefusal }
        }
    }
}

extension UnfinishedJob {
    /// Whether no program was told that it is done: only then it may be given up.
    var isOpen: Bool {
        switch act {
        case .rename, .tree, .headers: true
        case .removal, .removals, .abort, .row, .ended: false
        }
    }
}

extension CommitError {
    /// Whether the store does not answer: every other job would fail as well, and take as long.
    fileprivate var isOfAStoreThatIsAway: Bool {
        guard case .store(let error) = self else { return false }
        return [.unreachable, .interrupted, .timedOut].contains(error.kind)
    }

    /// Whether a retry may succeed later without any change by the user.
    package var mayPass: Bool {
        switch self {
        case .store(let error): if case .local = error.kind { true } else { error.isRetryable }
        case .conflict, .baseGone: false
        case .staging, .journal, .cancelled: true
        }
    }
}
