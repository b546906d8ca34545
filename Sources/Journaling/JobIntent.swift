package import Basics

/// Work at the store that takes more than one request, or that was already acknowledged to a program.
///
/// The row is written and flushed before the first request and removed after the last. Each job can be run again from its
/// start: the objects show which steps are done.
package enum JobIntent: Codable, Sendable, Hashable {
    /// An object whose name programs have seen removed; open handles still needed it.
    case removal(RemovalRecord)
    case rename(RenameRecord)
    /// Every object of a directory moves; the job's items list them.
    case tree(from: ByteString, to: ByteString)
    /// A `tree` job whose copies are all made: programs see the new name from now on. The metadata cache alone shows whether
    /// they see it already; then this is the same as `removals`.
    case moved(from: ByteString, to: ByteString)
    /// A `tree` job whose new name programs have seen: the objects of the job's items below the old name are deleted, and no
    /// others.
    case removals(below: ByteString)
    /// An object gets other headers, and may get another ETag with them. Without this row it would look like another host's
    /// object if the process ends before the answer.
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

/// An object to delete, if it is still the one that was meant.
package struct RemovalRecord: Codable, Sendable, Hashable {
    package var key: ByteString
    /// nil when the ETag was never seen: then `commits` identify the object.
    package var etag: String?
    /// The prefixes of the ids of commits that may have made it.
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
    /// The ETag of the object at the new key; nil when none was known there.
    package var replaced: String?
    /// The headers of the copy where they differ from the source's; a commit id among them belongs to this copy alone.
    package var headers: HeadersRecord?
    /// The replaced object if its key is not `to`, as with a link and a file of one name: the copy does not overwrite it.
    /// nil: there is none.
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
    /// The version with the former headers.
    package var source: VersionRecord
    /// The new headers.
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
