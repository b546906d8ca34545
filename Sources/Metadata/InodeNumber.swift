/// The number of a file, directory or symlink in this mount; `st_ino`. Never reused, kept by rename and across remounts.
package struct InodeNumber: RawRepresentable, Hashable, Sendable, Comparable, CustomStringConvertible {
    package let rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// The mount's top directory, as FUSE numbers it (FUSE_ROOT_ID).
    package static let root = InodeNumber(rawValue: 1)

    package static func < (left: InodeNumber, right: InodeNumber) -> Bool { left.rawValue < right.rawValue }
    package var description: String { String(rawValue) }
}

/// The kind of an entry. The raw value is kept in the database.
package enum EntryKind: UInt8, Sendable, Hashable {
    case file = 0
    case directory = 1
    case symlink = 2
}
