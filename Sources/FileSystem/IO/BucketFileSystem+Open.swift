package import Basics
import Blocks
import Commits
package import Metadata
import ObjectStorage
import Staging
import Synchronization

/// open, create, release.
extension BucketFileSystem {
    package func open(_ ino: InodeNumber, flags: OpenFlags) -> Outcome<OpenReply> {
        do {
            if flags.writes || flags.truncate { try requireWritable() }
            if !flags.truncate, let reply = openOrphan(ino, flags) { return .success(reply) }
            let entry = try entry(ino)
            if !flags.truncate {
                let isKnown = files.find(ino)?.isDirty ?? false || isFresh(entry) && !needsHeaders(entry)
                if isKnown, case .done(let reply) = try open(entry, flags) { return .success(reply) }
            }
        } catch { if error.kind != .stale { return .ready(.failure(error)) } }
        return later { [self] () async throws(FileSystemError) in
            do throws(FileSystemError) { return try await openWaiting(ino, flags) } catch {
                guard error.kind == .stale, let reply = openOrphan(ino, flags) else { throw error }
                if flags.truncate { try await emptying(reply, of: ino, flags) }
                return reply
            }
        }
    }

    private func openWaiting(_ ino: InodeNumber, _ flags: OpenFlags) async throws(FileSystemError) -> OpenReply {
        while true {
            try await namesBeingRemoved.wait(ino)
            let known = try self.entry(ino)
            guard var entry = try await resolve(known.name, in: known.parent) else {
                throw FileSystemError(.stale, "\(known.name) is no longer in the bucket")
            }
            guard entry.ino == ino else {
                throw FileSystemError(.stale, "another file has the name \(entry.name) now")
            }
            entry = try await exact(entry)
            switch try await openEmptying(entry, flags) {
            case .done(let reply): return reply
            case .leaving: break
            case .outdated(let size): try await tellKernel(size, of: entry)
            }
        }
    }

    /// Opens a file that has no name any more. A program comes to it by /proc/self/fd, or by a path that it resolved before the
    /// name went.
    private func openOrphan(_ ino: InodeNumber, _ flags: OpenFlags) -> OpenReply? {
        let open = files.find(ino).flatMap { open in
            open.state.withLock { $0.life.isUnlinked } ? files.retain(ino, if: { false }, make: { open }) : nil
        }
        guard let file = open ?? revive(ino) else { return nil }
        // The last close may have begun to delete the object.
        guard flags.truncate || hasItsBytes(file) else {
            releaseInBackground(file)
            return nil
        }
        // Its last handle may have been closed before, and its record removed with that.
        keepOrphan(file)
        let handle = handles.insert(.file(FileHandle(file: file, flags: flags)), isWaiting: flags.truncate)
        return OpenReply(handle: handle, keepCache: false, direct: flags.direct)
    }

    private enum Opening {
        case done(OpenReply)
        /// The file's name is about to go.
        case leaving
        /// The kernel has another length of the file than this one, or none from this process: it would cut reads to that.
        case outdated(Int64)
    }

    /// Makes the handle; nothing here waits. The kernel knows the length of a file that other handles have open. It gets no
    /// handle of a file that is to be emptied before that is done.
    private func open(_ entry: Entry, _ flags: OpenFlags) throws(FileSystemError) -> Opening {
        guard let file = activateNamed(entry) else { return .leaving }
        guard file.ino == entry.ino else {
            releaseInBackground(file)
            throw FileSystemError(.stale, "\(entry.name) was replaced in the bucket")
        }
        let (size, isOurs) = file.state.withLock { ($0.attributes.size, $0.life.isDirty) }
        let shown = kernel.size(of: entry.ino)
        guard flags.truncate || isOurs || shown == size || files.isShared(file) else {
            releaseInBackground(file)
            return .outdated(size)
        }
        if !flags.truncate { kernel.note(size: size, of: entry.ino) }
        let reads = kernel.reads?.open(file.ino, direct: flags.direct) { file.cleanBase?.lend() } ?? .cached
        let handle = handles.insert(
            .file(FileHandle(file: file, flags: flags, reads: reads)), isWaiting: flags.truncate)
        let etag = file.state.withLock { $0.life.draft == nil ? $0.life.object?.version.etag : nil }
        let keepCache =
            etag.map { kernel.hasPages(of: entry.ino, version: $0, isEmptied: flags.truncate) } ?? file.isDirty
        return .done(OpenReply(handle: handle, keepCache: keepCache, direct: flags.direct, backing: reads.backing))
    }

    /// Makes the kernel ask for the length, so that it does not cut reads to an outdated one.
    private func tellKernel(_ size: Int64, of entry: Entry) async throws(FileSystemError) {
        guard let notifier = kernel.notifier else {
            // ESTALE makes the kernel look the name up again and repeat the open.
            kernel.note(size: size, of: entry.ino)
            throw FileSystemError(.stale, "the length of \(entry.name) changed")
        }
        notifier.invalidate(entry.ino)
        do throws(CancellationError) { try await notifier.awaitInvalidation(of: entry.ino) } catch {
            throw .interrupted
        }
        kernel.note(size: size, of: entry.ino)
    }

    /// Opens the file, and empties it if `flags` say so.
    private func openEmptying(_ entry: Entry, _ flags: OpenFlags) async throws(FileSystemError) -> Opening {
        let opening = try open(entry, flags)
        if flags.truncate, case .done(let opened) = opening { try await emptying(opened, of: entry.ino, flags) }
        return opening
    }

    /// Empties the file that was just opened, or closes the handle again.
    private func emptying(
        _ opened: OpenReply, of ino: InodeNumber, _ flags: OpenFlags
    ) async throws(FileSystemError) {
        do throws(FileSystemError) {
            if flags.dropsPrivileges { dropPrivileges(of: ino) }
            try await truncate(fileHandle(opened.handle, of: ino).file, to: 0)
        } catch {
            // The kernel keeps its pages and its length, whatever was done to the file: neither counts any more.
            kernel.forget(ino)
            if let work = close(opened.handle) { await work() }
            handles.noteClosed(opened.handle)
            throw error
        }
        handles.note(opened.handle, of: ino)
    }

    /// The active file of an entry, with one more user; nil while a call takes its name away, and when its entry has just gone or
    /// been trimmed.
    func activateNamed(_ entry: Entry) -> ActiveFile? {
        if namesBeingRemoved.contains(entry.ino) { return nil }
        let file = activate(entry)
        // In this order: a call that takes the name away removes the entry before it ends its claim.
        let isLeaving = namesBeingRemoved.contains(file.ino)
        metadata.awaitForgetting()
        guard isLeaving || (try? metadata.entry(file.ino)) == .some(nil) else { return file }
        releaseInBackground(file)
        return nil
    }

    /// The active file of an inode, with one more user, with or without a name; nil if the inode is no file. Waits while a call
    /// takes its name away.
    func holdFile(_ ino: InodeNumber) async throws(FileSystemError) -> ActiveFile? {
        while true {
            try await namesBeingRemoved.wait(ino)
            if let file = files.find(ino), file.state.withLock({ $0.life.isNameless }) {
                return files.retain(ino) { file }
            }
            if let file = revive(ino) { return file }
            if former(ino) != nil { return nil }
            let entry = try entry(ino)
            guard entry.attributes.kind == .file else { return nil }
            if let file = activateNamed(entry) { return file }
        }
    }

    /// The active file of an entry, with one more user; under another inode number when another host has replaced the object that
    /// open handles have.
    func activate(_ entry: Entry) -> ActiveFile {
        var entry = current(entry)
        // An entry that is gone by now cannot be read again: the one that was read counts.
        var isGone = false
        while true {
            let (ino, state) = (
                entry.ino, ActiveFile.State(attributes: entry.attributes, life: FileLife(opening: committed(entry)))
            )
            // A commit may have finished since the entry was read, and its file have left the table: the version before must not
            // be taken for one that another host has replaced.
            let file = files.retain(ino) { [entry] in
                isGone || metadata.isCurrent(entry)
            } make: {
                ActiveFile(ino: ino, state: state)
            }
            let known = try? self.entry(ino)
            let latest = current(known ?? entry)
            guard let file else {
                (entry, isGone) = (latest, known == nil)
                continue
            }
            if latest.ino == entry.ino {
                let base = file.state.withLock { $0.life.object }
                if let base { openedKeys.withLock { _ = $0.insert(entry.ino, for: base.key) } }
                return file
            }
            releaseInBackground(file)
            entry = latest
        }
    }

    func committed(_ entry: Entry) -> CachedObject? {
        entry.attributes.version.flatMap { version in
            (try? key(of: entry.ino)).map { rooms.blocks.open($0, version) }
        }
    }

    package func create(
        _ name: ByteString, in parent: InodeNumber, mode: UInt16, flags: OpenFlags, caller: Caller
    ) -> Outcome<CreateReply> {
        let place = Place(parent: parent, name: name)
        do {
            try requireWritable()
            try requireShown(name, in: parent, isDirectory: false, for: "create")
            let key = try newKey(name, in: parent, kind: .file).key
            if !store.capabilities.keyRules.isUntried(key.bytes),
                case .absent = try cached({ metadata throws(MetadataError) in try metadata.lookup(name, in: parent) }),
                !nameClaims.contains(place), let pass = names.tryEnter()
            {
                defer { names.leave(pass) }
                do throws(FileSystemError) {
                    return .success(try makeFile(name, in: parent, mode, flags, caller))
                } catch  where error.kind == .exists && !flags.exclusive {
                    // A listing has brought the file of another host since.
                }
            }
        } catch { return .ready(.failure(error)) }
        return later { [self] () async throws(FileSystemError) in
            while true {
                let found = try await claiming([place]) { () async throws(FileSystemError) in
                    try await findOrMake(place, mode, flags, caller)
                }
                switch found {
                case .made(let reply): return reply
                // Emptying the file may wait for local space: without the claim on its name.
                case .existing(let entry): if let reply = try await openExisting(entry, flags) { return reply }
                }
            }
        }
    }

    private enum FoundOrMade {
        case existing(Entry)
        case made(CreateReply)
    }

    private func findOrMake(
        _ place: Place, _ mode: UInt16, _ flags: OpenFlags, _ caller: Caller
    ) async throws(FileSystemError) -> FoundOrMade {
        let (parent, name) = (place.parent, place.name)
        while true {
            if let entry = try await resolve(name, in: parent) {
                if flags.exclusive { throw FileSystemError(.exists, "\(name) already exists") }
                guard entry.attributes.kind == .file else {
                    throw FileSystemError(.isDirectory, "\(name) is not a file")
                }
                return .existing(entry)
            }
            try await requireStorable(try newKey(name, in: parent, kind: .file).key)
            do throws(FileSystemError) {
                return .made(
                    try await changingNames([place]) { () async throws(FileSystemError) in
                        try makeFile(name, in: parent, mode, flags, caller)
                    })
            } catch {
                // A listing has brought the file of another host since.
                guard error.kind == .exists, !flags.exclusive else { throw error }
            }
        }
    }

    /// nil when the name has to be looked up again.
    private func openExisting(_ entry: Entry, _ flags: OpenFlags) async throws(FileSystemError) -> CreateReply? {
        let entry = current(entry)
        switch try await openEmptying(entry, flags) {
        case .done(let opened): return CreateReply(entry: reply(for: entry), open: opened)
        case .leaving: try await namesBeingRemoved.wait(entry.ino)
        // The reply gives the kernel this length.
        case .outdated(let size): kernel.note(size: size, of: entry.ino)
        }
        return nil
    }

    private func makeFile(
        _ name: ByteString, in parent: InodeNumber, _ mode: UInt16, _ flags: OpenFlags, _ caller: Caller
    ) throws(FileSystemError) -> CreateReply {
        let now = time.now()
        var attributes = Attributes(kind: .file, size: 0, mtime: now, ctime: now, version: nil, storageClass: nil)
        (attributes.mode, attributes.uid, attributes.gid) = (mode, caller.uid, try group(in: parent) ?? caller.gid)
        attributes.headersKnown = true
        let (component, key) = try newKey(name, in: parent, kind: .file)
        let draft = try self.draft(on: nil, size: 0, key: key)
        let entry: Entry
        do throws(FileSystemError) {
            entry = try cached { metadata throws(MetadataError) in
                try metadata.create(component, in: parent, attributes, pending: true, dating: true)
            }
        } catch {
            try end(draft.record)
            draft.staged.discard()
            throw error
        }
        let file = files.retain(entry.ino) {
            ActiveFile(
                ino: entry.ino, state: ActiveFile.State(attributes: attributes, life: FileLife(creating: draft)))
        }
        let handle = handles.insert(.file(FileHandle(file: file, flags: flags)))
        return CreateReply(
            entry: reply(for: entry), open: OpenReply(handle: handle, keepCache: false, direct: flags.direct))
    }

    package func release(_ ino: InodeNumber, handle: HandleID) -> Outcome<Void> {
        // The handle may be of an earlier process, and its writes not stored: it is made again, so that `close` finds it.
        if files.find(ino)?.needsRelease == true { _ = try? fileHandle(handle, of: ino) }
        guard let work = close(handle) else {
            handles.noteClosed(handle)
            return .success(())
        }
        return later { [self] () async throws(FileSystemError) in
            await work()
            handles.noteClosed(handle)
        }
    }

    /// Closes a handle. Returns the work that is left if it was the file's last one.
    private func close(_ handle: HandleID) -> (@Sendable () async -> Void)? {
        guard case .file(let handle) = handles.remove(handle) else { return nil }
        let file = handle.file
        handle.close()
        kernel.reads?.close(file.ino, handle.reads)
        if let work = release(file) { return work }
        guard handle.flags.writes, isUnstoredAndEmpty(file) else { return nil }
        return { [self] in
            await commitWithoutCaller(file)
            files.forgetIfIdle(file)
        }
    }

    /// Drops a reference that changed nothing. If it was the last one, the work that other handles left runs in the background.
    func releaseInBackground(_ file: ActiveFile) {
        if let work = release(file) { rooms.pool.start { await work() } }
        files.forgetIfIdle(file)
    }

    /// Drops one reference, and returns the work of the last close, if any.
    func release(_ file: ActiveFile) -> (@Sendable () async -> Void)? {
        let isLast = files.release(file)
        let (isDirty, isUnlinked, draft) = file.state.withLock { state in
            (state.life.isDirty && !state.life.isAcknowledged, state.life.isUnlinked, state.life.draft)
        }
        guard isLast else { return nil }
        unpin(file)
        rest(file)
        if isUnlinked {
            noteFormer(file)
            return { [self] in
                guard forgetOrphan(file) else { return }
                if let draft {
                    await draft.commit.abandon()
                    do throws(FileSystemError) { try end(draft.record) } catch {
                        remember(error, "unlink", file.ino)
                    }
                }
                await carryOutDeletion(of: file)
            }
        }
        guard isDirty else {
            do throws(FileSystemError) { try discardUnchangedDraft(file) } catch { remember(error, "close", file.ino) }
            return nil
        }
        // Pages written through a mapping arrive after the last close: only the log gets an error.
        return { [self] in
            await commitWithoutCaller(file)
            files.forgetIfIdle(file)
        }
    }
}
