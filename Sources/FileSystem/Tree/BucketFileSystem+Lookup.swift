package import Basics
import Blocks
package import Metadata
import ObjectStorage
import Synchronization

/// lookup, getattr, and asking the store about one name.
extension BucketFileSystem {
    package func lookup(_ name: ByteString, in parent: InodeNumber) -> Outcome<EntryReply> {
        // The kernel also sends names that are longer than NAME_MAX.
        guard name.count <= NameCodec.longestName else {
            return .failure(
                .nameTooLong, "a name has at most \(NameCodec.longestName) bytes, this one has \(name.count)")
        }
        if hides(name, in: parent, isDirectory: nil) { return .success(hidden(in: parent)) }
        let answer: LookupAnswer
        do { answer = try cached { metadata throws(MetadataError) in try metadata.lookup(name, in: parent) } } catch {
            return .ready(.failure(error))
        }
        switch answer {
        case .present(let entry, _) where hides(entry): return .success(hidden(in: parent))
        case .present(let entry, isFresh: true) where !needsHeaders(entry): return .success(reply(for: entry))
        case .present(let entry, isFresh: false) where isOurs(entry): return .success(reply(for: entry))
        case .absent(let until): return .success(absence(in: parent, until: until))
        case .present, .unknown:
            return later { [self] () async throws(FileSystemError) in
                if let entry = try await resolve(name, in: parent) {
                    return hides(entry) ? hidden(in: parent) : reply(for: try await exact(entry))
                }
                let absent = min(.seconds(1), metadata.absenceTTL ?? .seconds(1))
                return absence(in: parent, until: time.now() + absent)
            }
        }
    }

    package func attributes(_ ino: InodeNumber, handle: HandleID?) -> Outcome<AttributeReply> {
        if let file = files.find(ino) {
            let (isDirty, isNameless) = file.state.withLock { ($0.life.isDirty, $0.life.isNameless) }
            return .success(
                AttributeReply(status: shown(file), timeout: isDirty || isNameless ? metadata.ttl : .seconds(1)))
        }
        do {
            let entry = try entry(ino)
            if ino == .root || isFresh(entry) && !needsHeaders(entry) || metadata.isHeld(entry) {
                return .success(
                    AttributeReply(
                        status: shown(entry), timeout: remaining(attributesFreshUntil(entry))))
            }
            return later { [self] () async throws(FileSystemError) in
                do throws(FileSystemError) { return try await freshAttributes(ino) } catch {
                    guard error.kind == .stale, let former = former(ino) else { throw error }
                    return AttributeReply(status: status(of: former, ino), timeout: .seconds(1))
                }
            }
        } catch {
            guard error.kind == .stale, let former = former(ino) else { return .ready(.failure(error)) }
            return .success(AttributeReply(status: status(of: former, ino), timeout: .seconds(1)))
        }
    }

    private func freshAttributes(_ ino: InodeNumber) async throws(FileSystemError) -> AttributeReply {
        try await asking(about: ino) { () async throws(FileSystemError) in
            let entry = try self.entry(ino)
            guard let found = try await resolve(entry.name, in: entry.parent), found.ino == ino else {
                throw FileSystemError(.stale, "\(entry.name) is no longer in the bucket")
            }
            let fresh = try await exact(found)
            return AttributeReply(
                status: shown(fresh), timeout: remaining(attributesFreshUntil(fresh)))
        }
    }

    // MARK: Replies

    /// Whether the listing is not enough for the entry: with `attrs=exact`, where only headers tell a link from a file, and for
    /// the length of a native link's target.
    func needsHeaders(_ entry: Entry) -> Bool {
        let isExact = policy.attributes == .exact
        if entry.attributes.kind == .directory, isExact, haveGrownOld(headersOf: entry) { return true }
        if isNative(entry) { return lacksLength(entry) }
        guard !entry.attributes.headersKnown, !entry.isPending else { return false }
        switch entry.attributes.kind {
        case .file: return isExact || policy.linksInHeaders && Self.targetLengths.contains(entry.attributes.size)
        case .symlink: return isExact
        case .directory:
            return isExact && mayHaveMarker(entry)
        }
    }

    /// Whether the length of a native link's target is unknown.
    private func lacksLength(_ link: Entry) -> Bool {
        link.attributes.size == 0 && !link.isPending && knownTarget(of: link.ino, link.attributes.version) == nil
    }

    /// Whether a directory may have a marker whose headers are not known. Many have none: when a HEAD has found none, the store
    /// is not asked again for `ttl`.
    func mayHaveMarker(_ directory: Entry) -> Bool {
        guard !directory.attributes.headersKnown, store.capabilities.markers, !isFixed(directory) else { return false }
        return markersMissing.withLock { $0.value(for: directory.ino) }.map { time.now() >= $0 + metadata.ttl } ?? true
    }

    /// Whether another host may have changed the known headers of a directory: no listing shows that.
    func haveGrownOld(headersOf directory: Entry) -> Bool {
        guard !isFixed(directory), let until = headersFreshUntil(directory) else { return false }
        return time.now() >= until
    }

    /// nil where the headers do not expire: they are unknown, or not in the bucket yet.
    private func headersFreshUntil(_ directory: Entry) -> Timestamp? {
        guard directory.attributes.headersKnown, let known = directory.headersAt, !directory.isPending,
            store.capabilities.markers
        else { return nil }
        let missing = markersMissing.withLock { $0.peek(directory.ino) } ?? known
        return max(known, missing) + metadata.ttl
    }

    /// Until when the kernel may cache the attributes.
    func attributesFreshUntil(_ entry: Entry) -> Timestamp {
        guard policy.attributes == .exact, let until = headersFreshUntil(entry) else { return entry.freshUntil }
        return min(entry.freshUntil, until)
    }

    /// Whether only headers that are not known yet tell a file from a symbolic link. With `attrs=exact` alone the kind in the
    /// listing counts until then: links in headers are rare there, and find(1) would ask for every object.
    func mayBeLink(_ entry: Entry) -> Bool {
        metadata.codec.linkSuffix == nil && policy.linksInHeaders && needsHeaders(entry)
            && entry.attributes.kind == .file && Self.targetLengths.contains(entry.attributes.size)
    }

    /// Whether the cached entry is newer than the store's: the file has changes that wait for their commit, or an operation of
    /// this host is changing the entry.
    private func isOurs(_ entry: Entry) -> Bool {
        files.find(entry.ino)?.isDirty == true || metadata.isHeld(entry)
    }

    func exact(_ entry: Entry) async throws(FileSystemError) -> Entry {
        guard needsHeaders(entry), !metadata.isHeld(entry) else { return entry }
        return try await asking(about: entry.ino) { () async throws(FileSystemError) in
            isNative(entry) ? try await learnTarget(of: entry) : try await learnHeaders(of: entry)
        }
    }

    /// The metadata cache's rule. An expiry too far in the future was set before the clock was set back, and does not count.
    func isFresh(_ entry: Entry) -> Bool {
        let (now, ttl) = (time.now(), metadata.ttl)
        return entry.isPending || entry.freshUntil > now && entry.freshUntil <= now + ttl + ttl
    }

    func remaining(_ until: Timestamp) -> Duration { min(metadata.ttl, max(.zero, until - time.now())) }

    private func hidden(in parent: InodeNumber) -> EntryReply { absence(in: parent, until: time.now() + metadata.ttl) }

    /// The reply for a missing name. `pailfs refresh` drops the kernel's absent names by invalidating the name of their
    /// directory. The top directory has no name, and this process does not know which absent names an earlier process has sent to
    /// the kernel: so the kernel caches no absent names of the top directory.
    private func absence(in parent: InodeNumber, until: Timestamp) -> EntryReply {
        EntryReply(status: nil, entryTimeout: parent == .root ? .zero : remaining(until), attributeTimeout: .zero)
    }

    /// The reply for an entry, with the newer state of an open file. Without `noting` the kernel may not get this reply, so the
    /// length is not noted as known to the kernel.
    func reply(for entry: Entry, noting: Bool = true) -> EntryReply {
        var entry = current(entry)
        var file = files.find(entry.ino)
        // A commit may have finished since the entry was read, and its file have left the table.
        while file == nil, !metadata.isCurrent(entry), let newer = try? self.entry(entry.ino) {
            entry = current(newer)
            file = files.find(entry.ino)
        }
        let isOurs = entry.isPending || file?.isDirty == true
        var (timeout, attributeTimeout) =
            isOurs
            ? (metadata.ttl, metadata.ttl) : (remaining(entry.freshUntil), remaining(attributesFreshUntil(entry)))
        // readdir replies with what the listing shows; with a timeout of 0 the kernel asks again for exact attributes.
        if file == nil, needsHeaders(entry) { (timeout, attributeTimeout) = (.zero, .zero) }
        let attributes = file?.attributes ?? latest(of: entry)
        return EntryReply(
            status: noting ? shown(entry.ino, attributes) : status(entry.ino, attributes), entryTimeout: timeout,
            attributeTimeout: attributeTimeout)
    }

    /// The status for a reply from which the kernel learns a file's length.
    func shown(_ ino: InodeNumber, _ attributes: Attributes) -> FileStatus {
        if attributes.kind == .file { kernel.note(size: attributes.size, of: ino) }
        return status(ino, attributes)
    }

    /// The same for an entry whose file is not active.
    func shown(_ entry: Entry) -> FileStatus { shown(entry.ino, latest(of: entry)) }

    func shown(_ file: ActiveFile) -> FileStatus {
        let (attributes, isNameless) = file.state.withLock { ($0.attributes, $0.life.isNameless) }
        var status = shown(file.ino, attributes)
        if isNameless { status.links = 0 }
        return status
    }

    func status(_ ino: InodeNumber, _ attributes: Attributes) -> FileStatus {
        let isDirectory = attributes.kind == .directory
        let mode: UInt16 =
            switch attributes.kind {
            case .file: attributes.mode ?? policy.fileMode
            case .directory: attributes.mode ?? policy.directoryMode
            case .symlink: 0o777
            }
        // No listing shows the target's length of a native link.
        let isUntold = attributes.kind == .symlink && attributes.size == 0
        let target = isUntold ? knownTarget(of: ino, attributes.version)?.count : nil
        return FileStatus(
            ino: ino, kind: attributes.kind, mode: mode, links: isDirectory ? 2 : 1,
            uid: attributes.uid ?? policy.uid, gid: attributes.gid ?? policy.gid,
            size: isDirectory ? 4096 : target.map(Int64.init) ?? attributes.size,
            accessed: attributes.atime ?? attributes.mtime,
            modified: attributes.mtime,
            changed: attributes.ctime, blockSize: 1 << 20)
    }

    // MARK: Asking the store

    /// The live entry of a name, from the cache while fresh, else from the store; nil when there is none. While the store is
    /// away, the last known entry counts.
    func resolve(_ name: ByteString, in parent: InodeNumber) async throws(FileSystemError) -> Entry? {
        let answer = try cached { metadata throws(MetadataError) in try metadata.lookup(name, in: parent) }
        switch answer {
        case .present(let entry, isFresh: true): return entry
        case .present(let entry, isFresh: false) where isOurs(entry): return entry
        case .absent: return nil
        case .present(let entry, isFresh: false):
            if watch.isAway { return entry }
            do throws(FileSystemError) {
                return try await lookups.value(for: LookupKey(parent: parent, name: name)) { [self] in
                    await asking { () async throws(FileSystemError) in try await revalidate(entry) }
                }
            } catch {
                guard watch.isAway, error.kind != .interrupted else { throw self.error(error, of: name, in: parent) }
                return entry
            }
        case .unknown:
            if isKnownOfOld(parent) || isImpossible(name, in: parent) { return nil }
            if metadata.isHeld(name, in: parent) { return nil }
            do throws(FileSystemError) {
                return try await lookups.value(for: LookupKey(parent: parent, name: name)) { [self] in
                    await asking { () async throws(FileSystemError) in try await discover(name, in: parent) }
                }
            } catch {
                // This answer may be the first to show that the store refuses such names: then no object has the name.
                if error.kind == .illegalBytes, isImpossible(name, in: parent) { return nil }
                guard isKnownOfOld(parent), error.kind != .interrupted else {
                    throw self.error(error, of: name, in: parent)
                }
                return nil
            }
        }
    }

    /// Runs `ask`, a request about a key, and repeats it while renames of a directory change the key.
    private func asking<Value: Sendable>(
        _ ask: () async throws(FileSystemError) -> Value
    ) async -> Result<Value, FileSystemError> {
        while true {
            do throws(FileSystemError) { return .success(try await ask()) } catch {
                if !error.isOvertaken { return .failure(error) }
            }
        }
    }

    /// Runs `ask`, a request about the object of an inode, and repeats it when the object has got another key meanwhile. When the
    /// store has no object at the old key, this first waits for the end of the call that moves or removes the object.
    ///
    /// Locks: none.
    func asking<Value: Sendable>(
        about ino: InodeNumber, _ ask: () async throws(FileSystemError) -> Value
    ) async throws(FileSystemError) -> Value {
        while true {
            let (key, version) = (try key(of: ino), (try? entry(ino))?.attributes.version)
            do throws(FileSystemError) { return try await ask() } catch {
                guard error.kind == .notFound || error.kind == .stale else { throw error }
                if let entry = try? entry(ino) {
                    try await nameClaims.wait(Place(parent: entry.parent, name: entry.name))
                }
                try await waitForMove(of: ino, files.find(ino))
                guard let now = try? self.key(of: ino), now != key else {
                    doubt(ino, version)
                    throw error
                }
            }
        }
    }

    /// The error with the path of the name: the failed request may have been about the directory.
    private func error(
        _ error: FileSystemError, of name: ByteString, in parent: InodeNumber
    ) -> FileSystemError {
        let directory = (try? metadata.key(of: parent)) ?? ""
        return FileSystemError(error.kind, "\(directory + name): \(error.reason)")
    }

    /// Whether every name in a directory was known once and the store is away now.
    func isKnownOfOld(_ directory: InodeNumber) -> Bool {
        watch.isAway && (try? metadata.directory(directory))?.isComplete ?? false
    }

    /// The entry of a name that must exist.
    func existing(_ name: ByteString, in parent: InodeNumber) async throws(FileSystemError) -> Entry {
        guard let entry = try await resolve(name, in: parent) else {
            throw FileSystemError(.notFound, "\(name) does not exist")
        }
        return entry
    }

    /// Refreshes a known file whose entry has expired: one HEAD shows whether the object is the same, and its exact attributes.
    private func revalidate(_ entry: Entry) async throws(FileSystemError) -> Entry? {
        // A HEAD of a native link describes the object that the link leads to.
        guard entry.attributes.kind != .directory, !isNative(entry), let known = entry.attributes.version,
            try !mayHideAnObject(entry)
        else {
            return try await discover(entry.name, in: entry.parent)
        }
        let start = metadata.beginRequest()
        let key = try key(of: entry.ino)
        let answer = await Result { () async throws(ObjectStoreError) in try await store.head(key, condition: nil) }
        switch answer {
        case .success(let info):
            rooms.blocks.note(info, of: key)
            let fresh = try record(info, of: entry, since: start)
            if let fresh, fresh.attributes.version?.etag != known.etag { kernel.notifier?.invalidate(fresh.ino) }
            return fresh
        case .failure(let error) where error.kind == .notFound:
            _ = try cached { metadata throws(MetadataError) in try metadata.recordGone(entry.ino, since: start) }
            return try await discover(entry.name, in: entry.parent)
        case .failure(let error): throw FileSystemError(error)
        }
    }

    /// Whether a link may hide an unknown object of the same name, which takes the name before it: not all names there are known.
    private func mayHideAnObject(_ entry: Entry) throws(FileSystemError) -> Bool {
        guard metadata.codec.role(of: entry.component) == .link else { return false }
        return try !cached { metadata throws(MetadataError) in try metadata.directory(entry.parent) }.isComplete
    }

    /// Records the answer of a HEAD. Returns the entry that programs see now.
    func record(
        _ info: ObjectInfo, of entry: Entry, since start: RequestStart, forHolder: Bool = false
    ) throws(FileSystemError) -> Entry? {
        try record(
            info, of: Place(parent: entry.parent, name: entry.component), entry.attributes.kind,
            isNative: isNative(entry),
            since: start, forHolder: forHolder)
    }

    /// The same for the component `place.name`, which may be unknown.
    func record(
        _ info: ObjectInfo, of place: Place, _ kind: EntryKind, isNative: Bool = false, since start: RequestStart,
        forHolder: Bool = false
    ) throws(FileSystemError) -> Entry? {
        var attributes = Attributes(
            kind: kind, size: info.version.size, mtime: info.version.modified, version: info.version,
            storageClass: info.storageClass)
        AttributeCodec.decode(info.metadata, into: &attributes)
        if policy.linksInHeaders, metadata.codec.role(of: place.name) == .object, !isNative {
            attributes.kind = AttributeCodec.isLink(info.metadata) ? .symlink : .file
            if let target = AttributeCodec.linkTarget(info.metadata) { attributes.size = Int64(target.count) }
        }
        return try cached { metadata throws(MetadataError) in
            try metadata.recordRemote(
                place.name, in: place.parent, attributes, metadata: info.metadata, since: start, forHolder: forHolder)
        }
    }

    /// Requests the headers of a listed object, once for each ETag. `forHolder`: the caller holds the entry.
    func learnHeaders(of entry: Entry, forHolder: Bool = false) async throws(FileSystemError) -> Entry {
        let start = metadata.beginRequest()
        let key = try key(of: entry.ino)
        let info: ObjectInfo
        do throws(ObjectStoreError) { info = try await store.head(key, condition: nil) } catch {
            guard error.kind == .notFound, entry.attributes.kind == .directory else { throw FileSystemError(error) }
            markersMissing.withLock { _ = $0.insert(start.at, for: entry.ino) }
            return entry
        }
        rooms.blocks.note(info, of: key)
        guard let learned = try record(info, of: entry, since: start, forHolder: forHolder) else {
            throw FileSystemError(.notFound, "\(entry.name) was removed")
        }
        return learned
    }
}

extension Result where Success: Sendable {
    /// What `body` returns or throws.
    init(_ body: () async throws(Failure) -> Success) async {
        do { self = .success(try await body()) } catch { self = .failure(error) }
    }
}
