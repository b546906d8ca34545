package import Basics
import Blocks
import Commits
import Journaling
package import Metadata
import ObjectStorage
import Staging
import Synchronization

/// rename of a directory: every object below it is copied, then the local view switches, then the sources go.
extension BucketFileSystem {
    /// Whether an earlier process began this rename and this process has completed it.
    package func hasCompletedRename(
        _ name: ByteString, in parent: InodeNumber, to newName: ByteString, in newParent: InodeNumber
    ) -> Bool {
        guard directoryRenames.haveCompleted else { return false }
        guard let source = try? newKey(name, in: parent, kind: .directory).key.bytes,
            let target = try? newKey(newName, in: newParent, kind: .directory).key.bytes
        else { return false }
        let isThere = (try? metadata.entry(at: target))??.attributes.kind == .directory
        return directoryRenames.wasCompleted(from: source, to: target, isThere: isThere)
    }

    /// Copies every object below, then switches the local view, then deletes the sources: nothing is deleted that is not
    /// verified at its new place.
    func renameDirectory(
        _ source: Entry, to newName: ByteString, in newParent: InodeNumber, replacing target: Entry?,
        noReplace: Bool
    ) async throws(FileSystemError) {
        let (component, newKey) = try newKey(newName, in: newParent, kind: .directory)
        let oldPrefix = try key(of: source.ino).bytes
        if newKey.bytes.hasPrefix(oldPrefix) {
            throw FileSystemError(.invalid, "\(source.name) cannot be moved into itself")
        }
        if let target {
            guard target.attributes.kind == .directory else {
                throw FileSystemError(.notDirectory, "\(newName) is not a directory")
            }
            try await requireEmpty(target)
        }
        try await storeWhatCannotMove(below: oldPrefix)
        try await commitCopies(below: oldPrefix)
        try await finishJobs(at: ObjectKey(oldPrefix))
        try await finishJobs(at: newKey)
        let objects = try await objectsBelow(oldPrefix)
        try requireSource(source, oldPrefix, objects)
        for directory in Set(objects.map(\.key.directory)) { try await requireDeletable(in: directory) }
        if objects.count > 1 { try await tryDeletion(in: oldPrefix) }
        if target == nil {
            try await requireNothing(
                at: newKey, newName, butCopiesOf: objects, from: oldPrefix, noReplace: noReplace)
        }
        let job = rooms.journal.newID()
        try journalled { journal throws(JournalingError) in
            let tree = JobIntent.tree(from: oldPrefix, to: newKey.bytes)
            try journal.write([.job(job, tree, items: Self.items(objects))], flushed: true)
        }
        let takeovers = await takeOverDeletion(
            Set(objects.map { $0.key.moved(from: oldPrefix, to: newKey.bytes) }), below: newKey)
        let ended = takeovers.map { JournalChange.endJob($0.deletion.job) }
        var copies: [ObjectKey: ObjectVersion] = [:]
        directoryRenames.noteTried(from: oldPrefix, to: newKey.bytes)
        var isMoved = false
        // The error of a switch that programs see and that could not be recorded completely.
        let lack: FileSystemError?
        let copied: [ListedObject]
        do throws(FileSystemError) {
            copied = try await copyAll(objects, from: oldPrefix, to: newKey.bytes, into: &copies)
            try await keepDirectory(source.parent, without: source)
            if copied.isEmpty { _ = try await putMarker(newKey, Self.markerHeaders, over: nil) }
            // Programs are about to see the copies, and may remove them: recovery must not copy again.
            isMoved = true
            try journalled { journal throws(JournalingError) in
                let moved = JobIntent.moved(from: oldPrefix, to: newKey.bytes)
                // The versions that may be deleted are those that were copied.
                let changes: [JournalChange] =
                    copied == objects
                    ? [.advance(job, moved)] : [.endJob(job), .job(job, moved, items: Self.items(copied))]
                try journal.write(changes + ended, flushed: true)
            }
            if let target {
                noteFormer(target)
                try cached { metadata throws(MetadataError) in try metadata.remove(target.ino) }
            }
            let sources = copied.map { ($0.key.moved(from: oldPrefix, to: newKey.bytes), $0.version) }
            lack = try switchView(
                of: source, to: newParent, component, newKey.bytes, copies, of: Dictionary(sources) { $1 })
        } catch {
            if target != nil { copies[newKey] = nil }
            try await undo(job, from: oldPrefix, to: newKey, isMoved: isMoved, copies, takeovers)
            throw error
        }
        directoryRenames.forgetTried(from: oldPrefix, to: newKey.bytes)
        try await deleteSources(copied, of: source, below: oldPrefix, job, unless: lack)
    }

    /// Undoes a rename whose caller gets an error: the copies are deleted, and a directory that was to be replaced stays. First
    /// the journal takes back that the sources may be deleted, in case this process ends meanwhile; if it cannot, the copies stay
    /// as well.
    private func undo(
        _ job: IntentID, from oldPrefix: ByteString, to newKey: ObjectKey, isMoved: Bool,
        _ copies: [ObjectKey: ObjectVersion], _ takeovers: [Takeover]
    ) async throws(FileSystemError) {
        if isMoved {
            try journalled { journal throws(JournalingError) in
                let tree = JobIntent.tree(from: oldPrefix, to: newKey.bytes)
                try journal.write([.advance(job, tree)], flushed: true)
            }
        }
        let made = copies.sorted { $0.key.bytes > $1.key.bytes }.map { ($0.key, $0.value) }
        _ = try? await delete(made, below: newKey.bytes)
        forgetJob(job, at: oldPrefix, also: takeovers.map(removalAgain))
        try? metadata.distrust(newKey.bytes)
        for takeover in takeovers { await giveBack(takeover) }
    }

    /// Drops drafts in which nothing is changed, and commits the dirty files below except new ones of which the store has
    /// nothing: those only take the new key. A file that copies another object is committed too: a call that changes that object,
    /// elsewhere, would not wait for this rename.
    private func storeWhatCannotMove(below prefix: ByteString) async throws(FileSystemError) {
        for file in files.all where try isBelow(file.ino, prefix) && !file.isDirty {
            let lock = try await lock(file, interrupting: false, unless: { _ in true })
            try discardUnchangedDraft(lock.file)
        }
        for file in files.dirty
        where try isBelow(file.ino, prefix)
            && (!isPending(file.ino)
                || file.state.withLock {
                    $0.life.survivor != nil || $0.life.isCopy || $0.life.replacedObject != nil
                        || $0.life.draft?.staged.needsItsUpload ?? false
                })
        {
            try await commit(try await lock(file, interrupting: false))
        }
    }

    /// Takes over the deletions of unlinked objects at the new keys: the copies replace the objects, and nothing may delete the
    /// copies.
    private func takeOverDeletion(_ targets: Set<ObjectKey>, below newKey: ObjectKey) async -> [Takeover] {
        var takeovers: [Takeover] = []
        for key in pendingDeletions.keys(below: newKey.bytes) where targets.contains(key) {
            if let takeover = await takeOverDeletion(key) { takeovers.append(takeover) }
        }
        return takeovers
    }

    /// Deletes the sources of a rename that programs see. `lack` is the error if it could not be recorded completely.
    private func deleteSources(
        _ copied: [ListedObject], of source: Entry, below oldPrefix: ByteString, _ job: IntentID,
        unless lack: FileSystemError?
    ) async throws(FileSystemError) {
        let rest = JournalContents.Job(intent: .removals(below: oldPrefix), items: Self.items(copied))
        let areAllGone: Bool
        do throws(FileSystemError) {
            if let lack { throw lack }
            // Another directory may get the old name from here on.
            try journalled { journal throws(JournalingError) in
                try journal.write([.advance(job, rest.intent)], flushed: false)
            }
            // The objects below before the directory: some stores keep a directory whose marker goes while it has children.
            areAllGone = try await delete(copied.reversed().map { ($0.key, $0.version) }, below: oldPrefix)
        } catch {
            // The directory is renamed: a deletion that the store refuses is retried, and named at the end of the mount. So are
            // the deletions of a rename that could not be recorded: a later process would take new objects at the old names for
            // the sources.
            if error.kind == .accessDenied { remember(error, "rename", source.ino) }
            return removeLater(job, rest, source.component, in: source.parent, because: error.reason)
        }
        forgetJob(job, at: oldPrefix)
        try cached { metadata throws(MetadataError) in
            try metadata.endRemoval(of: source.component, in: source.parent)
            if !areAllGone { try metadata.distrust(oldPrefix) }
        }
    }

    private static func items(_ objects: [ListedObject]) -> [ItemRecord] {
        objects.map { ItemRecord(source: VersionRecord($0.key, $0.version), storageClass: $0.storageClass) }
    }

    /// Shows the directory, and everything below it, at the new place. Throws when programs do not see it there; returns an error
    /// when they do and it could not be recorded completely. `sources` are the copied versions, by their new keys.
    private func switchView(
        of directory: Entry, to newParent: InodeNumber, _ component: ByteString, _ prefix: ByteString,
        _ copies: [ObjectKey: ObjectVersion], of sources: [ObjectKey: ObjectVersion]
    ) throws(FileSystemError) -> FileSystemError? {
        directoryRenames.beginSwitch()
        defer { directoryRenames.endSwitch() }
        try cached { metadata throws(MetadataError) in
            _ = try metadata.rename(directory.ino, to: newParent, component, pending: true)
        }
        defer { reopenBases(copies, of: sources) }
        do throws(FileSystemError) {
            try moveRows(below: prefix)
            try adopt(copies, of: sources, for: try entry(directory.ino), prefix)
            let entry = try entry(directory.ino)
            var attributes = entry.attributes
            attributes.noteChange(at: time.now())
            try cached { [attributes] metadata throws(MetadataError) in
                try metadata.update(entry.ino, attributes, pending: entry.isPending)
            }
            return nil
        } catch { return error }
    }

    /// Throws when another host has made the target directory, which the metadata cache may not know within ttl. Copies that an
    /// unfinished try of this rename has left there, also those that arrive late, do not count.
    private func requireNothing(
        at key: ObjectKey, _ name: ByteString, butCopiesOf objects: [ListedObject], from prefix: ByteString,
        noReplace: Bool
    ) async throws(FileSystemError) {
        await jobs.sendRemovals(at: key.bytes)
        let found = try await objectsBelow(key.bytes)
        if found.isEmpty { return }
        let sources = Dictionary(objects.map { ($0.key.bytes.dropFirst(prefix.count), $0.version) }) { $1 }
        let wasTried = directoryRenames.wasTried(from: prefix, to: key.bytes)
        let others = found.filter { object in
            guard let source = sources[object.key.bytes.dropFirst(key.bytes.count)],
                source.size == object.version.size
            else { return true }
            // The copy of an object that was made of parts has another ETag, but so has another host's object.
            return source.etag != object.version.etag && !(wasTried && source.etag.text.contains("-"))
        }
        let isEmpty = others.allSatisfy { $0.key == key && $0.version.size == 0 }
        if others.isEmpty || isEmpty && !noReplace { return }
        try cached { metadata throws(MetadataError) in try metadata.distrust(key.bytes) }
        throw noReplace
            ? FileSystemError(.exists, "\(name) already exists: another host created it")
            : FileSystemError(.notEmpty, "\(name) is not empty: another host created it")
    }

    /// A renamed directory and the rows below it show the versions of the copies, so that the next listing finds nothing new.
    /// `sources` are what was copied, by the new keys.
    private func adopt(
        _ copies: [ObjectKey: ObjectVersion], of sources: [ObjectKey: ObjectVersion] = [:], for directory: Entry,
        _ prefix: ByteString
    ) throws(FileSystemError) {
        try adopt(copies, of: sources, for: [(directory, prefix)])
        var last: ByteString?
        while true {
            let rows = try cached { metadata throws(MetadataError) in
                try metadata.children(of: directory.ino, after: last, limit: 256)
            }
            try adopt(copies, of: sources, for: rows.map { ($0, prefix + $0.component) })
            for row in rows where row.attributes.kind == .directory {
                try adopt(copies, of: sources, for: row, prefix + row.component)
            }
            guard rows.count == 256, let component = rows.last?.component else { return }
            last = component
        }
    }

    private func adopt(
        _ copies: [ObjectKey: ObjectVersion], of sources: [ObjectKey: ObjectVersion],
        for rows: [(entry: Entry, key: ByteString)]
    ) throws(FileSystemError) {
        let changes = rows.compactMap { row -> (ino: InodeNumber, attributes: Attributes)? in
            let key = ObjectKey(row.key)
            guard let version = copies[key], !row.entry.isPending else { return nil }
            var attributes = row.entry.attributes
            if attributes.kind == .file, let known = attributes.version, let source = sources[key],
                !known.hasContent(of: source)
            {
                // Another host had replaced the object before it was listed to be copied.
                attributes = Attributes(
                    kind: .file, size: version.size, mtime: version.modified, version: version,
                    storageClass: attributes.storageClass)
                kernel.notifier?.invalidate(row.entry.ino)
            }
            attributes.version = version
            return (row.entry.ino, attributes)
        }
        try cached { metadata throws(MetadataError) in try metadata.update(changes) }
    }

    /// Gives their new keys to files below that were never committed.
    private func moveRows(below prefix: ByteString) throws(FileSystemError) {
        var failure: JournalingError?
        for file in files.dirty where try isBelow(file.ino, prefix) && isPending(file.ino) {
            let (draft, condition) = file.state.withLock { ($0.life.draft, $0.life.condition) }
            let key = try key(of: file.ino)
            draft?.commit.moved(to: key)
            do throws(JournalingError) {
                try draft?.record.moved(FileRecord.Move(to: key, of: file.ino.rawValue, condition: condition))
            } catch { failure = error }
        }
        if let failure { throw FileSystemError(failure) }
    }

    func isBelow(_ ino: InodeNumber, _ prefix: ByteString) throws(FileSystemError) -> Bool {
        try cached { metadata throws(MetadataError) in try metadata.key(of: ino) }?.hasPrefix(prefix) ?? false
    }

    /// Shows programs the directories that a killed process had copied, and perhaps shown to them. Returns `plan` with the new
    /// keys of files. To be called before anything is served.
    func followMovedDirectories(_ plan: Recovery.Plan) async throws(FileSystemError) -> Recovery.Plan {
        var plan = plan
        for (from, to) in plan.moved {
            let (old, place) = (try known(from), try place(of: to))
            if let old, let parent = place.parent {
                try cached { metadata throws(MetadataError) in
                    _ = try metadata.rename(old.ino, to: parent, place.component)
                }
            }
            guard let directory = try known(to) else { continue }
            if !plan.isStoreAway, let copies = try? await objectsBelow(to).map({ ($0.key, $0.version) }) {
                try adopt(Dictionary(copies) { $1 }, for: directory, to)
            } else {
                // The job is still in the journal. The next use of each name below asks the store.
                try cached { metadata throws(MetadataError) in try metadata.distrust(to) }
            }
            // A row that came after the directory's job can only be of a file that has moved with it.
            func move(_ files: inout [(id: IntentID, intent: FileIntent)]) throws(FileSystemError) {
                for index in files.indices where files[index].intent.key.hasPrefix(from) {
                    let key = ObjectKey(files[index].intent.key).moved(from: from, to: to)
                    guard try known(key.bytes) != nil else { continue }
                    files[index].intent.key = key.bytes
                    let (id, intent) = files[index]
                    try journalled { journal throws(JournalingError) in
                        try journal.write([.file(id, intent)], flushed: true)
                    }
                }
            }
            try move(&plan.open)
            try move(&plan.acknowledged)
        }
        return plan
    }

    /// Throws ENOENT if neither the store nor this mount has anything of the directory: another host has removed or renamed it.
    private func requireSource(
        _ source: Entry, _ prefix: ByteString, _ objects: [ListedObject]
    ) throws(FileSystemError) {
        guard objects.isEmpty, store.capabilities.markers, !source.isPending, dirtyFiles(below: source.ino) == 0 else {
            return
        }
        try cached { metadata throws(MetadataError) in try metadata.distrust(prefix) }
        kernel.notifier?.invalidate(source.name, in: source.parent)
        throw FileSystemError(.notFound, "\(source.name) does not exist: another host removed or renamed it")
    }

    private func isPending(_ ino: InodeNumber) -> Bool { (try? entry(ino))?.isPending ?? false }

    private func objectsBelow(_ prefix: ByteString) async throws(FileSystemError) -> [ListedObject] {
        var objects: [ListedObject] = []
        var request = ListRequest(prefix: prefix)
        while true {
            let page = try await remote { [request, pendingDeletions] store throws(ObjectStoreError) in
                try await store.list(request, without: pendingDeletions)
            }
            objects += page.objects
            guard let next = page.next else { return objects }
            request.cursor = next
        }
    }

    /// Deletes known objects below a prefix, in the order of `objects`. An object that another host has replaced since stays, and
    /// the result is false.
    private func delete(
        _ objects: [(key: ObjectKey, version: ObjectVersion)], below prefix: ByteString
    ) async throws(FileSystemError) -> Bool {
        if objects.isEmpty { return true }
        let now = Dictionary(try await objectsBelow(prefix).map { ($0.key, $0.version.etag) }) { $1 }
        let keys = objects.filter { now[$0.key] ?? $0.version.etag == $0.version.etag }.map(\.key)
        let batch = max(1, store.capabilities.deleteBatch)
        for start in stride(from: 0, to: keys.count, by: batch) {
            let failed = try await remote { store throws(ObjectStoreError) in
                try await store.deleteMany(Array(keys[start..<min(keys.count, start + batch)]))
            }
            for error in failed { if let key = error.key { noteRefusedDeletion(of: key, error) } }
            if let error = failed.first { throw FileSystemError(error) }
        }
        return keys.count == objects.count
    }

    /// Open clean files below the renamed directory read their copies from now on, except those that are open on a version which
    /// another host replaced before it was copied.
    private func reopenBases(_ copies: [ObjectKey: ObjectVersion], of sources: [ObjectKey: ObjectVersion]) {
        for file in files.all {
            guard let key = try? key(of: file.ino), let version = copies[key], let source = sources[key] else {
                continue
            }
            if let base = file.state.withLock({ $0.life.object }), !base.version.hasContent(of: source) { continue }
            var attributes = file.attributes
            attributes.version = version
            if file.state.withLock({ $0.life.draft == nil }) {
                file.rebase(on: rooms.blocks.open(key, version), attributes)
            }
        }
    }
}
