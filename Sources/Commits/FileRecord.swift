package import Basics
import Digests
package import Journaling
package import ObjectStorage
package import Staging
import Synchronization

/// A dirty file's rows in the journal, kept in step with its state.
///
/// Each call comes before the act that it records, except for `began` and `sent`, which follow the store's answer. Rows that
/// acknowledge bytes are flushed; the others outlive the process but perhaps not a power cut, and acknowledge nothing. Owns the
/// rows until `end`. Any thread; calls write to the disk, so never under a lock. A change that could not be written is not made
/// here either. Two locks: `turn` orders the changes of one row and is held across their writes; of two records the newer one's
/// comes first. `state` is a leaf inside it.
package final class FileRecord: Sendable {
    private struct State {
        var intent: FileIntent
        /// By the upload's ID.
        var uploads: [String: (row: IntentID, attempt: String)] = [:]
        var hasEnded = false
        /// Whether no row on the disk may have the identity yet with which the ids of its commits begin.
        var isIdentityNew = false
    }

    /// The bytes of a file of at most so many bytes are in the journal when it is acknowledged.
    private static let largestContent = 8 << 10

    package let id: IntentID
    private let journal: Journal
    private let jobs: JobQueue?
    private let turn = Mutex(())
    private let state: Mutex<State>

    /// A new dirty file named after `id`, over `base`; `jobs` takes aborts that the store refuses. Throws when the row could not
    /// be written.
    package init(
        _ id: IntentID, key: ObjectKey, base: (key: ObjectKey, version: ObjectVersion)?, now: Timestamp,
        in journal: Journal, jobs: JobQueue? = nil
    ) throws(JournalingError) {
        (self.id, self.journal, self.jobs) = (id, journal, jobs)
        var intent = FileIntent(
            staging: StagingArea.name(of: id), key: key.bytes, base: base.map { VersionRecord($0.key, $0.version) },
            identity: RandomID.hex(), boot: journal.boot)
        intent.condition = base.map { .match(etag: $0.version.etag.text) } ?? .absent
        intent.changed = now.seconds
        state = Mutex(State(intent: intent))
        try journal.write([.file(id, intent)], flushed: false)
    }

    /// The file of an earlier process. Its commits get another identity, and the one from before becomes an ancestor.
    /// `isUntried`: the earlier process has certainly sent no commit.
    package init(
        resuming id: IntentID, _ intent: FileIntent, uploads: [IntentID: UploadRecord], isUntried: Bool = false,
        in journal: Journal, jobs: JobQueue? = nil
    ) {
        (self.id, self.journal, self.jobs) = (id, journal, jobs)
        var intent = intent
        intent.isLeft = nil
        if !isUntried {
            intent.ancestors.append(intent.identity)
            intent.identity = RandomID.hex()
        }
        var state = State(intent: intent)
        state.isIdentityNew = !isUntried
        for (id, upload) in uploads { state.uploads[upload.upload] = (id, upload.attempt) }
        self.state = Mutex(state)
    }

    /// A file that is written over and over while the store is away has an ancestor for each time, few of which were tried.
    private static let mostAncestors = 512

    /// Writes the row of a copy of the staged bytes, to which later writes go. Commits of this one may still land.
    package func successor(_ id: IntentID, now: Timestamp) throws(JournalingError) -> FileRecord {
        var intent = intent
        intent.staging = StagingArea.name(of: id)
        intent.ancestors = intent.ancestors.suffix(Self.mostAncestors - 1) + [intent.identity]
        intent.identity = RandomID.hex()
        (intent.attempt, intent.headers, intent.extents) = (nil, nil, nil)
        (intent.isAcknowledged, intent.isFlushed) = (false, false)
        intent.changed = now.seconds
        try journal.write([.file(id, intent)], flushed: false)
        return FileRecord(id, intent, in: journal, jobs)
    }

    private init(_ id: IntentID, _ intent: FileIntent, in journal: Journal, _ jobs: JobQueue?) {
        (self.id, self.journal, self.jobs) = (id, journal, jobs)
        state = Mutex(State(intent: intent))
    }

    /// Whether the store may have something of this file: an object, or parts of one.
    package var hasReachedStore: Bool {
        state.withLock { $0.intent.isTried || !$0.uploads.isEmpty || !$0.intent.ancestors.isEmpty }
    }

    /// The beginnings of the ids of all its commits.
    package var commits: [String] { state.withLock { [$0.intent.identity] + $0.intent.ancestors } }

    /// The beginning of new commit ids.
    var identity: String { state.withLock { $0.intent.identity } }
    package var intent: FileIntent { state.withLock { $0.intent } }

    /// The change of a file's key before anything of it was committed.
    package struct Move {
        let key: ObjectKey
        let ino: UInt64
        let condition: WriteCondition?
        let commits: [String]
        let retyping: (ObjectMetadata) -> ObjectMetadata

        /// `ino` is the file's inode number; `commits` are the beginnings of commit ids of a file that had the key and whose
        /// object may be there; `retyping` returns the headers at the new key for those at the old one.
        package init(
            to key: ObjectKey, of ino: UInt64, condition: WriteCondition?, replacing commits: [String] = [],
            retyping: @escaping (ObjectMetadata) -> ObjectMetadata = { $0 }
        ) {
            (self.key, self.ino, self.condition) = (key, ino, condition)
            (self.commits, self.retyping) = (commits, retyping)
        }

        fileprivate func apply(to intent: inout FileIntent) {
            let retyping = retyping
            intent.headers = intent.headers.map { HeadersRecord(retyping($0.metadata)) }
            intent.ancestors += commits
            (intent.key, intent.ino) = (key.bytes, ino)
            intent.condition = ConditionRecord(condition)
        }
    }

    /// Gives the file another key and, in the same write, also `newer`, the row of later writes to it.
    package func moved(
        _ move: Move, with newer: FileRecord? = nil, also others: [JournalChange] = []
    ) throws(JournalingError) {
        let flush: JournalFlush = intent.isAcknowledged || !others.isEmpty ? .now : .never
        guard let newer else { return try change(flush, also: others) { move.apply(to: &$0) } }
        try newer.turn.withLock { _ throws(JournalingError) in
            let (before, hasEnded) = newer.state.withLock { ($0.intent, $0.hasEnded) }
            var after = before
            move.apply(to: &after)
            let row = hasEnded ? [] : [JournalChange.file(newer.id, after)]
            try change(flush, also: others + row) { move.apply(to: &$0) }
            newer.state.withLock { $0.intent = after }
        }
    }

    /// Takes `moved` back: the rows are as before.
    package func restore(
        _ intent: FileIntent, with newer: (record: FileRecord, intent: FileIntent)? = nil, also others: [JournalChange]
    ) throws(JournalingError) {
        var rows = others
        if let newer { rows.append(.file(newer.record.id, newer.intent)) }
        try change(.now, also: rows) { $0 = intent }
        if let newer { newer.record.state.withLock { $0.intent = newer.intent } }
    }

    /// The file takes bytes of another one from now on.
    package func copies(_ key: ObjectKey, _ version: ObjectVersion) throws(JournalingError) {
        try change(.never) { intent in
            (intent.base, intent.isCopy) = (VersionRecord(key, version), true)
        }
    }

    /// The next commits go to keys beside the file with this inode number, whose open handles have to fail.
    package func goes(besideOf ino: UInt64) throws(JournalingError) { try change(.never) { $0.besideOf = ino } }

    /// The headers that the next commit carries, as they are now. Acknowledges nothing.
    package func describe(_ metadata: ObjectMetadata) throws(JournalingError) {
        guard !intent.isAcknowledged else { return }
        try change(.never) { $0.headers = HeadersRecord(metadata) }
    }

    /// Acknowledges the bytes of `staged`: when this returns, they and the row that names them are on the disk, and will be
    /// committed to `key` whatever happens. The bytes of a small file go into the journal, with one flush for everything; those
    /// of others are in the staging file in `area`.
    ///
    /// Requires: no writer of the file runs.
    package func acknowledge(
        _ staged: StagedFile, in area: StagingArea, key: ObjectKey, metadata: ObjectMetadata,
        condition: WriteCondition?, now: Timestamp, also others: [JournalChange] = []
    ) throws(CommitError) {
        if let bytes = staged.content(upTo: Self.largestContent) {
            do throws(CommitError) {
                return try acknowledge(
                    staged, bytes, key: key, metadata: metadata, condition: condition, now: now, also: others)
            } catch {
                // The journal may have no room for the bytes: then the staging file is flushed instead.
                guard case .journal(let cause) = error, cause.isDiskFull else { throw error }
            }
        }
        do throws(StagingError) {
            try area.syncNames()
            try staged.flush()
        } catch { throw .staging(error) }
        try acknowledge(
            staged, nil, key: key, metadata: metadata, condition: condition, now: now, also: others)
    }

    private func acknowledge(
        _ staged: StagedFile, _ content: [UInt8]?, key: ObjectKey, metadata: ObjectMetadata,
        condition: WriteCondition?, now: Timestamp, also others: [JournalChange]
    ) throws(CommitError) {
        let extents = staged.extents
        do throws(JournalingError) {
            try change(.now, also: others + [.content(id, content)]) { [journal] intent in
                // Earlier attempts had other bytes or other headers.
                if intent.isTried { (intent.attempt, intent.wasTried) = (nil, true) }
                intent.key = key.bytes
                intent.condition = ConditionRecord(condition)
                intent.headers = HeadersRecord(metadata)
                intent.setMap(extents)
                intent.boot = journal.boot
                intent.changed = now.seconds
                (intent.isAcknowledged, intent.isFlushed) = (true, true)
            }
        } catch { throw .journal(error) }
        staged.keep(true)
    }

    /// Withdraws the file: nothing commits it unasked any more, and its bytes, which are on the disk, are kept. Returns the row,
    /// which this record does not change any more.
    package func withdraw(
        _ extents: ExtentMap, also others: [JournalChange]
    ) throws(JournalingError) -> FileIntent {
        try change(.now, also: others + [.content(id, nil)]) { [journal] intent in
            if intent.isTried { (intent.attempt, intent.wasTried) = (nil, true) }
            intent.setMap(extents)
            intent.boot = journal.boot
            (intent.isAcknowledged, intent.isFlushed) = (false, true)
        }
        return intent
    }

    /// To be called before bytes that the store has in parts leave the staging file: `extents` says which.
    func dropping(_ extents: ExtentMap) throws(JournalingError) {
        try change(.now) { $0.setMap(extents) }
    }

    /// To be called before the bytes change: the object of an earlier attempt has not all of the file from then on, whatever
    /// became of it.
    package func changing() throws(JournalingError) {
        guard state.withLock({ $0.intent.attempt != nil }) else { return }
        try change(.never) { ($0.attempt, $0.wasTried) = (nil, true) }
    }

    /// To be called before a PUT or completion is sent.
    func attempting(
        _ id: String, _ request: CommitState.Request, _ condition: WriteCondition?, base: (any BaseContent)?
    ) throws(JournalingError) {
        // If a power cut takes this row back, the object is recognised by the identity, which has to be on the disk for that.
        let (isAcknowledged, isIdentityNew) = state.withLock { ($0.intent.isAcknowledged, $0.isIdentityNew) }
        try change(!isAcknowledged ? .never : isIdentityNew ? .now : .soon) { intent in
            intent.attempt = id
            intent.key = request.key.bytes
            intent.condition = ConditionRecord(condition)
            intent.headers = HeadersRecord(request.metadata)
            intent.rebase(on: base.map { VersionRecord($0.key, $0.version) })
            intent.setMap(request.extents)
        }
    }

    /// The store has begun an upload.
    func began(
        _ upload: UploadID, _ request: PutRequest, attempt: String, partSize: Int64, layoutSize: Int64
    ) throws(JournalingError) {
        let row = journal.newID()
        var metadata = request.metadata
        metadata.user[CommitOptions.commitHeader] = nil
        let record = UploadRecord(
            key: request.key.bytes, upload: upload.text, file: id, attempt: attempt, headers: HeadersRecord(metadata),
            partSize: partSize, layoutSize: layoutSize)
        try journal.write([.upload(row, record)], flushed: true)
        state.withLock { $0.uploads[upload.text] = (row, attempt) }
    }

    /// The upload whose headers carry a commit id.
    func upload(of attempt: String) -> UploadID? {
        state.withLock { $0.uploads.first { $0.value.attempt == attempt }?.key }.map { UploadID($0) }
    }

    /// The store has a part.
    func sent(_ part: PartRecord, to upload: UploadID) throws(JournalingError) {
        guard let row = state.withLock({ $0.uploads[upload.text]?.row }) else { return }
        try journal.write([.part(upload: row, part)], flushed: false)
    }

    /// The upload was aborted or became an object, or the store does not have it any more.
    func ended(_ upload: UploadID) throws(JournalingError) {
        guard let row = state.withLock({ $0.uploads.removeValue(forKey: upload.text)?.row }) else { return }
        try journal.write([.endUpload(row)], flushed: false)
    }

    /// The store has refused to abort the upload; it is tried again as long as the mount lives.
    func abortRefused(_ upload: UploadID, of key: ObjectKey, because reason: String) {
        guard let jobs, let known = state.withLock({ $0.uploads.removeValue(forKey: upload.text) }) else { return }
        let record = UploadRecord(
            key: key.bytes, upload: upload.text, file: nil, attempt: known.attempt,
            headers: HeadersRecord(standard: [:], user: [:]), partSize: 0, layoutSize: 0)
        jobs.add(abortOf: record, known.row, because: reason)
    }

    /// Ends the row: the object is in the bucket, or the file is given up. `isRemoved`: programs see that the file is gone, and
    /// no power cut may bring back its acknowledged bytes. `also` is part of the same write. Where nothing was acknowledged a row
    /// that cannot be removed is no error: the next start finds nothing to resume.
    package func end(isRemoved: Bool = false, also others: [JournalChange] = []) throws(JournalingError) {
        let (isFirst, isAcknowledged) = state.withLock { state in
            defer { state.hasEnded = true }
            return (!state.hasEnded, state.intent.isAcknowledged)
        }
        let changes = (isFirst ? [JournalChange.endFile(id)] : []) + others
        // If a power cut brings the row back, the repeated commit finds its own object at the store.
        let isDue = !others.isEmpty || isRemoved && isAcknowledged
        let flush: JournalFlush = isDue ? .now : isAcknowledged ? .soon : .never
        do { try journal.write(changes, flush) } catch {
            guard isAcknowledged || !others.isEmpty else { return }
            if isFirst { state.withLock { $0.hasEnded = false } }
            throw error
        }
    }

    private func change(
        _ flush: JournalFlush, also others: [JournalChange] = [], _ body: (inout FileIntent) -> Void
    ) throws(JournalingError) {
        try turn.withLock { _ throws(JournalingError) in
            let (before, hasEnded) = state.withLock { ($0.intent, $0.hasEnded) }
            var after = before
            body(&after)
            if !hasEnded { try journal.write([.file(id, after)] + others, flush) }
            state.withLock { state in
                state.intent = after
                if flush == .now { state.isIdentityNew = false }
            }
        }
    }

    /// The checksum that `PartRecord` keeps.
    static func checksum(of source: any ByteSource) throws(ByteTransferError) -> UInt32 {
        var crc = CRC32C()
        try source.forEachPiece { crc.update($0) }
        return crc.value
    }
}
