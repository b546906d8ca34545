import Basics
import Metadata

/// The order in which a call takes the locks of the file system; a debug build traps when a call breaks it (`LockOrder`). Mutexes
/// come after all of these, and nothing is awaited under one.
extension LockPlace {
    /// The line of calls that wait for local space.
    static let space = LockPlace("the line for local space", level: 0)

    /// Names that a call makes, moves or removes. `number` is the position among the sorted names of one call.
    static func name(_ number: Int) -> LockPlace { LockPlace("a claimed name", level: 1, number: UInt64(number)) }

    /// The gate of calls that store a file's bytes at its key. The rename of a directory has it alone below both keys.
    static let namespace = LockPlace("the namespace", level: 2)

    /// The gate of calls that make, move or remove names, change headers, or begin to change a file. The rename of a directory
    /// has it alone below both keys.
    static let names = LockPlace("the names", level: 3)

    /// A file that is about to lose its name.
    static let leaving = LockPlace("a file that is losing its name", level: 4)

    /// The gate of a file's bytes, attributes and name; those of several files in the order of their inode numbers.
    static func file(_ ino: InodeNumber) -> LockPlace { LockPlace("a file", level: 5, number: ino.rawValue) }

    /// The gate of deletions of unlinked objects.
    static let deletions = LockPlace("the deletions", level: 6)

    /// The gate under which committed bytes move from staging to the block cache.
    static func content(_ ino: InodeNumber) -> LockPlace {
        LockPlace("the content of a file", level: 7, number: ino.rawValue)
    }
}
