package import Basics
package import Journaling
package import Logging
package import ObjectStorage

/// Finishes jobs of the journal that a crash, or a store that refused for a while, has left half done.
///
/// Knows nothing but the rows and what the store shows, so it can be begun any number of times. An object that is not the one
/// a row speaks of was put there by somebody else, and is left as it is.
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

    /// Carries the job out and takes its row away, and with it those of `files` whose objects it has replaced or removed.
    /// Throws while the store does not let it; the rows stay then.
    package func finish(
        _ id: IntentID, _ job: JournalContents.Job, files: [IntentID: FileIntent] = [:]
    ) async throws(CommitError) {
        let changes = try await carryOut(id, job, files: files)
        do { try journal.write(changes, flushed: true) } catch { throw .journal(error) }
    }

    /// The same without the journal, to which the answer is to be written.
    func carryOut(
        _ id: IntentID, _ job: JournalContents.Job, files: [IntentID: FileIntent]
    ) async throws(CommitError) -> [JournalChange] {
        var isDone = true
        do throws(ObjectStoreError) {
            switch job.intent {
            case .removal(let record): try await remove(record, files)
            case .rename(let record): isDone = try await move(record.source, to: ObjectKey(record.to), record)
            case .tree(let from, let to): try await moveTree(job.items, from: from, to: to)
            case .moved, .removals: try await removeAll(job.items)
            // Who asked for it asks again, or has not heard that it was done.
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

    /// Takes back what the rename of a directory had copied, and takes its row away: for a program that is about to ask for the
    /// rename again, and whose open files have the names from before. False, and nothing happens, when a source is gone
    /// already. Throws while the store does not let it; the row stays then.
    package func undo(
        _ id: IntentID, _ items: [ItemRecord], from: ByteString, to: ByteString
    ) async throws(CommitError) -> Bool {
        enum Found { case copy(ObjectKey), other, withoutSource }
        do throws(ObjectStoreError) {
            let found = try await concurrently(items, width: Self.width) {
                [self] (item) throws(ObjectStoreError) -> Found in
                guard let original = try await info(ObjectKey(item.source.key)) else { return .withoutSource }
                let key = ObjectKey(item.source.key).moved(from: from, to: to)
                return isCopy(try await info(key), of: original) ? .copy(key) : .other
            }
            var copies: [ObjectKey] = []
            for item in found {
                switch item {
                case .copy(let key): copies.append(key)
                case .other: break
                case .withoutSource: return false
                }
            }
            try await deleteAll(copies)
        } catch { throw CommitError(error) }
        do { try journal.write([.endJob(id)], flushed: true) } catch { throw .journal(error) }
        logger.info("an interrupted rename of a directory is undone", metadata: ["from": "\(from)"])
        return true
    }

    /// What the rename of a file, which is finished, has made at the new key; nil when that is not there.
    func renamed(_ rename: RenameRecord) async throws(CommitError) -> ObjectInfo? {
        do throws(ObjectStoreError) {
            guard let found = try await info(ObjectKey(rename.to)), found.version.size == rename.source.size,
                try await info(ObjectKey(rename.source.key)) == nil
            else { return nil }
            return found
        } catch { throw CommitError(error) }
    }

    /// The version that an update of headers has made of the one it names, if it has made another; nil when it was not carried
    /// out, or when something else is there now.
    package func updated(_ update: HeadersUpdateRecord) async throws(CommitError) -> ObjectInfo? {
        let found: ObjectInfo?
        do { found = try await info(ObjectKey(update.source.key)) } catch { throw CommitError(error) }
        guard let found, found.version.etag.text != update.source.etag, found.version.size == update.source.size,
            found.metadata.user == update.headers.user
        else { return nil }
        return found
    }

    /// Aborts an upload of ours that nothing will complete.
    package func abort(_ id: IntentID, _ upload: UploadRecord) async throws(CommitError) {
        do throws(ObjectStoreError) {
            try await store.abortUpload(ObjectKey(upload.key), UploadID(upload.upload))
        } catch { throw CommitError(error) }
        do { try journal.write([.endUpload(id)], flushed: false) } catch { throw .journal(error) }
    }

    // MARK: Pieces

    /// False when what is there now is somebody else's, and stays.
    @discardableResult
    func remove(
        _ record: RemovalRecord, _ files: [IntentID: FileIntent]
    ) async throws(ObjectStoreError) -> Bool {
        let key = ObjectKey(record.key)
        guard let found = try await info(key) else { return true }
        let commit = found.metadata.user[CommitOptions.commitHeader]
        // A new file has taken the name and the object's place; with the same bytes it has the same ETag.
        if let commit, files.values.contains(where: { $0.key == record.key && $0.attempt == commit }) { return true }
        let isOurs = commit.map { CommitOptions.isCommit($0, of: record.commits) } ?? false
        guard isOurs || found.version.etag.text == record.etag else {
            leave(key)
            return false
        }
        try await store.delete(key, ifMatch: store.capabilities.deleteIfMatch ? found.version.etag : nil)
        return true
    }

    /// Nothing is deleted before its copy was seen. False when the objects are not those that were meant.
    private func move(
        _ source: VersionRecord, to key: ObjectKey, _ rename: RenameRecord
    ) async throws(ObjectStoreError) -> Bool {
        let from = ObjectKey(source.key)
        guard let original = try await info(from) else {
            // Renamed by the process before, or removed by somebody else: what the copy was to replace is replaced only by that.
            guard let found = try await info(key) else { return false }
            return found.version.size == source.size && found.version.etag.text != rename.replaced
        }
        guard original.version.etag.text == source.etag else {
            leave(from)
            return false
        }
        let target = try await info(key)
        if !isCopy(target, of: original, rename) {
            // What was there when the rename began may be replaced, nothing else.
            guard target?.version.etag.text == rename.replaced else {
                leave(key)
                return false
            }
            _ = try await copier.copy(
                from, source.version, to: key, metadata: rename.headers?.metadata, storageClass: rename.storageClass)
        }
        try await store.delete(from, ifMatch: store.capabilities.deleteIfMatch ? original.version.etag : nil)
        return true
    }

    private func moveTree(
        _ items: [ItemRecord], from: ByteString, to: ByteString
    ) async throws(ObjectStoreError) {
        let verified = try await concurrently(items, width: Self.width) {
            [self] (item) throws(ObjectStoreError) -> ObjectKey? in
            let source = ObjectKey(item.source.key)
            guard let original = try await info(source) else { return nil }
            guard original.version.etag.text == item.source.etag else {
                leave(source)
                return nil
            }
            let key = ObjectKey(item.source.key).moved(from: from, to: to)
            let target = try await info(key)
            if !isCopy(target, of: original) {
                guard target == nil else {
                    leave(key)
                    return nil
                }
                _ = try await copier.copy(source, item.source.version, to: key, storageClass: item.storageClass)
            }
            return source
        }
        try await deleteAll(verified.compactMap(\.self))
    }

    /// Each object that is still the one that was copied.
    private func removeAll(_ items: [ItemRecord]) async throws(ObjectStoreError) {
        let found = try await concurrently(items, width: Self.width) {
            [self] (item) throws(ObjectStoreError) -> ObjectKey? in
            let key = ObjectKey(item.source.key)
            guard let object = try await info(key) else { return nil }
            if object.version.etag.text == item.source.etag { return key }
            leave(key)
            return nil
        }
        try await deleteAll(found.compactMap(\.self))
    }

    private func deleteAll(_ keys: [ObjectKey]) async throws(ObjectStoreError) {
        // What is below before the directory: some stores keep a directory whose marker goes while it has children.
        let keys = Array(keys.reversed())
        let batch = max(1, store.capabilities.deleteBatch)
        for start in stride(from: 0, to: keys.count, by: batch) {
            let failed = try await store.deleteMany(Array(keys[start..<min(keys.count, start + batch)]))
            if let error = failed.first { throw error }
        }
    }

    /// A copy has the source's ETag, or, made by parts, its length and headers with the commit id in them.
    private func isCopy(_ copy: ObjectInfo?, of original: ObjectInfo) -> Bool {
        guard let copy, copy.version.size == original.version.size else { return false }
        if copy.version.etag == original.version.etag { return true }
        return original.metadata.user[CommitOptions.commitHeader] != nil
            && copy.metadata.user == original.metadata.user
    }

    /// A copy with headers of its own is known by the commit id among them. The same bytes that were there before are none.
    private func isCopy(_ copy: ObjectInfo?, of original: ObjectInfo, _ rename: RenameRecord) -> Bool {
        if let id = rename.headers?.user[CommitOptions.commitHeader], let copy {
            if copy.metadata.user[CommitOptions.commitHeader] == id { return true }
            if copy.version.etag.text == rename.replaced { return false }
        }
        return isCopy(copy, of: original)
    }

    private func info(_ key: ObjectKey) async throws(ObjectStoreError) -> ObjectInfo? {
        do { return try await store.head(key, condition: nil) } catch {
            switch error.kind {
            // Nothing is at a key that the store does not take.
            case .notFound, .keyRefused, .keyTooLong: return nil
            default: throw error
            }
        }
    }

    func leave(_ key: ObjectKey) {
        logger.warning(
            "an object was replaced since a change of it began; it stays unchanged", metadata: ["key": "\(key)"])
    }
}
