package import Basics
package import Journaling
package import Logging
package import ObjectStorage
import Staging

/// Recovery from the journal of an earlier process, before anything is served: finishes jobs, aborts uploads that nothing will
/// complete, and finds out which files became objects.
///
/// Takes a few requests for each row and none for anything else. A row that the store refuses now stays in the journal and is
/// retried while the mount lives.
package struct Recovery: Sendable {
    /// The work that recovery leaves to the file system.
    package struct Plan: Sendable {
        /// Acknowledged files that are not in the bucket yet, the oldest first.
        package var acknowledged: [(id: IntentID, intent: FileIntent)] = []
        /// Files that were not acknowledged. `pailfs recover` has them; nothing commits them unasked.
        package var unacknowledged: [(id: IntentID, intent: FileIntent)] = []
        /// Acknowledged files in a copy of the journal: its original may have stored them, and they may have been removed since.
        package var withheld: [(id: IntentID, intent: FileIntent)] = []
        /// Files that programs have open and were writing to when the process that served the mount ended.
        package var open: [(id: IntentID, intent: FileIntent)] = []
        /// Open files whose bytes have become an object beside them, and its key: no program got an error yet.
        package var beside: [(ino: UInt64, key: ByteString)] = []
        /// Uploads by the file they belong to.
        package var uploads: [IntentID: [(id: IntentID, upload: JournalContents.Upload)]] = [:]
        /// Keys at which the store may now have other objects than the caches; those of trees end in `/`.
        package var touched: Set<ByteString> = []
        /// Objects that commits had made before the process could write that down, among those `touched`.
        package var landed: [ObjectKey: ObjectInfo] = [:]
        /// Renames of files that programs may have open, which the store had begun when the process ended, and the objects at the
        /// new keys.
        package var renamed: [(record: RenameRecord, info: ObjectInfo)] = []
        /// Directories in which programs may have files open, and whose objects are all copied to their new place. The metadata
        /// cache may have them at the old one.
        package var moved: [(from: ByteString, to: ByteString)] = []
        /// Former places of renamed directories, whose sources were being deleted when the process ended.
        package var emptied: [ByteString] = []
        /// Renames of directories that were undone, and that programs are about to repeat.
        package var undone: [(from: ByteString, to: ByteString)] = []
        /// Objects that got another version with other headers and the same bytes, before the process could write that down.
        package var updated: [(record: HeadersUpdateRecord, info: ObjectInfo)] = []
        /// Jobs and uploads that the store refused, to be retried while the mount lives.
        package var left: [Left] = []
        /// Whether the store did not answer in time: requests to it are left for later.
        package var isStoreAway = false
        /// Every job that was in the journal.
        package var begun: Set<IntentID> = []
        /// Changes to write once the caches are updated: if this process ends before, the next one finds the same again.
        package var ended: [JournalChange] = []

        /// Whether the store has refused the job so far.
        package func isLeft(_ job: IntentID) -> Bool {
            left.contains { if case .job(job, _, _) = $0.row { true } else { false } }
        }

        /// Names in `staging/` that rows have.
        package var stagedNames: Set<String> {
            var names = Set((acknowledged + unacknowledged + withheld + open).map(\.intent.staging))
            for case .job(_, _, let files) in left.map(\.row) { names.formUnion(files.values.map(\.staging)) }
            return names
        }
    }

    /// A job or an upload that could not be finished, and why.
    package struct Left: Sendable {
        package enum Row: Sendable {
            /// `replaced` are files acknowledged before the job, whose name the job removes or gives to another file: they end
            /// with the job, and must not be stored before.
            case job(IntentID, JournalContents.Job, replaced: [IntentID: FileIntent])
            case upload(IntentID, UploadRecord)
        }

        package let row: Row
        package let reason: String
    }

    /// The most requests at a time.
    private static let width = 16

    private var store: any ObjectStore
    private let isRestart: Bool
    private let waiting: Set<IntentID>
    private let patience: Duration?
    private let journal: Journal
    private let time: any TimeSource
    private let logger: Logger
    private var runner: JobRunner

    /// With `isRestart` the mount still exists and its files are open: none of them is given up, and the jobs `waiting` for a
    /// close stay as they are. Programs wait meanwhile: if the store gives no answer within `patience`, no request is sent, and
    /// everything is left.
    package init(
        store: any ObjectStore, journal: Journal, isRestart: Bool = false, waiting: Set<IntentID> = [],
        patience: Duration? = nil, time: any TimeSource, logger: Logger
    ) {
        (self.journal, self.isRestart, self.waiting) = (journal, isRestart, waiting)
        (self.patience, self.time, self.logger) = (patience, time, logger)
        self.store = InterceptedStore(store, FirstOutage())
        runner = JobRunner(store: self.store, journal: journal, time: time, logger: logger)
    }

    /// Why the store counts as away; nil when it answers, or is to be waited for.
    private func silence() async -> ObjectStoreError? {
        guard let patience else { return nil }
        let (store, time) = (store, time)
        let late = ObjectStoreError(
            .timedOut, .checkAccess, message: "no answer within \(patience) while programs waited for the next worker")
        return await withTaskGroup(of: ObjectStoreError?.self) { group in
            group.addTask {
                do throws(ObjectStoreError) { try await store.checkAccess(below: "") } catch {
                    return error.isOfSilence ? error : nil
                }
                return nil
            }
            group.addTask {
                try? await time.sleep(for: patience)
                return late
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
    }

    /// Whether the journal has anything that needs a request to the store.
    private func needsStore(_ contents: JournalContents) -> Bool {
        contents.jobs.contains { !waiting.contains($0.key) } || !contents.strayUploads.isEmpty
            || contents.files.values.contains { $0.attempt != nil }
    }

    /// Whether the job removes an object of known ETag, and no file has its key.
    private static func isPlainRemoval(_ job: JournalContents.Job, _ files: [IntentID: FileIntent]) -> Bool {
        guard case .removal(let record) = job.intent, record.etag != nil, record.commits.isEmpty else { return false }
        return !files.values.contains { $0.key == record.key }
    }

    /// Carries out many removals together, as `rm -r` leaves them.
    private func remove(_ jobs: [(key: IntentID, value: JournalContents.Job)], _ plan: inout Plan) async {
        var removals: [(id: IntentID, record: RemovalRecord)] = []
        for (id, job) in jobs {
            plan.touched.formUnion(Self.keys(of: job.intent))
            if case .removal(let record) = job.intent { removals.append((id, record)) }
        }
        let outcomes = await runner.finish(removals: removals)
        for (id, job) in jobs {
            guard case .refused(let reason) = outcomes[id] else { continue }
            plan.left.append(Left(row: .job(id, job, replaced: [:]), reason: reason))
        }
    }

    /// Throws when the journal cannot be read.
    package func run() async throws(JournalingError) -> Plan {
        let contents = try journal.contents()
        guard needsStore(contents), let silence = await silence() else { return try await run(contents, Plan()) }
        var (recovery, plan) = (self, Plan())
        recovery.store = InterceptedStore(store, FirstOutage(known: silence))
        recovery.runner = JobRunner(store: recovery.store, journal: journal, time: time, logger: logger)
        plan.isStoreAway = true
        return try await recovery.run(contents, plan)
    }

    private func run(_ contents: JournalContents, _ plan: Plan) async throws(JournalingError) -> Plan {
        var (contents, plan) = (contents, plan)
        plan.begun = Set(contents.jobs.keys)
        // A file whose removal waits for its close is not stored any more.
        for (id, job) in contents.jobs where waiting.contains(id) {
            plan.ended += contents.files.filter { job.intent.ends($0.value, $0.key, job: id) }.map { .endFile($0.key) }
        }
        // In the order of their beginning: a later job may depend on an earlier one.
        var jobs = contents.jobs.sorted { $0.key < $1.key }.filter { !waiting.contains($0.key) }[...]
        while let (id, job) = jobs.first {
            let removals = jobs.prefix { Self.isPlainRemoval($0.value, contents.files) }
            if removals.count > 1 {
                await remove(Array(removals), &plan)
                jobs = jobs.dropFirst(removals.count)
                continue
            }
            jobs = jobs.dropFirst()
            plan.touched.formUnion(Self.keys(of: job.intent))
            do throws(CommitError) {
                if isRestart, case .tree(let from, let to) = job.intent,
                    try await runner.undo(id, job.items, from: from, to: to)
                {
                    plan.undone.append((from, to))
                    continue
                }
                if isRestart, case .moved(let from, let to) = job.intent {
                    plan.moved.append((from, to))
                    plan.ended.append(.advance(id, .removals(below: from)))
                }
                if isRestart, case .removals(let prefix) = job.intent { plan.emptied.append(prefix) }
                if case .headers(let record) = job.intent, let info = try await runner.updated(record) {
                    plan.updated.append((record, info))
                }
                plan.ended += try await runner.carryOut(id, job, files: contents.files)
                if isRestart, case .tree(let from, let to) = job.intent { plan.moved.append((from, to)) }
                if isRestart, case .rename(let record) = job.intent, let info = try await runner.renamed(record) {
                    plan.renamed.append((record, info))
                }
            } catch {
                let replaced = contents.files.filter { job.intent.ends($0.value, $0.key, job: id) }
                plan.left.append(Left(row: .job(id, job, replaced: replaced), reason: "\(error)"))
            }
        }
        contents = try journal.contents()
        for change in plan.ended { contents.apply(change) }
        // A job that is left resumes the upload that copies for it.
        let isCopying = !plan.left.isEmpty
        // Uploads of a copied journal may be in use by its original.
        for (id, upload) in contents.strayUploads
        where !(isCopying && upload.record.copied != nil) && !journal.isCopy {
            await abort(id, upload.record, &plan)
        }
        var held: Set<IntentID> = []
        for case .job(_, _, let replaced) in plan.left.map(\.row) { held.formUnion(replaced.keys) }
        let files = contents.files.filter { !held.contains($0.key) }
        let landed = await landed(files)
        let withheld = journal.isCopy ? await doubtful(files) : []
        for (id, intent) in files.sorted(by: { $0.key < $1.key }) {
            plan.touched.insert(intent.key)
            let uploads = contents.uploads(of: id)
            if let info = landed[id], !isWanted(intent) || intent.describes(info, at: store.capabilities) {
                plan.landed[ObjectKey(intent.key)] = info
                if !intent.isAcknowledged, isStillOpen(intent), let ino = intent.besideOf {
                    plan.beside.append((ino, intent.key))
                }
                // The draft that was acknowledged before this one is no longer wanted.
                let superseded = plan.acknowledged.filter { intent.isLater(than: $0.intent) }.map(\.id)
                plan.acknowledged.removeAll { superseded.contains($0.id) }
                let made = uploads.filter { $0.upload.record.attempt == intent.attempt }
                plan.ended += ([id] + superseded).map { .endFile($0) } + made.map { .endUpload($0.id) }
                let others = uploads.filter { $0.upload.record.attempt != intent.attempt }
                for other in others + superseded.flatMap({ plan.uploads.removeValue(forKey: $0) ?? [] }) {
                    await abort(other.id, other.upload.record, &plan)
                }
                continue
            }
            if withheld.contains(id) {
                plan.withheld.append((id, intent))
                plan.uploads[id] = uploads
                continue
            }
            if !intent.isAcknowledged, isStillOpen(intent) {
                plan.open.append((id, intent))
                plan.uploads[id] = uploads
                continue
            }
            if intent.isAcknowledged {
                plan.acknowledged.append((id, intent))
                plan.uploads[id] = uploads
                continue
            }
            if intent.needsUpload {
                // Parts at the store are all there is of some bytes: they stay as long as the file does.
                plan.uploads[id] = uploads
                plan.unacknowledged.append((id, intent))
                continue
            }
            // Its bytes are on this disk, and may never be recovered: parts at the store would cost for good.
            for upload in uploads { await abort(upload.id, upload.upload.record, &plan) }
            plan.unacknowledged.append((id, intent))
        }
        return plan
    }

    /// Returns only the files, without a request and without a change.
    package func look() throws(JournalingError) -> Plan {
        let contents = try journal.contents()
        var plan = Plan()
        for (id, intent) in contents.files.sorted(by: { $0.key < $1.key }) { plan.unacknowledged.append((id, intent)) }
        return plan
    }

    /// Whether programs may have the file open as it was.
    private func isStillOpen(_ intent: FileIntent) -> Bool {
        isRestart && intent.boot == journal.boot && !intent.isWithdrawn && intent.isLeft != true
    }

    /// Whether the file is acknowledged, or a program continues with it: then an object without its newest headers does not end
    /// the row, and the next commit stores them.
    private func isWanted(_ intent: FileIntent) -> Bool { intent.isAcknowledged || isStillOpen(intent) }

    private func abort(_ id: IntentID, _ upload: UploadRecord, _ plan: inout Plan) async {
        do throws(CommitError) { try await runner.abort(id, upload) } catch {
            plan.left.append(Left(row: .upload(id, upload), reason: "\(error)"))
        }
    }

    /// The objects that the last attempts of the files have made. Where the store cannot be asked, there is none: the next commit
    /// asks again.
    private func landed(_ files: [IntentID: FileIntent]) async -> [IntentID: ObjectInfo] {
        let tried = files.filter { $0.value.attempt != nil }
        let answers = try? await concurrently(Array(tried), width: Self.width) {
            (id, intent) throws(ObjectStoreError) -> (id: IntentID, info: ObjectInfo)? in
            guard let info = try? await store.head(ObjectKey(intent.key), condition: nil),
                info.metadata.user[CommitOptions.commitHeader] == intent.attempt
            else { return nil }
            return (id, info)
        }
        return Dictionary((answers ?? []).compactMap { $0 }.map { ($0.id, $0.info) }) { first, _ in first }
    }

    /// The acknowledged files that the original of a copied journal may have stored: all but those whose object still is the
    /// version that they are to replace.
    private func doubtful(_ files: [IntentID: FileIntent]) async -> Set<IntentID> {
        let acknowledged = files.filter { $0.value.isAcknowledged }
        let replacing = acknowledged.filter { $0.value.base?.key == $0.value.key }
        let unchanged = try? await concurrently(Array(replacing), width: Self.width) {
            (id, intent) throws(ObjectStoreError) -> IntentID? in
            let info = try? await store.head(ObjectKey(intent.key), condition: nil)
            return info?.version.etag.text == intent.base?.etag ? id : nil
        }
        return Set(acknowledged.keys).subtracting((unchanged ?? []).compactMap { $0 })
    }

    private static func keys(of job: JobIntent) -> [ByteString] {
        switch job {
        case .removal(let record): [record.key]
        case .rename(let record): record.keys
        case .tree(let from, let to), .moved(let from, let to): [from, to]
        case .removals(let below): [below]
        case .headers(let record): [record.source.key]
        }
    }
}

extension FileIntent {
    /// Whether this is a later draft over the other one, which is acknowledged.
    fileprivate func isLater(than other: FileIntent) -> Bool {
        key == other.key && !Set(ancestors).isDisjoint(with: [other.identity] + other.ancestors)
    }

    /// Whether an object that one of its attempts made has the headers that it is to have.
    fileprivate func describes(_ info: ObjectInfo, at capabilities: Capabilities) -> Bool {
        guard let headers else { return true }
        let wanted = headers.metadata
        // The store may have added other headers.
        var stored = wanted
        stored.user = info.metadata.user
        stored.user[CommitOptions.commitHeader] = nil
        return CommitOptions().accepts(stored, for: wanted, at: capabilities)
    }
}
