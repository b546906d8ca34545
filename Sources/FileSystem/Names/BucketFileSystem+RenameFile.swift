import Basics
import Blocks
import Commits
import Journaling
import Metadata
import ObjectStorage
import Synchronization

/// The rename of one file, once the call holds its locks: the `writing` gates of the file and of the target, alone, and both
/// names.
struct FileRename {
    /// `active` is the file if it is in the table of active files. `file` is nil even then if only this rename uses the file: the
    /// file is what the store has.
    let active: ActiveFile?
    let file: ActiveFile?
    let newParent: InodeNumber
    let component: ByteString
    let newKey: ObjectKey
    /// The entry that it replaces.
    let target: Entry?
    let replacedFile: ActiveFile?
    /// The removal of the target's object, where that has another key.
    let displaced: RemovalRecord?

    /// The version at the new key that the copy replaces.
    var replaced: ObjectVersion? { hasKeyOfTarget ? target?.attributes.version : nil }

    var hasKeyOfTarget: Bool { target?.component == component }
}

extension BucketFileSystem {
    /// Renames a file without an object: the journal gets the key and the headers of its next commit.
    func moveUnstored(_ current: Entry, _ rename: FileRename) async throws(FileSystemError) {
        let replaced =
            rename.replaced?.etag
            ?? rename.replacedFile?.state.withLock { rename.hasKeyOfTarget ? $0.life.replacedObject : nil }
        let condition = replaced.map { WriteCondition.match($0) } ?? .absent
        let rows = rename.file?.state.withLock { ($0.life.draft, $0.life.behind) }
        let (draft, behind) = (rows?.0, rows?.1)
        // The row under the new name takes the place of the target's row in one step.
        let removal = rename.displaced.flatMap { $0.etag == nil ? nil : Removal(of: $0, as: rooms.journal.newID()) }
        let replacedRows = (rename.target.map { self.rows(of: $0) } ?? []) + (removal.map { [$0.row] } ?? [])
        let commits = rename.replacedFile?.state.withLock { $0.life.draft?.record.commits } ?? []
        let key = try key(of: current.ino)
        var moved = rename.file?.attributes ?? current.attributes
        moved.noteChange(at: time.now())
        let retyped = { [named = policy.namedHeaders, changed = moved.ctime] (headers: ObjectMetadata) in
            AttributeCodec.dating(named.renamed(headers, from: key, to: rename.newKey), changed: changed)
        }
        let headers = noteReplaced(rename.target)
        let before = (first: (behind ?? draft)?.record.intent, second: draft?.record.intent)
        let rowsOfTarget = try rename.target.map { target throws(FileSystemError) in try presentRows(of: target) } ?? []
        // After a crash recovery must know that the target is open without a name.
        if let replacedFile = rename.replacedFile, files.isOpen(replacedFile.ino) { keepOrphan(replacedFile) }
        let record = (behind ?? draft)?.record
        let newer = behind == nil ? nil : draft?.record
        do throws(FileSystemError) {
            try journalled { _ throws(JournalingError) in
                let move = FileRecord.Move(
                    to: rename.newKey, of: current.ino.rawValue, condition: condition, replacing: commits,
                    retyping: retyped)
                try record?.moved(move, with: newer, also: replacedRows)
            }
            do throws(FileSystemError) { try moveEntry(current, to: rename.newParent, rename.component) } catch {
                // The program gets an error: after a crash, too, both files have to be what they were.
                let rows = rowsOfTarget + (removal.map { [.endJob($0.id)] } ?? [])
                if let record, let intent = before.first {
                    try journalled { _ throws(JournalingError) in
                        try record.restore(
                            intent, with: newer.flatMap { newer in before.second.map { (newer, $0) } }, also: rows)
                    }
                }
                throw error
            }
        } catch {
            if let replacedFile = rename.replacedFile { try? metadata.forget(unlinked: replacedFile.ino) }
            throw error
        }
        rename.file?.state.withLock { state in
            state.life.require(condition)
            state.metadata = state.metadata.map(retyped)
        }
        for commit in [draft?.commit, behind?.commit] {
            commit?.replaces(commits)
            commit?.moved(to: rename.newKey)
        }
        try await detach(rename.target, headers, unlessAt: rename.component, removal)
        rename.file?.state.withLock { [changed = moved.ctime] in $0.attributes.noteChange(at: changed) }
    }

    /// The object of a rename at its new key.
    private struct Copied {
        /// The source's entry as it was copied.
        let entry: Entry
        let key: ObjectKey
        let headers: ObjectMetadata?
        let version: ObjectVersion?
        let job: IntentID
        /// Before the first request, of the time source's `uptime`.
        let began: Duration
        /// The store has moved the object: nothing is at the old key.
        let isMoved: Bool
        /// The object that was at the new key is gone.
        let hasReplaced: Bool
    }

    /// What is left at the old key.
    private enum OldObject {
        case gone
        /// Another host's object.
        case others
        /// The source, which the store would not delete now. A job deletes it later.
        case left
    }

    /// Renames a file without uncommitted bytes: copies its object to the new key and deletes the old one, or has the store move
    /// it.
    func moveStored(_ current: Entry, _ rename: FileRename) async throws(FileSystemError) {
        let copied = try await copyToNewKey(current, rename)
        let old = copied.isMoved ? .gone : try await deleteOldObject(copied, rename)
        defer { if old != .left { forgetJob(copied.job, at: copied.key.bytes) } }
        try showNewName(copied, rename, old)
        guard old != .left else { return }
        // The file is renamed, even if this fails.
        do throws(FileSystemError) { try await keepDirectory(current.parent, havingLost: copied.key) } catch {
            remember(error, "rename", current.parent)
        }
    }

    private func copyToNewKey(_ entry: Entry, _ rename: FileRename) async throws(FileSystemError) -> Copied {
        var current = entry
        let (key, newKey) = (try key(of: current.ino), rename.newKey)
        // Where the store moves objects, no deletion follows.
        if !store.capabilities.move { try await requireDeletable(in: key.directory) }
        try await finishJobs(at: key)
        // An unlinked object that open handles need may be at the new key: it is replaced like any other target.
        let takeover = await takeOverDeletion(newKey)
        // If the journal refuses the row, there is nothing to call off.
        var (job, isWrittenDown) = (rooms.journal.newID(), false)
        let began = time.uptime()
        do throws(FileSystemError) {
            var headers = try headersForRename(of: current, from: key, to: newKey)
            try await finishJobs(at: newKey)
            let replaced = rename.replaced ?? takeover?.version
            // After a crash here, recovery must know that the target is open without a name.
            if let file = rename.replacedFile, files.isOpen(file.ino) { keepOrphan(file) }
            try begin(
                job, current, key, to: newKey, headers, replacing: replaced, rename.displaced,
                insteadOf: takeover?.deletion.job)
            isWrittenDown = true
            // The parent's marker has to be there before its last file is gone.
            try await keepDirectory(current.parent, without: current)
            let (version, isMoved): (ObjectVersion?, Bool)
            do { (version, isMoved) = try await transfer(current, from: key, to: newKey, headers) } catch {
                // A HEAD of a native link would show the headers of the object that it leads to.
                guard error.kind == .stale, rename.file == nil, !isNative(current) else { throw error }
                // Another host has changed the object since it was listed: the present one is renamed.
                current = try await learnHeaders(of: current, forHolder: true)
                let second = rooms.journal.newID()
                headers = try headersForRename(of: current, from: key, to: newKey)
                try begin(
                    second, current, key, to: newKey, headers, replacing: replaced, rename.displaced, insteadOf: job)
                job = second
                (version, isMoved) = try await transfer(current, from: key, to: newKey, headers)
            }
            try await detach(rename.target, noteReplaced(rename.target), unlessAt: rename.component)
            return Copied(
                entry: current, key: key, headers: headers, version: version, job: job, began: began, isMoved: isMoved,
                hasReplaced: rename.target != nil || takeover != nil)
        } catch {
            if isWrittenDown { callOff(job, of: key.bytes, to: newKey, giving: takeover) }
            if let file = rename.replacedFile, !file.state.withLock({ $0.life.isUnlinked }) {
                try? metadata.forget(unlinked: file.ino)
            }
            if let takeover { await giveBack(takeover) }
            throw error
        }
    }

    private func deleteOldObject(
        _ copied: Copied, _ rename: FileRename
    ) async throws(FileSystemError) -> OldObject {
        let key = copied.key
        do throws(ObjectStoreError) {
            return try await deleteCopied(key, copied.entry.attributes.version, since: copied.began) ? .gone : .others
        } catch {
            guard copied.hasReplaced || error.isRetryable || error.kind == .cancelled else {
                let rest = await deleteCopy(rename.newKey, copied.version, ofObjectAt: key)
                callOff(copied.job, of: key.bytes, to: rename.newKey)
                let refusal = FileSystemError(error)
                throw FileSystemError(refusal.kind, refusal.reason + rest)
            }
            // A copy that has taken a target's place cannot be undone, and other failures may pass: a job deletes the source
            // later.
            try leaveSource(of: copied.entry, key, copied.job, because: error)
            return .left
        }
    }

    private func showNewName(
        _ copied: Copied, _ rename: FileRename, _ old: OldObject
    ) throws(FileSystemError) {
        let (entry, key, version) = (copied.entry, copied.key, copied.version)
        var attributes = rename.file?.attributes ?? entry.attributes
        if let old = entry.attributes.version, let version {
            rooms.blocks.move(key, old, to: rename.newKey, version)
        }
        attributes.version = version
        attributes.noteChange(at: time.now())
        try moveEntry(entry, to: rename.newParent, rename.component, pending: old == .left)
        if old == .others { try cached { metadata throws(MetadataError) in try metadata.distrust(key.bytes) } }
        let known = try cached { metadata throws(MetadataError) in try metadata.metadata(of: entry.ino) }
        try cached { [attributes] metadata throws(MetadataError) in
            try metadata.update(entry.ino, attributes, metadata: copied.headers ?? known, pending: false)
        }
        rename.active?.rebase(on: version.map { rooms.blocks.open(rename.newKey, $0) }, attributes)
    }

    /// Writes the row of the rename before its first request, in place of the row `other`.
    private func begin(
        _ job: IntentID, _ entry: Entry, _ key: ObjectKey, to newKey: ObjectKey, _ headers: ObjectMetadata?,
        replacing replaced: ObjectVersion?, _ displaced: RemovalRecord?, insteadOf other: IntentID?
    ) throws(FileSystemError) {
        var changes = other.map { [JournalChange.endJob($0)] } ?? []
        if let version = entry.attributes.version {
            let record = RenameRecord(
                source: VersionRecord(key, version), to: newKey.bytes, storageClass: entry.attributes.storageClass,
                replaced: replaced?.etag.text, headers: headers.map { HeadersRecord($0) }, displaced: displaced)
            changes.append(.job(job, .rename(record), items: []))
        }
        guard !changes.isEmpty else { return }
        try journalled { journal throws(JournalingError) in try journal.write(changes, flushed: true) }
    }

    /// Ends the row of a rename that has failed: it must not happen later. The next use of the new key asks the store. A deletion
    /// that the rename had taken over gets its row back.
    func callOff(_ job: IntentID, of key: ByteString, to newKey: ObjectKey, giving takeover: Takeover? = nil) {
        forgetJob(job, at: key, also: takeover.map { [removalAgain(of: $0)] } ?? [])
        try? metadata.distrust(newKey.bytes)
    }

    func removalAgain(of takeover: Takeover) -> JournalChange {
        let deletion = takeover.deletion
        let removal = RemovalRecord(
            key: deletion.key.bytes, etag: deletion.version?.etag.text, commits: deletion.commits)
        return .job(deletion.job, .removal(removal), items: [])
    }

    /// Turns the row of a rename into the removal of its source, and leaves that to a job. To be called before programs see the
    /// new name.
    private func leaveSource(
        of entry: Entry, _ key: ObjectKey, _ job: IntentID, because error: ObjectStoreError
    ) throws(FileSystemError) {
        let removal = JobIntent.removal(
            RemovalRecord(key: key.bytes, etag: entry.attributes.version?.etag.text, commits: []))
        try journalled { journal throws(JournalingError) in try journal.write([.advance(job, removal)], flushed: true) }
        removeLater(
            job, JournalContents.Job(intent: removal, items: []), entry.component, in: entry.parent,
            because: "\(error)")
    }

    private func moveEntry(
        _ entry: Entry, to parent: InodeNumber, _ component: ByteString, pending: Bool = false
    ) throws(FileSystemError) {
        try cached { metadata throws(MetadataError) in
            _ = try metadata.rename(entry.ino, to: parent, component, pending: pending)
        }
    }
}
