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

/// SEMANTICS section 5: somebody else's version is at the key, and the name is theirs from now on.
extension BucketFileSystem {
    /// Inside `writing`, alone: the second writer's bytes are stored beside the file, or kept here for "pailfs recover" where that
    /// is not wanted, or cannot be done: the version below them is gone, or an upload, which cannot change its key, alone has
    /// some of them. Throws when they stay where they are, because the store or the disk does not let it.
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
        // Whatever the journal says to it: another try would store the bytes once more.
        endStored(draft.record, of: file, at: key, also: behind.map { [.endFile($0.record.id)] } ?? [])
        draft.staged.discard()
        await giveWay(file, because: FileSystemError(error))
    }

    /// Names that are tried for bytes beside their file. Each try sends them.
    private static let mostNames = 20

    /// Where bytes are stored beside their file.
    private struct ConflictPlace {
        let parent: InodeNumber
        let component: ByteString
        let key: ObjectKey
    }

    /// Stores the bytes under a name that nobody has: another conflict of the file may have come in the same second.
    private func storeBeside(
        _ file: ActiveFile, _ draft: ActiveFile.Draft, _ headers: ObjectMetadata
    ) async throws(CommitError) -> (ConflictPlace, ObjectVersion) {
        var others = 0
        while true {
            let place: ConflictPlace
            do throws(FileSystemError) { place = try conflictPlace(of: file.ino, others) } catch {
                let cause = ObjectStoreError(.local(errno: EIO), .put, message: error.reason)
                // A name that cannot be made, because it would be too long or shown as another, never can.
                throw error.mayPass ? CommitError.store(cause) : .conflict(cause)
            }
            do throws(CommitError) {
                return (place, try await draft.commit.commit(to: place.key, metadata: headers, condition: .absent))
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

    /// The bytes stay on this disk, and in the parts that an upload has, until somebody decides.
    private func setAside(
        _ file: ActiveFile, _ draft: ActiveFile.Draft, because error: FileSystemError
    ) async throws(FileSystemError) {
        let (id, name) = (draft.record.id, draft.staged.name)
        let (behind, isAcknowledged) = file.state.withLock { ($0.life.behind, $0.life.survivor != nil) }
        await draft.commit.quiesce()
        // Nothing is given up before the row says so: whoever is told of an error tries again.
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

    /// The end of the mount names a file that a program was told is safe, if it is still kept then.
    func noteLostBytes(_ id: IntentID, of path: ByteString, because error: FileSystemError) {
        let file = UnstoredFile(path: path, reason: "its bytes wait for \"pailfs recover\": \(error.reason)")
        recoverableFiles.noteBroken(id, file)
    }

    /// The file has nothing to store any more: its name leads to what the bucket has, under a number of its own, and whoever
    /// has it open hears so.
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
