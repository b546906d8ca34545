import Basics
import Blocks
import Commits
import Journaling
import Metadata
import ObjectStorage
import Staging
import Synchronization

/// A file that is open, or has bytes the bucket does not have: everything about it that is not in the metadata cache.
///
/// Lives in the `ActiveFiles` table from its first open until its last release with nothing left to commit. Two gates order
/// what may happen: writes share `writing`, while a commit, a rename and a removal have it alone; reads share `content`,
/// which is taken alone only for the moment in which committed bytes move from staging to the block cache, so that no read
/// meets bytes on the move. Everything else is in the mutex; lock order: `writing`, `content`, then the mutex.
/// A crash loses this object and leaves its staged bytes on disk, and a row in the journal that tells what they are.
final class ActiveFile: Sendable {
    /// Bytes written here and not committed, over the object below.
    struct Draft: Sendable {
        let staged: StagedFile
        let commit: FileCommit
        let record: FileRecord
    }

    /// An object that outlives its name while handles need it; `job` is the journal's word for it.
    struct Deletion: Sendable {
        let key: ObjectKey
        /// Where its name was.
        let parent: InodeNumber
        let component: ByteString
        let version: ObjectVersion?
        let job: IntentID
        /// What the ids of commits begin with that may have replaced `version` since.
        let commits: [String]
        /// Begun by an earlier process of the mount: whether any handle is left shows only when one is used.
        var isInherited = false
    }

    struct State {
        /// As programs see them now: ahead of the metadata cache while something is not committed.
        var attributes: Attributes
        /// Headers to commit with, when an extended attribute was changed; nil keeps what the object has.
        var metadata: ObjectMetadata?
        /// What its content is, and what leads to it.
        var life: FileLife<Draft, CachedObject, Deletion> {
            didSet { assert(life.fault == nil, "\(life.fault ?? "")") }
        }
        /// Acknowledged before what is behind, and given up: each has a put on its way that cannot be called back, and until that
        /// has ended nothing newer may be sent, nor the file lose its name.
        var supersededDrafts: [Draft] = []
        /// The upload under way in the background, and how often programs have interrupted it since one succeeded.
        var upload: Task<FileSystemError?, Never>?
        var interruptions = 0
        /// The last read that the store did not answer: when that was known, since the system's start.
        var unanswered: (at: Duration, error: FileSystemError)?
        /// The object, gone or about to go, whose blocks the cache keeps for the handles: they are nowhere else.
        var pinned: CachedObject?
        var failures = BackgroundFailures()

        /// Takes in what headers tell that nobody had looked at. What programs have set or changed here stays.
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
    /// Reads whose answers the kernel has in its page cache, one that nobody here knows of among them, and how many of them it
    /// has forgotten again.
    let cachedReads = Atomic<Int>(1)
    let forgottenReads = Atomic<Int>(0)

    init(ino: InodeNumber, state: sending State) {
        self.ino = ino
        (writing, content) = (TaskGate(.file(ino)), TaskGate(.content(ino)))
        self.state = Mutex(state)
    }

    var attributes: Attributes { state.withLock { $0.attributes } }

    /// The object whose bytes are all of the file's, if it is worth the kernel's own reading.
    var cleanBase: CachedObject? {
        state.withLock { state in
            guard state.life.draft == nil, !state.life.isNameless, let base = state.life.object,
                base.version.size == state.attributes.size, base.version.size >= KernelReads.smallest
            else { return nil }
            return base
        }
    }

    /// Our own act gave the object another version: everybody reads that one now.
    func rebase(on object: CachedObject?, _ attributes: Attributes) {
        state.withLock { state in
            state.attributes = attributes
            state.life.rebase(on: object)
        }
    }

    /// Returns when no put of the file is on its way, of what is given up as well.
    func quiesce() async {
        let drafts = state.withLock { state in
            [state.life.draft, state.life.behind].compactMap(\.self) + state.supersededDrafts
        }
        for draft in drafts { await draft.commit.quiesce() }
    }

    /// Ends a background upload, to be tried again, because a program wants the file. After a few times it is waited for, unless
    /// the store is away: then it would be in vain.
    func interruptUpload(isAway: Bool) {
        let task = state.withLock { state -> Task<FileSystemError?, Never>? in
            guard let task = state.upload, state.interruptions < 3 || isAway else { return nil }
            state.interruptions += 1
            return task
        }
        task?.cancel()
    }

    /// Whether the metadata cache knows all there is to know of the file.
    var isSettled: Bool {
        state.withLock { $0.life.isSettled }
    }

    var isDirty: Bool { state.withLock { $0.life.isDirty && !$0.life.isUnlinked } }

    /// Whether some of its bytes are only in another object, or in an upload.
    var needsTheStore: Bool {
        state.withLock { $0.life.isCopy || $0.life.draft?.staged.needsItsUpload ?? false }
    }

    /// Whether a crash leaves bytes that a program was told are safe.
    var hasAcknowledgedBytes: Bool { state.withLock { $0.life.survivor != nil } }

    /// Whether something is left to do when the last handle goes.
    var needsRelease: Bool { state.withLock { $0.life.isDirty || $0.life.isUnlinked } }
}

/// One open(2) of an active file.
///
/// Reads the version it was opened on, whatever others do to the object; our own commits take it along. The reader belongs to
/// the object it reads and is made anew when that changes. Its mutex is a leaf.
final class FileHandle: Sendable {
    private struct State {
        var pin: CachedObject?
        /// The file's epoch when `pin` was taken.
        var epoch: Int
        var reader: ObjectReader?
        /// How many of the file's failures its program was told.
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

    /// What went wrong in the background since its program was told the last time; it counts as told.
    func takeFailure() -> FileSystemError? {
        file.state.withLock { file in state.withLock { file.failures.hear(&$0.heard) } }
    }

    var hasFailure: Bool {
        file.state.withLock { file in state.withLock { file.failures.hasNews(since: $0.heard) } }
    }

    /// The committed version this handle reads, given the file's own.
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

    /// A file that nobody has open yet.
    func adopt(_ ino: InodeNumber, make: () -> ActiveFile) -> ActiveFile {
        slots.withLock { Self.insert(make(), ino, users: 0, &$0) }
    }

    /// A file that is neither open nor dirty; nil when it is.
    func adoptIdle(_ ino: InodeNumber, make: () -> ActiveFile) -> ActiveFile? {
        slots.withLock { $0[ino] == nil ? Self.insert(make(), ino, users: 0, &$0) : nil }
    }

    /// One user less; true when none is left. The file stays while it is dirty.
    func release(_ file: ActiveFile) -> Bool {
        slots.withLock { slots in
            guard var slot = slots[file.ino], slot.file === file else { return true }
            slot.users -= 1
            slots[file.ino] = slot.users == 0 && !file.isDirty ? nil : slot
            return slot.users == 0
        }
    }

    /// Forgets a file that nobody has open and that has nothing left to commit. One that has taken its place since stays.
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
