import Basics
import Blocks
package import Commits
import Journaling
import Logging
package import Metadata
import ObjectStorage
import Staging
import Synchronization

/// Restores what an earlier process left, before the kernel sends requests.
extension BucketFileSystem {
    /// With `openFiles` the mount has not ended in between, and programs have these files open. Throws when the caches or the
    /// journal cannot be written.
    package func recover(
        _ plan: Recovery.Plan, unlinked: [Orphan] = [], openFiles: [(handle: HandleID, ino: InodeNumber)]? = nil
    ) async throws(FileSystemError) {
        let plan = try withholding(try await followMovedDirectories(try await withoutStored(plan)))
        for rename in plan.undone { directoryRenames.noteTried(from: rename.from, to: rename.to) }
        for rename in plan.moved { directoryRenames.noteCompleted(from: rename.from, to: rename.to) }
        for from in plan.emptied { directoryRenames.noteCompleted(from: from, to: nil) }
        try follow(plan)
        // If this process is killed before this, the next one finds the same.
        try journalled { journal throws(JournalingError) in
            if !plan.ended.isEmpty { try journal.write(plan.ended, flushed: true) }
        }
        let nameless = Set(unlinked.filter { restoreOrphan($0, plan) }.compactMap(\.staging))
        let acknowledged = try recoverFiles(of: try without(nameless, plan))
        try claimJournal()
        try distrustWhatIsLeft(of: plan)
        for (ino, place) in plan.beside {
            let ino = InodeNumber(rawValue: ino)
            if (try? key(of: ino))?.bytes != place { recoverableFiles.noteInterrupted(ino) }
        }
        if let openFiles {
            if !plan.isStoreAway { await recordPendingCommits() }
            reopenHandles(openFiles)
            if plan.isStoreAway { rooms.pool.start { [weak self] in await self?.recordPendingCommits() } }
        }
        // After the handles, which need the objects that these uploads may replace.
        for file in acknowledged where file.state.withLock({ $0.life.isAcknowledged }) { queue(file) }
    }

    /// Records in the caches what the earlier process has changed at the store.
    private func follow(_ plan: Recovery.Plan) throws(FileSystemError) {
        // The mount continues with files that are not stored yet, and knows those that were stored since. Distrusting a key also
        // distrusts what is known of the directories above it.
        let ours = Set((plan.open + plan.acknowledged).map(\.intent.key) + plan.landed.keys.map(\.bytes))
        for key in plan.touched {
            if ours.contains(key), try known(key)?.attributes.kind == .file { continue }
            try cached { metadata throws(MetadataError) in try metadata.distrust(key) }
            // The block cache keeps blocks by version: those of other versions do no harm.
        }
        for (_, intent) in plan.open + plan.acknowledged { try followMovedFile(intent) }
        for (rename, info) in plan.renamed { try follow(rename, to: info) }
        for (update, info) in plan.updated { try follow(update, to: info) }
        // A listing would not show mode, owner and time.
        for (key, info) in plan.landed {
            let known = try known(key.bytes)
            if let known, known.attributes.kind == .file { try adopt(info, as: known.ino) }
        }
    }

    /// Makes the next use ask the store about files with which this process does not continue: they may be stored or not.
    private func distrustWhatIsLeft(of plan: Recovery.Plan) throws(FileSystemError) {
        for key in Set((plan.open + plan.acknowledged).map(\.intent.key)).intersection(plan.touched) {
            if let known = try known(key), files.find(known.ino)?.isDirty == true { continue }
            try cached { metadata throws(MetadataError) in try metadata.distrust(key) }
        }
    }

    /// Handles of the file continue with the object at its new name, and those of the replaced target without a name.
    private func follow(_ rename: RenameRecord, to info: ObjectInfo) throws(FileSystemError) {
        let (key, newKey) = (ObjectKey(rename.source.key), ObjectKey(rename.to))
        if let displaced = rename.displaced, let target = try known(displaced.key) {
            try cached { metadata throws(MetadataError) in try metadata.remove(target.ino) }
        }
        let (parent, component) = try place(of: rename.to)
        guard let entry = try known(key.bytes), let parent, entry.attributes.kind != .directory,
            entry.attributes.version?.etag.text == rename.source.etag
        else { return }
        try cached { metadata throws(MetadataError) in _ = try metadata.rename(entry.ino, to: parent, component) }
        rooms.blocks.move(key, rename.source.version, to: newKey, info.version)
        if entry.attributes.kind == .file { return try adopt(info, as: entry.ino) }
        // The object may show neither that it is a link, nor the length of its target.
        var attributes = entry.attributes
        attributes.version = info.version
        let link = attributes
        try cached { metadata throws(MetadataError) in
            let headers = try metadata.metadata(of: entry.ino)
            try metadata.update(entry.ino, link, metadata: rename.headers?.metadata ?? headers, pending: false)
        }
    }

    /// A file that was never stored may have its new name in the journal, if the process ended before it wrote the metadata
    /// cache.
    private func followMovedFile(_ intent: FileIntent) throws(FileSystemError) {
        guard let ino = intent.ino.map(InodeNumber.init(rawValue:)), let entry = try? entry(ino),
            entry.attributes.kind == .file, entry.isPending, try key(of: ino).bytes != intent.key
        else { return }
        let (parent, component) = try place(of: intent.key)
        guard let parent else { return }
        try cached { metadata throws(MetadataError) in _ = try metadata.rename(ino, to: parent, component) }
    }

    /// The directory that a key is in, as far as it is known, and its component there.
    func place(of key: ByteString) throws(FileSystemError) -> (parent: InodeNumber?, component: ByteString) {
        let above = ObjectKey(key).directory
        return (above.isEmpty ? .root : try known(above)?.ino, ByteString(key.bytes.dropFirst(above.count)))
    }

    /// The entry at a key in the metadata cache.
    func known(_ key: ByteString) throws(FileSystemError) -> Entry? {
        try cached { metadata throws(MetadataError) in try metadata.entry(at: key) }
    }

    /// Ends the rows of files that have lost their names: only their open handles need the bytes.
    private func without(_ nameless: Set<String>, _ plan: Recovery.Plan) throws(FileSystemError) -> Recovery.Plan {
        let rows = (plan.open + plan.acknowledged).filter { nameless.contains($0.intent.staging) }.map(\.id)
        if rows.isEmpty { return plan }
        try journalled { journal throws(JournalingError) in
            try journal.write(rows.map { .endFile($0) }, flushed: true)
        }
        var plan = plan
        plan.open.removeAll { rows.contains($0.id) }
        plan.acknowledged.removeAll { rows.contains($0.id) }
        return plan
    }

    /// Restores the files of the plan. Returns the acknowledged ones; of these, a file that was written to since is dirty again.
    private func recoverFiles(of plan: Recovery.Plan) throws(FileSystemError) -> [ActiveFile] {
        // Before the files: some have to wait for the jobs.
        for left in plan.left { resumeJob(left) }
        var acknowledged: [ActiveFile] = []
        // Of two files with the same key, an earlier process could not restore the older one when the newer was made.
        let newest = Dictionary(plan.acknowledged.map { ($0.intent.key, $0.id) }) { max($0, $1) }
        for (id, intent) in plan.acknowledged {
            do throws(FileSystemError) {
                guard newest[intent.key] == id else {
                    throw FileSystemError(.stale, "another file has its name now")
                }
                let file = try restore(id, intent, uploads: plan.uploads[id] ?? [])
                rest(file)
                acknowledged.append(file)
            } catch { loseAcknowledged(id, intent, because: error) }
        }
        var unacknowledged = plan.unacknowledged
        // The handles of these files must fail in the next process as well.
        var told: Set<IntentID> = []
        for (id, intent) in plan.open {
            do throws(FileSystemError) {
                if try !isBegun(intent) {
                    unacknowledged.append((id, intent))
                    continue
                }
                if try goOn(id, intent, uploads: plan.uploads[id] ?? []) { continue }
            } catch {
                rooms.logger.error(
                    "an open file cannot be restored after the restart",
                    metadata: ["key": "\(intent.key)", "reason": "\(error.reason)"])
            }
            if giveUp(intent) { told.insert(id) }
            unacknowledged.append((id, intent))
        }
        var left: [JournalChange] = []
        for (id, intent) in unacknowledged {
            if try isUntouched(intent) {
                // A read-only mount changes nothing.
                if policy.readOnly { continue }
                try journalled { journal throws(JournalingError) in try journal.write([.endFile(id)], flushed: false) }
                do throws(StagingError) { try rooms.staging.remove(intent.staging) } catch {
                    throw FileSystemError(error)
                }
                continue
            }
            do throws(StagingError) { _ = try rooms.staging.hold(intent.staging) } catch {
                // "pailfs recover" shows what there is of the file.
                rooms.logger.error(
                    "a file that waits for \"pailfs recover\" cannot be read",
                    metadata: ["key": "\(intent.key)", "reason": "\(error)"])
            }
            var intent = intent
            if !policy.readOnly, intent.isLeft != true, !told.contains(id) {
                intent.isLeft = true
                left.append(.file(id, intent))
            }
            recoverableFiles.keep(id, intent)
        }
        // The next process of this mount must not take them for files that programs have open.
        if !left.isEmpty {
            try journalled { journal throws(JournalingError) in try journal.write(left, flushed: true) }
        }
        let count = recoverableFiles.count
        if count > 0 {
            rooms.logger.warning(
                "files were being written when pailfs ended; their bytes wait for \"pailfs recover\"",
                metadata: ["files": "\(count)"])
        }
        return acknowledged
    }

    /// Keeps the row of an acknowledged file, and the bytes that there are, for "pailfs recover" or for a later process that can
    /// restore the file. The end of the mount names it.
    private func loseAcknowledged(_ id: IntentID, _ intent: FileIntent, because error: FileSystemError) {
        rooms.logger.error(
            "an acknowledged file cannot be restored after the restart",
            metadata: ["key": "\(intent.key)", "reason": "\(error.reason)"])
        _ = try? rooms.staging.hold(intent.staging)
        recoverableFiles.keep(id, intent)
        noteLostBytes(id, of: intent.key, because: error)
    }

    /// The plan without acknowledged files that were stored before a power cut brought their rows back: their bytes are not here
    /// any more, and the object has the commit id of the file.
    private func withoutStored(_ plan: Recovery.Plan) async throws(FileSystemError) -> Recovery.Plan {
        var plan = plan
        for (id, intent) in plan.acknowledged where !plan.isStoreAway {
            // If the directory cannot be read, nothing is known.
            guard let map = intent.map, (try? rooms.staging.has(intent.staging)) == false else { continue }
            let isInJournal: Bool
            do throws(JournalingError) { isInJournal = try rooms.journal.content(of: id) != nil } catch {
                throw FileSystemError(error)
            }
            guard !isInJournal, let info = try? await store.head(ObjectKey(intent.key), condition: nil),
                info.version.size == map.size, let commit = info.metadata.user[CommitOptions.commitHeader],
                CommitOptions.isCommit(commit, of: [intent.identity])
            else { continue }
            plan.acknowledged.removeAll { $0.id == id }
            plan.landed[ObjectKey(intent.key)] = info
            plan.ended.append(.endFile(id))
        }
        return plan
    }

    /// Whether a file has no change to recover. Staged bytes do not show that: a file that was truncated or extended has none,
    /// and the bytes of a small one that was acknowledged may be in the journal alone.
    private func isUntouched(_ intent: FileIntent) throws(FileSystemError) -> Bool {
        guard !intent.isAcknowledged, !intent.isFlushed, !intent.needsUpload else { return false }
        if try !isBegun(intent) { return true }
        let map = StagingArea.recordedMap(
            of: intent.staging, in: rooms.staging.directory, baseSize: intent.baseSize)
        return map == ExtentMap(baseSize: intent.baseSize)
    }

    /// Whether a change can have been answered to a program: the staging file is there before that.
    private func isBegun(_ intent: FileIntent) throws(FileSystemError) -> Bool {
        do throws(StagingError) { return try rooms.staging.has(intent.staging) } catch { throw FileSystemError(error) }
    }

    /// Continues with a file that a program has open and was writing to when the process before this one of the same mount ended:
    /// it is dirty as before. False when its bytes are not known.
    private func goOn(
        _ id: IntentID, _ intent: FileIntent, uploads: [(id: IntentID, upload: JournalContents.Upload)]
    ) throws(FileSystemError) -> Bool {
        var known = try known(intent.key)
        // The next commit of a file that was about to be stored beside its name finds the conflict again.
        if let ino = intent.besideOf ?? (known == nil ? intent.ino : nil) {
            known = try cached { metadata throws(MetadataError) in try metadata.entry(InodeNumber(rawValue: ino)) }
        }
        guard let entry = known, entry.attributes.kind == .file else { return false }
        let isCopy = intent.isCopy ?? false
        let modified = rooms.staging.modified(intent.staging)
        let reopened: StagedFile?
        do throws(StagingError) {
            reopened = try rooms.staging.reopen(intent.staging, baseSize: intent.baseSize)
        } catch { throw FileSystemError(error) }
        guard let staged = reopened else { return false }
        // Rows that were not flushed are there as well: the machine did not go down.
        let isUntried = !intent.isTried && uploads.isEmpty
        let base = intent.base.map { rooms.blocks.open(ObjectKey($0.key), $0.version) }
        let rows = Dictionary(uniqueKeysWithValues: uploads.map { ($0.id, $0.upload.record) })
        let record = FileRecord(
            resuming: id, intent, uploads: rows, isUntried: isUntried, in: rooms.journal, jobs: jobs)
        let draft = draft(staged, on: base, record)
        draft.commit.resume(intent, uploads: uploads)
        var attributes = entry.attributes
        if let headers = intent.headers { AttributeCodec.decode(headers.metadata, into: &attributes) }
        if let modified {
            attributes.mtime = modified
            try setModified(of: staged, to: modified)
        }
        attributes.size = staged.size
        let shown = attributes
        let file =
            files.find(entry.ino)
            ?? files.adopt(entry.ino) {
                ActiveFile(ino: entry.ino, state: ActiveFile.State(attributes: shown, life: FileLife(opening: base)))
            }
        file.state.withLock { state in
            (state.attributes, state.metadata) = (shown, intent.headers?.metadata)
            state.life.goOn(
                with: draft, copying: isCopy ? base : nil, condition: intent.condition.condition)
        }
        if isCopy, let base { remember(copyOf: base.key, file) }
        return true
    }

    /// Sets the time of a staging file, from which the next process of this mount takes the time of the dirty file.
    func setModified(of staged: StagedFile, to modified: Timestamp) throws(FileSystemError) {
        do { try staged.setModified(modified) } catch { throw FileSystemError(error) }
    }

    /// Makes the open handles of a file fail, since writes are missing. False when its inode is not known.
    private func giveUp(_ intent: FileIntent) -> Bool {
        let place = intent.besideOf.flatMap { try? metadata.entry(InodeNumber(rawValue: $0)) }
        guard let entry = place ?? (try? metadata.entry(at: intent.key)) ?? nil else { return false }
        recoverableFiles.noteInterrupted(entry.ino)
        return true
    }

    /// Updates pending entries without a file: the process that committed them ended before it wrote that down, and the store
    /// shows what became of them.
    private func recordPendingCommits() async {
        let pending = (try? metadata.pendingFiles()) ?? []
        for ino in pending where files.find(ino) == nil {
            do throws(FileSystemError) { try await recordPendingCommits(ino) } catch { remember(error, "restart", ino) }
        }
    }

    private func recordPendingCommits(_ ino: InodeNumber) async throws(FileSystemError) {
        // Programs may be served meanwhile.
        let pass = try await enterNamespace(of: ino)
        defer { namespace.leave(pass) }
        guard files.find(ino) == nil, try entry(ino).isPending else { return }
        let key = try key(of: ino)
        let info: ObjectInfo
        do throws(ObjectStoreError) { info = try await store.head(key, condition: nil) } catch {
            guard error.kind == .notFound else { throw FileSystemError(error) }
            return try cached { metadata throws(MetadataError) in try metadata.remove(ino) }
        }
        guard files.find(ino) == nil else { return }
        try adopt(info, as: ino)
    }
}
