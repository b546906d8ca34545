package import Basics
import Blocks
import Commits
import Journaling
package import Metadata
import ObjectStorage
import Staging
import Synchronization

/// rename: of a file, a copy, a check and a delete. Of a directory: `+RenameDirectory`.
extension BucketFileSystem {
    package func rename(
        _ name: ByteString, in parent: InodeNumber, to newName: ByteString, in newParent: InodeNumber, noReplace: Bool
    ) -> Outcome<Void> {
        let (from, to) = (Place(parent: parent, name: name), Place(parent: newParent, name: newName))
        return later { [self] () async throws(FileSystemError) in
            try requireWritable()
            // An uncommitted file may have to be committed, which takes space.
            try await waitingForSpace(givesSpace: true) { [self] () async throws(FileSystemError) in
                try await claiming([from, to]) { () async throws(FileSystemError) in
                    try await noting("rename", of: from) { () async throws(FileSystemError) in
                        try await renameNow(from, to: to, noReplace: noReplace)
                    }
                }
            }
        }
    }

    private func renameNow(_ from: Place, to: Place, noReplace: Bool) async throws(FileSystemError) {
        let (name, parent, newName, newParent) = (from.name, from.parent, to.name, to.parent)
        let source = try await existing(name, in: parent)
        let target = try await resolve(newName, in: newParent)
        if let target, target.ino == source.ino { return }
        // The lookup of the new name may have shown that another host has removed the source.
        guard try cached({ metadata throws(MetadataError) in try metadata.entry(source.ino) }) != nil else {
            throw FileSystemError(.notFound, "\(name) does not exist")
        }
        try requireShown(
            newName, in: newParent, isDirectory: source.attributes.kind == .directory, for: "rename")
        try requireBucket(name, in: parent)
        if store.capabilities.bucketsInKeys, try bucket(of: parent) != bucket(of: newParent) {
            throw FileSystemError(.crossDevice, "\(name) cannot be renamed to another bucket")
        }
        if target != nil, noReplace { throw FileSystemError(.exists, "\(newName) already exists") }
        // Any file in a directory may not be stored yet.
        let kind = source.attributes.kind
        let isPending = try entry(source.ino).isPending
        if target == nil, kind == .directory || isPending {
            try await requireStorable(try newKey(newName, in: newParent, kind: kind).key)
        }
        try await commitCopies(ofObject: source.ino)
        if let target { try await commitCopies(ofObject: target.ino) }
        if source.attributes.kind == .directory {
            let prefix = try key(of: source.ino).bytes
            for file in files.dirty where try isBelow(file.ino, prefix) { file.interruptUpload(isAway: watch.isAway) }
            try await alone { () throws(FileSystemError) in
                [
                    try key(of: source.ino).bytes,
                    try newKey(newName, in: newParent, kind: .directory).key.bytes,
                ]
            } _: { () async throws(FileSystemError) in
                let hold = metadata.hold(
                    [source.ino, target?.ino].compactMap(\.self), [(parent, name), (newParent, newName)])
                defer { metadata.release(hold) }
                try await renameDirectory(
                    source, to: newName, in: newParent, replacing: target, noReplace: noReplace)
            }
        } else {
            if let target, target.attributes.kind == .directory {
                throw FileSystemError(.isDirectory, "\(newName) is a directory")
            }
            if noReplace {
                try await requireAbsent(try newKey(newName, in: newParent, kind: kind).key, newName)
            }
            try await changingNames([from, to]) { () async throws(FileSystemError) in
                if let target { try await namesBeingRemoved.begin(target.ino) }
                defer { if let target { namesBeingRemoved.end(target.ino) } }
                try await doubting(source.ino) { () async throws(FileSystemError) in
                    try await renameHeld(source, to: newName, in: newParent, replacing: target)
                }
            }
        }
        touch(parent)
        if newParent != parent { touch(newParent) }
    }

    /// Throws EEXIST if another host has made the object, which the metadata cache may not know within ttl.
    func requireAbsent(_ key: ObjectKey, _ name: ByteString) async throws(FileSystemError) {
        guard try await unlistedObject(key) != nil else { return }
        // An object that is still to be deleted is not there for programs.
        if jobs.removes(key.bytes) || pendingDeletions[key] != nil { return }
        try cached { metadata throws(MetadataError) in try metadata.distrust(key.bytes) }
        throw FileSystemError(.exists, "\(name) already exists: another host created it")
    }

    /// The bucket of an inode in the mount of an account: the first component of its key.
    func bucket(of ino: InodeNumber) throws(FileSystemError) -> ByteString {
        let key = try cached { metadata throws(MetadataError) in try metadata.key(of: ino) } ?? ""
        return ByteString(key.bytes.prefix { $0 != UInt8(ascii: "/") })
    }

    // MARK: Files

    /// The rename is one of the file's users, so that the file stays in the table of active files: a program that opens it while
    /// the store copies waits with what it writes, and continues with the object at the new key.
    private func renameHeld(
        _ source: Entry, to newName: ByteString, in newParent: InodeNumber, replacing target: Entry?
    ) async throws(FileSystemError) {
        guard source.attributes.kind == .file else {
            return try await renameFile(source, to: newName, in: newParent, replacing: target, held: nil)
        }
        let held = activate(source)
        do throws(FileSystemError) {
            try await renameFile(source, to: newName, in: newParent, replacing: target, held: held)
        } catch {
            releaseInBackground(held)
            throw error
        }
        releaseInBackground(held)
    }

    /// `held` is the file if this rename is one of its users.
    private func renameFile(
        _ source: Entry, to newName: ByteString, in newParent: InodeNumber, replacing target: Entry?,
        held: ActiveFile?
    ) async throws(FileSystemError) {
        // A link that is none by its component gets a plain component.
        let isPlain = metadata.codec.role(of: source.component) == .object
        let (component, newKey) = try newKey(newName, in: newParent, kind: isPlain ? .file : source.attributes.kind)
        if isNative(source) { try await requireSameTarget(source, at: newKey) }
        let active = held?.ino == source.ino ? held : files.find(source.ino)
        // No upload of the target may reach the store once another file takes its place.
        let replacedFile = target.flatMap { files.find($0.ino) }
        let locks = try await lock(renaming: active, over: replacedFile)
        switch locks.target {
        case .some(let lock): try await storeForHandles(lock)
        case nil: break
        }
        await replacedFile?.quiesce()
        if let replacedFile { await saveForHandles(of: replacedFile) }
        // A commit may have finished since the entry was read, and its file have left the table.
        let target = target.flatMap { try? entry($0.ino) }
        let displaced = try displaced(target, by: component)
        if let active { try discardUnchangedDraft(active) }
        // A file that only this rename uses is what the store has.
        let isUnopened = active.map { $0 === held && !$0.isDirty && !files.isShared($0) } ?? false
        let file = isUnopened ? nil : active
        let isAcknowledged = replacedFile?.hasAcknowledgedBytes ?? false
        if !isUnopened {
            switch locks.source {
            case .some(let lock):
                try await prepare(lock, toReplaceAcknowledged: isAcknowledged || displaced?.etag != nil)
            case nil: break
            }
        }
        let hold = metadata.hold(
            [source.ino, target?.ino].compactMap(\.self), [(source.parent, source.name), (newParent, newName)])
        defer { metadata.release(hold) }
        let rename = FileRename(
            active: active, file: file, newParent: newParent, component: component, newKey: newKey, target: target,
            replacedFile: replacedFile, displaced: displaced)
        let current = try entry(source.ino)
        if current.isPending { try await moveUnstored(current, rename) } else { try await moveStored(current, rename) }
    }

    /// Commits the source before its object is copied. A file that was never committed only takes the new key, unless it replaces
    /// an object, which must not come back.
    private func prepare(
        _ lock: borrowing FileLock, toReplaceAcknowledged: Bool
    ) async throws(FileSystemError) {
        let file = lock.file
        try await finishJobs(at: try key(of: file.ino))
        let needsCommit = file.state.withLock {
            $0.life.replacedObject != nil || $0.life.draft?.record.hasReachedStore ?? false
        }
        if !(try entry(file.ino)).isPending || needsCommit { try await commit(lock) }
        // The rename ends the acknowledged bytes of the target, or deletes its object: the bytes that take their place are
        // acknowledged first.
        if toReplaceAcknowledged, !file.hasAcknowledgedBytes { try await acknowledge(lock) }
    }
}
