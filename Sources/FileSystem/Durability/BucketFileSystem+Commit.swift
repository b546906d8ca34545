import Basics
import Blocks
import Commits
import Journaling
import Logging
package import Metadata
import ObjectStorage
import Staging
import Synchronization

/// flush, fsync and everything else that makes staged bytes an object.
extension BucketFileSystem {
    /// Closing an empty file that the program may still write to commits nothing. A shell's redirection opens, duplicates and
    /// closes before the program writes a byte: a commit of the empty file would cost a request and take the old content away.
    package func flush(_ ino: InodeNumber, handle: HandleID, ifGoingOn: () -> Bool) -> Outcome<Void> {
        if let file = files.find(ino), isUnstoredAndEmpty(file), ifGoingOn() { return .success(()) }
        return synchronise(ino, handle, .close)
    }

    func isUnstoredAndEmpty(_ file: ActiveFile) -> Bool {
        file.state.withLock {
            $0.life.isDirty && !$0.life.isUnlinked && !$0.life.isAcknowledged && $0.life.draft?.staged.size == 0
        }
    }

    /// Makes the file durable after a writer's last descriptor is closed: no program is left to get an error, and closes of an
    /// empty file may have returned success. An empty file that the store does not take now is acknowledged, and uploaded later.
    func commitWithoutCaller(_ file: ActiveFile) async {
        do throws(FileSystemError) { try await makeDurable(file) } catch {
            remember(error, "commit", file.ino)
            guard isUnstoredAndEmpty(file) else { return }
            do throws(FileSystemError) { try await acknowledge(file) } catch { remember(error, "commit", file.ino) }
        }
    }

    package func sync(_ ino: InodeNumber, handle: HandleID, dataOnly: Bool) -> Outcome<Void> {
        synchronise(ino, handle, .fsync)
    }

    private enum Synchronisation: String {
        /// The close of a reader does not commit what a writer has not finished.
        case close
        /// fsync(2) commits the file, whatever the descriptor was opened for.
        case fsync
    }

    private func synchronise(
        _ ino: InodeNumber, _ handle: HandleID, _ operation: Synchronisation
    ) -> Outcome<Void> {
        do throws(FileSystemError) {
            let handle = try fileHandle(handle, of: ino)
            guard handle.flags.writes || operation != .close else { return .success(()) }
            guard handle.file.isDirty else {
                if let error = handle.takeFailure() { throw error }
                return .success(())
            }
            if policy.durability == .local, !handle.hasFailure, acknowledgeNow(handle.file) { return .success(()) }
            let isNew = handle.flags.exclusive && handle.file.state.withLock { $0.life.condition == .absent }
            return later { [self] () async throws(FileSystemError) in
                do throws(FileSystemError) { try await makeDurableWaitingForSpace(handle.file) } catch {
                    if error.kind != .interrupted {
                        remember(error, operation.rawValue, handle.file.ino)
                        // This error stands for the background failures as well.
                        _ = handle.takeFailure()
                    }
                    // O_EXCL: another host has made the file first.
                    throw isNew && error.kind == .stale ? FileSystemError(.exists, error.reason) : error
                }
                if let error = handle.takeFailure() { throw error }
            }
        } catch { return .ready(.failure(error)) }
    }

    /// The headers a commit of the file to `key` carries.
    func headersForCommit(of file: ActiveFile, to key: ObjectKey) -> ObjectMetadata {
        var headers = policy.namedHeaders.completed(headers(of: file), at: key)
        // Of a file without an object, the value that an earlier process has written down stays.
        if (try? metadata.entry(file.ino))?.isPending == false { headers.kept.isOfObject = true }
        headers.kept.storageClass = keptClass(file.attributes.storageClass ?? headers.kept.storageClass)
        return headers
    }

    /// The storage class of an object's new bytes: its own, unless that is an archive, from which the program could not read
    /// them.
    private func keptClass(_ storageClass: String?) -> String? {
        storageClass.flatMap { store.capabilities.archiveClasses.contains($0) ? nil : $0 }
    }

    /// The same without a content type from the name; with `changed`, as after a change at that time.
    func headers(of file: ActiveFile, changed: Timestamp? = nil) -> ObjectMetadata {
        var (attributes, own) = file.state.withLock { ($0.attributes, $0.metadata) }
        if let changed { attributes.noteChange(at: changed) }
        let previous = own ?? ((try? metadata.metadata(of: file.ino)) ?? nil) ?? ObjectMetadata()
        return AttributeCodec.encode(attributes, over: previous)
    }

    /// Does what close and fsync promise: the bytes are then where the mount's `durable` says.
    func makeDurable(_ file: ActiveFile) async throws(FileSystemError) {
        switch policy.durability {
        case .remote: try await commit(file)
        case .local: try await acknowledge(file)
        }
    }

    /// Commits the file. Does nothing when the bucket has its bytes already or, if `onlyAcknowledged`, when programs have written
    /// to it since.
    func commit(_ file: ActiveFile, onlyAcknowledged: Bool = false) async throws(FileSystemError) {
        let pass = try await enterNamespace(of: file.ino)
        defer { namespace.leave(pass) }
        let lock = try await lock(file, interrupting: false)
        if onlyAcknowledged, !file.state.withLock({ $0.life.isAcknowledged }) { return }
        try await commit(lock)
    }

    /// The same with the file locked. With `leaving` the file is losing its name: after a conflict its bytes are not kept.
    func commit(_ lock: borrowing FileLock, leaving: Bool = false) async throws(FileSystemError) {
        let file = lock.file
        guard file.isDirty else { return }
        let key = try key(of: file.ino)
        try await learnHeadersToKeep(of: file)
        guard let draft = file.state.withLock({ $0.life.draft }) else { return }
        let takeover = await takeOverDeletion(key)
        let condition = file.state.withLock { state in
            let condition = state.life.condition
            if condition == .absent, let replaced = takeover?.version { state.life.require(.match(replaced.etag)) }
            return condition
        }
        if let takeover { draft.commit.replaces(takeover.deletion.commits) }
        do throws(FileSystemError) {
            try await commit(lock, draft, key, replacing: takeover?.deletion.job, leaving: leaving)
        } catch {
            guard let takeover else { throw error }
            if error.kind == .stale {
                // The object there now is another host's.
                forgetJob(takeover.deletion.job, at: key.bytes)
            } else {
                file.state.withLock { $0.life.require(condition) }
                await giveBack(takeover)
            }
            throw error
        }
    }

    /// `removal` is the row to delete the object that this one replaces.
    private func commit(
        _ lock: borrowing FileLock, _ draft: ActiveFile.Draft, _ key: ObjectKey, replacing removal: IntentID?,
        leaving: Bool
    ) async throws(FileSystemError) {
        let file = lock.file
        try await finishJobs(at: key)
        let headers = headersForCommit(of: file, to: key)
        let (base, condition, behind, superseded) = file.state.withLock {
            ($0.life.object, $0.life.condition, $0.life.behind, $0.supersededDrafts)
        }
        // The upload of the acknowledged draft behind this one may still be under way.
        await behind?.commit.quiesce()
        for draft in superseded where await !draft.commit.quiesced() { throw .interrupted }
        let version: ObjectVersion
        do throws(CommitError) {
            version = try await draft.commit.commit(
                to: key, metadata: headers, condition: policy.conflict == .overwrite ? nil : condition)
        } catch {
            below(draft, of: file)
            // Another host removed the object, and the new one has none of its bytes. The removal may as well have come before
            // the file was written: no host's bytes are lost.
            if case .conflict(let cause) = error, cause.kind == .notFound, case .match = condition,
                !draft.staged.needsTheObject
            {
                file.state.withLock { $0.life.require(.absent) }
                return try await commit(lock, draft, key, replacing: removal, leaving: leaving)
            }
            switch error {
            case .conflict where !leaving, .baseGone where !leaving:
                try await makeWay(file, draft, headers, because: error)
            case .conflict, .baseGone, .store, .staging, .journal, .cancelled: break
            }
            throw FileSystemError(error)
        }
        try await recordCommit(
            file, draft, key: key, version: version, headers: headers, replacing: base,
            also: removal.map { [.endJob($0)] } ?? [])
    }

    /// The object with the bytes that are not in the draft. A commit that continues, or has failed, may have made an object
    /// already: then that is the one from now on.
    @discardableResult
    func below(_ draft: ActiveFile.Draft, of file: ActiveFile) -> CachedObject? {
        let base = file.state.withLock { $0.life.object }
        guard let landed = draft.commit.below, base?.key != landed.key || base?.version.etag != landed.version.etag
        else { return base }
        let object = rooms.blocks.open(landed.key, landed.version)
        return file.state.withLock { state in
            // The object of a conflict file is not this file's.
            guard state.life.draft?.staged === draft.staged, state.life.object === base,
                state.life.isCopy || base?.key ?? landed.key == landed.key
            else { return state.life.object }
            state.life.rest(on: object)
            return object
        }
    }

    /// Writes the headers of a dirty file's next commit down, for the next process of this mount.
    func describe(_ file: ActiveFile) throws(FileSystemError) {
        guard let draft = file.state.withLock({ $0.life.isUnlinked ? nil : $0.life.draft }) else { return }
        let headers = headersForCommit(of: file, to: try key(of: file.ino))
        do { try draft.record.describe(headers) } catch { throw FileSystemError(error) }
    }

    /// Reads the object's headers if they are not known: the new object would lose them. Headers that came while the file was
    /// open go into its state.
    func learnHeadersToKeep(of file: ActiveFile) async throws(FileSystemError) {
        guard let entry = try? entry(file.ino), !entry.isPending else { return }
        var known = entry.attributes
        if !known.headersKnown {
            do throws(FileSystemError) { known = try await learnHeaders(of: entry).attributes } catch {
                // The object is gone: the commit finds that out, and decides.
                guard error.kind == .notFound else { throw error }
                return
            }
        }
        let learned = known
        file.state.withLock { $0.learn(learned) }
    }

    /// The file is committed: its bytes become clean ones, and the file reads the object from now on.
    private func recordCommit(
        _ file: ActiveFile, _ draft: ActiveFile.Draft, key: ObjectKey, version: ObjectVersion,
        headers: ObjectMetadata, replacing base: CachedObject?, also changes: [JournalChange]
    ) async throws(FileSystemError) {
        // The object is committed: the view of it must follow, even if the task is cancelled.
        await file.content.enterRegardless(alone: true)
        defer { file.content.leave(alone: true) }
        var attributes = file.attributes
        (attributes.version, attributes.size, attributes.headersKnown) = (version, version.size, true)
        attributes.storageClass = keptClass(attributes.storageClass)
        let committed = attributes
        // Before the file counts as clean, here and in the journal: an open from then on, and the next process of this mount,
        // take its version from the metadata cache.
        let isKnown = Result { () throws(FileSystemError) in
            try cached { metadata throws(MetadataError) in
                try metadata.update(file.ino, committed, metadata: headers, pending: false)
            }
        }
        let behind = file.state.withLock { $0.life.takeBehind() }
        let changes = changes + (behind.map { [.endFile($0.record.id)] } ?? [])
        switch isKnown {
        case .success:
            endStored(draft.record, of: file, at: key, also: changes)
            if base != nil { forgetBlocks(of: key) }
            if let handover = draft.staged.release() {
                rooms.blocks.adopt(
                    stagingFile: handover.path, size: handover.size, present: handover.present, key: key,
                    version: version, reserved: handover.reservedBytes)
            }
        case .failure(let error):
            // The row and the bytes stay: the metadata cache has the version before, which the next process would show.
            let commit = UnrecordedCommit(
                draft: draft, key: key, attributes: committed, headers: headers, rows: changes)
            recordLater(commit, of: file, because: error)
            if base != nil { forgetBlocks(of: key) }
        }
        let object = rooms.blocks.open(key, version)
        file.state.withLock { state in
            state.attributes.version = version
            state.attributes.size = version.size
            state.attributes.headersKnown = true
            state.metadata = nil
            state.life.land(as: object)
        }
        // The commit has logged it.
        if let reason = draft.commit.callbackFailure {
            keep(FileSystemError(.inputOutput, reason), LastError.callback, file.ino)
        }
        if let behind { await giveUp(behind) }
        kernel.note(version: version.etag, of: file.ino)
        if case .success = isKnown { try? metadata.confirmDirectories(above: file.ino) }
    }
}
