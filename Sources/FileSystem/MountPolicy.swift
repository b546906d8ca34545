package import Basics

/// What the user chose for one mount, as far as the file system acts on it. Constant while mounted.
package struct MountPolicy: Sendable {
    /// Owner shown where no header tells one.
    package var uid: UInt32
    package var gid: UInt32
    /// Permission bits shown where no header tells them, umask already applied.
    package var fileMode: UInt16 = 0o644
    package var directoryMode: UInt16 = 0o755
    package var readOnly = false
    package var attributes = AttributeSource.listing
    /// Objects whose headers say so are symbolic links, which only those tell.
    package var linksInHeaders = false
    /// Symbolic links are made as links of the store's own kind where that tells their exact text.
    package var nativeLinks = false
    package var conflict = ConflictPolicy.keep
    package var durability = Durability.remote
    /// How long a writer waits for local space while nothing of what is staged gets to the store.
    package var spaceTimeout: Duration = .seconds(30)
    /// statfs(2)'s total in bytes; object stores have no end, so without the `size` option it is a large constant.
    package var capacity: Int64 = 1 << 50
    /// Where the mount's top directory is in the bucket: empty, or with a slash at its end. Only for what people are shown.
    package var prefix: ByteString = ""
    /// What the names of files tell of their content, for objects made here.
    package var contentTypes = ContentTypes()
    /// This machine's name as it appears in the names of conflict files.
    package var hostName = "localhost"
    /// Copies in flight while a directory is renamed: the store does the work, and each is one round trip.
    package var copies = 32

    package init(uid: UInt32, gid: UInt32) { (self.uid, self.gid) = (uid, gid) }

    /// SEMANTICS: `attrs=listing` shows what listings tell until headers were seen, `attrs=exact` asks for the headers first.
    package enum AttributeSource: Sendable { case listing, exact }
    /// Where bytes are when a close has returned: in the bucket, or staged on the local disk and bound for it.
    package enum Durability: Sendable { case remote, local }
    /// What becomes of the bytes of the writer that came second.
    package enum ConflictPolicy: Sendable, CaseIterable { case keep, overwrite, fail }
}
