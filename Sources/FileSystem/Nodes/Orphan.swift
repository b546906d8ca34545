import Basics
import Blocks
import Commits
import FoundationEssentials
package import Journaling
import Logging
package import Metadata
import ObjectStorage
import Staging
import Synchronization

/// A file or a directory without a name that programs have open, as it is kept for the process that may have to go on with the mount: in
/// the metadata cache from the moment it loses its name until its last handle goes.
///
/// The journal has nothing of it but the removal of its object, since nobody wants its bytes once it is closed; any other
/// start forgets it. Its staged bytes stay in `staging/`, with what says which they are. The record is there before the act. One
/// whose file still has its entry is that of an unlink which did not come to its end: with its removal in the journal it is
/// carried on, otherwise, or if it was a rename, the record does nothing.
package struct Orphan: Sendable {
    fileprivate struct Record: Codable {
        /// The object that is not gone yet, as handles need its bytes.
        struct Removal: Codable {
            var job: Int64
            var parent: UInt64
            var component: ByteString
            var commits: [String]
        }

        /// nil: it is a file.
        var isDirectory: Bool?
        var base: VersionRecord?
        var isCopy: Bool
        var staging: String?
        /// How many bytes of a version the staging file began with; nil: as many as `base` has, or none of a copy.
        var stagedOver: Int64?
        var headers: HeadersRecord
        var size: Int64
        var removal: Removal?
        /// The removal in the journal, where that does not wait for the last handle.
        var job: Int64?
    }

    fileprivate let ino: InodeNumber
    fileprivate let record: Record

    /// The name of its staging file; nil when nothing was written to it.
    package var staging: String? { record.staging }
    /// The removal of its object, which waits for its last handle.
    package var job: IntentID? { record.removal.map { IntentID(rawValue: $0.job) } }

    /// Those that an earlier process of the same mount has left. What cannot be read is not there: whoever has it open gets
    /// an error.
    package static func all(in metadata: MetadataCache) -> [Orphan] {
        ((try? metadata.unlinked()) ?? []).compactMap { kept in
            (try? JSONDecoder().decode(Record.self, from: Data(kept.record))).map {
                Orphan(ino: kept.ino, record: $0)
            }
        }
    }
}

extension BucketFileSystem {
    /// Largest object, in bytes, that is fetched for those who have it open before another takes its place.
    private static let largestFetched: Int64 = 64 << 20
    /// So long, and one piece more, whoever replaces the object waits for that.
    private static let fetchPatience = Duration.seconds(10)

    /// Before an open file loses its name: bytes that only the store can put together, from the parts of an upload or from another
    /// object, become the file's own object while it may have one.
    func storeForHandles(_ lock: borrowing FileLock) async throws(FileSystemError) {
        let file = lock.file
        guard file.state.withLock({ $0.life.isDirty }), file.needsTheStore, files.isOpen(file.ino) else { return }
        do throws(FileSystemError) { try await commit(lock, leaving: true) } catch {
            // Somebody else has changed what it rests on: there is nothing to save.
            guard error.kind == .stale else { throw error }
            remember(error, "unlink", file.ino)
        }
    }

    /// To be called before the object of an open file is replaced: what is not here of it could not be had any more. What does
    /// not come now, or of a larger object, is ESTALE then; what is here stays.
    func saveForHandles(of file: ActiveFile) async {
        guard files.isOpen(file.ino), let base = file.state.withLock({ $0.life.isCopy ? nil : $0.life.object }) else {
            return
        }
        await fetch(base)
        _ = pin(base, for: file, whole: false)
    }

    /// Whether the cache can be all there is of an open file's object: it has the whole of it and keeps it until the last
    /// handle goes. Of one that would leave others little room it is not to be.
    func pinWhole(_ base: CachedObject, for file: ActiveFile) -> Bool {
        base.version.size <= rooms.blocks.capacity / Self.shareOfPins && pin(base, for: file, whole: true)
    }

    /// An object may take that part of the cache's space.
    private static let shareOfPins: Int64 = 4

    func pin(_ base: CachedObject, for file: ActiveFile, whole: Bool) -> Bool {
        guard base.pin(whole: whole) else { return false }
        let before = file.state.withLock { state in
            defer { state.pinned = base }
            return state.pinned
        }
        before?.unpin()
        return true
    }

    /// The last handle is gone.
    func unpin(_ file: ActiveFile) { file.state.withLock { $0.pinned.take() }?.unpin() }

    private func fetch(_ base: CachedObject) async {
        guard !base.isComplete, base.version.size <= Self.largestFetched else { return }
        let step = BaseObject.step(rooms.buffers)
        guard let buffer = try? await borrow(Int(min(base.version.size, step))) else { return }
        let end = time.uptime() + Self.fetchPatience
        for start in stride(from: 0, to: base.version.size, by: Int(step)) where time.uptime() < end {
            let piece = ByteRange(at: start, count: min(base.version.size - start, step))
            do throws(BlockError) { try await base.read(piece, into: buffer, at: 0) } catch { return }
        }
        // For the process that may have to go on with the mount, too.
        await base.settle()
    }

    /// To be called before an open file loses its name, when it has, and when what is kept of it has changed. Before it, `deletion`
    /// is what will be there to do at its last handle, or `job` the removal that is about to be begun, if there is one, and
    /// `changed` the time of that change.
    func keepOrphan(
        _ file: ActiveFile, deletion: ActiveFile.Deletion? = nil, job: IntentID? = nil, changed: Timestamp? = nil
    ) {
        let headers = HeadersRecord(headers(of: file, changed: changed))
        let record = file.state.withLock { state in
            Orphan.Record(
                base: state.life.object.map { VersionRecord($0.key, $0.version) }, isCopy: state.life.isCopy,
                staging: state.life.draft?.staged.name, stagedOver: state.life.draft?.staged.baseSize, headers: headers,
                size: state.attributes.size,
                removal: (deletion ?? state.life.removal).map { deletion in
                    Orphan.Record.Removal(
                        job: deletion.job.rawValue, parent: deletion.parent.rawValue,
                        component: deletion.component, commits: deletion.commits)
                }, job: job?.rawValue)
        }
        // Without its object the file has nothing but the blocks that are here.
        if record.removal == nil, record.base != nil { rooms.blocks.flush() }
        let name = record.removal.map { (InodeNumber(rawValue: $0.parent), $0.component) }
        do {
            try metadata.keep(unlinked: file.ino, Array(try JSONEncoder().encode(record)), hiding: name)
        } catch {
            // It works as long as this process lives.
            rooms.logger.warning(
                "an unlinked open file would be lost in a restart of the worker",
                metadata: ["ino": "\(file.ino)", "reason": "\(error)"])
        }
    }

    /// To be called before a directory loses its name. Nothing is kept of one that no program has open.
    func keepOrphan(directory ino: InodeNumber, _ attributes: Attributes) {
        guard handles.openDirectories.contains(ino) else { return }
        let headers = HeadersRecord(AttributeCodec.encode(attributes, over: ObjectMetadata()))
        let record = Orphan.Record(isDirectory: true, isCopy: false, headers: headers, size: 0)
        guard let bytes = try? JSONEncoder().encode(record) else { return }
        // Without it the descriptor works as long as this process lives.
        try? metadata.keep(unlinked: ino, Array(bytes), hiding: nil)
    }

    /// To be called after a close of a directory.
    func forgetOrphan(directory ino: InodeNumber) {
        guard formers.find(ino) != nil, !handles.openDirectories.contains(ino) else { return }
        try? metadata.forget(unlinked: ino)
    }

    private func restoreOrphan(directory ino: InodeNumber, _ headers: HeadersRecord) {
        var attributes = Attributes(kind: .directory, mtime: time.now())
        AttributeCodec.decode(headers.metadata, into: &attributes)
        _ = formers.insert(
            FormerInodes.Former(attributes: attributes, headers: headers.metadata, key: nil, file: nil), for: ino)
    }

    /// To be called after the last close of the file. Returns false, and keeps the record, if a program has opened the file since.
    func forgetOrphan(_ file: ActiveFile) -> Bool {
        if files.isOpen(file.ino) { return false }
        try? metadata.forget(unlinked: file.ino)
        guard files.isOpen(file.ino) else { return true }
        keepOrphan(file)
        return false
    }

    /// Goes on with a file of an earlier process of the same mount, whose journal led to `plan`. To be called before anything is
    /// served. False, and nothing happens, if it has its name still.
    func restoreOrphan(_ orphan: Orphan, _ plan: Recovery.Plan) -> Bool {
        let (ino, record) = (orphan.ino, orphan.record)
        if let entry = (try? metadata.entry(ino)) ?? nil {
            guard let job = orphan.job ?? record.job.map(IntentID.init(rawValue:)), plan.begun.contains(job),
                (try? metadata.remove(ino, pending: record.removal != nil || plan.isLeft(job))) != nil
            else {
                try? metadata.forget(unlinked: ino)
                return false
            }
            rooms.logger.info("an interrupted unlink continues", metadata: ["name": "\(entry.name)"])
        }
        if record.isDirectory == true {
            restoreOrphan(directory: ino, record.headers)
            return true
        }
        guard files.find(ino) == nil else { return true }
        let base = record.base.map { rooms.blocks.open(ObjectKey($0.key), $0.version) }
        var draft: ActiveFile.Draft?
        let modified = record.staging.flatMap { rooms.staging.modified($0) }
        if let name = record.staging {
            do throws(FileSystemError) {
                let baseSize = record.stagedOver ?? (record.isCopy ? 0 : record.base?.size ?? 0)
                draft = try goOn(name, base, baseSize: baseSize)
            } catch {
                rooms.logger.error(
                    "an unlinked open file cannot be restored after the restart",
                    metadata: ["ino": "\(ino)", "reason": "\(error.reason)"])
            }
            if draft == nil { recoverableFiles.noteInterrupted(ino) }
        }
        let changed = base?.version.modified ?? time.now()
        var attributes = Attributes(
            kind: .file, size: draft?.staged.size ?? record.size, mtime: changed, version: base?.version)
        AttributeCodec.decode(record.headers.metadata, into: &attributes)
        if let draft, let modified {
            // The record tells it exactly; what was written since has moved the file's own time on.
            attributes.mtime = max(attributes.mtime, modified)
            attributes.ctime = max(attributes.ctime, modified)
            try? draft.staged.setModified(attributes.mtime)
        }
        var deletion: ActiveFile.Deletion?
        if let base, let removal = record.removal {
            deletion = ActiveFile.Deletion(
                key: base.key, parent: InodeNumber(rawValue: removal.parent), component: removal.component,
                version: base.version, job: IntentID(rawValue: removal.job), commits: removal.commits, isInherited: true
            )
        }
        let life = FileLife(orphan: draft, over: .init(base, isCopy: record.isCopy), removal: deletion)
        let state = ActiveFile.State(attributes: attributes, metadata: record.headers.metadata, life: life)
        let isDoomed = deletion != nil
        let file = files.adopt(ino) { ActiveFile(ino: ino, state: state) }
        if !isDoomed, let base { _ = pin(base, for: file, whole: false) }
        if isDoomed, let base { pendingDeletions[base.key] = file }
        return true
    }

    /// What was written to it; nil when that is not known.
    private func goOn(
        _ name: String, _ base: CachedObject?, baseSize: Int64
    ) throws(FileSystemError) -> ActiveFile.Draft? {
        let staged: StagedFile?
        do throws(StagingError) { staged = try rooms.staging.reopen(name, baseSize: baseSize) } catch {
            throw FileSystemError(error)
        }
        guard let staged else { return nil }
        let record: FileRecord
        do throws(JournalingError) {
            record = try FileRecord(
                rooms.journal.newID(), key: base?.key ?? ObjectKey("unlinked"),
                base: base.map { ($0.key, $0.version) }, now: time.now(), in: rooms.journal, jobs: jobs)
        } catch { throw FileSystemError(error) }
        // As before: nothing of it is wanted after a crash.
        try end(record)
        return draft(staged, on: base, record)
    }
}
