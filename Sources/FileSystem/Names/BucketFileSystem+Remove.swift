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
            // A commit may have finished since the entry was read.
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
        // A commit that was under way may have made an object of the file meanwhile.
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

    /// The removal of an active file.
    private struct FileRemoval {
        let entry: Entry
        let key: ObjectKey
        let draft, behind: ActiveFile.Draft?
        /// The object that its commit would have replaced.
        let replaced: ETag?
        /// Whether open handles need bytes that only the object has: it is deleted when the last of them is closed.
        let isNeeded: Bool
        let isOpen: Bool
        let deletion: ActiveFile.Deletion
        /// The time of the removal, which is a change of the file.
        let time: Timestamp

        let hasObject: Bool
        /// Whether acknowledged bytes end with the removal: they must not come back.
        let endsAcknowledged: Bool

        var job: IntentID { deletion.job }

        /// Whether the journal gets a row. The next process of this mount has to know that an open file has no name any more.
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
            // The deletion comes after this call, which could not return its failure.
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

    /// Writes the orphan's record and the row of the removal. Once the object is gone, the next process finds an open file's
    /// bytes only by the record. When the call returns the name is gone: even after a crash the object has to be deleted, and
    /// acknowledged bytes must not come back.
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

    /// Removes the entry, and the object unless handles need it.
    private func takeName(_ removal: FileRemoval, of lock: borrowing FileLock) async throws(FileSystemError) {
        let file = lock.file
        let (entry, key) = (removal.entry, removal.key)
        // No entry has the headers afterwards.
        let headers = (try? metadata.metadata(of: entry.ino)) ?? nil
        do throws(FileSystemError) {
            if !removal.hasObject || removal.isNeeded {
                // An object that may be there until a job is done must not be listed.
                let mayBeThere = jobs.removes(key.bytes) || removal.draft?.record.hasReachedStore ?? false
                try cached { metadata throws(MetadataError) in
                    try metadata.remove(entry.ino, pending: removal.isNeeded || mayBeThere)
                }
            } else {
                try await removeObject(entry, mayWait: false)
            }
        } catch {
            // The program gets an error: the removal must not happen later.
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
        // The last handle may have been closed meanwhile, when there was nothing to do yet.
        if removal.isOpen || removal.isNeeded, forgetOrphan(file) { await carryOutDeletion(of: file) }
    }

    /// Ends the rows of a draft: after a crash its bytes are not needed, even if the file is open.
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

    /// The journal could not be written after the entry had gone: calls at the key wait until these rows, which would bring the
    /// file back, have ended.
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

    /// Ends the rows of a removed file. If it had no object yet, a commit whose answer is lost may have made one, which is
    /// removed as well.
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

    /// Deletes the object of an unlinked file, whose last handle is closed. A deletion that the store refuses is retried, and
    /// calls at the key wait until then. `mountHasEnded`: no handle is used again, even if this process got no close of it.
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
        // Long after the unlink another host may have put another object there: only the unlinked version is deleted.
        let removal = RemovalRecord(
            key: deletion.key.bytes, etag: deletion.version?.etag.text, commits: deletion.commits)
        try await jobs.runner.finish(deletion.job, JournalContents.Job(intent: .removal(removal), items: []))
    }

    /// Drops the cached blocks of objects at `key`, except those that open files without a name need.
    func forgetBlocks(of key: ObjectKey) {
        let bases = files.all.compactMap { file in file.state.withLock { $0.life.isNameless ? $0.life.object : nil } }
        rooms.blocks.forget(key, except: bases.filter { $0.key == key }.map(\.version))
    }

    /// The deletion of an object that a new object replaces instead. Nothing deletes the new one.
    struct Takeover {
        let file: ActiveFile
        let deletion: ActiveFile.Deletion

        /// The version that is replaced.
        var version: ObjectVersion? { deletion.version }
    }

    /// Takes over the deletion of the object at `key`, if there is one: from now on only the caller acts on the object. The row
    /// of the deletion stays in the journal; the caller ends it together with its own, or gives the deletion back. Handles on the
    /// old object keep the bytes that are here.
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

    /// Gives a deletion back whose object was not replaced. It is carried out at once if the last handle was closed meanwhile.
    func giveBack(_ takeover: Takeover) async {
        let (file, deletion) = (takeover.file, takeover.deletion)
        file.state.withLock { $0.life.giveBack(deletion) }
        pendingDeletions[deletion.key] = file
        keepOrphan(file)
        if !files.isOpen(file.ino), !deletion.isInherited { await carryOutDeletion(of: file) }
    }

    /// Removes the object and the entry. `mayWait`: no handle needs the object, and no row speaks of the file. In a row of such
    /// removals the program does not wait for the store.
    private func removeObject(_ entry: Entry, mayWait: Bool) async throws(FileSystemError) {
        try await keepDirectory(entry.parent, without: entry)
        let key = try key(of: entry.ino)
        try await finishJobs(at: key)
        // A job that has ended may have changed the version, and a removal deletes only the version that it names.
        let entry = try self.entry(entry.ino)
        if mayWait, jobs.isRemovingInARow, store.capabilities.deleteBatch > 1, let version = entry.attributes.version {
            try await acknowledgeRemoval(of: entry, version, at: key)
        } else {
            // A power cut must not bring back the row of acknowledged bytes: recovery would find no object, and store it again.
            rooms.journal.flush()
            do { try await deleteObject(key) } catch { throw FileSystemError(error) }
            try cached { metadata throws(MetadataError) in try metadata.remove(entry.ino) }
            try await keepDirectory(entry.parent, havingLost: key)
        }
        jobs.noteRemoval()
    }

    /// Removes the name now. The object is deleted together with others that are removed soon after.
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
            // The program gets an error: the removal must not happen later.
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
