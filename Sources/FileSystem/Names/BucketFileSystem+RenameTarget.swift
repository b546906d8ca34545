import Basics
import Commits
import Journaling
import Metadata
import ObjectStorage
import Staging
import Synchronization

/// What becomes of the file that a rename replaces: its object, its rows in the journal, and its open handles.
extension BucketFileSystem {
    /// The deletion of a replaced object, which is in the journal before the target loses its name.
    struct Removal {
        let id: IntentID
        let intent: JobIntent

        init(of record: RemovalRecord, as id: IntentID) { (self.id, intent) = (id, .removal(record)) }

        var row: JournalChange { .job(id, intent, items: []) }
    }

    /// The removal of a target whose object has another key than that of `component`, so that no copy replaces it: after a crash
    /// it has to be deleted all the same. Without an ETag it has no object, but commits may have made one.
    ///
    /// Locks: the target's `writing` gate, alone.
    func displaced(_ target: Entry?, by component: ByteString) throws(FileSystemError) -> RemovalRecord? {
        guard let target, target.component != component else { return nil }
        let file = files.find(target.ino)?.state.withLock { ($0.life.replacedObject, [$0.life.draft, $0.life.behind]) }
        let etag = target.attributes.version?.etag ?? file?.0
        let drafts = file?.1.compactMap(\.self) ?? []
        return RemovalRecord(
            key: try key(of: target.ino).bytes, etag: etag?.text, commits: drafts.flatMap(\.record.commits))
    }

    /// The rows of an entry's drafts as they are, with the bytes that the journal has of them.
    func presentRows(of entry: Entry) throws(FileSystemError) -> [JournalChange] {
        guard let file = files.find(entry.ino) else { return [] }
        let records = file.state.withLock { [$0.life.draft, $0.life.behind] }.compactMap { $0?.record }
        var rows: [JournalChange] = []
        for record in records {
            rows.append(.file(record.id, record.intent))
            try journalled { journal throws(JournalingError) in
                if let content = try journal.content(of: record.id) { rows.append(.content(record.id, content)) }
            }
        }
        return rows
    }

    /// The changes that end the rows of an entry's drafts.
    func rows(of entry: Entry) -> [JournalChange] {
        guard let file = files.find(entry.ino) else { return [] }
        let drafts = file.state.withLock { [$0.life.draft, $0.life.behind] }
        return drafts.compactMap { $0.map { .endFile($0.record.id) } }
    }

    /// Keeps the target's attributes and headers for programs that have it open, before its entry is gone. Returns its headers.
    func noteReplaced(_ target: Entry?) -> ObjectMetadata? {
        guard let target else { return nil }
        noteFormer(target)
        return (try? metadata.metadata(of: target.ino)) ?? nil
    }

    /// Takes the name from the replaced target; open handles keep what they have. Where a file replaces a symlink or the other
    /// way round, the keys differ and the target's object is deleted; otherwise the new object takes its place. `headers` are
    /// those of `noteReplaced`.
    func detach(
        _ target: Entry?, _ headers: ObjectMetadata?, unlessAt component: ByteString, _ removal: Removal? = nil
    ) async throws(FileSystemError) {
        guard let target else { return }
        var hasObject = !target.isPending
        if let file = files.find(target.ino) {
            hasObject = hasObject || file.state.withLock { $0.life.replacedObject } != nil
            file.interruptUpload(isAway: watch.isAway)
            let now = time.now()
            let (draft, behind) = file.state.withLock { state in
                state.life.unlink()
                state.attributes.noteChange(at: now)
                state.metadata = state.metadata ?? headers
                let behind = state.life.forgetAcknowledged()
                return (state.life.draft, behind)
            }
            if files.isOpen(target.ino) { keepOrphan(file) }
            if let draft {
                if target.component == component {
                    try end(draft.record, isRemoved: true, also: behind.map { [.endFile($0.record.id)] } ?? [])
                } else {
                    try await endForGood(draft, behind, of: target, at: try key(of: target.ino))
                }
                await draft.commit.abandon()
                draft.staged.keep(false)
                if let behind { await giveUp(behind) }
            }
            files.forgetIfIdle(file)
        }
        guard target.component != component else { return }
        let isLeft = hasObject ? try await !deleteReplaced(target, removal) : false
        try cached { metadata throws(MetadataError) in try metadata.remove(target.ino, pending: isLeft) }
    }

    /// Deletes the target's object. False when a job does that later: another file has the name by now, so there is no way back.
    private func deleteReplaced(_ target: Entry, _ written: Removal?) async throws(FileSystemError) -> Bool {
        let key = try key(of: target.ino)
        do throws(ObjectStoreError) { try await store.delete(key, ifMatch: nil) } catch {
            let etag =
                target.attributes.version?.etag ?? files.find(target.ino)?.state.withLock { $0.life.replacedObject }
            let removal =
                written
                ?? Removal(
                    of: RemovalRecord(key: key.bytes, etag: etag?.text, commits: []), as: rooms.journal.newID())
            if written == nil {
                try journalled { journal throws(JournalingError) in try journal.write([removal.row], flushed: true) }
            }
            removeLater(
                removal.id, JournalContents.Job(intent: removal.intent, items: []), target.component,
                in: target.parent, because: "\(error)")
            return false
        }
        if let written { forgetJob(written.id, at: key.bytes) }
        return true
    }
}
