package import SQLite

/// Why the metadata cache refused or failed: the one error type of this module.
package enum MetadataError: Error, Sendable, Hashable {
    /// A live entry has the component already.
    case exists(InodeNumber)
    /// No entry has this inode number (any more).
    case noSuchEntry(InodeNumber)
    case notDirectory(InodeNumber)
    /// A directory cannot move below itself.
    case intoItself
    /// No key can be shown under this name, or the component does not fit the kind of entry.
    case invalidName
    /// The directory was renamed or removed while its listing ran; the listing belongs to the old key.
    case superseded
    /// A listing brought a key outside the listed directory.
    case foreignKey
    /// The database failed; `isCorrupt` there means that the cache must be made anew.
    case database(SQLiteError)
}

extension MetadataError {
    /// Whether the disk has no room for a row.
    package var isDiskFull: Bool {
        if case .database(let cause) = self { cause.kind == .full } else { false }
    }
}

extension MetadataError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .exists(let ino): "the name exists as inode \(ino)"
        case .noSuchEntry(let ino): "no entry has inode number \(ino)"
        case .notDirectory(let ino): "inode \(ino) is not a directory"
        case .intoItself: "a directory cannot be moved below itself"
        case .invalidName: "no object key can have this name"
        case .superseded: "the directory was renamed while it was listed"
        case .foreignKey: "the listing holds a key outside its prefix"
        case .database(let error): "metadata cache: \(error)"
        }
    }
}
