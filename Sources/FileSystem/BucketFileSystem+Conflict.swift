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
        _ file: ActiveFile, _ overlay: ActiveFile.Overlay, _ headers: ObjectMetadata, because error: CommitError
    ) async throws(FileSystemError) {
        if case .conflict = error, policy.conflict == .keep, !overlay.staged.needsItsUpload {
            do throws(CommitError) { return try await keepConflict(file, overlay, headers, because: error) } catch {
                switch error {
                case .baseGone, .conflict: break
                case .store, .staging, .journal, .cancelled: throw FileSystemError(error)
                }
            }
        }
        try await setAside(file, overlay, because: FileSystemError(error))
    }

    private func keepConflict(
        _ file: ActiveFile, _ overlay: ActiveFile.Overlay, _ headers: ObjectMetadata, because error: CommitError
    ) async throws(CommitError) {
        do throws(JournalingError) { try overlay.record.goes(besideOf: file.ino.rawValue) } catch {
            throw .journal(error)
        }
        let (place, version) = try await storeBeside(file, overlay, headers)
        let key = place.key
        show(place, version, headers)
        rooms.logger.warning(
            "another host changed a file; this host's version is stored as a conflict file", metadata: ["key": "\(key)"]
        )
        let (fallback, isPromised) = file.state.withLock { ($0.fallback, $0.isPromised || $0.fallback != nil) }
        if isPromised {
            let reason = "another host changed the file; this host's version is stored as \(key)"
            let unstored = UnstoredFile(path: path(of: file.ino), reason: reason)
            keptBeside.withLock { if $0.count < Self.mostNamed { $0.append(unstored) } }
        }
        // Whatever the journal says to it: another try would store the bytes once more.
        endStored(overlay.record, of: file, at: key, also: fallback.map { [.endFile($0.record.id)] } ?? [])
        overlay.staged.discard()
        await giveWay(file, because: FileSystemError(error))
    }

    /// Files that the end of a mount names.
    private static let mostNamed = 1000
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
        _ file: ActiveFile, _ overlay: ActiveFile.Overlay, _ headers: ObjectMetadata
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
                return (place, try await overlay.commit.commit(to: place.key, metadata: headers, condition: .absent))
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
        _ file: ActiveFile, _ overlay: ActiveFile.Overlay, because error: FileSystemError
    ) async throws(FileSystemError) {
        let (id, name) = (overlay.record.id, overlay.staged.name)
        let (fallback, isPromised) = file.state.withLock { ($0.fallback, $0.isPromised || $0.fallback != nil) }
        await overlay.commit.quiesce()
        // Nothing is given up before the row says so: whoever is told of an error tries again.
        do throws(StagingError) {
            try rooms.staging.syncNames()
            try overlay.staged.flush()
        } catch { throw FileSystemError(error) }
        let intent: FileIntent
        do throws(JournalingError) {
            intent = try overlay.record.withdraw(
                overlay.staged.extents, also: fallback.map { [.endFile($0.record.id)] } ?? [])
        } catch { throw FileSystemError(error) }
        await overlay.commit.leaveUpload()
        rooms.logger.error(
            "a file cannot be stored; its bytes wait for \"pailfs recover\"",
            metadata: ["key": "\(intent.key)", "file": "\(id.rawValue)", "reason": "\(error.reason)"])
        if isPromised { noteBrokenPromise(id, of: path(of: file.ino), because: error) }
        // No read meets bytes on the move.
        await file.content.enterRegardless(alone: true)
        defer { file.content.leave(alone: true) }
        overlay.staged.leave()
        do throws(StagingError) { _ = try rooms.staging.hold(name) } catch {
            remember(.init(error), "commit", file.ino)
        }
        kept.withLock { $0[id] = intent }
        await giveWay(file, because: error)
    }

    /// The end of the mount names a file that a program was told is safe, if it is still kept then.
    func noteBrokenPromise(_ id: IntentID, of path: ByteString, because error: FileSystemError) {
        let file = UnstoredFile(path: path, reason: "its bytes wait for \"pailfs recover\": \(error.reason)")
        brokenPromises.withLock { $0.append((id, file)) }
    }

    /// The file has nothing to store any more: its name leads to what the bucket has, under a number of its own, and whoever
    /// has it open hears so.
    private func giveWay(_ file: ActiveFile, because error: FileSystemError) async {
        let fallback = file.state.withLock { state in
            state.failures.note(error)
            defer { (state.overlay, state.fallback, state.metadata, state.condition) = (nil, nil, nil, nil) }
            (state.base, state.isCopy, state.hasGivenWay) = (nil, false, true)
            (state.isDirty, state.isPromised) = (false, false)
            return state.fallback
        }
        if let fallback { await giveUp(fallback) }
        guard let entry = try? entry(file.ino) else { return files.settle(file) }
        do throws(MetadataError) {
            if entry.isPending {
                try metadata.remove(entry.ino)
            } else if let theirs = try metadata.renumber(entry.ino) {
                file.state.withLock { $0.successor = theirs.ino }
                try metadata.invalidate(theirs.ino, subtree: false)
            }
            try metadata.invalidate(entry.parent, subtree: false)
        } catch { remember(.init(error), "commit", file.ino) }
        files.settle(file)
        notifier?.invalidate(entry.ino)
        notifier?.invalidate(entry.name, in: entry.parent)
    }
}
