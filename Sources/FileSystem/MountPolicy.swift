package import Basics
package import ObjectStorage

/// What the user chose for one mount, as far as the file system acts on it. Constant while mounted.
package struct MountPolicy: Sendable {
    /// The owner of objects whose headers have none.
    package var uid: UInt32
    package var gid: UInt32
    /// The permission bits of objects whose headers have none, umask already applied.
    package var fileMode: UInt16 = 0o644
    package var directoryMode: UInt16 = 0o755
    package var readOnly = false
    package var attributes = AttributeSource.listing
    /// Whether headers make an object a symbolic link. No listing shows these.
    package var linksInHeaders = false
    /// Whether new symbolic links are native links of the store, where those keep the exact text of the target.
    package var nativeLinks = false
    package var conflict = ConflictPolicy.keep
    package var durability = Durability.remote
    /// How long a writer waits for local space while no staged byte reaches the store.
    package var spaceTimeout: Duration = .seconds(30)
    /// statfs(2)'s total in bytes; object stores have no end, so without the `size` option it is a large constant.
    package var capacity: Int64 = 1 << 50
    /// The key prefix of the mount's top directory: empty, or with a slash at its end. Only for display.
    package var prefix: ByteString = ""
    /// Content types by file name, for objects that this mount makes.
    package var contentTypes = ContentTypes()
    /// Headers by file name, for the same objects.
    package var headerRules: [HeaderRule] = []
    /// This machine's name as it appears in the names of conflict files.
    package var hostName = "localhost"
    /// Copies in flight while a directory is renamed: the store does the work, and each is one round trip.
    package var copies = 32

    package init(uid: UInt32, gid: UInt32) { (self.uid, self.gid) = (uid, gid) }

    /// The headers of an object that depend on its name.
    var namedHeaders: NamedHeaders { NamedHeaders(types: contentTypes, rules: headerRules) }

    /// pailfs-semantics(7), ATTRIBUTES: `attrs=listing` shows the listing's attributes until the headers are known, `attrs=exact`
    /// requests the headers first.
    package enum AttributeSource: Sendable { case listing, exact }
    /// Where the bytes are when a close returns: in the bucket, or staged on the local disk and bound for it.
    package enum Durability: Sendable { case remote, local }
    /// The fate of the bytes of the second of two conflicting writers.
    package enum ConflictPolicy: Sendable, CaseIterable { case keep, overwrite, fail }
}
