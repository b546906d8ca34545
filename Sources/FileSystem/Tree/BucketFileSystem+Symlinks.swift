package import Basics
import Blocks
import Commits
package import Metadata
import ObjectStorage
import Synchronization

/// symlink and readlink. A link is an object `name.rclonelink` whose body is the target, as rclone writes it: a listing shows it
/// without further requests. With `symlinks=metadata` it is an object of the plain name whose stored mode is a link's, as in the
/// s3fs family. Native links, the symlink objects of a store, are read as well; with `symlinks=native` pailfs makes them where
/// they keep the target's exact text.
extension BucketFileSystem {
    /// Lengths of targets, up to PATH_MAX: the kernel takes no longer one. A link object without bytes has its target in a
    /// header.
    static let targetLengths: ClosedRange<Int64> = 0...4095

    package func symlink(
        _ name: ByteString, in parent: InodeNumber, target: ByteString, caller: Caller
    ) -> Outcome<EntryReply> {
        later { [self] () async throws(FileSystemError) in
            try requireWritable()
            // symlink(2) has EPERM for file systems without links.
            guard metadata.codec.linkSuffix != nil || policy.linksInHeaders else {
                throw FileSystemError(.notPermitted, "the mount has no symbolic links; mount without symlinks=off")
            }
            let place = Place(parent: parent, name: name)
            return try await noting("symlink", of: place) { () async throws(FileSystemError) in
                try requireShown(name, in: parent, isDirectory: false, for: "symlink")
                return try await making(place) { () async throws(FileSystemError) in
                    try await link(name, in: parent, target, caller)
                }
            }
        }
    }

    private func link(
        _ name: ByteString, in parent: InodeNumber, _ target: ByteString, _ caller: Caller
    ) async throws(FileSystemError) -> EntryReply {
        let native = try nativeTarget(target, of: name, in: parent)
        let (component, key) = try newKey(name, in: parent, kind: native == nil ? .symlink : .file)
        if try await resolve(name, in: parent) != nil {
            throw FileSystemError(.exists, "\(name) already exists")
        }
        let now = time.now()
        var attributes = Attributes(
            kind: .symlink, size: Int64(target.count), mtime: now, ctime: now, version: nil, storageClass: nil)
        (attributes.mode, attributes.uid, attributes.gid) = (0o777, caller.uid, try group(in: parent) ?? caller.gid)
        attributes.headersKnown = true
        let headers = AttributeCodec.encode(attributes, over: ObjectMetadata(contentType: "text/plain"))
        try await finishJobs(at: key)
        let hold = metadata.hold([], [(parent, name)])
        defer { metadata.release(hold) }
        // An unlinked object that open handles need may be at the key: the link replaces it.
        let takeover = await takeOverDeletion(key)
        var request = PutRequest(key, metadata: headers)
        if let replaced = takeover?.version {
            request.condition = store.capabilities.putIfMatch ? .match(replaced.etag) : nil
        } else if store.capabilities.putIfAbsent {
            request.condition = .absent
        } else {
            try await requireAbsent(key, name)
        }
        let answer: PutAnswer
        do throws(ObjectStoreError) {
            if let native {
                answer = try await store.putSymlink(request, target: native)
            } else {
                answer = try await store.put(request, body: MemorySource(target.bytes))
            }
        } catch {
            if let takeover { await giveBack(takeover) }
            if error.kind == .preconditionFailed {
                // The known state of the directory is older than that object.
                try? metadata.distrust(key.bytes)
                throw FileSystemError(.exists, "\(name) already exists: another host created it")
            }
            throw FileSystemError(error)
        }
        if let takeover { forgetJob(takeover.deletion.job, at: key.bytes) }
        // As listings have it: a native link has no bytes.
        attributes.version = ObjectVersion(
            etag: answer.etag, size: native == nil ? attributes.size : 0, modified: now, versionID: answer.versionID)
        let entry = try takeIn(component, in: parent, attributes, headers)
        note(target, of: entry.ino, attributes.version)
        // The next process of this mount has no other record of the target.
        try? metadata.keep(target: target, of: entry.ino, attributes.version)
        return reply(for: entry)
    }

    /// The key that a native link is to lead to; nil where native links are not wanted, or would not keep the target's text:
    /// absolute targets, targets outside of the mount, `./a`, `a//b`, `a/`.
    private func nativeTarget(
        _ target: ByteString, of name: ByteString, in parent: InodeNumber
    ) throws(FileSystemError) -> ByteString? {
        guard policy.nativeLinks, store.capabilities.symlinks else { return nil }
        let link = try newKey(name, in: parent, kind: .file).key.bytes
        guard let key = NativeLink.exactTarget(of: target, from: link), key.count <= store.capabilities.longestKey
        else { return nil }
        return key
    }

    /// Throws EXDEV when a native link would have another text at `newKey`; mv(1) then makes a new link.
    func requireSameTarget(_ link: Entry, at newKey: ObjectKey) async throws(FileSystemError) {
        let key = try key(of: link.ino)
        let linked = try await remote { store throws(ObjectStoreError) in try await store.symlinkTarget(of: key) }
        guard NativeLink.exactTarget(of: NativeLink.path(to: linked, from: key.bytes), from: newKey.bytes) != nil
        else {
            throw FileSystemError(
                .crossDevice, "a link stored with symlinks=native cannot keep its target under this name")
        }
    }

    package func readLink(_ ino: InodeNumber) -> Outcome<ByteString> {
        if let target = targets.withLock({ $0.value(for: ino) }), isCurrent(target, of: ino) {
            return .success(target.text)
        }
        return later { [self] () async throws(FileSystemError) in
            try await asking(about: ino) { () async throws(FileSystemError) in try await targetIfItStays(ino) }
        }
    }

    /// The target. While a call of this mount removes or replaces the link, the object may be gone before the entry: then this
    /// waits for the end of that call and reads again.
    private func targetIfItStays(_ ino: InodeNumber) async throws(FileSystemError) -> ByteString {
        do throws(FileSystemError) { return try await target(of: ino) } catch {
            guard namesBeingRemoved.contains(ino) else { throw error }
            try await namesBeingRemoved.wait(ino)
            return try await target(of: ino)
        }
    }

    private func note(_ target: ByteString, of ino: InodeNumber, _ version: ObjectVersion?) {
        let target = LinkTarget(etag: version?.etag, text: target, askedAt: time.now())
        targets.withLock { _ = $0.insert(target, for: ino) }
    }

    /// Whether the known target is the newest known. While the store is away it counts; for an entry that is gone or pending the
    /// store has nothing newer.
    private func isCurrent(_ target: LinkTarget, of ino: InodeNumber) -> Bool {
        guard !watch.isAway, let entry = try? entry(ino), !entry.isPending else { return true }
        guard target.etag == entry.attributes.version?.etag else { return false }
        // A listing may show the same ETag for two targets of a native link.
        guard isNative(entry) else { return true }
        let now = time.now()
        return target.askedAt <= now && now < target.askedAt + metadata.ttl
    }

    private func target(of ino: InodeNumber) async throws(FileSystemError) -> ByteString {
        let entry = try entry(ino)
        guard entry.attributes.kind == .symlink, let version = entry.attributes.version else {
            throw FileSystemError(.invalid, "\(entry.name) is not a symbolic link")
        }
        if isNative(entry) {
            let known = knownTarget(of: ino, version)
            if let known, watch.isAway { return known }
            let key = try key(of: ino)
            let link = try await remote { store throws(ObjectStoreError) in try await store.link(at: key) }
            let target = NativeLink.path(to: link.target, from: key.bytes)
            note(target, of: ino, version)
            learn(link, of: entry, version)
            // stat(2) shows its length, in the next process as well.
            if target != known { try? metadata.keep(target: target, of: ino, Self.dated(version)) }
            return target
        }
        if let target = (try? metadata.target(of: ino, version)) ?? nil {
            note(target, of: ino, version)
            return target
        }
        let headers = try cached { metadata throws(MetadataError) in try metadata.metadata(of: ino) }
        if let target = headers.flatMap({ AttributeCodec.linkTarget($0) }) {
            note(target, of: ino, version)
            return target
        }
        let length = Int(version.size)
        guard length <= Self.targetLengths.upperBound else {
            throw FileSystemError(
                .nameTooLong, "the link's target has \(length) bytes; the limit is \(Self.targetLengths.upperBound)")
        }
        let buffer = try await borrow(length)
        let object = rooms.blocks.open(try key(of: ino), version)
        // The headers of the GET have time and owner.
        openedKeys.withLock { _ = $0.insert(ino, for: object.key) }
        do throws(BlockError) {
            try await object.read(ByteRange(at: 0, count: version.size), into: buffer, at: 0)
        } catch { throw FileSystemError(error) }
        let target = buffer.prefix(length)
        guard !target.bytes.contains(0) else {
            throw FileSystemError(.inputOutput, "the object of the link holds a NUL byte, which no target can have")
        }
        note(target, of: ino, version)
        return target
    }

    /// The target of this version of a native link, if it is known here.
    func knownTarget(of ino: InodeNumber, _ version: ObjectVersion?) -> ByteString? {
        version.flatMap { try? metadata.target(of: ino, Self.dated($0)) }
    }

    /// Two targets of a native link may have the same ETag; their times differ, to the second.
    private static func dated(_ version: ObjectVersion) -> ObjectVersion {
        var version = version
        version.etag = ETag("\(version.etag.text) \(version.modified.seconds)")
        return version
    }

    /// Reads the target of a native link, whose length no listing shows. Credentials that may list but not read leave the length
    /// unknown.
    func learnTarget(of link: Entry) async throws(FileSystemError) -> Entry {
        do throws(FileSystemError) { _ = try await targetIfItStays(link.ino) } catch {
            guard error.kind == .accessDenied else { throw error }
            return link
        }
        return try entry(link.ino)
    }

    /// Takes owner and times from the headers of a native link, unless they are known.
    private func learn(_ link: StoredLink, of entry: Entry, _ version: ObjectVersion) {
        guard !entry.attributes.headersKnown, link.etag ?? version.etag == version.etag else { return }
        var attributes = entry.attributes
        AttributeCodec.decode(link.metadata, into: &attributes)
        _ = try? metadata.recordHeaders(entry.ino, for: version.etag, attributes, metadata: link.metadata)
    }

    /// Whether the entry is a native link, and no link by its name or its headers.
    func isNative(_ entry: Entry) -> Bool {
        guard entry.attributes.kind == .symlink, store.capabilities.symlinks,
            metadata.codec.role(of: entry.component) == .object
        else { return false }
        guard policy.linksInHeaders, let headers = try? metadata.metadata(of: entry.ino) else { return true }
        // The headers that this mount stores with a native link are those of a link, too: but its target is neither its bytes
        // nor a header.
        let isEmpty = entry.attributes.version?.size == 0 && AttributeCodec.linkTarget(headers) == nil
        return isEmpty || !AttributeCodec.isLink(headers)
    }

    func borrow(_ capacity: Int) async throws(FileSystemError) -> Buffer {
        do { return try await rooms.buffers.borrow(capacity) } catch { throw .interrupted }
    }
}
