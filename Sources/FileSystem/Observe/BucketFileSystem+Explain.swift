package import Basics
import Blocks
import Commits
package import Metadata
import ObjectStorage
import Synchronization

/// The state of one path, for `pailfs explain`. The names are those of the JSON form.
package struct PathReport: Sendable, Codable {
    package var path: String
    package var key: String
    package var kind: String
    package var size: Int64
    package var inode: UInt64
    package var etag: String?
    package var versionID: String?
    /// ISO 8601, like the other times.
    package var modified: String
    package var storageClass: String?
    /// Every byte of the version is on this machine.
    package var isCached: Bool
    package var isOpen: Bool
    package var isDirty: Bool
    package var isUploading: Bool
    /// Until then pailfs does not ask the store again.
    package var freshUntil: String
    /// The operation, and the store's message, code and request ID.
    package var lastError: String?
    package var lastErrorAt: String?
}

/// Where a path of the mount is in the bucket, for commands that work on objects.
package struct ObjectLocation: Sendable {
    /// Below the mount's prefix; with a slash at its end for a directory, empty for the mount's top.
    package var key: ByteString
    package var isDirectory: Bool
    /// The number of files at or below the path with changes that are not in the bucket.
    package var dirtyFiles: Int
    /// The removal of an object at or below the key that the store has not carried out.
    package var removal: UnsentRemoval?
}

/// Why an object whose name is removed from the mount is still in the bucket. It is deleted later, unless it has changed by then.
package enum UnsentRemoval: String, Sendable, Codable {
    /// A program has the file open, and only the object has its bytes.
    case open
    /// The store has refused the removal, which is retried.
    case refused
}

/// `pailfs explain`, `pailfs refresh` and the lookups of commands that work on objects.
extension BucketFileSystem {
    /// The known state of an inode, without a request to the store.
    package func explain(_ ino: InodeNumber) throws(FileSystemError) -> PathReport {
        let entry = try entry(ino)
        let file = files.find(ino)
        let attributes = file?.attributes ?? entry.attributes
        let version = attributes.version
        let key = try cached { metadata throws(MetadataError) in try metadata.key(of: ino) } ?? ""
        let last = lastErrors.withLock { $0.peek(ino) }
        let isCached = version.map { rooms.blocks.open(ObjectKey(key), $0).isComplete } ?? false
        return PathReport(
            path: path(of: ino).description, key: (policy.prefix + key).description, kind: "\(attributes.kind)",
            size: attributes.size,
            inode: ino.rawValue, etag: version?.etag.text, versionID: version?.versionID,
            modified: attributes.mtime.iso8601(), storageClass: attributes.storageClass,
            isCached: attributes.kind != .directory && isCached, isOpen: files.isOpen(ino),
            isDirty: file?.isDirty ?? false, isUploading: isUploading(ino),
            freshUntil: max(entry.freshUntil, .epoch).iso8601(), lastError: last?.text,
            lastErrorAt: last?.at.iso8601())
    }

    /// The object of a path below the mountpoint. For a missing path, the object that a new file there would get.
    package func locate(_ path: ByteString) throws(FileSystemError) -> ObjectLocation {
        do throws(FileSystemError) {
            let ino = try inode(at: path)
            let key = try cached { metadata throws(MetadataError) in try metadata.key(of: ino) }
            guard let key else { throw FileSystemError(.notFound, "\(path) is not in the mount") }
            let isDirectory = try entry(ino).attributes.kind == .directory
            return ObjectLocation(key: key, isDirectory: isDirectory, dirtyFiles: dirtyFiles(below: ino))
        } catch {
            guard error.kind == .notFound else { throw error }
            let (directory, name) = Self.split(path)
            let parent = try inode(at: directory)
            let key = try cached { metadata throws(MetadataError) in
                let component = try metadata.component(toCreate: name, .file, in: parent)
                return try metadata.key(of: parent).map { $0 + component }
            }
            guard let key else { throw error }
            return ObjectLocation(key: key, isDirectory: false, dirtyFiles: 0)
        }
    }

    /// The same after the waiting removals at or below the object are sent: the bucket has what the mount shows.
    package func locateWithoutRemovals(_ path: ByteString) async throws(FileSystemError) -> ObjectLocation {
        var location = try locate(path)
        let key = location.key
        let below = key.isEmpty || key.hasSuffix("/") ? key : key + "/"
        for key in Set([key, below]) { await jobs.sendRemovals(at: key) }
        if !key.isEmpty && pendingDeletions[ObjectKey(key)] != nil || !pendingDeletions.keys(below: below).isEmpty {
            location.removal = .open
        } else if jobs.unfinished.contains(where: {
            $0.act == .removal && ($0.key == key || $0.key.hasPrefix(below))
        }) {
            location.removal = .refused
        }
        return location
    }

    /// A command changed the object of a path at the store, or the object `key` at or below the path. The next use of the name,
    /// or of a name below it, asks the store.
    package func noteChange(at path: ByteString, key: ByteString? = nil) async throws(FileSystemError) {
        await jobs.sendRemovals()
        if let key = key ?? (try? locate(path))?.key { distrustWrites(at: key) }
        let ino = try? inode(at: path)
        if let ino { try distrust(ino) }
        var (directory, name) = Self.split(path)
        // The command may also have made the directories above the object: then the first unknown name of the path is
        // invalidated.
        while !directory.isEmpty, (try? inode(at: directory)) == nil { (directory, name) = Self.split(directory) }
        let parent = try inode(at: directory)
        try cached { metadata throws(MetadataError) in try metadata.invalidate(parent, subtree: false) }
        recentMisses.withLock { $0 = LRU(capacity: 4096) }
        kernel.notifier?.invalidate(parent)
        kernel.notifier?.invalidate(name, in: parent)
        if let ino { try await awaitInvalidation(of: ino, namesIn: parent) }
        try await awaitInvalidation(of: parent, namesIn: parent)
    }

    /// The store is asked about a key, or about keys below one that ends in a slash, even where this mount has written or removed
    /// the object and no listing shows anything newer.
    private func distrustWrites(at key: ByteString) { (rooms.store as? OverlaidStore)?.distrust(key) }

    private func awaitInvalidation(of ino: InodeNumber, namesIn parent: InodeNumber) async throws(FileSystemError) {
        do throws(CancellationError) { try await kernel.notifier?.awaitInvalidation(of: ino, namesIn: parent) } catch {
            throw .interrupted
        }
    }

    private static func split(_ path: ByteString) -> (directory: ByteString, name: ByteString) {
        guard let slash = path.bytes.lastIndex(of: UInt8(ascii: "/")) else { return ("", path) }
        return (ByteString(path.bytes[..<slash]), ByteString(path.bytes[(slash + 1)...]))
    }

    /// Whether the file is being uploaded now.
    func isUploading(_ ino: InodeNumber) -> Bool {
        guard let draft = files.find(ino)?.state.withLock({ $0.life.draft }) else { return false }
        let progress = draft.commit.progress
        return progress.isCommitting || progress.partsUnderWay > 0
    }

    /// Makes the next use of `ino`, and of everything below it, ask the store, whatever the kernel and the cache hold.
    /// Uncommitted changes stay, and so do cached blocks: they belong to versions, and serve again if the store still has the
    /// version. Waiting removals at or below `ino` are sent first: afterwards the store shows what else is at the name.
    /// Returns the directory in which the kernel drops names.
    @discardableResult
    package func refresh(_ ino: InodeNumber) async throws(FileSystemError) -> InodeNumber {
        await sendRemovals(below: ino)
        let key = try cached { metadata throws(MetadataError) in try metadata.key(of: ino) }
        if let key { distrustWrites(at: key) }
        return try distrust(ino)
    }

    /// The same for callers that are not kernel requests. Returns when the kernel has dropped names, pages and attributes, too.
    package func refreshEverywhere(_ ino: InodeNumber) async throws(FileSystemError) {
        try await awaitInvalidation(of: ino, namesIn: try await refresh(ino))
    }

    /// Makes the next use ask the store, as after `ttl`, without waiting for anything here. Returns the directory in which the
    /// kernel drops names.
    @discardableResult
    package func distrust(_ ino: InodeNumber) throws(FileSystemError) -> InodeNumber {
        try cached { metadata throws(MetadataError) in try metadata.invalidate(ino, subtree: true) }
        recentMisses.withLock { $0 = LRU(capacity: 4096) }
        targets.withLock { $0 = LRU(capacity: 4096) }
        kernel.notifier?.invalidate(ino)
        if ino != .root, let entry = try? entry(ino) {
            // With a directory the kernel drops the names below it.
            kernel.notifier?.invalidate(entry.name, in: entry.parent)
            return entry.parent
        }
        var last: ByteString?
        while let page = try? metadata.children(of: ino, after: last, limit: 1000), let next = page.last {
            for child in page { kernel.notifier?.invalidate(child.name, in: ino) }
            last = next.component
        }
        return ino
    }
}
