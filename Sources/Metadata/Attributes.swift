package import Basics
package import ObjectStorage

/// What `stat` shows of an entry, and which version of the object it belongs to.
package struct Attributes: Hashable, Sendable {
    package var kind: EntryKind
    /// In bytes; of a symlink the length of its target.
    package var size: Int64
    /// Permission bits. nil: never set, the mount's default holds; the same for the owner and the group.
    package var mode: UInt16?
    package var uid: UInt32?
    package var gid: UInt32?
    package var mtime: Timestamp
    /// For changes of this host: in the order in which they were made; for other hosts' changes: the time of the object's
    /// version.
    package var ctime: Timestamp
    /// As a program has set it; nil means `mtime`. Reads do not change it.
    package var atime: Timestamp?
    /// The version in the bucket that this describes or, while changes wait, that they are based on. nil: nothing is
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

    /// Records a change at `now`. Each change is later than the one before it, whatever the clocks of this host and the store
    /// show.
    package mutating func noteChange(at now: Timestamp) { ctime = max(now, ctime.next) }

    /// The mode that Linux leaves when an unprivileged program changes a file: no set-user-ID bit, and no set-group-ID bit
    /// that is not a mark for mandatory locking (inode(7)).
    package mutating func dropPrivileges() {
        guard kind == .file, let mode else { return }
        let groupMayExecute = mode & 0o010 != 0
        self.mode = mode & ~(groupMayExecute ? 0o6000 : 0o4000)
    }

    /// The attributes of an object in a listing.
    package init(_ object: ListedObject, kind: EntryKind) {
        self.init(
            kind: kind, size: object.version.size, mtime: object.version.modified, version: object.version,
            storageClass: object.storageClass)
    }
}

/// One file, directory or symlink as the cache has it.
package struct Entry: Hashable, Sendable {
    package var ino: InodeNumber
    package var parent: InodeNumber
    /// The piece of the key below the parent's key: `name`, `name/` for a directory, `name.rclonelink` for a symlink
    /// where symlinks are such objects. Empty for the mount's root and for the object whose key is its directory's.
    package var component: ByteString
    /// The name that programs see. Empty for the root, and where `names=raw` hides the entry.
    package var name: ByteString
    package var attributes: Attributes
    /// When the store last answered about this entry itself, or this host changed it.
    package var checkedAt: Timestamp
    /// The end of the entry's freshness, from its own check or its directory's listing; in the past when it is not fresh.
    package var freshUntil: Timestamp
    /// When the headers of a directory were last requested, or set by this host; nil when they are not known. No listing
    /// shows that another host has changed them.
    package var headersAt: Timestamp?
    /// A change of this host that is not in the bucket yet.
    package var isPending: Bool
    /// The number of updates of entries before this one was read.
    var updates: UInt64
}

/// The cache's answer for a name.
package enum LookupAnswer: Hashable, Sendable {
    /// The entry; when it is not fresh, it is still the newest that the cache has.
    case present(Entry, isFresh: Bool)
    /// Known to be missing: by a listing within `ttl`, a removal by this host, or a negative answer of the store within its
    /// time.
    case absent(freshUntil: Timestamp)
    case unknown
}

/// The state of a directory's contents in the cache.
package struct DirectoryState: Hashable, Sendable {
    /// When the newest complete listing began; nil when there is none or it was invalidated.
    package var listedAt: Timestamp?
    /// Every entry is known as of `listedAt`, with the later changes of this host.
    package var isComplete: Bool
    package var isFresh: Bool
    /// The end of a complete listing's freshness; in the past when there is none.
    package var freshUntil: Timestamp
    /// Whether the bucket has the zero-byte object `dir/`; nil when no answer of the store has shown it.
    package var hasMarker: Bool?
}

/// When a request to the store began, by the clock and in the sequence of this host's changes. Its answer cannot include
/// later changes of this host.
package struct RequestStart: Hashable, Sendable {
    package let at: Timestamp
    let sequence: Int64
}
