import Basics
import Blocks
import Commits
package import Metadata
import ObjectStorage
import Synchronization

/// chmod, chown, utimens and truncate(2).
extension BucketFileSystem {
    package func setAttributes(
        _ ino: InodeNumber, to change: AttributeChange, handle: HandleID?
    ) -> Outcome<AttributeReply> {
        later { [self] () async throws(FileSystemError) in
            try requireWritable()
            return try await noting("setattr", of: ino) { () async throws(FileSystemError) in
                try await withOrWithoutName(ino) { () async throws(FileSystemError) in
                    try await setAttributesNow(ino, to: change, handle: handle)
                }
            }
        }
    }

    private func setAttributesNow(
        _ ino: InodeNumber, to change: AttributeChange, handle: HandleID?
    ) async throws(FileSystemError) -> AttributeReply {
        if handle == nil, files.find(ino)?.isSettled == true { try requireCurrent(try entry(ino)) }
        if let size = change.size { try await resize(ino, to: size, handle: handle) }
        let drops = change.dropsPrivileges ? try hasPrivileges(ino) : false
        if change.mode != nil || change.uid != nil || change.gid != nil || change.modified != nil
            || change.accessed != nil || drops
        {
            try await changingHeaders(of: ino) { () async throws(FileSystemError) in
                if let file = try await holdFile(ino) {
                    defer { releaseInBackground(file) }
                    try await set(change, of: file)
                } else if var former = former(ino) {
                    if apply(change, to: &former.attributes) { formers.change(ino) { [former] in $0 = former } }
                } else {
                    try await set(change, of: try entry(ino))
                }
            }
        }
        let status =
            if let file = files.find(ino) { shown(file) } else if let former = former(ino) {
                status(of: former, ino)
            } else { shown(try entry(ino)) }
        return AttributeReply(status: status, timeout: metadata.ttl)
    }

    private func resize(_ ino: InodeNumber, to size: Int64, handle: HandleID?) async throws(FileSystemError) {
        if let handle {
            let file = try fileHandle(handle, of: ino).file
            if try await !truncate(file, to: size) {
                // ftruncate(2) to the same length still changes the times.
                var change = AttributeChange()
                change.modified = time.now()
                try await changingHeaders(of: ino) { [change] () async throws(FileSystemError) in
                    try await set(change, of: file)
                }
            }
            return
        }
        // truncate(2) has no handle whose close would commit, so it commits itself; it changes nothing but the length.
        guard let file = try await holdFile(ino) else {
            throw FileSystemError(.isDirectory, "\(try entry(ino).name) is not a file")
        }
        defer { releaseInBackground(file) }
        let (wasDirty, length) = (file.isDirty, file.attributes.size)
        if length == size { return }
        try await truncate(file, to: size)
        if file.state.withLock({ $0.life.isUnlinked }) { return }
        // A file that another handle is writing is committed when that is closed.
        if !wasDirty || !handles.hasWriter(of: file) { try await makeDurableWaitingForSpace(file) }
    }

    /// The file is open, so it is dirty, or about to be. The commit of the caller's change stores the new mode.
    package func dropPrivileges(of ino: InodeNumber) {
        let hadAny = files.find(ino)?.state.withLock { state in
            let before = state.attributes.mode
            state.attributes.dropPrivileges()
            return state.attributes.mode != before
        }
        // For a write around its page cache the kernel leaves this to the file system, and keeps the mode that it knows.
        if hadAny == true { kernel.notifier?.invalidateAttributes(of: ino) }
    }

    private func hasPrivileges(_ ino: InodeNumber) throws(FileSystemError) -> Bool {
        var attributes =
            if let file = files.find(ino) { file.attributes } else if let former = former(ino) { former.shown } else {
                try entry(ino).attributes
            }
        let before = attributes.mode
        attributes.dropPrivileges()
        return attributes.mode != before
    }

    /// Applies the change. False when nothing differs: setting the same value costs nothing.
    private func apply(_ change: AttributeChange, to attributes: inout Attributes) -> Bool {
        let before = attributes
        if let mode = change.mode { attributes.mode = mode }
        if let uid = change.uid { attributes.uid = uid }
        if let gid = change.gid { attributes.gid = gid }
        if let modified = change.modified { attributes.mtime = modified.shownAsDate }
        if let accessed = change.accessed { attributes.atime = accessed.shownAsDate }
        if change.dropsPrivileges { attributes.dropPrivileges() }
        let isSame =
            attributes.mtime == before.mtime && attributes.atime == before.atime
            && attributes.mode ?? shownMode(before) == before.mode ?? shownMode(before)
            && attributes.uid ?? policy.uid == before.uid ?? policy.uid
            && attributes.gid ?? policy.gid == before.gid ?? policy.gid
        if isSame {
            attributes = before
            return false
        }
        attributes.noteChange(at: time.now())
        return true
    }

    private func shownMode(_ attributes: Attributes) -> UInt16 {
        attributes.kind == .directory ? policy.directoryMode : policy.fileMode
    }

    private func set(_ change: AttributeChange, of file: ActiveFile) async throws(FileSystemError) {
        let lock = try await lock(file, unless: { $0.needsRelease })
        if !file.needsRelease {
            try await finishJobs(at: try key(of: file.ino))
            // The change would lose headers that are not known.
            try await learnHeadersToKeep(of: file)
        }
        var (attributes, isDirty, isUnlinked) = file.state.withLock {
            ($0.attributes, $0.life.isDirty, $0.life.isUnlinked)
        }
        guard apply(change, to: &attributes) else { return }
        if isDirty || isUnlinked {
            // The next commit carries the change.
            let draft = file.state.withLock { state in
                state.attributes = attributes
                return state.life.draft
            }
            if let draft, change.modified != nil {
                try setModified(of: draft.staged, to: attributes.mtime)
                draft.commit.noteTimeSet()
            }
            if isUnlinked { return keepOrphan(file) }
            try describe(file)
            if file.state.withLock({ $0.life.isAcknowledged }) { try await acknowledge(lock) }
            return
        }
        let stored = try await store(attributes, of: try entry(file.ino))
        let object = stored.version.flatMap { version in
            (try? key(of: file.ino)).map { rooms.blocks.open($0, version) }
        }
        file.rebase(on: object, stored)
    }

    private func set(_ change: AttributeChange, of entry: Entry) async throws(FileSystemError) {
        var entry = entry
        // A HEAD of a native link shows the headers of its target.
        if needsHeadersToChange(entry) { entry = try await learnHeaders(of: entry) }
        var attributes = entry.attributes
        guard apply(change, to: &attributes) else { return }
        _ = try await store(attributes, of: entry)
    }

    /// Whether a change of some headers would lose others that are not known.
    func needsHeadersToChange(_ entry: Entry) -> Bool {
        if isNative(entry) || isFixed(entry) { return false }
        return !entry.attributes.headersKnown || entry.attributes.kind == .directory && haveGrownOld(headersOf: entry)
    }

    /// Writes the attributes of a committed entry: a metadata-only copy, or the marker of a directory.
    private func store(_ attributes: Attributes, of entry: Entry) async throws(FileSystemError) -> Attributes {
        var attributes = attributes
        attributes.headersKnown = true
        if isFixed(entry) {
            // No object stands for the top directory: its attributes live as long as the cache directory.
            try cached { metadata throws(MetadataError) in
                try metadata.update(entry.ino, attributes, metadata: nil, pending: false)
            }
            return attributes
        }
        let hold = metadata.hold([entry.ino])
        defer { metadata.release(hold) }
        let key = try key(of: entry.ino)
        let previous = try cached { metadata throws(MetadataError) in try metadata.metadata(of: entry.ino) }
        let headers = AttributeCodec.encode(
            attributes, over: previous ?? (attributes.kind == .directory ? Self.markerHeaders : ObjectMetadata()))
        if attributes.kind == .directory {
            attributes.version = try await putMarker(key, headers, over: attributes.version)
        } else if isNative(entry) {
            do { attributes.version = try await store.copyLink(key, to: key, headers) } catch {
                throw FileSystemError(error)
            }
        } else {
            attributes.version = try await updateHeaders(key, attributes.version, headers)
        }
        try cached { metadata throws(MetadataError) in
            try metadata.update(entry.ino, attributes, metadata: headers, pending: false)
        }
        return attributes
    }
}
