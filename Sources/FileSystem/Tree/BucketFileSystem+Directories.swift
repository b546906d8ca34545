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
        // Also of a handle that an earlier process gave out, and that was not used since.
        forgetOrphan(directory: ino)
        guard case .directory(let stream) = removed else { return }
        stream.dropListing()
        trimNames()
    }

    /// A listing may have brought more than the share of the cache: nothing of a directory is forgotten while it is read, nor
    /// what was learned just now.
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
        /// Also of a listing that had failed before this call came to it.
        @Sendable func noted(_ error: FileSystemError) -> FileSystemError {
            if error.isOfRefusedListing { remember(error, "readdir", ino) }
            return error
        }
        do throws(FileSystemError) {
            let stream = try directoryStream(handle, of: ino)
            // Read from its beginning; or by seekdir(3), far back in a directory that is too long for the cache.
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
                        try await listing.wait(after: pages)
                    }
                } catch { throw noted(error) }
            }
        } catch { return .ready(.failure(noted(error))) }
    }

    /// A listing when the cache cannot answer for the directory now.
    func listingIfNeeded(of directory: InodeNumber) -> DirectoryListing? {
        guard let state = try? metadata.directory(directory), state.isFresh, state.isComplete else {
            return isKnownOfOld(directory) ? nil : listings.join(directory)
        }
        return nil
    }

    /// Puts into `reply` what is known for certain from `offset` on; false when that is nothing yet.
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
        // Which of them was the last is told by their number. Some have gone since: none is passed over, and some come again.
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
                // Of a name alone the kernel learns no length.
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
                of: directory, after: start.component, before: end.component?.successor, limit: count)
        }
        return rows.count < count
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
                try await making(place) { () async throws(FileSystemError) in
                    try await make(name, in: parent, mode, caller)
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

    /// The entry of what was just made at the store. A listing may have seen it there already.
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

    /// The group of what is made in a directory with the set-group-ID bit (inode(7)); nil without the bit.
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
                try requireBucket(name, in: parent)
                try await noting("rmdir", of: place) { () async throws(FileSystemError) in
                    try await removing(entry) { () async throws(FileSystemError) in
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

    /// Counts remote keys too, so nothing that this mount does not show is lost: one LIST of two keys. What is still to be
    /// removed there goes first.
    func requireEmpty(_ directory: Entry) async throws(FileSystemError) {
        let notEmpty = FileSystemError(.notEmpty, "\(directory.name) is not empty")
        let prefix = try key(of: directory.ino).bytes
        try await finishJobs(at: ObjectKey(prefix))
        let rows = try cached { metadata throws(MetadataError) in
            try metadata.children(of: directory.ino, after: nil, limit: 64)
        }
        // Files that are being written need not be in the bucket, however far below it they are.
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

    /// An entry came or went: the directory's times move, as programs that cache listings expect. Kept here only; the marker
    /// is not written for it.
    func touch(_ directory: InodeNumber) {
        try? metadata.date(directory, time.now())
    }

    /// Whether no object stands for the directory: the mount's top, and the buckets of an account.
    func isFixed(_ directory: Entry) -> Bool {
        directory.ino == .root || store.capabilities.bucketsInKeys && directory.parent == .root
    }

    /// Buckets are neither made nor removed nor renamed here.
    func requireBucket(_ name: ByteString, in parent: InodeNumber) throws(FileSystemError) {
        guard !(store.capabilities.bucketsInKeys && parent == .root) else {
            throw FileSystemError(
                .notPermitted,
                "\(name) would be at the top of an account, which has buckets only; "
                    + "create and delete buckets with the provider's tools")
        }
    }

    /// The component and the key a new entry would have; refuses what the store or the kernel could not name.
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

    /// Has the store say whether it takes a key of a kind that it was not sent before: once it is acknowledged, a file that the
    /// store refuses could never be stored.
    func requireStorable(_ key: ObjectKey) async throws(FileSystemError) {
        guard store.capabilities.keyRules.isUntried(key.bytes) else { return }
        // A program sees no object that was made for this.
        defer { try? metadata.distrust(key.bytes) }
        try await remote { store throws(ObjectStoreError) in try await store.tryToKeep(key) }
    }

    /// Whether the store has no object of such a name.
    func isImpossible(_ name: ByteString, in parent: InodeNumber) -> Bool {
        let rules = store.capabilities.keyRules
        guard !rules.allowAll, let prefix = (try? metadata.key(of: parent)) ?? nil else { return false }
        return !rules.allows(prefix + name)
    }
}
