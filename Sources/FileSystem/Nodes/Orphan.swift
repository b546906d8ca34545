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

/// A file or a directory without a name that programs have open, as the metadata cache keeps it for the next process of this
/// mount: from the moment when it loses its name until its last handle is closed.
///
/// The journal has only the removal of its object, since no program can use its bytes once it is closed; a new mount drops the
/// record. Its staged bytes and their map stay in `staging/`. The record is written before the unlink or rename. If the file
/// still has its entry, the unlink was interrupted: with its removal in the journal the next process completes it. Otherwise, or
/// if it was a rename, the record has no effect.
package struct Orphan: Sendable {
    fileprivate struct Record: Codable {
        /// The removal of its object, which waits because handles need its bytes.
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
        /// The length of the version over which the staging file began; nil: that of `base`, or 0 for a copy.
        var stagedOver: Int64?
        var headers: HeadersRecord
        var size: Int64
        var removal: Removal?
        /// The row of a removal that does not wait for the last handle.
        var job: Int64?
    }

    fileprivate let ino: InodeNumber
    fileprivate let record: Record

    /// The name of its staging file; nil when nothing was written to it.
    package var staging: String? { record.staging }
    /// The row of the removal of its object, which waits for its last handle.
    package var job: IntentID? { record.removal.map { IntentID(rawValue: $0.job) } }

    /// The records of an earlier process of the same mount. A record that cannot be read is left out: calls on its file then
    /// fail.
    package static func all(in metadata: MetadataCache) -> [Orphan] {
        ((try? metadata.unlinked()) ?? []).compactMap { kept in
            (try? JSONDecoder().decode(Record.self, from: Data(kept.record))).map {
                Orphan(ino: kept.ino, record: $0)
            }
        }
    }
}

extension BucketFileSystem {
    /// The largest object, in bytes, that is fetched for open handles before another one takes its place.
    private static let largestFetched: Int64 = 64 << 20
    /// The call that replaces the object waits so long for that, and for one piece more.
    private static let fetchPatience = Duration.seconds(10)

    /// To be called before an open file loses its name. Commits a file some of whose bytes only the store has, in parts of an
    /// upload or in another object, while the file has a key.
    func storeForHandles(_ lock: borrowing FileLock) async throws(FileSystemError) {
        let file = lock.file
        guard file.state.withLock({ $0.life.isDirty }), file.needsTheStore, files.isOpen(file.ino) else { return }
        do throws(FileSystemError) { try await commit(lock, leaving: true) } catch {
            // Another host has changed the object below: there is nothing to save.
            guard error.kind == .stale else { throw error }
            remember(error, "unlink", file.ino)
        }
    }

    /// To be called before the object of an open file is replaced. Fetches the bytes that are not here, and keeps the blocks for
    /// the open handles. Bytes that do not come now, and those of a larger object, are ESTALE afterwards.
    func saveForHandles(of file: ActiveFile) async {
        guard files.isOpen(file.ino), let base = file.state.withLock({ $0.life.isCopy ? nil : $0.life.object }) else {
            return
        }
        await fetch(base)
        _ = pin(base, for: file, whole: false)
    }

    /// Keeps an open file's whole object in the cache until the last handle is closed. False if the cache lacks bytes of it, or
    /// if it would take too much of the cache.
    func pinWhole(_ base: CachedObject, for file: ActiveFile) -> Bool {
        base.version.size <= rooms.blocks.capacity / Self.shareOfPins && pin(base, for: file, whole: true)
    }

    /// Such an object takes at most the cache's space divided by this.
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

    /// To be called when the last handle is closed.
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
        // Waits until the blocks are on the disk: the next process of this mount needs them as well.
        await base.settle()
    }

    /// Writes the record of an open file: before the file loses its name, when it has lost it, and when its state has changed.
    /// Before, `deletion` is what its last close will carry out, `job` is the row of a removal that is about to begin, and
    /// `changed` is the time of that change.
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
        // Without its object the file's bytes are only in these blocks.
        if record.removal == nil, record.base != nil { rooms.blocks.flush() }
        let name = record.removal.map { (InodeNumber(rawValue: $0.parent), $0.component) }
        do {
            try metadata.keep(unlinked: file.ino, Array(try JSONEncoder().encode(record)), hiding: name)
        } catch {
            // The file works as long as this process lives.
            rooms.logger.warning(
                "an unlinked open file would be lost in a restart of the worker",
                metadata: ["ino": "\(file.ino)", "reason": "\(error)"])
        }
    }

    /// To be called before a directory loses its name. A directory that no program has open gets no record.
    func keepOrphan(directory ino: InodeNumber, _ attributes: Attributes) {
        guard handles.openDirectories.contains(ino) else { return }
        let headers = HeadersRecord(AttributeCodec.encode(attributes, over: ObjectMetadata()))
        let record = Orphan.Record(isDirectory: true, isCopy: false, headers: headers, size: 0)
        guard let bytes = try? JSONEncoder().encode(record) else { return }
        // Without the record the descriptor works as long as this process lives.
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

    /// To be called after the last close of the file. Returns false, and keeps the record, if a program has opened the file
    /// since.
    func forgetOrphan(_ file: ActiveFile) -> Bool {
        if files.isOpen(file.ino) { return false }
        try? metadata.forget(unlinked: file.ino)
        guard files.isOpen(file.ino) else { return true }
        keepOrphan(file)
        return false
    }

    /// Restores an orphan of an earlier process of the same mount; recovery from its journal gave `plan`. To be called before
    /// anything is served. False, and nothing happens, if the file still has its name.
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
            // The record has the exact time; later writes have moved the time of the staging file.
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

    /// The draft of an orphan; nil when its bytes are not known.
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
        // The row ends, as in the earlier process: after a crash the bytes of an orphan are not needed.
        try end(record)
        return draft(staged, on: base, record)
    }
}
