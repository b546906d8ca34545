package import Basics
import Blocks
import Commits
import Journaling
import Logging
package import Metadata
import ObjectStorage
import Staging
import Synchronization

/// unlink.
extension BucketFileSystem {
    package func unlink(_ name: ByteString, in parent: InodeNumber) -> Outcome<Void> {
        later { [self] () async throws(FileSystemError) in
            try requireWritable()
            let place = Place(parent: parent, name: name)
            try await claiming([place]) { () async throws(FileSystemError) in
                let entry = try await existing(name, in: parent)
                guard entry.attributes.kind != .directory else {
                    throw FileSystemError(.isDirectory, "\(name) is a directory")
                }
                try await commitCopies(ofObject: entry.ino)
                try await noting("unlink", of: place) { () async throws(FileSystemError) in
                    try await changingNames([place]) { () async throws(FileSystemError) in try await remove(entry) }
                }
            }
            touch(parent)
        }
    }

    /// Takes the entry out of the bucket and the tree. Open handles keep its bytes.
    private func remove(_ entry: Entry) async throws(FileSystemError) {
        try await namesBeingRemoved.begin(entry.ino)
        defer { namesBeingRemoved.end(entry.ino) }
        guard let file = files.find(entry.ino) else {
            // A commit may have come to its end since the entry was read.
            let entry = try self.entry(entry.ino)
            noteFormer(entry)
            let hold = metadata.hold([entry.ino], [(entry.parent, entry.name)])
            defer { metadata.release(hold) }
            return try await removeObject(entry, mayWait: true)
        }
        let lock = try await lock(file)
        let key = try key(of: entry.ino)
        try await finishJobs(at: key)
        try await storeForHandles(lock)
        // A commit that was under way has made an object of it meanwhile.
        let entry = try self.entry(entry.ino)
        noteFormer(entry)
        let hold = metadata.hold([entry.ino], [(entry.parent, entry.name)])
        defer { metadata.release(hold) }
        let removal = try await prepareToRemove(entry, lock, key)
        try writeDown(removal, of: file)
        try await takeName(removal, of: lock)
        try await giveUpDraft(removal, of: lock)
        if removal.isWrittenDown, !removal.isNeeded { forgetJob(removal.job, at: key.bytes) }
    }

    /// What the removal of an active file has to see to.
    private struct FileRemoval {
        let entry: Entry
        let key: ObjectKey
        let draft, behind: ActiveFile.Draft?
        /// The object that its commit would have replaced.
        let replaced: ETag?
        /// Bytes that only the object has are still needed by open handles: it goes with the last of them.
        let isNeeded: Bool
        let isOpen: Bool
        let deletion: ActiveFile.Deletion
        /// The change of the file that the removal is.
        let time: Timestamp

        let hasObject: Bool
        /// What was acknowledged goes with it, and must not come back.
        let endsAcknowledged: Bool

        var job: IntentID { deletion.job }

        /// A process that goes on with the mount has to know that what is open has no name any more.
        var isWrittenDown: Bool { isNeeded || endsAcknowledged || isOpen && hasObject }
    }

    private func prepareToRemove(
        _ entry: Entry, _ lock: borrowing FileLock, _ key: ObjectKey
    ) async throws(FileSystemError) -> FileRemoval {
        let file = lock.file
        let (draft, behind, base, replaced) = file.state.withLock {
            ($0.life.draft, $0.life.behind, $0.life.isCopy ? nil : $0.life.object, $0.life.replacedObject)
        }
        let isNeeded = files.isOpen(entry.ino) && base.map { !pinWhole($0, for: file) } ?? false
        let job = rooms.journal.newID()
        await file.quiesce()
        let hasObject = !entry.isPending || replaced != nil
        let endsAcknowledged = hasObject && draft?.record.intent.isAcknowledged ?? false || behind != nil
        if isNeeded {
            // Nobody waits for this deletion.
            try await requireDeletable(in: key.directory)
            try await keepDirectory(entry.parent, without: entry)
        }
        let deletion = ActiveFile.Deletion(
            key: key, parent: entry.parent, component: entry.component, version: entry.attributes.version, job: job,
            commits: draft?.record.commits ?? [])
        return FileRemoval(
            entry: entry, key: key, draft: draft, behind: behind, replaced: replaced, isNeeded: isNeeded,
            isOpen: files.isOpen(entry.ino), deletion: deletion, time: time.now(), hasObject: hasObject,
            endsAcknowledged: endsAcknowledged)
    }

    /// From the moment on in which the object is gone its bytes are nowhere else, whatever becomes of this process. The name is gone
    /// when the call returns, so the object has to go whatever happens; and where it goes, its acknowledged bytes must not come
    /// back.
    private func writeDown(_ removal: FileRemoval, of file: ActiveFile) throws(FileSystemError) {
        if removal.isOpen {
            keepOrphan(
                file, deletion: removal.isNeeded ? removal.deletion : nil,
                job: removal.isWrittenDown ? removal.job : nil, changed: removal.time)
        }
        guard removal.isWrittenDown else { return }
        let etag = removal.entry.attributes.version?.etag ?? removal.replaced
        let record = RemovalRecord(key: removal.key.bytes, etag: etag?.text, commits: removal.deletion.commits)
        try journalled { journal throws(JournalingError) in
            try journal.write(
                [.job(removal.job, .removal(record), items: [])],
                flushed: removal.isNeeded || removal.endsAcknowledged)
        }
    }

    /// The entry goes, and the object with it unless handles need that.
    private func takeName(_ removal: FileRemoval, of lock: borrowing FileLock) async throws(FileSystemError) {
        let file = lock.file
        let (entry, key) = (removal.entry, removal.key)
        // Nothing else will know them.
        let headers = (try? metadata.metadata(of: entry.ino)) ?? nil
        do throws(FileSystemError) {
            if !removal.hasObject || removal.isNeeded {
                // What may be there until a job is done must not be listed.
                let mayBeThere = jobs.removes(key.bytes) || removal.draft?.record.hasReachedStore ?? false
                try cached { metadata throws(MetadataError) in
                    try metadata.remove(entry.ino, pending: removal.isNeeded || mayBeThere)
                }
            } else {
                try await removeObject(entry, mayWait: false)
            }
        } catch {
            // The program is told that it failed: it must not happen later.
            if removal.isWrittenDown { forgetJob(removal.job, at: key.bytes) }
            try? metadata.forget(unlinked: entry.ino)
            throw error
        }
        if removal.isNeeded { pendingDeletions[key] = file }
        file.state.withLock { state in
            state.life.unlink(removal.isNeeded ? removal.deletion : nil)
            state.attributes.noteChange(at: removal.time)
            state.metadata = state.metadata ?? headers
        }
        // The last handle may have gone meanwhile, and not have seen that there was anything to do.
        if removal.isOpen || removal.isNeeded, forgetOrphan(file) { await carryOutDeletion(of: file) }
    }

    /// Nobody wants the bytes of a draft after a crash, open as the file may be.
    private func giveUpDraft(_ removal: FileRemoval, of lock: borrowing FileLock) async throws(FileSystemError) {
        let file = lock.file
        guard let draft = removal.draft else { return }
        do throws(FileSystemError) {
            try await endForGood(draft, removal.behind, of: removal.entry, at: removal.key)
        } catch {
            endLater(draft, removal.behind, at: removal.key, because: error)
            throw error
        }
        file.state.withLock { _ = $0.life.forgetAcknowledged() }
        await draft.commit.abandon()
        draft.staged.keep(false)
        if let behind = removal.behind { await giveUp(behind) }
    }

    /// The journal could not be written after the entry had gone: whatever comes to the key waits until these rows, which
    /// would bring the file back, have ended.
    private func endLater(
        _ draft: ActiveFile.Draft, _ behind: ActiveFile.Draft?, at key: ObjectKey,
        because error: FileSystemError
    ) {
        let others = behind.map { [JournalChange.endFile($0.record.id)] } ?? []
        let record = draft.record
        jobs.add(rooms.journal.newID(), .removal, key.bytes, because: error.reason) { () async throws(CommitError) in
            do throws(JournalingError) { try record.end(also: others) } catch { throw .journal(error) }
        }
    }

    /// Ends the rows of a file that is removed. Of one that had no object yet a commit may have reached the store without its
    /// answer having come back: what it made goes too.
    func endForGood(
        _ draft: ActiveFile.Draft, _ behind: ActiveFile.Draft?, of entry: Entry, at key: ObjectKey
    ) async throws(FileSystemError) {
        var changes = behind.map { [JournalChange.endFile($0.record.id)] } ?? []
        guard entry.isPending, draft.record.hasReachedStore else {
            return try end(draft.record, isRemoved: true, also: changes)
        }
        let job = rooms.journal.newID()
        let removal = JobIntent.removal(
            RemovalRecord(key: key.bytes, etag: nil, commits: draft.record.commits))
        changes.append(.job(job, removal, items: []))
        try end(draft.record, also: changes)
        await draft.commit.abandon()
        let todo = JournalContents.Job(intent: removal, items: [])
        do throws(CommitError) {
            try await jobs.runner.finish(job, todo)
            try? metadata.endRemoval(of: entry.component, in: entry.parent)
        } catch { removeLater(job, todo, entry.component, in: entry.parent, because: "\(error)") }
    }

    /// The last handle of an unlinked file is gone, and with it the need for its object. What the store refuses now is tried
    /// again, and the object's name stays taken until then. When the mount has ended no handle is used again, heard of its end or not.
    func carryOutDeletion(of file: ActiveFile, mountHasEnded: Bool = false) async {
        guard let deletion = file.state.withLock({ $0.life.removal }) else { return }
        do throws(CommitError) { try await delete(file, evenIfOpen: mountHasEnded) } catch {
            remember(FileSystemError(error), "unlink", file.ino)
            jobs.add(deletion.job, .removal, deletion.key.bytes, because: "\(error)") {
                [weak self] () async throws(CommitError) in
                guard let self else { throw .cancelled }
                try await delete(file, evenIfOpen: mountHasEnded)
            }
        }
    }

    private func delete(_ file: ActiveFile, evenIfOpen: Bool) async throws(CommitError) {
        await deletions.enterRegardless()
        defer { deletions.leave() }
        // A program that has opened the file since still reads the object; its last close deletes it.
        let deletion = file.state.withLock { state in
            !evenIfOpen && files.isOpen(file.ino) ? nil : state.life.takeRemoval()
        }
        guard let deletion else { return }
        do throws(CommitError) { try await carryOut(deletion) } catch {
            file.state.withLock { $0.life.giveBack(deletion) }
            throw error
        }
        try? metadata.endRemoval(of: deletion.component, in: deletion.parent)
        forgetJob(deletion.job, at: deletion.key.bytes)
        pendingDeletions.remove(deletion.key, of: file)
        forgetBlocks(of: deletion.key)
    }

    private func carryOut(_ deletion: ActiveFile.Deletion) async throws(CommitError) {
        // Long after the unlink the object has to be the one that was meant: somebody else may have put another one there.
        let removal = RemovalRecord(
            key: deletion.key.bytes, etag: deletion.version?.etag.text, commits: deletion.commits)
        try await jobs.runner.finish(deletion.job, JournalContents.Job(intent: .removal(removal), items: []))
    }

    /// Nothing that has a name needs the blocks of what was at `key`; files without one that are open may.
    func forgetBlocks(of key: ObjectKey) {
        let bases = files.all.compactMap { file in file.state.withLock { $0.life.isNameless ? $0.life.object : nil } }
        rooms.blocks.forget(key, except: bases.filter { $0.key == key }.map(\.version))
    }

    /// A new object takes the place of one that was to be deleted: it replaces that one, and nothing deletes the new one.
    struct Takeover {
        let file: ActiveFile
        let deletion: ActiveFile.Deletion

        /// What is replaced.
        var version: ObjectVersion? { deletion.version }
    }

    /// From now on nothing but the caller does anything about the object at `key` that was to be deleted, if there is one.
    /// The intent to delete it stays in the journal: the caller ends it together with its own, or gives it back. Handles on
    /// the old object keep the bytes that are here.
    func takeOverDeletion(_ key: ObjectKey) async -> Takeover? {
        guard let old = pendingDeletions[key] else { return nil }
        await saveForHandles(of: old)
        await deletions.enterRegardless(alone: true)
        defer { deletions.leave(alone: true) }
        guard let file = pendingDeletions.remove(key),
            let deletion = file.state.withLock({ $0.life.takeRemoval() })
        else { return nil }
        jobs.forget(deletion.job)
        keepOrphan(file)
        return Takeover(file: file, deletion: deletion)
    }

    /// The object was not replaced: it is to be deleted as before, at once if its last handle has gone meanwhile.
    func giveBack(_ takeover: Takeover) async {
        let (file, deletion) = (takeover.file, takeover.deletion)
        file.state.withLock { $0.life.giveBack(deletion) }
        pendingDeletions[deletion.key] = file
        keepOrphan(file)
        if !files.isOpen(file.ino), !deletion.isInherited { await carryOutDeletion(of: file) }
    }

    /// `mayWait` says that nobody needs the object any more and no row speaks of the file: in a row of such the program does not
    /// wait for the store.
    private func removeObject(_ entry: Entry, mayWait: Bool) async throws(FileSystemError) {
        try await keepDirectory(entry.parent, without: entry)
        let key = try key(of: entry.ino)
        try await finishJobs(at: key)
        // A job that has ended may have changed the version, and a removal leaves every other one where it is.
        let entry = try self.entry(entry.ino)
        if mayWait, jobs.isRemovingInARow, store.capabilities.deleteBatch > 1, let version = entry.attributes.version {
            try await acknowledgeRemoval(of: entry, version, at: key)
        } else {
            // A power cut must not bring back its acknowledged bytes: the next start would find no object, and store it again.
            rooms.journal.flush()
            do { try await deleteObject(key) } catch { throw FileSystemError(error) }
            try cached { metadata throws(MetadataError) in try metadata.remove(entry.ino) }
            try await keepDirectory(entry.parent, havingLost: key)
        }
        jobs.noteRemoval()
    }

    /// The name is gone, and its object goes with others that are removed soon after.
    private func acknowledgeRemoval(
        of entry: Entry, _ version: ObjectVersion, at key: ObjectKey
    ) async throws(FileSystemError) {
        let job = rooms.journal.newID()
        let record = RemovalRecord(key: key.bytes, etag: version.etag.text, commits: [])
        try journalled { journal throws(JournalingError) in
            try journal.write([.job(job, .removal(record), items: [])], flushed: true)
        }
        do throws(FileSystemError) {
            try cached { metadata throws(MetadataError) in try metadata.remove(entry.ino, pending: true) }
        } catch {
            // The program is told that it failed: it must not happen later.
            try journalled { journal throws(JournalingError) in try journal.write([.endJob(job)], flushed: true) }
            throw error
        }
        await jobs.gather(
            AcknowledgedRemoval(id: job, record: record) { [metadata] isOpen in
                try? metadata.endRemoval(of: entry.component, in: entry.parent)
                if isOpen { try? metadata.distrust(key.bytes) }
            })
    }
}
