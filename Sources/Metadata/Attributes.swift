package import Basics
package import ObjectStorage

/// What `stat` shows of an entry, and which version of the object it belongs to.
package struct Attributes: Hashable, Sendable {
    package var kind: EntryKind
    /// In bytes; of a symlink the length of its target.
    package var size: Int64
    /// Permission bits. nil: never set, the mount's default holds; so for the owner and the group.
    package var mode: UInt16?
    package var uid: UInt32?
    package var gid: UInt32?
    package var mtime: Timestamp
    /// Of this host's changes, in the order in which they were made; of others' the time of the object's version.
    package var ctime: Timestamp
    /// As a program has set it; nil shows `mtime`. Reads do not move it.
    package var atime: Timestamp?
    /// The version in the bucket that this describes or, while changes wait, that they started from. nil: nothing is
    /// committed yet, or a directory without a marker.
    package var version: ObjectVersion?
    /// As the store spells it; nil is its standard class.
    package var storageClass: String?
    /// Whether the object's headers have been seen, so that mode, owner and mtime are exact.
    package var headersKnown: Bool

    package init(
        kind: EntryKind, size: Int64 = 0, mode: UInt16? = nil, uid: UInt32? = nil, gid: UInt32? = nil,
        mtime: Timestamp, ctime: Timestamp? = nil, version: ObjectVersion? = nil, storageClass: String? = nil,
        headersKnown: Bool = false
    ) {
        (self.kind, self.size, self.mode, self.uid, self.gid) = (kind, size, mode, uid, gid)
        (self.mtime, self.ctime, self.version) = (mtime, ctime ?? mtime, version)
        (self.storageClass, self.headersKnown) = (storageClass, headersKnown)
    }

    /// Something was changed at `now`. Each change is later than the one before it, whatever the clocks of this host and the store
    /// say.
    package mutating func noteChange(at now: Timestamp) { ctime = max(now, ctime.next) }

    /// What Linux leaves of a file's mode when somebody changes it who is not privileged: no set-user-ID bit, and no
    /// set-group-ID bit that is not a mark for mandatory locking (inode(7)).
    package mutating func dropPrivileges() {
        guard kind == .file, let mode else { return }
        let groupMayExecute = mode & 0o010 != 0
        self.mode = mode & ~(groupMayExecute ? 0o6000 : 0o4000)
    }

    /// What a listing tells of an object.
    package init(_ object: ListedObject, kind: EntryKind) {
        self.init(
            kind: kind, size: object.version.size, mtime: object.version.modified, version: object.version,
            storageClass: object.storageClass)
    }
}

/// One file, directory or symlink as the cache knows it.
package struct Entry: Hashable, Sendable {
    package var ino: InodeNumber
    package var parent: InodeNumber
    /// The piece of the key below the parent's key: `name`, `name/` for a directory, `name.rclonelink` for a symlink
    /// where symlinks are such objects. Empty for the mount's root and for the object whose key is its directory's.
    package var component: ByteString
    /// As programs see it. Empty for the root, and where `names=raw` hides the entry.
    package var name: ByteString
    package var attributes: Attributes
    /// When the store was last asked about this entry itself, or we changed it.
    package var checkedAt: Timestamp
    /// Until when the entry counts as fresh, from this or from its directory's listing; in the past when it is not.
    package var freshUntil: Timestamp
    /// Of a directory whose headers are known: when they were asked for last, or given by us. No listing tells that somebody
    /// else has changed them.
    package var headersAt: Timestamp?
    /// Ours, and not in the bucket yet.
    package var isPending: Bool
    /// How many updates of entries there had been when it was read.
    var updates: UInt64
}

/// What the cache can say about a name.
package enum LookupAnswer: Hashable, Sendable {
    /// Past its freshness the entry is still the best knowledge there is.
    case present(Entry, isFresh: Bool)
    /// Known to be missing: a listing within `ttl`, a removal of ours, or a negative answer of the store within its time.
    case absent(freshUntil: Timestamp)
    case unknown
}

/// What the cache knows of a directory's contents.
package struct DirectoryState: Hashable, Sendable {
    /// When the newest complete listing began; nil when there is none or it was invalidated.
    package var listedAt: Timestamp?
    /// Every entry is known as of `listedAt`, with our own changes since.
    package var isComplete: Bool
    package var isFresh: Bool
    /// Until when a complete listing counts; in the past when there is none.
    package var freshUntil: Timestamp
    /// Whether the bucket has the zero-byte object `dir/`; nil when never seen.
    package var hasMarker: Bool?
}

/// When a request to the store began, in the clock's time and among our own changes: an answer to it cannot know of
/// changes made here since.
package struct RequestStart: Hashable, Sendable {
    package let at: Timestamp
    let sequence: Int64
}
