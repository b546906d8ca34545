package import Basics
import Blocks
import Commits
import Journaling
package import Metadata
import ObjectStorage
import Staging
import Synchronization

/// rename: a copy, a check and a delete for files; the same for every object below a directory.
extension BucketFileSystem {
    package func rename(
        _ name: ByteString, in parent: InodeNumber, to newName: ByteString, in newParent: InodeNumber, noReplace: Bool
    ) -> Outcome<Void> {
        later { [self] () async throws(FileSystemError) in
            try requireWritable()
            let source = try await existing(name, in: parent)
            let target = try await resolve(newName, in: newParent)
            if let target, target.ino == source.ino { return }
            try requireBucket(name, in: parent)
            if store.capabilities.bucketsInKeys, try bucket(of: parent) != bucket(of: newParent) {
                throw FileSystemError(.crossDevice, "\(name) would move to another bucket")
            }
            if target != nil, noReplace { throw FileSystemError(.exists, "\(newName) exists already") }
            if source.attributes.kind == .directory {
                for file in files.dirty { file.interruptUpload() }
                do { try await namespace.enter(alone: true) } catch { throw .interrupted }
                defer { namespace.leave(alone: true) }
                try await renameDirectory(source, to: newName, in: newParent, replacing: target)
            } else {
                if let target, target.attributes.kind == .directory {
                    throw FileSystemError(.isDirectory, "\(newName) is a directory")
                }
                try await renameFile(source, to: newName, in: newParent, replacing: target)
            }
            touch(parent)
            if newParent != parent { touch(newParent) }
        }
    }

    /// The first component of what is in a directory of an account.
    private func bucket(of directory: InodeNumber) throws(FileSystemError) -> ByteString {
        let key = try cached { metadata throws(MetadataError) in try metadata.key(of: directory) } ?? ""
        return ByteString(key.bytes.prefix { $0 != UInt8(ascii: "/") })
    }

    // MARK: Files

    private func renameFile(
        _ source: Entry, to newName: ByteString, in newParent: InodeNumber, replacing target: Entry?
    ) async throws(FileSystemError) {
        let (component, newKey) = try newKey(
            newName, in: newParent, kind: isNative(source) ? .file : source.attributes.kind)
        let file = files.find(source.ino)
        // The target's own bytes must not reach the store any more once something else takes its place.
        let replacedFile = target.flatMap { files.find($0.ino) }
        if let replacedFile {
            replacedFile.interruptUpload()
            do { try await replacedFile.writing.enter(alone: true) } catch { throw .interrupted }
        }
        defer { replacedFile?.writing.leave(alone: true) }
        await replacedFile?.state.withLock { $0.overlay }?.commit.quiesce()
        var target = target
        if replacedFile != nil, let ino = target?.ino { target = try? entry(ino) }
        if let file {
            file.interruptUpload()
            do { try await file.writing.enter(alone: true) } catch { throw .interrupted }
            // What was written belongs to the object that is copied; a file never committed just takes the new key.
            let hasReachedStore = file.state.withLock { $0.overlay?.record.hasReachedStore ?? false }
            if !(try entry(source.ino)).isPending || hasReachedStore {
                do { try await commitAlone(file) } catch {
                    file.writing.leave(alone: true)
                    throw error
                }
            }
        }
        defer { file?.writing.leave(alone: true) }
        var current = try entry(source.ino)
        if current.isPending {
            let replaced = target?.component == component ? target?.attributes.version : nil
            let condition = replaced.map { WriteCondition.match($0.etag) } ?? .absent
            let rows = file?.state.withLock { ($0.overlay, $0.fallback) }
            let (overlay, fallback) = (rows?.0, rows?.1)
            // What is promised under the new name from now on takes the place of what was, in one step.
            let replacedRows = target.map { self.rows(of: $0) } ?? []
            let commits = replacedFile?.state.withLock { $0.overlay?.record.commits } ?? []
            do throws(JournalingError) {
                try (fallback ?? overlay)?.record.moved(
                    to: newKey, condition: condition, replacing: commits, also: replacedRows)
                if fallback != nil {
                    try overlay?.record.moved(to: newKey, condition: condition, replacing: commits)
                }
            } catch { throw FileSystemError(error) }
            file?.state.withLock { $0.condition = condition }
            overlay?.commit.replaces(commits)
            fallback?.commit.replaces(commits)
            try await detach(target, unlessAt: component)
            try moveEntry(current, to: newParent, component)
            return
        }
        let key = try key(of: source.ino)
        let replaced = target?.component == component ? target?.attributes.version : nil
        // Where the store renames, the parent's marker has to be there before its last file is gone.
        let moves = store.capabilities.move
        let version: ObjectVersion?
        _ = try await takeOverDoomed(newKey)
        var job = try begin(current, key, to: newKey, replacing: replaced)
        do throws(FileSystemError) {
            if moves { try await keepDirectory(current.parent, without: current) }
            do { version = try await transfer(current, from: key, to: newKey) } catch {
                guard error.kind == .stale, file == nil else { throw error }
                // Changed behind our back since it was listed: what is there now is what gets renamed.
                current = try await learnHeaders(of: current)
                forgetJob(job)
                job = try begin(current, key, to: newKey, replacing: replaced)
                version = try await transfer(current, from: key, to: newKey)
            }
            if !moves { try await keepDirectory(current.parent, without: current) }
            try await detach(target, unlessAt: component)
            if !moves {
                let ifMatch = store.capabilities.deleteIfMatch ? current.attributes.version?.etag : nil
                try await remote { store throws(ObjectStoreError) in try await store.delete(key, ifMatch: ifMatch) }
            }
        } catch {
            // The program is told that it failed: it must not happen later.
            try journalled { journal throws(JournalingError) in try journal.write([.endJob(job)], flushed: true) }
            throw error
        }
        defer { forgetJob(job) }
        var attributes = file?.attributes ?? current.attributes
        if let old = current.attributes.version, let version { rooms.blocks.move(key, old, to: newKey, version) }
        attributes.version = version
        attributes.ctime = time.now()
        try moveEntry(current, to: newParent, component)
        let headers = try cached { metadata throws(MetadataError) in try metadata.metadata(of: source.ino) }
        try cached { metadata throws(MetadataError) in
            try metadata.update(source.ino, attributes, metadata: headers, pending: false)
        }
        file?.rebase(on: version.map { rooms.blocks.open(newKey, $0) }, attributes)
    }

    /// The end of everything promised of an entry.
    private func rows(of entry: Entry) -> [JournalChange] {
        guard let file = files.find(entry.ino) else { return [] }
        let overlays = file.state.withLock { [$0.overlay, $0.fallback] }
        return overlays.compactMap { $0.map { .endFile($0.record.id) } }
    }

    /// The intent to rename, before the first request.
    private func begin(
        _ entry: Entry, _ key: ObjectKey, to newKey: ObjectKey, replacing replaced: ObjectVersion?
    ) throws(FileSystemError) -> IntentID {
        let job = rooms.journal.newID()
        guard let version = entry.attributes.version else { return job }
        let record = RenameRecord(
            source: VersionRecord(key, version), to: newKey.bytes, storageClass: entry.attributes.storageClass,
            replaced: replaced?.etag.text)
        try journalled { journal throws(JournalingError) in
            try journal.write([.job(job, .rename(record), items: [])], flushed: true)
        }
        return job
    }

    private func moveEntry(
        _ entry: Entry, to parent: InodeNumber, _ component: ByteString
    ) throws(FileSystemError) {
        try cached { metadata throws(MetadataError) in _ = try metadata.rename(entry.ino, to: parent, component) }
    }

    /// The replaced target is no longer reachable: open handles keep what they have. Where file replaces symlink or the
    /// other way round, the keys differ and the target's object is deleted; otherwise the new object takes its place.
    private func detach(_ target: Entry?, unlessAt component: ByteString) async throws(FileSystemError) {
        guard let target else { return }
        if let file = files.find(target.ino) {
            file.interruptUpload()
            let (overlay, fallback) = file.state.withLock { state in
                state.isUnlinked = true
                state.isPromised = false
                return (state.overlay, state.fallback.take())
            }
            if let overlay {
                try end(overlay.record, also: fallback.map { [.endFile($0.record.id)] } ?? [])
                await overlay.commit.abandon()
                overlay.staged.keep(false)
                if let fallback { await giveUp(fallback) }
            }
            files.settle(file)
        }
        targets.withLock { _ = $0.removeValue(for: target.ino) }
        guard target.component != component else { return }
        if !target.isPending {
            let key = try key(of: target.ino)
            try await remote { store throws(ObjectStoreError) in try await store.delete(key, ifMatch: nil) }
        }
        try cached { metadata throws(MetadataError) in try metadata.remove(target.ino) }
    }

    /// Moves the object as it was known, where the store can, else copies it; returns the version at the new key.
    private func transfer(
        _ entry: Entry, from key: ObjectKey, to newKey: ObjectKey
    ) async throws(FileSystemError) -> ObjectVersion? {
        guard let version = entry.attributes.version else { return nil }
        if isNative(entry) {
            let headers = try cached { metadata throws(MetadataError) in try metadata.metadata(of: entry.ino) }
            do {
                let version = try await putNativeLink(key, as: newKey, headers ?? ObjectMetadata())
                targets.withLock { _ = $0.removeValue(for: entry.ino) }
                return version
            } catch { throw FileSystemError(error) }
        }
        if store.capabilities.move {
            let answer = try await remote { store throws(ObjectStoreError) in
                try await store.move(CopyRequest(CopySource(key, ifMatch: version.etag), to: newKey))
            }
            return ObjectVersion(
                etag: answer.etag, size: version.size, modified: answer.modified ?? version.modified,
                versionID: answer.versionID)
        }
        let copier = ObjectCopier(store: store, journal: rooms.journal)
        do { return try await copier.copy(key, version, to: newKey, storageClass: entry.attributes.storageClass) } catch
        { throw FileSystemError(error) }
    }

    // MARK: Directories

    /// Copies every object below, then switches the local view, then deletes the sources: nothing is deleted that is not
    /// verified at its new place.
    private func renameDirectory(
        _ source: Entry, to newName: ByteString, in newParent: InodeNumber, replacing target: Entry?
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
        // Of files that wait for their upload the object moves.
        for file in files.dirty
        where try isBelow(file.ino, oldPrefix)
            && (!isPending(file.ino) || file.state.withLock { $0.isPromised || $0.fallback != nil })
        {
            do { try await file.writing.enter(alone: true) } catch { throw .interrupted }
            defer { file.writing.leave(alone: true) }
            try await commitAlone(file)
        }
        let objects = try await objectsBelow(oldPrefix)
        let job = rooms.journal.newID()
        let items = objects.map {
            ItemRecord(source: VersionRecord($0.key, $0.version), storageClass: $0.storageClass)
        }
        try journalled { journal throws(JournalingError) in
            try journal.write([.job(job, .tree(from: oldPrefix, to: newKey.bytes), items: items)], flushed: true)
        }
        let copies: [ObjectKey: ObjectVersion]
        do { copies = try await copyAll(objects, from: oldPrefix, to: newKey.bytes) } catch {
            // Nothing was renamed, and the program is told so.
            try journalled { journal throws(JournalingError) in try journal.write([.endJob(job)], flushed: true) }
            throw error
        }
        try await keepDirectory(source.parent, without: source)
        if objects.isEmpty { _ = try await putMarker(newKey, Self.markerHeaders) }
        if let target {
            try cached { metadata throws(MetadataError) in try metadata.remove(target.ino) }
        }
        try cached { metadata throws(MetadataError) in
            _ = try metadata.rename(source.ino, to: newParent, component)
        }
        try adoptVersions(copies, below: source.ino)
        try moveRows(below: newKey.bytes)
        // What is below before the directory: some stores keep a directory whose marker goes while it has children.
        try await deleteAll(objects.reversed().map(\.key))
        forgetJob(job)
        reopenBases(copies)
    }

    /// Rows below a renamed directory show the versions of the copies, so that the next listing finds nothing new.
    private func adoptVersions(
        _ copies: [ObjectKey: ObjectVersion], below directory: InodeNumber
    ) throws(FileSystemError) {
        var last: ByteString?
        while true {
            let rows = try cached { metadata throws(MetadataError) in
                try metadata.children(of: directory, after: last, limit: 256)
            }
            for row in rows {
                if let key = try? key(of: row.ino), let version = copies[key], !row.isPending {
                    let headers = try cached { metadata throws(MetadataError) in try metadata.metadata(of: row.ino) }
                    var attributes = row.attributes
                    attributes.version = version
                    try cached { metadata throws(MetadataError) in
                        try metadata.update(row.ino, attributes, metadata: headers, pending: false)
                    }
                }
                if row.attributes.kind == .directory { try adoptVersions(copies, below: row.ino) }
            }
            guard rows.count == 256, let component = rows.last?.component else { return }
            last = component
        }
    }

    /// Files below that were never committed have other keys now.
    private func moveRows(below prefix: ByteString) throws(FileSystemError) {
        for file in files.dirty where try isBelow(file.ino, prefix) && isPending(file.ino) {
            let (record, condition) = file.state.withLock { ($0.overlay?.record, $0.condition) }
            let key = try key(of: file.ino)
            do throws(JournalingError) { try record?.moved(to: key, condition: condition) } catch {
                throw FileSystemError(error)
            }
        }
    }

    private func isBelow(_ ino: InodeNumber, _ prefix: ByteString) throws(FileSystemError) -> Bool {
        try cached { metadata throws(MetadataError) in try metadata.key(of: ino) }?.hasPrefix(prefix) ?? false
    }

    private func isPending(_ ino: InodeNumber) -> Bool { (try? entry(ino))?.isPending ?? false }

    private func objectsBelow(_ prefix: ByteString) async throws(FileSystemError) -> [ListedObject] {
        var objects: [ListedObject] = []
        var request = ListRequest(prefix: prefix)
        while true {
            let page = try await remote { [request] store throws(ObjectStoreError) in try await store.list(request) }
            objects += page.objects
            guard let next = page.next else { return objects }
            request.cursor = next
        }
    }

    private func copyAll(
        _ objects: [ListedObject], from oldPrefix: ByteString, to newPrefix: ByteString
    ) async throws(FileSystemError) -> [ObjectKey: ObjectVersion] {
        let copier = ObjectCopier(store: store, journal: rooms.journal)
        let longest = store.capabilities.longestKey
        for object in objects where object.key.bytes.count - oldPrefix.count + newPrefix.count > longest {
            throw FileSystemError(.nameTooLong, "\(object.key) would exceed \(longest) bytes at its new place")
        }
        typealias Copied = Result<(ObjectKey, ObjectVersion), ObjectStoreError>
        let results = await withTaskGroup(of: Copied.self) { group in
            var results: [Copied] = []
            var rest = objects.makeIterator()
            func addNext() {
                guard let object = rest.next() else { return }
                let newKey = ObjectKey(newPrefix + object.key.bytes.dropFirst(oldPrefix.count))
                group.addTask { [self] in
                    do throws(ObjectStoreError) {
                        if object.isSymlink, store.capabilities.symlinks {
                            return .success((newKey, try await putNativeLink(object.key, as: newKey, ObjectMetadata())))
                        }
                        return .success(
                            (
                                newKey,
                                try await copier.copy(
                                    object.key, object.version, to: newKey, storageClass: object.storageClass)
                            ))
                    } catch { return .failure(error) }
                }
            }
            for _ in 0..<policy.copies { addNext() }
            for await result in group {
                results.append(result)
                if case .success = result { addNext() }
            }
            return results
        }
        var copies: [ObjectKey: ObjectVersion] = [:]
        var failure: ObjectStoreError?
        for result in results {
            switch result {
            case .success((let key, let version)): copies[key] = version
            case .failure(let error): failure = failure ?? error
            }
        }
        if let failure {
            // Nothing was renamed: what was copied so far is of no use to anybody.
            try? await deleteAll(Array(copies.keys))
            throw FileSystemError(.inputOutput, "not renamed, a copy failed: \(failure)")
        }
        return copies
    }

    private func deleteAll(_ keys: [ObjectKey]) async throws(FileSystemError) {
        let batch = max(1, store.capabilities.deleteBatch)
        for start in stride(from: 0, to: keys.count, by: batch) {
            let failed = try await remote { store throws(ObjectStoreError) in
                try await store.deleteMany(Array(keys[start..<min(keys.count, start + batch)]))
            }
            if let error = failed.first { throw FileSystemError(error) }
        }
    }

    /// Open clean files below the renamed directory read their copies from now on.
    private func reopenBases(_ copies: [ObjectKey: ObjectVersion]) {
        for file in files.all {
            guard let key = try? key(of: file.ino), let version = copies[key] else { continue }
            var attributes = file.attributes
            attributes.version = version
            if file.state.withLock({ $0.overlay == nil }) {
                file.rebase(on: rooms.blocks.open(key, version), attributes)
            }
        }
    }
}
