package import Basics

/// Something to be done at the store that takes more than one request, or that a program was told is done already.
///
/// The row is written and flushed before the first request and removed after the last. Each job can be begun again from its
/// start: what is done already is seen from the objects.
package enum JobIntent: Codable, Sendable, Hashable {
    /// A name that programs have seen go; open handles kept its object.
    case removal(RemovalRecord)
    case rename(RenameRecord)
    /// Every object of a directory moves; which ones, the job's items say.
    case tree(from: ByteString, to: ByteString)
    /// What became of a tree whose copies are all there: programs see the new name from now on. Whether they do already, only the
    /// metadata cache tells; then the same as `removals`.
    case moved(from: ByteString, to: ByteString)
    /// What became of a tree whose new name programs have seen: the objects below the old one go, those of the job's items and
    /// no others.
    case removals(below: ByteString)
    /// An object gets other headers, and may get another ETag with them: without this row it would seem to be somebody else's
    /// when the process ends before the answer.
    case headers(HeadersUpdateRecord)

    /// For the log and for stop points.
    package var name: String {
        switch self {
        case .removal: "removal"
        case .rename: "rename"
        case .tree: "tree"
        case .moved: "moved"
        case .removals: "removals"
        case .headers: "headers"
        }
    }
}

/// An object that goes, if it is still the one that was meant.
package struct RemovalRecord: Codable, Sendable, Hashable {
    package var key: ByteString
    /// nil when the object was never seen: then `commits` tell.
    package var etag: String?
    /// What the ids of commits begin with that may have made it.
    package var commits: [String]

    package init(key: ByteString, etag: String?, commits: [String]) {
        (self.key, self.etag, self.commits) = (key, etag, commits)
    }
}

/// A file takes another key: a copy, then the deletion of the displaced target, then that of the source.
package struct RenameRecord: Codable, Sendable, Hashable {
    /// The version that moves.
    package var source: VersionRecord
    package var to: ByteString
    package var storageClass: String?
    /// The ETag of what was at the new key; nil when nothing was known to be there.
    package var replaced: String?
    /// What the copy carries where that is not what the source does; a commit id among it is of this copy alone.
    package var headers: HeadersRecord?
    /// The replaced file where its key is not `to`, as of a link and a file of one name: no copy takes its object's place. nil:
    /// there is none.
    package var displaced: RemovalRecord?

    package init(
        source: VersionRecord, to: ByteString, storageClass: String?, replaced: String?, headers: HeadersRecord? = nil,
        displaced: RemovalRecord? = nil
    ) {
        (self.source, self.to, self.storageClass, self.replaced) = (source, to, storageClass, replaced)
        (self.headers, self.displaced) = (headers, displaced)
    }

    /// Every key at which the rename changes something.
    package var keys: [ByteString] { [source.key, to] + (displaced.map { [$0.key] } ?? []) }
}

/// An object's headers are replaced; its bytes stay.
package struct HeadersUpdateRecord: Codable, Sendable, Hashable {
    /// The version whose headers they were.
    package var source: VersionRecord
    /// What it has afterwards.
    package var headers: HeadersRecord

    package init(source: VersionRecord, headers: HeadersRecord) { (self.source, self.headers) = (source, headers) }
}

/// One object of a tree that moves.
package struct ItemRecord: Codable, Sendable, Hashable {
    package var source: VersionRecord
    package var storageClass: String?

    package init(source: VersionRecord, storageClass: String?) {
        (self.source, self.storageClass) = (source, storageClass)
    }
}
