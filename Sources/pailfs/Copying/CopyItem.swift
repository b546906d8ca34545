import Basics
import Glibc
import ObjectStorage

/// One file or object to be copied.
struct CopyItem: Sendable, Hashable {
    enum Source: Sendable, Hashable {
        /// A local file.
        case file(String)
        /// A local directory without entries.
        case emptyDirectory(String)
        /// An object; nil where no listing has shown it.
        case object(ObjectKey, ListedObject?)

        /// A key or path.
        var name: ByteString {
            switch self {
            case .file(let path), .emptyDirectory(let path): ByteString(path)
            case .object(let key, _): key.bytes
            }
        }
    }

    let source: Source
    /// Below the destination; empty for the destination itself. Ends in a slash for a directory's marker.
    let name: ByteString
    /// In bytes; 0 if unknown.
    var size: Int64 = 0
    /// Whether a symbolic link at the end of a file's path is followed.
    var followsLink = false

    /// Whether it is a directory's marker: an empty object whose key ends in a slash.
    var isMarker: Bool {
        switch source {
        case .file: false
        case .emptyDirectory: true
        case .object(let key, let listed): key.bytes.hasSuffix("/") && listed?.version.size == 0
        }
    }

    /// The key of the copy below `root`. A marker of the root itself gets the slash that makes it one; empty at the top of a bucket.
    func key(below root: ByteString) -> ByteString {
        let key = CopyPlan.path(root, name)
        return isMarker && !key.isEmpty && !key.hasSuffix("/") ? key + "/" : key
    }
}

/// The next item of a source, or a name that is not copied.
enum WalkEntry: Sendable, Equatable {
    case item(CopyItem)
    /// A name that is not copied, and why.
    case refused(ByteString, String)
    /// A name that could not be looked at, and why; a later walk may have more success.
    case failed(ByteString, String)
}

/// The files of a source, one after the other. Used by one task.
protocol CopyWalk: Sendable {
    /// nil at the end.
    mutating func next() async throws(ObjectStoreError) -> WalkEntry?
}

/// A source that is one file or object.
struct SingleWalk: CopyWalk {
    private var item: CopyItem?

    init(_ item: CopyItem) { self.item = item }

    mutating func next() -> WalkEntry? {
        defer { item = nil }
        return item.map { .item($0) }
    }
}
