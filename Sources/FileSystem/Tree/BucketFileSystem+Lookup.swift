package import Basics
import Blocks
package import Metadata
import ObjectStorage
import Synchronization

/// lookup, getattr, and asking the store about one name.
extension BucketFileSystem {
    package func lookup(_ name: ByteString, in parent: InodeNumber) -> Outcome<EntryReply> {
        // The kernel passes on what is longer than NAME_MAX.
        guard name.count <= NameCodec.longestName else {
            return .failure(
                .nameTooLong, "a name has at most \(NameCodec.longestName) bytes, this one has \(name.count)")
        }
        let answer: LookupAnswer
        do { answer = try cached { metadata throws(MetadataError) in try metadata.lookup(name, in: parent) } } catch {
            return .ready(.failure(error))
        }
        switch answer {
        case .present(let entry, isFresh: true) where !needsHeaders(entry): return .success(reply(for: entry))
        case .present(let entry, isFresh: false) where isOurs(entry): return .success(reply(for: entry))
        case .absent(let until): return .success(absence(in: parent, until: until))
        case .present, .unknown:
            return later { [self] () async throws(FileSystemError) in
                if let entry = try await resolve(name, in: parent) { return reply(for: try await exact(entry)) }
                return absence(in: parent, until: time.now() + .seconds(1))
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

    /// Whether what is known of the entry is only what a listing tells, and that is not enough: with `attrs=exact`, and where
    /// only headers tell a link.
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

    /// Whether it is not known how long the target of a link of the store's own kind is.
    private func lacksLength(_ link: Entry) -> Bool {
        link.attributes.size == 0 && !link.isPending && knownTarget(of: link.ino, link.attributes.version) == nil
    }

    /// Whether a directory may have headers that nobody has asked for. Many have no marker: the store is not asked for it again
    /// before what it said is old.
    func mayHaveMarker(_ directory: Entry) -> Bool {
        guard !directory.attributes.headersKnown, store.capabilities.markers, !isFixed(directory) else { return false }
        return markersMissing.withLock { $0.value(for: directory.ino) }.map { time.now() >= $0 + metadata.ttl } ?? true
    }

    /// Whether another host may have changed the known headers of a directory: no listing tells of that.
    func haveGrownOld(headersOf directory: Entry) -> Bool {
        guard !isFixed(directory), let until = headersFreshUntil(directory) else { return false }
        return time.now() >= until
    }

    /// nil where they do not grow old: not known, or not in the bucket yet.
    private func headersFreshUntil(_ directory: Entry) -> Timestamp? {
        guard directory.attributes.headersKnown, let known = directory.headersAt, !directory.isPending,
            store.capabilities.markers
        else { return nil }
        let missing = markersMissing.withLock { $0.peek(directory.ino) } ?? known
        return max(known, missing) + metadata.ttl
    }

    /// Until when the kernel may believe in the attributes.
    func attributesFreshUntil(_ entry: Entry) -> Timestamp {
        guard policy.attributes == .exact, let until = headersFreshUntil(entry) else { return entry.freshUntil }
        return min(entry.freshUntil, until)
    }

    /// Whether only headers nobody has seen tell if it is a file or a symbolic link. With `attrs=exact` alone a listing is
    /// believed until then: links of that form are rare there, and find(1) would ask for every object.
    func mayBeLink(_ entry: Entry) -> Bool {
        metadata.codec.linkSuffix == nil && policy.linksInHeaders && needsHeaders(entry)
            && entry.attributes.kind == .file && Self.targetLengths.contains(entry.attributes.size)
    }

    /// Whether the store has nothing to add to what is known: the file has changes that wait for their commit, or an operation of
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

    /// As the metadata cache has it, for which what counts for too long was learned before the clock was set back.
    func isFresh(_ entry: Entry) -> Bool {
        let (now, ttl) = (time.now(), metadata.ttl)
        return entry.isPending || entry.freshUntil > now && entry.freshUntil <= now + ttl + ttl
    }

    func remaining(_ until: Timestamp) -> Duration { min(metadata.ttl, max(.zero, until - time.now())) }

    /// `pailfs refresh` makes the kernel forget absent names by the name of the directory that they are in. The top directory
    /// has none, and which absent names of it an earlier process told the kernel is not known here: so the kernel always asks
    /// for them.
    private func absence(in parent: InodeNumber, until: Timestamp) -> EntryReply {
        EntryReply(status: nil, entryTimeout: parent == .root ? .zero : remaining(until), attributeTimeout: .zero)
    }

    /// What the kernel is told of an entry, with what an open file knows beyond the metadata cache. Without `noting` it is not
    /// sure yet that it takes the length.
    func reply(for entry: Entry, noting: Bool = true) -> EntryReply {
        var entry = current(entry)
        var file = files.find(entry.ino)
        // A commit may have come to its end since the entry was read, and its file have left the table.
        while file == nil, !metadata.isCurrent(entry), let newer = try? self.entry(entry.ino) {
            entry = current(newer)
            file = files.find(entry.ino)
        }
        let isOurs = entry.isPending || file?.isDirty == true
        var (timeout, attributeTimeout) =
            isOurs
            ? (metadata.ttl, metadata.ttl) : (remaining(entry.freshUntil), remaining(attributesFreshUntil(entry)))
        // A directory's listing hands out what it knows; the kernel asks again for what has to be exact.
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

    /// The same of an entry whose file is not active.
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
        // Of a link of the store's own kind no listing tells the length.
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
    /// away, what was known last is believed.
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
                // The answer may have been the first to say that the store has no such names.
                if error.kind == .illegalBytes, isImpossible(name, in: parent) { return nil }
                guard isKnownOfOld(parent), error.kind != .interrupted else {
                    throw self.error(error, of: name, in: parent)
                }
                return nil
            }
        }
    }

    /// The answer to a question about a key; asked again when a renamed directory has taken that along.
    private func asking<Value: Sendable>(
        _ ask: () async throws(FileSystemError) -> Value
    ) async -> Result<Value, FileSystemError> {
        while true {
            do throws(FileSystemError) { return .success(try await ask()) } catch {
                if !error.isOvertaken { return .failure(error) }
            }
        }
    }

    /// The answer to a question about the object of an inode, asked again when that has got another key meanwhile: where the
    /// old one leads to nothing any more, the call that took it away has to come to its end first. Callers hold no gate and
    /// claim no name.
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

    /// The error with the path that it is about: the question may have been about the directory.
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

    /// One that must exist.
    func existing(_ name: ByteString, in parent: InodeNumber) async throws(FileSystemError) -> Entry {
        guard let entry = try await resolve(name, in: parent) else {
            throw FileSystemError(.notFound, "\(name) does not exist")
        }
        return entry
    }

    /// A known file that grew old: one HEAD tells whether it is the same, and its exact attributes with it.
    private func revalidate(_ entry: Entry) async throws(FileSystemError) -> Entry? {
        // A HEAD of a link of the store's own kind tells of the object it leads to.
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

    /// Whether an object may be beside a link, which has a claim to the plain name before it: not all names there are known.
    private func mayHideAnObject(_ entry: Entry) throws(FileSystemError) -> Bool {
        guard metadata.codec.role(of: entry.component) == .link else { return false }
        return try !cached { metadata throws(MetadataError) in try metadata.directory(entry.parent) }.isComplete
    }

    /// Keeps what a HEAD told; answers what programs see now.
    func record(
        _ info: ObjectInfo, of entry: Entry, since start: RequestStart, forHolder: Bool = false
    ) throws(FileSystemError) -> Entry? {
        try record(
            info, of: Place(parent: entry.parent, name: entry.component), entry.attributes.kind,
            isNative: isNative(entry),
            since: start, forHolder: forHolder)
    }

    /// The same of the component `place.name`, of which nothing need be known.
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

    /// Asks for the headers of a listed object, once for each ETag. `forHolder`: the caller holds the entry.
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
