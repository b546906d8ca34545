import Basics
import Blocks
import Commits
import Journaling
import Metadata
import ObjectStorage
import Synchronization

/// The rename of one file, with all entered that it needs: its own `writing` and the target's, alone, and both names.
struct FileRename {
    /// The file, if it is in the table of those that are active; nil in `file` while nobody has opened it, as it is what the store
    /// says.
    let active: ActiveFile?
    let file: ActiveFile?
    let newParent: InodeNumber
    let component: ByteString
    let newKey: ObjectKey
    /// What it takes the place of.
    let target: Entry?
    let replacedFile: ActiveFile?
    /// The target's object, where that has another key.
    let displaced: RemovalRecord?

    /// The version at the new key that the copy replaces.
    var replaced: ObjectVersion? { hasKeyOfTarget ? target?.attributes.version : nil }

    var hasKeyOfTarget: Bool { target?.component == component }
}

extension BucketFileSystem {
    /// A file without an object: what its commit will carry, and where to, is written down.
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
        let retyped = { [types = policy.contentTypes, changed = moved.ctime] (headers: ObjectMetadata) in
            AttributeCodec.dating(types.renamed(headers, from: key, to: rename.newKey), changed: changed)
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
                // The program hears that nothing was renamed: after a crash, too, both files are what they were.
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
        /// As it was copied.
        let entry: Entry
        let key: ObjectKey
        let headers: ObjectMetadata?
        let version: ObjectVersion?
        let job: IntentID
        /// Before the first request, of the time source's `uptime`.
        let began: Duration
        /// The store has moved it: there is nothing at the old key.
        let isMoved: Bool
        /// What was at the new key is gone.
        let hasReplaced: Bool
    }

    /// What is left at the old key.
    private enum OldObject {
        case gone
        /// Another host's.
        case others
        /// What the store would not delete now, and a job will.
        case left
    }

    /// A file whose object is all there is of it: that is copied to the new key, or moved there by the store, and the old one goes.
    func moveStored(_ current: Entry, _ rename: FileRename) async throws(FileSystemError) {
        let copied = try await copyToNewKey(current, rename)
        let old = copied.isMoved ? .gone : try await deleteOldObject(copied, rename)
        defer { if old != .left { forgetJob(copied.job, at: copied.key.bytes) } }
        try showNewName(copied, rename, old)
        guard old != .left else { return }
        // It is renamed, whatever becomes of this.
        do throws(FileSystemError) { try await keepDirectory(current.parent, havingLost: copied.key) } catch {
            remember(error, "rename", current.parent)
        }
    }

    private func copyToNewKey(_ entry: Entry, _ rename: FileRename) async throws(FileSystemError) -> Copied {
        var current = entry
        let (key, newKey) = (try key(of: current.ino), rename.newKey)
        // One request takes the old name away with it.
        if !store.capabilities.move { try await requireDeletable(in: key.directory) }
        try await finishJobs(at: key)
        // What was removed there, and is still read, is replaced like any other target.
        let takeover = await takeOverDeletion(newKey)
        // A write that the journal has refused has left nothing that would have to be called off.
        var (job, isWrittenDown) = (rooms.journal.newID(), false)
        let began = time.uptime()
        do throws(FileSystemError) {
            var headers = try headersForRename(of: current, from: key, to: newKey)
            try await finishJobs(at: newKey)
            let replaced = rename.replaced ?? takeover?.version
            // A process that ends from here on leaves this one to who finds the new object in its place.
            if let file = rename.replacedFile, files.isOpen(file.ino) { keepOrphan(file) }
            try begin(
                job, current, key, to: newKey, headers, replacing: replaced, rename.displaced,
                insteadOf: takeover?.deletion.job)
            isWrittenDown = true
            // The parent's marker has to be there before its last file is gone.
            try await keepDirectory(current.parent, without: current)
            let (version, isMoved): (ObjectVersion?, Bool)
            do { (version, isMoved) = try await transfer(current, from: key, to: newKey, headers) } catch {
                // The headers of a link of the store's own kind would be those of what it leads to.
                guard error.kind == .stale, rename.file == nil, !isNative(current) else { throw error }
                // Changed behind our back since it was listed: what is there now is what gets renamed.
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
            // The copy has taken the target's place, so there is no way back: the rest is done later.
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

    /// The intent to rename, before the first request; it takes the place of the one that it goes without.
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

    /// The program is told that the rename of `key` failed: it must not happen later. What is at the new key now is to be asked
    /// for. What was to be deleted there is so again.
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

    /// Of a rename only the removal of the source is left. To be called before programs see the new name.
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
