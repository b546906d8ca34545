import Basics
import Blocks
import Commits
import Glibc
import Journaling
import Logging
import Metadata
import ObjectStorage
import Staging
import Synchronization

/// Conflicts (pailfs-semantics(7), TWO WRITERS): another host's version is at the key, and has the name from now on.
extension BucketFileSystem {
    /// Stores the second writer's bytes in a conflict file. Keeps them here for "pailfs recover" where the policy says so, or
    /// where no conflict file can be made: the version below them is gone, or only an upload, which cannot change its key, has
    /// some of them. Throws when they stay where they are, because the store or the disk does not let it.
    ///
    /// Locks: the file's `writing` gate, alone.
    func makeWay(
        _ file: ActiveFile, _ draft: ActiveFile.Draft, _ headers: ObjectMetadata, because error: CommitError
    ) async throws(FileSystemError) {
        if case .conflict = error, policy.conflict == .keep, !draft.staged.needsItsUpload {
            do throws(CommitError) { return try await keepConflict(file, draft, headers, because: error) } catch {
                switch error {
                case .baseGone, .conflict: break
                case .store, .staging, .journal, .cancelled: throw FileSystemError(error)
                }
            }
        }
        try await setAside(file, draft, because: FileSystemError(error))
    }

    private func keepConflict(
        _ file: ActiveFile, _ draft: ActiveFile.Draft, _ headers: ObjectMetadata, because error: CommitError
    ) async throws(CommitError) {
        do throws(JournalingError) { try draft.record.goes(besideOf: file.ino.rawValue) } catch {
            throw .journal(error)
        }
        let (place, version) = try await storeBeside(file, draft, headers)
        let key = place.key
        show(place, version, headers)
        rooms.logger.warning(
            "another host changed a file; this host's version is stored as a conflict file", metadata: ["key": "\(key)"]
        )
        let (behind, isAcknowledged) = file.state.withLock { ($0.life.behind, $0.life.survivor != nil) }
        if isAcknowledged {
            let reason = "another host changed the file; this host's version is stored as \(key)"
            let unstored = UnstoredFile(path: path(of: file.ino), reason: reason)
            recoverableFiles.noteBeside(unstored)
        }
        // Even if the journal cannot be written: another try would store the bytes once more.
        endStored(draft.record, of: file, at: key, also: behind.map { [.endFile($0.record.id)] } ?? [])
        draft.staged.discard()
        await giveWay(file, because: FileSystemError(error))
    }

    /// How many names are tried for a conflict file. Each try sends the bytes.
    private static let mostNames = 20

    /// The place of a conflict file.
    private struct ConflictPlace {
        let parent: InodeNumber
        let component: ByteString
        let key: ObjectKey
    }

    /// Stores the bytes under an unused name: another conflict of the file may have come in the same second.
    private func storeBeside(
        _ file: ActiveFile, _ draft: ActiveFile.Draft, _ headers: ObjectMetadata
    ) async throws(CommitError) -> (ConflictPlace, ObjectVersion) {
        var others = 0
        while true {
            let place: ConflictPlace
            do throws(FileSystemError) { place = try conflictPlace(of: file.ino, others) } catch {
                let cause = ObjectStoreError(.local(errno: EIO), .put, message: error.reason)
                // A name that would be too long, or shown as another, cannot be made later either.
                throw error.mayPass ? CommitError.store(cause) : .conflict(cause)
            }
            do throws(CommitError) {
                let version = try await draft.commit.commit(to: place.key, metadata: headers, condition: .absent)
                return (place, version)
            } catch {
                guard case .conflict = error, others < Self.mostNames else { throw error }
                others += 1
            }
        }
    }

    private func conflictPlace(of ino: InodeNumber, _ others: Int) throws(FileSystemError) -> ConflictPlace {
        let entry = try entry(ino)
        let name = entry.name + ByteString(".conflict-\(policy.hostName)-\(time.now().seconds)")
        let numbered = others == 0 ? name : name + ByteString("-\(others + 1)")
        let (component, key) = try newKey(
            ByteString(numbered.bytes.suffix(NameCodec.longestName)), in: entry.parent, kind: .file)
        return ConflictPlace(parent: entry.parent, component: component, key: key)
    }

    /// Shows the conflict file with the attributes it was stored with. A listing has none: until a HEAD the file would have the
    /// default mode, which may let more users read it.
    private func show(_ place: ConflictPlace, _ version: ObjectVersion, _ headers: ObjectMetadata) {
        var attributes = Attributes(kind: .file, size: version.size, mtime: version.modified, version: version)
        AttributeCodec.decode(headers, into: &attributes)
        do throws(FileSystemError) { _ = try takeIn(place.component, in: place.parent, attributes, headers) } catch {
            remember(error, "commit", place.parent)
        }
    }

    /// Keeps the bytes on this disk, and in the parts of an upload, for "pailfs recover".
    private func setAside(
        _ file: ActiveFile, _ draft: ActiveFile.Draft, because error: FileSystemError
    ) async throws(FileSystemError) {
        let (id, name) = (draft.record.id, draft.staged.name)
        let (behind, isAcknowledged) = file.state.withLock { ($0.life.behind, $0.life.survivor != nil) }
        await draft.commit.quiesce()
        // The file is given up only when the row says so: after an error the caller tries again.
        do throws(StagingError) {
            try rooms.staging.syncNames()
            try draft.staged.flush()
        } catch { throw FileSystemError(error) }
        let intent: FileIntent
        do throws(JournalingError) {
            intent = try draft.record.withdraw(
                draft.staged.extents, also: behind.map { [.endFile($0.record.id)] } ?? [])
        } catch { throw FileSystemError(error) }
        await draft.commit.leaveUpload()
        rooms.logger.error(
            "a file cannot be stored; its bytes wait for \"pailfs recover\"",
            metadata: ["key": "\(intent.key)", "file": "\(id.rawValue)", "reason": "\(error.reason)"])
        if isAcknowledged { noteLostBytes(id, of: path(of: file.ino), because: error) }
        // No read meets bytes on the move.
        await file.content.enterRegardless(alone: true)
        defer { file.content.leave(alone: true) }
        draft.staged.leave()
        do throws(StagingError) { _ = try rooms.staging.hold(name) } catch {
            remember(.init(error), "commit", file.ino)
        }
        recoverableFiles.keep(id, intent)
        await giveWay(file, because: error)
    }

    /// Has the end of the mount name an acknowledged file, if it is still kept for "pailfs recover" then.
    func noteLostBytes(_ id: IntentID, of path: ByteString, because error: FileSystemError) {
        let file = UnstoredFile(path: path, reason: "its bytes wait for \"pailfs recover\": \(error.reason)")
        recoverableFiles.noteBroken(id, file)
    }

    /// Leaves the name to the other host's object, under another inode number. The file has nothing to store any more, and its
    /// open handles get an error.
    private func giveWay(_ file: ActiveFile, because error: FileSystemError) async {
        let behind = file.state.withLock { state in
            state.failures.note(error)
            state.metadata = nil
            return state.life.loseConflict()
        }
        if let behind { await giveUp(behind) }
        guard let entry = try? entry(file.ino) else { return files.forgetIfIdle(file) }
        do throws(MetadataError) {
            if entry.isPending {
                try metadata.remove(entry.ino)
            } else if let theirs = try metadata.renumber(entry.ino) {
                file.state.withLock { $0.life.supersede(by: theirs.ino) }
                try metadata.invalidate(theirs.ino, subtree: false)
            }
            try metadata.invalidate(entry.parent, subtree: false)
        } catch { remember(.init(error), "commit", file.ino) }
        files.forgetIfIdle(file)
        kernel.notifier?.invalidate(entry.ino)
        kernel.notifier?.invalidate(entry.name, in: entry.parent)
    }
}
