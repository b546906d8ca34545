import Basics
import Blocks
import Commits
import Journaling
import Metadata
import ObjectStorage
import Staging
import Synchronization

/// `durable=local`: a close returns when the bytes and the row that acknowledges them are on the local disk, and the bucket
/// gets them afterwards.
///
/// An acknowledged staging file is not written to any more: its row tells the next process to commit just these bytes. Later
/// writes go to a copy of it, which takes its place when it is acknowledged in turn; for a large file they wait for the upload
/// instead. Uploads hold the file's `writing` gate alone, as every commit does; a program that needs the gate interrupts them,
/// but only a few times.
extension BucketFileSystem {
    /// A staged file of up to this many bytes of disk is copied when it is written to again.
    private static let largestCopy: Int64 = 4 << 20
    /// The most superseded drafts of a file whose PUTs are still under way.
    private static let mostRetired = 4

    /// Acknowledges what was written so far.
    func acknowledge(_ file: ActiveFile) async throws(FileSystemError) {
        if !file.state.withLock({ $0.life.isAcknowledged }) {
            file.interruptUpload(isAway: watch.isAway)
            let pass = try await enterNamespace(of: file.ino)
            defer { namespace.leave(pass) }
            // Bytes that only another object or an upload has are not on this disk: such a file is committed.
            try await acknowledge(try await lock(file, unless: { !$0.needsTheStore }))
        }
    }

    /// The same with the file locked.
    func acknowledge(_ lock: borrowing FileLock) async throws(FileSystemError) {
        let file = lock.file
        guard file.isDirty else { return }
        let (draft, behind, condition) = file.state.withLock { ($0.life.draft, $0.life.behind, $0.life.condition) }
        guard let draft, !file.needsTheStore else {
            return try await commit(lock)
        }
        try await learnHeadersToKeep(of: file)
        try acknowledge(lock, draft, insteadOf: behind, condition)
        if let behind { await retire(behind, of: file) }
        queue(file)
    }

    /// The same at once, for a file that no other call uses; false when it would have to wait, or has failed and is to be tried
    /// again by `acknowledge`. One call at a time, as it waits for the disk on the caller's thread: others that come meanwhile
    /// share a flush.
    func acknowledgeNow(_ file: ActiveFile) -> Bool {
        guard acknowledgingNow.tryEnter(alone: true) else { return false }
        defer { acknowledgingNow.leave(alone: true) }
        guard let pass = namespace.tryEnter() else { return false }
        defer { namespace.leave(pass) }
        guard let lock = tryLock(file) else { return false }
        let state = file.state.withLock { $0 }
        guard state.life.isDirty, !state.life.isUnlinked, !state.life.isCopy, state.life.survivor == nil,
            let draft = state.life.draft, !draft.staged.needsItsUpload,
            let entry = try? entry(file.ino), entry.isPending || entry.attributes.headersKnown
        else { return false }
        do throws(FileSystemError) { try acknowledge(lock, draft, insteadOf: nil, state.life.condition) } catch {
            return false
        }
        queue(file)
        return true
    }

    /// Writes the row that acknowledges the bytes.
    private func acknowledge(
        _ lock: borrowing FileLock, _ draft: ActiveFile.Draft, insteadOf behind: ActiveFile.Draft?,
        _ condition: WriteCondition?
    ) throws(FileSystemError) {
        let file = lock.file
        let key = try key(of: file.ino)
        let superseded = behind.map { [JournalChange.endFile($0.record.id)] } ?? []
        do throws(CommitError) {
            try draft.record.acknowledge(
                draft.staged, in: rooms.staging, key: key, metadata: headersForCommit(of: file, to: key),
                condition: condition, now: time.now(), also: superseded)
        } catch { throw FileSystemError(error) }
        file.state.withLock { $0.life.acknowledge() }
    }

    private static func canBeCopied(_ file: ActiveFile) -> Bool {
        file.state.withLock { $0.life.draft?.staged.reservedBytes ?? 0 <= largestCopy }
    }

    /// Puts a copy in the place of acknowledged bytes, or commits them.
    func makeWritable(_ file: ActiveFile, emptying: Bool) async throws(FileSystemError) {
        let pass = try await enterNamespace(of: file.ino)
        defer { namespace.leave(pass) }
        let lock = try await lock(file, unless: { emptying || Self.canBeCopied($0) })
        let (draft, base, isAcknowledged) = file.state.withLock {
            ($0.life.draft, $0.life.object, $0.life.isAcknowledged)
        }
        guard isAcknowledged, let draft else { return }
        guard emptying || Self.canBeCopied(file) else { return try await commit(lock) }
        let id = rooms.journal.newID()
        let record: FileRecord
        do throws(JournalingError) { record = try draft.record.successor(id, now: time.now()) } catch {
            throw FileSystemError(error)
        }
        let copy: StagedFile
        do throws(StagingError) {
            copy = try rooms.staging.copy(draft.staged, id, emptying: emptying)
        } catch {
            try end(record)
            throw FileSystemError(error)
        }
        let fresh = self.draft(copy, on: base, record)
        file.state.withLock { $0.life.rewrite(in: fresh) }
    }

    /// Uploads an acknowledged file in the background.
    func queue(_ file: ActiveFile) {
        rest(file)
        uploads.add(file, isUrgent: space.isShort) { [self] file in await upload(file) }
    }

    /// Closes the descriptor of a file that only waits for its upload: there may be more of these than a process may have
    /// descriptors.
    func rest(_ file: ActiveFile) {
        guard !files.isOpen(file.ino), let draft = file.state.withLock({ $0.life.isAcknowledged ? $0.life.draft : nil })
        else {
            return
        }
        draft.staged.rest()
    }

    private func upload(_ file: ActiveFile) async -> UploadQueue.Ending {
        // Waits for the PUT of an interrupted try before it locks the file, as a program may want the file. The PUT has had its
        // time as if no program had interrupted it.
        for commit in file.state.withLock({ $0.supersededDrafts + [$0.life.draft].compactMap(\.self) }).map(\.commit)
        where commit.hasAttemptUnderWay {
            await commit.quiesce()
            file.state.withLock { $0.interruptions = 0 }
        }
        guard file.state.withLock({ $0.life.isAcknowledged && $0.life.isDirty && !$0.life.isUnlinked }) else {
            // Another call has committed the file before its turn.
            files.forgetIfIdle(file)
            return .done
        }
        // A call that wants the file finds the task as soon as that runs.
        let task = file.state.withLock { state in
            let task = rooms.pool.start { [self] () -> FileSystemError? in
                do throws(FileSystemError) { try await commit(file, onlyAcknowledged: true) } catch { return error }
                return nil
            }
            state.upload = task
            return task
        }
        let error = await task.value
        file.state.withLock { state in
            state.upload = nil
            if error == nil { state.interruptions = 0 }
        }
        files.forgetIfIdle(file)
        guard let error else { return .done }
        rest(file)
        if task.isCancelled { return .interrupted }
        remember(error, "commit", file.ino)
        note(error, of: file)
        guard file.isDirty else { return .done }
        return error.mayPass || error.lacksLocalSpace ? .failed : .refused
    }

    /// Keeps a permanent failure in the background for the file's descriptors, unless the file has lost a conflict, which they
    /// get anyway. What may pass is retried; the log and `user.pailfs.lasterror` have it.
    func note(_ failure: FileSystemError, of file: ActiveFile) {
        guard !failure.mayPass, !failure.lacksLocalSpace, file.isDirty else { return }
        file.state.withLock { $0.failures.note(failure) }
    }

    /// Gives up the draft that was acknowledged before. While the store is away a PUT of it may take until its deadline: the next
    /// upload waits for that, and the program does not.
    private func retire(_ draft: ActiveFile.Draft, of file: ActiveFile) async {
        let isLeft =
            draft.commit.hasAttemptUnderWay
            && file.state.withLock { state in
                guard state.supersededDrafts.count < Self.mostRetired else { return false }
                state.supersededDrafts.append(draft)
                return true
            }
        guard isLeft else { return await giveUp(draft) }
        rooms.pool.start { [self] in
            await giveUp(draft)
            file.state.withLock { $0.supersededDrafts.removeAll { $0.staged === draft.staged } }
        }
    }

    /// Abandons the uploads of a draft and discards its bytes; its row has ended.
    func giveUp(_ draft: ActiveFile.Draft) async {
        await draft.commit.abandon()
        draft.staged.discard()
    }

    // MARK: After a crash

    /// Restores a file that an earlier process acknowledged; the caller queues it for the store. Throws EBUSY if
    /// programs are served already and one has it open.
    func restore(
        _ id: IntentID, _ intent: FileIntent, uploads: [(id: IntentID, upload: JournalContents.Upload)],
        isServed: Bool = false
    ) throws(FileSystemError) -> ActiveFile {
        guard let map = intent.map else {
            throw FileSystemError(.inputOutput, "the journal does not show which bytes of \(intent.key) are staged")
        }
        let content: [UInt8]?
        do throws(JournalingError) { content = try rooms.journal.content(of: id) } catch {
            throw FileSystemError(error)
        }
        let staged: StagedFile
        do throws(StagingError) {
            // A small file may be in the journal alone.
            if let content { try rooms.staging.restore(intent.staging, content) }
            staged = try rooms.staging.open(intent.staging, extents: map, baseSize: intent.baseSize)
        } catch { throw FileSystemError(error) }
        staged.keep(true)
        let base = intent.base.map { rooms.blocks.open(ObjectKey($0.key), $0.version) }
        let rows = Dictionary(uniqueKeysWithValues: uploads.map { ($0.id, $0.upload.record) })
        let draft = draft(
            staged, on: base, FileRecord(resuming: id, intent, uploads: rows, in: rooms.journal, jobs: jobs))
        draft.commit.resume(intent, uploads: uploads)
        let headers = intent.headers?.metadata ?? ObjectMetadata()
        let changed = Timestamp(seconds: intent.changed)
        var attributes = Attributes(
            kind: .file, size: map.size, mtime: changed, ctime: changed, version: base?.version,
            storageClass: headers.kept.storageClass)
        AttributeCodec.decode(headers, into: &attributes)
        let shown = attributes
        let entry = try cached { metadata throws(MetadataError) in
            try metadata.place(intent.key, shown, metadata: headers)
        }
        func make() -> ActiveFile {
            let life = FileLife<_, _, ActiveFile.Deletion>(
                restoring: draft, over: base, condition: intent.condition.condition)
            return ActiveFile(
                ino: entry.ino, state: ActiveFile.State(attributes: shown, metadata: headers, life: life))
        }
        guard isServed else { return files.adopt(entry.ino, make: make) }
        if let file = files.adoptIdle(entry.ino, make: make) { return file }
        if let other = files.find(entry.ino) {
            try? metadata.update(entry.ino, other.attributes, pending: other.isDirty)
        }
        throw inUse(intent)
    }

    func inUse(_ intent: FileIntent) -> FileSystemError {
        FileSystemError(
            .busy, "\(intent.key) is open or not stored yet; close it, wait until it is stored, and try again")
    }
}

extension FileSystemError {
    /// Whether a retry may succeed later without any change by the user.
    var mayPass: Bool {
        if isForGood { return false }
        return switch kind {
        case .inputOutput, .timedOut, .interrupted, .tryAgain, .busy, .tooManyFiles: true
        case .notFound, .exists, .notDirectory, .isDirectory, .notEmpty, .accessDenied, .notPermitted, .readOnly,
            .invalid, .nameTooLong, .illegalBytes, .fileTooLarge, .argumentTooLong, .outOfRange, .noData, .noSpace,
            .quotaExceeded, .stale, .notSupported, .badHandle, .noSuchOffset, .crossDevice:
            false
        }
    }
}
