package import Basics
package import Journaling
package import Logging
package import ObjectStorage

/// Finishes jobs of the journal that a crash, or a store that refused for a while, has left half done.
///
/// Uses only the rows and what the store shows, so a job can be begun any number of times. An object that is not the one a row
/// names is another host's, and stays as it is.
package struct JobRunner: Sendable {
    /// Objects looked at or copied at the same time.
    static let width = 16

    let store: any ObjectStore
    let journal: Journal
    private let copier: ObjectCopier
    private let logger: Logger

    package init(store: any ObjectStore, journal: Journal, time: any TimeSource, logger: Logger) {
        (self.store, self.journal, self.logger) = (store, journal, logger)
        copier = ObjectCopier(store: store, journal: journal)
    }

    /// Carries the job out and ends its row, and with it the rows of those of `files` whose objects it has replaced or removed.
    /// Throws while the store does not let it; the rows stay then.
    package func finish(
        _ id: IntentID, _ job: JournalContents.Job, files: [IntentID: FileIntent] = [:]
    ) async throws(CommitError) {
        let changes = try await carryOut(id, job, files: files)
        do { try journal.write(changes, flushed: true) } catch { throw .journal(error) }
    }

    /// The same, but returns the changes of the journal instead of writing them.
    func carryOut(
        _ id: IntentID, _ job: JournalContents.Job, files: [IntentID: FileIntent]
    ) async throws(CommitError) -> [JournalChange] {
        var isDone = true
        do throws(ObjectStoreError) {
            switch job.intent {
            case .removal(let record): try await remove(record, files)
            case .rename(let record): isDone = try await move(record, files)
            case .tree(let from, let to): try await moveTree(job.items, from: from, to: to)
            case .moved(let prefix, _), .removals(let prefix): try await removeAll(job.items, below: prefix)
            // The caller repeats the change, or was not told that it was done.
            case .headers: break
            }
        } catch { throw CommitError(error) }
        var changes = [JournalChange.endJob(id)]
        for (row, file) in files where isDone {
            if job.intent.ends(file, row, job: id) {
                changes.append(.endFile(row))
            } else if job.intent.hasRemovedWhatIsReplaced(by: file) {
                var file = file
                file.condition = .absent
                changes.append(.file(row, file))
            }
        }
        logger.info("an interrupted change of the bucket is finished", metadata: ["op": "\(job.intent.name)"])
        return changes
    }

    /// Deletes the copies of a directory's unfinished rename, and ends its row: the program is about to repeat the rename, and
    /// its open files have the names from before. False, and nothing happens, when a copy is all that is left of an object.
    /// Throws while the store does not let it; the row stays then.
    package func undo(
        _ id: IntentID, _ items: [ItemRecord], from: ByteString, to: ByteString
    ) async throws(CommitError) -> Bool {
        enum Found { case copy(ObjectKey), other, onlyCopy }
        do throws(ObjectStoreError) {
            let sources = try await listed(items, below: from)
            let targets = try await listed(items, below: to)
            let found = try await concurrently(items, width: Self.width) {
                [self] (item) throws(ObjectStoreError) -> Found in
                let source = ObjectKey(item.source.key)
                let key = source.moved(from: from, to: to)
                if sources.shows(item.source, at: source) {
                    if targets.shows(item.source, at: key) { return .copy(key) }
                    if targets.lacks(key) { return .other }
                }
                let original = try await object(source)
                let target = try await object(key)
                // The copy may be older than what another host has stored since.
                let isOfListed = isCopy(target, of: item.source)
                // The copy of a link cannot be recognised by its ETag.
                guard let original else { return isOfListed || target?.isLink ?? false ? .onlyCopy : .other }
                let isOfPresent = try await isCopy(target, at: key, of: original, source)
                return isOfListed || isOfPresent ? .copy(key) : .other
            }
            var copies: [ObjectKey] = []
            for item in found {
                switch item {
                case .copy(let key): copies.append(key)
                case .other: break
                case .onlyCopy: return false
                }
            }
            try await deleteAll(copies)
        } catch { throw CommitError(error) }
        do { try journal.write([.endJob(id)], flushed: true) } catch { throw .journal(error) }
        logger.info("an interrupted rename of a directory is undone", metadata: ["from": "\(from)"])
        return true
    }

    /// The object that the finished rename of a file has made at the new key; nil when it is not there.
    func renamed(_ rename: RenameRecord) async throws(CommitError) -> ObjectInfo? {
        do throws(ObjectStoreError) {
            guard let found = try await object(ObjectKey(rename.to)), found.isLeft(by: rename),
                try await object(ObjectKey(rename.source.key)) == nil
            else { return nil }
            return found.info
        } catch { throw CommitError(error) }
    }

    /// The version that an update of headers has made, if it has another ETag; nil when the update was not carried out, or when
    /// another object is there now.
    package func updated(_ update: HeadersUpdateRecord) async throws(CommitError) -> ObjectInfo? {
        let found: ObjectInfo?
        do { found = try await object(ObjectKey(update.source.key))?.info } catch { throw CommitError(error) }
        guard let found, found.version.etag.text != update.source.etag, found.version.size == update.source.size,
            found.metadata.user == update.headers.user
        else { return nil }
        return found
    }

    /// Aborts an upload of this mount that nothing will complete.
    package func abort(_ id: IntentID, _ upload: UploadRecord) async throws(CommitError) {
        do throws(ObjectStoreError) {
            try await store.abortUpload(ObjectKey(upload.key), UploadID(upload.upload))
        } catch { throw CommitError(error) }
        do { try journal.write([.endUpload(id)], flushed: false) } catch { throw .journal(error) }
    }

    // MARK: Pieces

    /// False when another host's object is there now, which stays.
    @discardableResult
    func remove(
        _ record: RemovalRecord, _ files: [IntentID: FileIntent]
    ) async throws(ObjectStoreError) -> Bool {
        let key = ObjectKey(record.key)
        guard let found = try await object(key)?.info else { return true }
        let commit = found.metadata.user[CommitOptions.commitHeader]
        let isOurs = commit.map { CommitOptions.isCommit($0, of: record.commits) } ?? false
        // A new file has taken the name and the object's place; with the same bytes it has the same ETag.
        if let commit, !isOurs, files.values.contains(where: { $0.key == record.key && $0.attempt == commit }) {
            return true
        }
        guard isOurs || found.version.etag.text == record.etag else {
            leave(key)
            return false
        }
        try await store.delete(key, ifMatch: store.capabilities.deleteIfMatch ? found.version.etag : nil)
        return true
    }

    /// Renames an object. Nothing is deleted before its copy was seen. False when the objects are not those of the row.
    private func move(
        _ rename: RenameRecord, _ files: [IntentID: FileIntent]
    ) async throws(ObjectStoreError) -> Bool {
        let (from, key) = (ObjectKey(rename.source.key), ObjectKey(rename.to))
        guard let original = try await object(from) else {
            // An earlier process has renamed the source, or another host has removed it: only a rename has made the new object.
            guard let found = try await object(key), found.isLeft(by: rename) else { return false }
            try await removeDisplaced(by: rename, files)
            return true
        }
        guard original.etag == rename.source.etag else {
            leave(from)
            return false
        }
        let target = try await object(key)
        if try await !isCopy(target, at: key, of: original, rename) {
            // What was there when the rename began may be replaced, nothing else.
            guard target?.etag == rename.replaced else {
                leave(key)
                return false
            }
            if original.isLink {
                _ = try await store.copyLink(from, to: key, rename.headers?.metadata)
            } else {
                _ = try await copier.copy(
                    from, rename.source.version, to: key, metadata: rename.headers?.metadata,
                    storageClass: rename.storageClass)
            }
        }
        try await removeDisplaced(by: rename, files)
        try await store.delete(from, ifMatch: store.capabilities.deleteIfMatch ? original.info.version.etag : nil)
        return true
    }

    /// The object of the replaced target, where no copy takes its place. Another host's newer one stays.
    private func removeDisplaced(
        by rename: RenameRecord, _ files: [IntentID: FileIntent]
    ) async throws(ObjectStoreError) {
        if let displaced = rename.displaced { try await remove(displaced, files) }
    }

    /// Renames a tree. An object that another host has stored at an item's key since it was listed moves as it is now; one that
    /// it has deleted is skipped.
    private func moveTree(
        _ items: [ItemRecord], from: ByteString, to: ByteString
    ) async throws(ObjectStoreError) {
        let sources = try await listed(items, below: from)
        let targets = try await listed(items, below: to)
        let verified = try await concurrently(items, width: Self.width) {
            [self] (item) throws(ObjectStoreError) -> ObjectKey? in
            let source = ObjectKey(item.source.key)
            let key = source.moved(from: from, to: to)
            if sources.shows(item.source, at: source), targets.shows(item.source, at: key) { return source }
            guard let original = try await object(source) else { return nil }
            let isListed = original.etag == item.source.etag
            let target = try await object(key)
            if try await !isCopy(target, at: key, of: original, source) {
                guard target == nil || !isListed && isCopy(target, of: item.source) else {
                    leave(key)
                    return nil
                }
                if original.isLink {
                    _ = try await store.copyLink(source, to: key)
                } else {
                    _ = try await copier.copy(
                        source, isListed ? item.source.version : original.info.version, to: key,
                        storageClass: isListed ? item.storageClass : original.info.storageClass)
                }
            }
            return source
        }
        try await deleteAll(verified.compactMap(\.self))
    }

    /// Deletes each object that is still the one that was copied.
    private func removeAll(_ items: [ItemRecord], below prefix: ByteString) async throws(ObjectStoreError) {
        let sources = try await listed(items, below: prefix)
        let found = try await concurrently(items, width: Self.width) {
            [self] (item) throws(ObjectStoreError) -> ObjectKey? in
            let key = ObjectKey(item.source.key)
            if sources.shows(item.source, at: key) { return key }
            if sources.lacks(key) { return nil }
            guard let object = try await object(key) else { return nil }
            if object.etag == item.source.etag { return key }
            leave(key)
            return nil
        }
        try await deleteAll(found.compactMap(\.self))
    }

    private func deleteAll(_ keys: [ObjectKey]) async throws(ObjectStoreError) {
        // The objects below before the directory: some stores keep a directory whose marker goes while it has children.
        let keys = Array(keys.reversed())
        let batch = max(1, store.capabilities.deleteBatch)
        for start in stride(from: 0, to: keys.count, by: batch) {
            let failed = try await store.deleteMany(Array(keys[start..<min(keys.count, start + batch)]))
            if let error = failed.first { throw error }
        }
    }

    func leave(_ key: ObjectKey) {
        logger.warning(
            "an object was replaced since a change of it began; it stays unchanged", metadata: ["key": "\(key)"])
    }
}
