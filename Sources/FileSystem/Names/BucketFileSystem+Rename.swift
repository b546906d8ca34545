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
            // What is not stored yet may have to be, which takes space.
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
        // The answer about the new name may have told that another host has taken the source away.
        guard try cached({ metadata throws(MetadataError) in try metadata.entry(source.ino) }) != nil else {
            throw FileSystemError(.notFound, "\(name) does not exist")
        }
        try requireBucket(name, in: parent)
        if store.capabilities.bucketsInKeys, try bucket(of: parent) != bucket(of: newParent) {
            throw FileSystemError(.crossDevice, "\(name) cannot be renamed to another bucket")
        }
        if target != nil, noReplace { throw FileSystemError(.exists, "\(newName) already exists") }
        // Of a directory any file may not be stored yet.
        let kind = source.attributes.kind
        let isPending = try entry(source.ino).isPending
        if target == nil, kind == .directory || isPending {
            try await requireStorable(try newKey(newName, in: newParent, kind: kind).key)
        }
        try await settleCopies(ofObject: source.ino)
        if let target { try await settleCopies(ofObject: target.ino) }
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
                if let target { try await leaving.begin(target.ino) }
                defer { if let target { leaving.end(target.ino) } }
                try await doubting(source.ino) { () async throws(FileSystemError) in
                    try await renameHeld(source, to: newName, in: newParent, replacing: target)
                }
            }
        }
        touch(parent)
        if newParent != parent { touch(newParent) }
    }

    /// Another host may have made the object within the ttl of what is known here.
    func requireAbsent(_ key: ObjectKey, _ name: ByteString) async throws(FileSystemError) {
        guard try await unlistedObject(key) != nil else { return }
        // What is still to go is not there for programs.
        if jobs.removes(key.bytes) || doomed[key] != nil { return }
        try cached { metadata throws(MetadataError) in try metadata.distrust(key.bytes) }
        throw FileSystemError(.exists, "\(name) already exists: another host created it")
    }

    /// The first component of what is in a directory of an account, or of a file there.
    func bucket(of ino: InodeNumber) throws(FileSystemError) -> ByteString {
        let key = try cached { metadata throws(MetadataError) in try metadata.key(of: ino) } ?? ""
        return ByteString(key.bytes.prefix { $0 != UInt8(ascii: "/") })
    }

    // MARK: Files

    /// The file is active meanwhile, so that a program that opens it while the store copies waits with what it writes, and goes on
    /// with the object at the new key; so does one that is open already, whose last descriptor may be closed meanwhile. One that
    /// waits for the store is active without.
    private func renameHeld(
        _ source: Entry, to newName: ByteString, in newParent: InodeNumber, replacing target: Entry?
    ) async throws(FileSystemError) {
        let isActive = files.find(source.ino) != nil
        guard source.attributes.kind == .file, !isActive || files.isOpen(source.ino) else {
            return try await renameFile(source, to: newName, in: newParent, replacing: target, held: nil)
        }
        let held = activate(source)
        do throws(FileSystemError) {
            try await renameFile(source, to: newName, in: newParent, replacing: target, held: held)
        } catch {
            letGo(held)
            throw error
        }
        letGo(held)
    }

    /// `held` is the file if its rename is one of its users.
    private func renameFile(
        _ source: Entry, to newName: ByteString, in newParent: InodeNumber, replacing target: Entry?,
        held: ActiveFile?
    ) async throws(FileSystemError) {
        // A link that its name does not tell has a plain one.
        let isPlain = metadata.codec.role(of: source.component) == .object
        let (component, newKey) = try newKey(newName, in: newParent, kind: isPlain ? .file : source.attributes.kind)
        if isNative(source) { try await requireSameTarget(source, at: newKey) }
        let active = held?.ino == source.ino ? held : files.find(source.ino)
        // The target's own bytes must not reach the store any more once something else takes its place.
        let replacedFile = target.flatMap { files.find($0.ino) }
        if let replacedFile { try await enterToLose(replacedFile) }
        defer { replacedFile?.writing.leave(alone: true) }
        if let replacedFile { try await storeForHandles(of: replacedFile) }
        await replacedFile?.quiesce()
        if let replacedFile { await saveForHandles(of: replacedFile) }
        // A commit may have come to its end since the entry was read, and its file have left the table.
        let target = target.flatMap { try? entry($0.ino) }
        let displaced = try displaced(target, by: component)
        if let active {
            // A target that copies the source goes itself, and is not to be waited for: it is entered.
            let isCopy = try replacedFile?.isCopy(of: key(of: source.ino)) ?? false
            if isCopy { try await active.enterAlone(isAway: watch.isAway) } else { try await enterToLose(active) }
        }
        defer { if let active { files.leaveAlone(active) } }
        if let active { try dropUntouched(active) }
        // One that nobody has opened yet is what the store says.
        let isUnopened = active.map { $0 === held && !$0.isDirty && !files.isShared($0) } ?? false
        let file = isUnopened ? nil : active
        if let file {
            try await settleJobs(at: try key(of: source.ino))
            // What was written belongs to the object that is copied; a file never committed just takes the new key, unless it
            // has taken the place of an object, which must not come back.
            let needsCommit = file.state.withLock {
                $0.life.replacedObject != nil || $0.life.draft?.record.hasReachedStore ?? false
            }
            if !(try entry(source.ino)).isPending || needsCommit { try await commitAlone(file) }
            // What was promised of the target ends with the rename, and a link's object goes with it: until then, what takes its
            // place is promised as well.
            let mustStay = replacedFile?.hasPromise ?? false || displaced?.etag != nil
            if mustStay, !file.hasPromise { try await promiseAlone(file) }
        }
        let hold = metadata.hold(
            [source.ino, target?.ino].compactMap(\.self), [(source.parent, source.name), (newParent, newName)])
        defer { metadata.release(hold) }
        var current = try entry(source.ino)
        if current.isPending {
            let replaced = target?.component == component ? target?.attributes.version : nil
            let condition =
                replaced.map { WriteCondition.match($0.etag) }
                ?? replacedFile?.state.withLock { target?.component == component ? $0.life.replacedObject : nil }
                .map { .match($0) } ?? .absent
            let rows = file?.state.withLock { ($0.life.draft, $0.life.behind) }
            let (draft, behind) = (rows?.0, rows?.1)
            // What is promised under the new name from now on takes the place of what was, in one step.
            let removal = displaced.flatMap { $0.etag == nil ? nil : Removal(of: $0, as: rooms.journal.newID()) }
            let replacedRows = (target.map { self.rows(of: $0) } ?? []) + (removal.map { [$0.row] } ?? [])
            let commits = replacedFile?.state.withLock { $0.life.draft?.record.commits } ?? []
            let key = try key(of: source.ino)
            var moved = file?.attributes ?? current.attributes
            moved.noteChange(at: time.now())
            let retyped = { [types = policy.contentTypes, changed = moved.ctime] (headers: ObjectMetadata) in
                AttributeCodec.dating(types.renamed(headers, from: key, to: newKey), changed: changed)
            }
            // A process that ends now leaves this one to who finds another file in its place.
            if let replacedFile, files.isOpen(replacedFile.ino) { keepUnlinked(replacedFile) }
            do throws(JournalingError) {
                let move = FileRecord.Move(
                    to: newKey, of: source.ino.rawValue, condition: condition, replacing: commits, retyping: retyped)
                try (behind ?? draft)?.record.moved(
                    move, with: behind == nil ? nil : draft?.record, also: replacedRows)
            } catch {
                if let replacedFile { try? metadata.forget(unlinked: replacedFile.ino) }
                throw FileSystemError(error)
            }
            file?.state.withLock { state in
                state.life.require(condition)
                state.metadata = state.metadata.map(retyped)
            }
            for commit in [draft?.commit, behind?.commit] {
                commit?.replaces(commits)
                commit?.moved(to: newKey)
            }
            try await detach(target, unlessAt: component, removal)
            try moveEntry(current, to: newParent, component)
            file?.state.withLock { [changed = moved.ctime] in $0.attributes.noteChange(at: changed) }
            return
        }
        let key = try key(of: source.ino)
        let replaced = target?.component == component ? target?.attributes.version : nil
        // One request takes the old name away with it.
        var moves = store.capabilities.move
        if !moves { try await requireDeletable(in: key.directory) }
        let version: ObjectVersion?
        try await settleJobs(at: key)
        // What was removed there, and is still read, is replaced like any other target.
        let takeover = await takeOverDoomed(newKey)
        let removal = takeover?.deletion.job
        // A write that the journal has refused has left nothing that would have to be called off.
        var (job, isWrittenDown) = (rooms.journal.newID(), false)
        let began = time.uptime()
        var headers = try headersForRename(of: current, from: key, to: newKey)
        do throws(FileSystemError) {
            try await settleJobs(at: newKey)
            let replaced = replaced ?? takeover?.version
            // A process that ends from here on leaves this one to who finds the new object in its place.
            if let replacedFile, files.isOpen(replacedFile.ino) { keepUnlinked(replacedFile) }
            try begin(job, current, key, to: newKey, headers, replacing: replaced, displaced, insteadOf: removal)
            isWrittenDown = true
            // The parent's marker has to be there before its last file is gone.
            try await keepDirectory(current.parent, without: current)
            do { (version, moves) = try await transfer(current, from: key, to: newKey, headers) } catch {
                // The headers of a link of the store's own kind would be those of what it leads to.
                guard error.kind == .stale, file == nil, !isNative(current) else { throw error }
                // Changed behind our back since it was listed: what is there now is what gets renamed.
                current = try await learnHeaders(of: current, forHolder: true)
                let second = rooms.journal.newID()
                headers = try headersForRename(of: current, from: key, to: newKey)
                try begin(second, current, key, to: newKey, headers, replacing: replaced, displaced, insteadOf: job)
                job = second
                (version, moves) = try await transfer(current, from: key, to: newKey, headers)
            }
            try await detach(target, unlessAt: component)
        } catch {
            if isWrittenDown { callOff(job, of: key.bytes, to: newKey, giving: takeover) }
            if let replacedFile, !replacedFile.state.withLock({ $0.life.isUnlinked }) {
                try? metadata.forget(unlinked: replacedFile.ino)
            }
            if let takeover { await giveBack(takeover) }
            throw error
        }
        var (isLeft, isOthers) = (false, false)
        if !moves {
            do throws(ObjectStoreError) {
                isOthers = try await !deleteCopied(key, current.attributes.version, since: began)
            } catch {
                let hasReplaced = target != nil || takeover != nil
                guard hasReplaced || error.isRetryable || error.kind == .cancelled else {
                    let rest = await deleteCopy(newKey, version, ofObjectAt: key)
                    callOff(job, of: key.bytes, to: newKey)
                    let refusal = FileSystemError(error)
                    throw FileSystemError(refusal.kind, refusal.reason + rest)
                }
                // The copy has taken the target's place, so there is no way back: the rest is done later.
                try leaveSource(of: current, key, job, because: error)
                isLeft = true
            }
        }
        defer { if !isLeft { forgetJob(job, at: key.bytes) } }
        var attributes = file?.attributes ?? current.attributes
        if let old = current.attributes.version, let version { rooms.blocks.move(key, old, to: newKey, version) }
        attributes.version = version
        attributes.noteChange(at: time.now())
        try moveEntry(current, to: newParent, component, pending: isLeft)
        if isOthers { try cached { metadata throws(MetadataError) in try metadata.distrust(key.bytes) } }
        let known = try cached { metadata throws(MetadataError) in try metadata.metadata(of: source.ino) }
        try cached { [headers] metadata throws(MetadataError) in
            try metadata.update(source.ino, attributes, metadata: headers ?? known, pending: false)
        }
        active?.rebase(on: version.map { rooms.blocks.open(newKey, $0) }, attributes)
        guard !isLeft else { return }
        // It is renamed, whatever becomes of this.
        do throws(FileSystemError) { try await keepDirectory(current.parent, havingLost: key) } catch {
            remember(error, "rename", current.parent)
        }
    }

    /// The intent to rename, before the first request; it takes the place of the one that it goes without.
    private func begin(
        _ job: IntentID, _ entry: Entry, _ key: ObjectKey, to newKey: ObjectKey, _ headers: ObjectMetadata?,
        replacing replaced: ObjectVersion?, _ displaced: RemovalRecord?, insteadOf other: IntentID?
    ) throws(FileSystemError) {
        var changes = other.map { [JournalChange.endJob($0)] } ?? []
        if let version = entry.attributes.version {
            let record = RenameRecord(
                source: VersionRecord(key, version), to: newKey.bytes, storageClass: entry.attributes.storageClass,
                replaced: replaced?.etag.text, headers: headers.map { HeadersRecord($0) }, displaced: displaced)
            changes.append(.job(job, .rename(record), items: []))
        }
        guard !changes.isEmpty else { return }
        try journalled { journal throws(JournalingError) in try journal.write(changes, flushed: true) }
    }

    /// The program is told that the rename of `key` failed: it must not happen later. What is at the new key now is to be asked
    /// for. What was to be deleted there is so again.
    func callOff(_ job: IntentID, of key: ByteString, to newKey: ObjectKey, giving takeover: Takeover? = nil) {
        forgetJob(job, at: key, also: takeover.map { [removalAgain(of: $0)] } ?? [])
        try? metadata.distrust(newKey.bytes)
    }

    func removalAgain(of takeover: Takeover) -> JournalChange {
        let deletion = takeover.deletion
        let removal = RemovalRecord(
            key: deletion.key.bytes, etag: deletion.version?.etag.text, commits: deletion.commits)
        return .job(deletion.job, .removal(removal), items: [])
    }

    /// Of a rename only the removal of the source is left. To be called before programs see the new name.
    private func leaveSource(
        of entry: Entry, _ key: ObjectKey, _ job: IntentID, because error: ObjectStoreError
    ) throws(FileSystemError) {
        let removal = JobIntent.removal(
            RemovalRecord(key: key.bytes, etag: entry.attributes.version?.etag.text, commits: []))
        try journalled { journal throws(JournalingError) in try journal.write([.advance(job, removal)], flushed: true) }
        removeLater(
            job, JournalContents.Job(intent: removal, items: []), entry.component, in: entry.parent,
            because: "\(error)")
    }

    private func moveEntry(
        _ entry: Entry, to parent: InodeNumber, _ component: ByteString, pending: Bool = false
    ) throws(FileSystemError) {
        try cached { metadata throws(MetadataError) in
            _ = try metadata.rename(entry.ino, to: parent, component, pending: pending)
        }
    }
}
