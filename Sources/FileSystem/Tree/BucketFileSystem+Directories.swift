package import Basics
import Commits
package import Metadata
import ObjectStorage
import Synchronization

/// opendir, readdir, mkdir, rmdir.
extension BucketFileSystem {
    /// Rows taken from the metadata cache at once.
    private static let batch = 256

    package func openDirectory(_ ino: InodeNumber) -> Outcome<HandleID> {
        now { () throws(FileSystemError) in
            let attributes = if let former = former(ino) { former.attributes } else { try entry(ino).attributes }
            guard attributes.kind == .directory else {
                throw FileSystemError(.notDirectory, "inode \(ino) is not a directory")
            }
            let handle = handles.insert(.directory(DirectoryStream(directory: ino)))
            metadata.awaitForgetting()
            return handle
        }
    }

    package func releaseDirectory(_ ino: InodeNumber, handle: HandleID) {
        handles.log?.unlisted(handle)
        let removed = handles.remove(handle)
        // Also for a handle of an earlier process that was not used since.
        forgetOrphan(directory: ino)
        guard case .directory(let stream) = removed else { return }
        stream.dropListing()
        trimNames()
    }

    /// Trims the metadata cache in the background when a listing has made it exceed its share. Rows of a directory that is being
    /// read stay, and so do the newest rows.
    private func trimNames() {
        guard metadata.isTooLong,
            isTrimming.compareExchange(
                expected: false, desired: true, ordering: .acquiringAndReleasing
            ).exchanged
        else { return }
        rooms.pool.start { [self] in
            defer { isTrimming.store(false, ordering: .releasing) }
            for _ in 0..<Self.trims where metadata.isTooLong {
                while (try? metadata.trim(inNeed: true)) == true {}
                do { try await time.sleep(for: Self.trimPause) } catch { return }
            }
        }
    }

    private static let (trims, trimPause) = (3, Duration.seconds(2))

    package func readDirectory(
        _ ino: InodeNumber, handle: HandleID, from offset: UInt64, attributes: Bool, into reply: any DirectoryReply
    ) -> Outcome<Void> {
        /// Records a refused listing, also one that had failed before this call.
        @Sendable func noted(_ error: FileSystemError) -> FileSystemError {
            if error.isOfRefusedListing { remember(error, "readdir", ino) }
            return error
        }
        do throws(FileSystemError) {
            let stream = try directoryStream(handle, of: ino)
            // A read from the beginning, or by seekdir(3) from far back in a directory that is too long for the cache.
            if offset == 0 || stream.mayLack(at: offset) { stream.dropListing() }
            let listing = stream.listing { listingIfNeeded(of: ino) }
            @Sendable func note() {
                listing?.read(upTo: stream.start)
                if let end = stream.end, let component = end.component {
                    handles.log?.listed(handle, end.offset, component)
                }
            }
            if try fill(reply, stream, from: offset, attributes, following: listing) {
                note()
                return .success(())
            }
            return later { [self] () async throws(FileSystemError) in
                do throws(FileSystemError) {
                    while let listing {
                        let pages = listing.progress.pages
                        if try fill(reply, stream, from: offset, attributes, following: listing) { return note() }
                        // Past names that the mount hides: a listing that waits for its reader continues.
                        listing.read(upTo: stream.start)
                        try await listing.wait(after: pages)
                    }
                } catch { throw noted(error) }
            }
        } catch { return .ready(.failure(noted(error))) }
    }

    /// A listing of the directory; nil when the cache can answer for it now.
    func listingIfNeeded(of directory: InodeNumber) -> DirectoryListing? {
        guard let state = try? metadata.directory(directory), state.isFresh, state.isComplete else {
            return isKnownOfOld(directory) ? nil : listings.join(directory)
        }
        return nil
    }

    /// Appends the final entries from `offset` on to `reply`; false when there are none yet.
    private func fill(
        _ reply: any DirectoryReply, _ stream: DirectoryStream, from offset: UInt64, _ attributes: Bool,
        following listing: DirectoryListing?
    ) throws(FileSystemError) -> Bool {
        // Taken before the rows are read: rows up to this frontier were there by then.
        let progress = listing?.progress
        if let error = progress?.error {
            guard isKnownOfOld(stream.directory), error.kind != .interrupted else { throw error }
        }
        let frontier = progress?.frontier
        if frontier == "" { return false }

        var offset = offset
        let hasOwn = offset < DirectoryStream.firstEntryOffset
        if offset == 0 {
            guard try append(".", stream.directory, offset: 1, to: reply) else { return true }
            offset = 1
        }
        if offset == 1 {
            let parent = stream.directory == .root ? .root : try entry(stream.directory).parent
            guard try append("..", parent, offset: 2, to: reply) else { return true }
            offset = 2
        }
        var (place, next) = stream.position(at: offset)
        // Only the number of entries tells where the program stopped. If some are gone since, entries come twice rather than
        // never.
        if let next, try isThinner(stream.directory, from: place, to: next) { offset = place.offset }
        var skip = offset - place.offset
        var start = DirectoryStream.Position(offset: offset, component: place.component)
        var handedOut: [DirectoryStream.Position] = []
        defer { if skip == 0 { stream.handedOut(from: start, handedOut) } }
        while true {
            let rows = try cached { metadata throws(MetadataError) in
                try metadata.children(
                    of: stream.directory, after: place.component, before: frontier, limit: Self.batch)
            }
            for row in rows {
                place.component = row.component
                if hides(row) {
                    if skip == 0, handedOut.isEmpty { start.component = row.component }
                    continue
                }
                if skip > 0 {
                    skip -= 1
                    place.offset += 1
                    start.component = place.component
                    continue
                }
                let answer = self.reply(for: row, noting: false)
                guard let status = answer.status else { continue }
                let next = place.offset + 1
                let isKindOpen = mayBeLink(row)
                let entry = DirectoryEntry(
                    name: row.name, status: status, offset: next, entryTimeout: answer.entryTimeout,
                    attributeTimeout: answer.attributeTimeout, isKindOpen: isKindOpen)
                guard reply.append(entry) else { return true }
                // A reply of names alone gives the kernel no length.
                if attributes, !isKindOpen, status.kind == .file {
                    kernel.note(size: status.size, of: status.ino)
                }
                place.offset = next
                handedOut.append(place)
            }
            if rows.count < Self.batch { return frontier == nil || hasOwn || !handedOut.isEmpty }
        }
    }

    /// Whether there are fewer entries between two places than were handed out there.
    private func isThinner(
        _ directory: InodeNumber, from start: DirectoryStream.Position, to end: DirectoryStream.Position
    ) throws(FileSystemError) -> Bool {
        let count = Int(end.offset - start.offset)
        let rows = try cached { metadata throws(MetadataError) in
            try metadata.children(
                of: directory, after: start.component, before: end.component?.successor,
                limit: filter == nil ? count : .max)
        }
        return (filter == nil ? rows.count : rows.count { !hides($0) }) < count
    }

    private func append(
        _ name: ByteString, _ ino: InodeNumber, offset: UInt64, to reply: any DirectoryReply
    ) throws(FileSystemError) -> Bool {
        let entry = try entry(ino)
        return reply.append(
            DirectoryEntry(
                name: name, status: status(ino, entry.attributes), offset: offset, entryTimeout: .zero,
                attributeTimeout: .zero))
    }

    // MARK: Making and removing

    package func makeDirectory(
        _ name: ByteString, in parent: InodeNumber, mode: UInt16, caller: Caller
    ) -> Outcome<EntryReply> {
        later { [self] () async throws(FileSystemError) in
            try requireWritable()
            let place = Place(parent: parent, name: name)
            return try await noting("mkdir", of: place) { () async throws(FileSystemError) in
                try requireShown(name, in: parent, isDirectory: true, for: "mkdir")
                return try await making(place) { () async throws(FileSystemError) in
                    if changesBuckets(in: parent) { return try await makeBucket(name) }
                    return try await make(name, in: parent, mode, caller)
                }
            }
        }
    }

    private func make(
        _ name: ByteString, in parent: InodeNumber, _ mode: UInt16, _ caller: Caller
    ) async throws(FileSystemError) -> EntryReply {
        let (component, key) = try newKey(name, in: parent, kind: .directory)
        if try await resolve(name, in: parent) != nil {
            throw FileSystemError(.exists, "\(name) already exists")
        }
        let now = time.now()
        var attributes = Attributes(
            kind: .directory, size: 0, mtime: now, ctime: now, version: nil, storageClass: nil)
        let group = try group(in: parent)
        (attributes.mode, attributes.uid) = (group == nil ? mode : mode | Self.setGroupID, caller.uid)
        attributes.gid = group ?? caller.gid
        attributes.headersKnown = true
        let headers = AttributeCodec.encode(attributes, over: Self.markerHeaders)
        let hold = metadata.hold([], [(parent, name)])
        defer { metadata.release(hold) }
        attributes.version = try await putMarker(key, headers, over: nil, isNew: true)
        return reply(for: try takeIn(component, in: parent, attributes, headers))
    }

    /// The entry of an object that was just made at the store. A listing may have brought it already.
    func takeIn(
        _ component: ByteString, in parent: InodeNumber, _ attributes: Attributes, _ headers: ObjectMetadata
    ) throws(FileSystemError) -> Entry {
        try cached { metadata throws(MetadataError) -> Entry in
            do throws(MetadataError) {
                return try metadata.create(
                    component, in: parent, attributes, metadata: headers, pending: false, dating: true)
            } catch {
                guard case .exists(let ino) = error, let seen = try metadata.entry(ino),
                    (seen.attributes.kind == .directory) == (attributes.kind == .directory)
                else { throw error }
                try metadata.update(ino, attributes, metadata: headers, pending: false)
                try metadata.date(parent, attributes.ctime)
                return try metadata.entry(ino) ?? seen
            }
        }
    }

    private static let setGroupID: UInt16 = 0o2000

    /// The group of new entries in a directory with the set-group-ID bit (inode(7)); nil without the bit.
    func group(in directory: InodeNumber) throws(FileSystemError) -> UInt32? {
        let attributes = try entry(directory).attributes
        guard (attributes.mode ?? policy.directoryMode) & Self.setGroupID != 0 else { return nil }
        return attributes.gid ?? policy.gid
    }

    package func removeDirectory(_ name: ByteString, in parent: InodeNumber) -> Outcome<Void> {
        later { [self] () async throws(FileSystemError) in
            try requireWritable()
            let place = Place(parent: parent, name: name)
            try await claiming([place]) { () async throws(FileSystemError) in
                let entry = try await existing(name, in: parent)
                guard entry.attributes.kind == .directory else {
                    throw FileSystemError(.notDirectory, "\(name) is not a directory")
                }
                let isBucket = changesBuckets(in: parent)
                if !isBucket { try requireBucket(name, in: parent) }
                try await noting("rmdir", of: place) { () async throws(FileSystemError) in
                    try await removing(entry) { () async throws(FileSystemError) in
                        if isBucket { return try await remove(bucket: entry) }
                        try await remove(directory: entry)
                    }
                }
            }
            touch(parent)
        }
    }

    private func remove(directory: Entry) async throws(FileSystemError) {
        let key = try key(of: directory.ino)
        try await requireEmpty(directory)
        noteFormer(directory)
        let hold = metadata.hold([directory.ino], [(directory.parent, directory.name)])
        defer { metadata.release(hold) }
        try await keepDirectory(directory.parent, without: directory)
        do { try await deleteObject(key) } catch { throw FileSystemError(error) }
        try cached { metadata throws(MetadataError) in try metadata.remove(directory.ino) }
    }

    /// Throws ENOTEMPTY if the directory has entries, or if one LIST of two keys finds some in the store: keys that this mount
    /// does not show count. Unfinished removals there are carried out first.
    func requireEmpty(_ directory: Entry) async throws(FileSystemError) {
        let notEmpty = FileSystemError(.notEmpty, "\(directory.name) is not empty")
        let prefix = try key(of: directory.ino).bytes
        try await finishJobs(at: ObjectKey(prefix))
        let rows = try cached { metadata throws(MetadataError) in
            try metadata.children(of: directory.ino, after: nil, limit: 64)
        }
        // Files that are being written may not be in the bucket yet, however far below the directory they are.
        if rows.contains(where: { $0.isPending }) || dirtyFiles(below: directory.ino) > 0 { throw notEmpty }
        let page = try await remote { [pendingDeletions] store throws(ObjectStoreError) in
            try await store.list(ListRequest(prefix: prefix, limit: 2), without: pendingDeletions)
        }
        // A marker has no bytes; an object of that key that has some is a file in the directory.
        if page.objects.contains(where: { $0.key.bytes != prefix || $0.version.size > 0 }) {
            noteFound(page.objects)
            throw notEmpty
        }
    }

    /// Sets the directory's times after an entry came or went, as programs that cache listings expect. Only the metadata cache
    /// has them: the marker is not written.
    func touch(_ directory: InodeNumber) {
        try? metadata.date(directory, time.now())
    }

    /// Whether no object stands for the directory: the mount's top, and the buckets of an account.
    func isFixed(_ directory: Entry) -> Bool {
        directory.ino == .root || store.capabilities.bucketsInKeys && directory.parent == .root
    }

    /// The component and the key of a new entry. Throws for a name that the store or the kernel cannot have.
    func newKey(
        _ name: ByteString, in parent: InodeNumber, kind: EntryKind
    ) throws(FileSystemError) -> (component: ByteString, key: ObjectKey) {
        try requireBucket(name, in: parent)
        guard name.count <= NameCodec.longestName else {
            throw FileSystemError(
                .nameTooLong, "a name has at most \(NameCodec.longestName) bytes, this one has \(name.count)")
        }
        guard let prefix = try cached({ metadata throws(MetadataError) in try metadata.key(of: parent) }) else {
            throw FileSystemError(.stale, "the directory is no longer in the bucket")
        }
        let component = try cached { metadata throws(MetadataError) in
            try metadata.component(toCreate: name, kind, in: parent)
        }
        let key = prefix + component
        guard key.count <= store.capabilities.longestKey else {
            throw FileSystemError(
                .nameTooLong, "the key would have \(key.count) bytes; the store allows \(store.capabilities.longestKey)"
            )
        }
        guard store.capabilities.keyRules.allows(key) else {
            throw FileSystemError(.illegalBytes, "the store does not accept the bytes of the key \(key)")
        }
        return (component, ObjectKey(key))
    }

    /// Tries at the store whether it accepts a kind of key that it was not sent before. An acknowledged file with a key that the
    /// store refuses could never be stored.
    func requireStorable(_ key: ObjectKey) async throws(FileSystemError) {
        guard store.capabilities.keyRules.isUntried(key.bytes) else { return }
        // Programs do not see an object that the try has made.
        defer { try? metadata.distrust(key.bytes) }
        try await remote { store throws(ObjectStoreError) in try await store.tryToKeep(key) }
    }

    /// Whether the store accepts no object of this name.
    func isImpossible(_ name: ByteString, in parent: InodeNumber) -> Bool {
        let rules = store.capabilities.keyRules
        guard !rules.allowAll, let prefix = (try? metadata.key(of: parent)) ?? nil else { return false }
        return !rules.allows(prefix + name)
    }
}
