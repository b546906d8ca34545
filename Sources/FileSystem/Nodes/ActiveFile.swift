import Basics
import Blocks
import Commits
import Journaling
import Metadata
import ObjectStorage
import Staging
import Synchronization

/// The state of a file that is open or has uncommitted bytes, as far as it is not in the metadata cache.
///
/// Lives in the `ActiveFiles` table from its first open until its last close with nothing left to commit. Writes share the
/// `writing` gate; a commit, a rename and a removal have it alone. Reads share the `content` gate; a commit has it alone while
/// committed bytes move from staging to the block cache, so that no read meets bytes on the move. Everything else is in the
/// mutex. Lock order: `writing`, `content`, then the mutex.
/// After a crash: the staged bytes are on disk, and a row in the journal says what they are.
final class ActiveFile: Sendable {
    /// Bytes written here and not committed, over the object below.
    struct Draft: Sendable {
        let staged: StagedFile
        let commit: FileCommit
        let record: FileRecord
    }

    /// The deletion of an object that has lost its name and that handles still need. `job` is its row in the journal.
    struct Deletion: Sendable {
        let key: ObjectKey
        /// Where its name was: the directory and the component.
        let parent: InodeNumber
        let component: ByteString
        let version: ObjectVersion?
        let job: IntentID
        /// The beginnings of ids of commits that may have replaced `version` since.
        let commits: [String]
        /// Whether an earlier process of this mount began it. A handle that is left then shows only when a program uses it.
        var isInherited = false
    }

    struct State {
        /// The attributes that programs see: newer than those in the metadata cache while something is not committed.
        var attributes: Attributes
        /// Headers to commit with, when an extended attribute was changed; nil keeps the object's headers.
        var metadata: ObjectMetadata?
        /// The content of the file, its base object and its name.
        var life: FileLife<Draft, CachedObject, Deletion> {
            didSet { assert(life.fault == nil, "\(life.fault ?? "")") }
        }
        /// Acknowledged drafts that newer ones have replaced. Each has a PUT under way that cannot be cancelled. Until it has
        /// ended, no newer draft is sent, and the file does not lose its name.
        var supersededDrafts: [Draft] = []
        /// The upload under way in the background, and how often programs have interrupted it since the last success.
        var upload: Task<FileSystemError?, Never>?
        var interruptions = 0
        /// The last read that the store did not answer: its time, since the system's start, and its error.
        var unanswered: (at: Duration, error: FileSystemError)?
        /// The object, deleted or about to be, whose blocks the cache keeps for open handles: there is no other copy of them.
        var pinned: CachedObject?
        var failures = BackgroundFailures()

        /// Takes in the attributes of headers that were not known before. Attributes that programs have set or changed stay.
        mutating func learn(_ known: Attributes) {
            attributes.mode = attributes.mode ?? known.mode
            attributes.uid = attributes.uid ?? known.uid
            attributes.gid = attributes.gid ?? known.gid
            guard !life.isDirty, !life.isUnrecorded, attributes.version?.etag == known.version?.etag else { return }
            (attributes.mtime, attributes.ctime) = (known.mtime, known.ctime)
            attributes.headersKnown = known.headersKnown
        }
    }

    let ino: InodeNumber
    let writing: TaskGate
    let content: TaskGate
    let state: Mutex<State>
    /// How many reads the kernel may have in its page cache, beginning with 1 for reads before this object was made, and how many
    /// of them it has dropped again.
    let cachedReads = Atomic<Int>(1)
    let forgottenReads = Atomic<Int>(0)

    init(ino: InodeNumber, state: sending State) {
        self.ino = ino
        (writing, content) = (TaskGate(.file(ino)), TaskGate(.content(ino)))
        self.state = Mutex(state)
    }

    var attributes: Attributes { state.withLock { $0.attributes } }

    /// The object that has all of the file's bytes, if it is large enough for the kernel to read it by itself.
    var cleanBase: CachedObject? {
        state.withLock { state in
            guard state.life.draft == nil, !state.life.isNameless, let base = state.life.object,
                base.version.size == state.attributes.size, base.version.size >= KernelReads.smallest
            else { return nil }
            return base
        }
    }

    /// This mount gave the object another version: every handle reads that one from now on.
    func rebase(on object: CachedObject?, _ attributes: Attributes) {
        state.withLock { state in
            state.attributes = attributes
            state.life.rebase(on: object)
        }
    }

    /// Returns when no PUT of the file is under way, those of superseded drafts included.
    func quiesce() async {
        let drafts = state.withLock { state in
            [state.life.draft, state.life.behind].compactMap(\.self) + state.supersededDrafts
        }
        for draft in drafts { await draft.commit.quiesce() }
    }

    /// Interrupts a background upload, which is retried later, because a program wants the file. After a few times the program
    /// waits for the upload instead, unless the store is away.
    func interruptUpload(isAway: Bool) {
        let task = state.withLock { state -> Task<FileSystemError?, Never>? in
            guard let task = state.upload, state.interruptions < 3 || isAway else { return nil }
            state.interruptions += 1
            return task
        }
        task?.cancel()
    }

    /// Whether the metadata cache has the whole state of the file.
    var isSettled: Bool {
        state.withLock { $0.life.isSettled }
    }

    var isDirty: Bool { state.withLock { $0.life.isDirty && !$0.life.isUnlinked } }

    /// Whether some of its bytes are only in another object, or in an upload.
    var needsTheStore: Bool {
        state.withLock { $0.life.isCopy || $0.life.draft?.staged.needsItsUpload ?? false }
    }

    /// Whether the file has acknowledged bytes, which a crash leaves.
    var hasAcknowledgedBytes: Bool { state.withLock { $0.life.survivor != nil } }

    /// Whether something is left to do when the last handle is closed.
    var needsRelease: Bool { state.withLock { $0.life.isDirty || $0.life.isUnlinked } }
}

/// One open(2) of an active file.
///
/// Reads the version that it was opened on, even when another host replaces the object; commits of this mount move it to their
/// version. The reader belongs to the object that it reads and is made anew when that changes. The mutex is a leaf.
final class FileHandle: Sendable {
    private struct State {
        var pin: CachedObject?
        /// The file's epoch when `pin` was taken.
        var epoch: Int
        var reader: ObjectReader?
        /// How many of the file's background failures this handle has returned to its program.
        var heard: Int
    }

    let file: ActiveFile
    let flags: OpenFlags
    let reads: KernelReads.Kind
    private let state: Mutex<State>

    init(file: ActiveFile, flags: OpenFlags, reads: KernelReads.Kind = .cached) {
        (self.file, self.flags, self.reads) = (file, flags, reads)
        let (base, epoch, heard) = file.state.withLock { ($0.life.object, $0.life.epoch, $0.failures.start) }
        state = Mutex(State(pin: base, epoch: epoch, heard: heard))
    }

    /// Returns the newest background failure that this handle has not returned yet. It counts as returned from then on.
    func takeFailure() -> FileSystemError? {
        file.state.withLock { file in state.withLock { file.failures.hear(&$0.heard) } }
    }

    var hasFailure: Bool {
        file.state.withLock { file in state.withLock { file.failures.hasNews(since: $0.heard) } }
    }

    /// The committed version that this handle reads: `base`, if the file's epoch has changed, else the pinned one.
    func pinned(_ base: CachedObject?, epoch: Int) -> CachedObject? {
        state.withLock { state in
            if state.epoch != epoch { (state.pin, state.epoch) = (base, epoch) }
            return state.pin
        }
    }

    /// The reader of `object`, with the read-ahead state of earlier reads through this handle.
    func reader(of object: CachedObject) -> ObjectReader {
        let (reader, old) = state.withLock { state in
            if let reader = state.reader, reader.object === object { return (reader, nil as ObjectReader?) }
            let old = state.reader
            let fresh = ObjectReader(object)
            state.reader = fresh
            return (fresh, old)
        }
        old?.close()
        return reader
    }

    func close() {
        let reader = state.withLock { $0.reader.take() }
        reader?.close()
    }
}

/// Every active file, with how many handles hold it. A leaf lock.
final class ActiveFiles: Sendable {
    private struct Slot {
        let file: ActiveFile
        var users: Int
    }

    private let slots = Mutex<[InodeNumber: Slot]>([:])

    func find(_ ino: InodeNumber) -> ActiveFile? { slots.withLock { $0[ino]?.file } }

    /// The file of `ino`, made by `make` if there is none, with one more user.
    func retain(_ ino: InodeNumber, make: () -> ActiveFile) -> ActiveFile {
        slots.withLock { Self.retain(ino, &$0) ?? Self.insert(make(), ino, &$0) }
    }

    /// The same; nil when there is none and one made now would not be up to date.
    func retain(_ ino: InodeNumber, if isUpToDate: () -> Bool, make: () -> ActiveFile) -> ActiveFile? {
        slots.withLock { Self.retain(ino, &$0) ?? (isUpToDate() ? Self.insert(make(), ino, &$0) : nil) }
    }

    private static func retain(_ ino: InodeNumber, _ slots: inout [InodeNumber: Slot]) -> ActiveFile? {
        slots[ino]?.users += 1
        return slots[ino]?.file
    }

    private static func insert(
        _ file: ActiveFile, _ ino: InodeNumber, users: Int = 1, _ slots: inout [InodeNumber: Slot]
    ) -> ActiveFile {
        slots[ino] = Slot(file: file, users: users)
        return file
    }

    /// Adds a file that no handle has open yet.
    func adopt(_ ino: InodeNumber, make: () -> ActiveFile) -> ActiveFile {
        slots.withLock { Self.insert(make(), ino, users: 0, &$0) }
    }

    /// Adds a file that was neither open nor dirty; nil when the table has one.
    func adoptIdle(_ ino: InodeNumber, make: () -> ActiveFile) -> ActiveFile? {
        slots.withLock { $0[ino] == nil ? Self.insert(make(), ino, users: 0, &$0) : nil }
    }

    /// Drops one user; true when none is left. A dirty file stays in the table.
    func release(_ file: ActiveFile) -> Bool {
        slots.withLock { slots in
            guard var slot = slots[file.ino], slot.file === file else { return true }
            slot.users -= 1
            slots[file.ino] = slot.users == 0 && !file.isDirty ? nil : slot
            return slot.users == 0
        }
    }

    /// Removes a file that is neither open nor dirty. Another file that has taken its place stays.
    func forgetIfIdle(_ file: ActiveFile) {
        slots.withLock { slots in
            if let slot = slots[file.ino], slot.file === file, slot.users == 0, !file.isDirty {
                slots[file.ino] = nil
            }
        }
    }

    /// Whether more than one user holds the file.
    func isShared(_ file: ActiveFile) -> Bool {
        slots.withLock { slots in slots[file.ino].map { $0.file === file && $0.users > 1 } ?? false }
    }

    func isOpen(_ ino: InodeNumber) -> Bool { slots.withLock { ($0[ino]?.users ?? 0) > 0 } }

    /// Every file with how many handles hold it.
    var inUse: [(file: ActiveFile, users: Int)] { slots.withLock { $0.values.map { ($0.file, $0.users) } } }

    var all: [ActiveFile] { slots.withLock { $0.values.map(\.file) } }

    var dirty: [ActiveFile] { slots.withLock { $0.values.map(\.file).filter(\.isDirty) } }
}
