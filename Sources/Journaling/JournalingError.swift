package import Basics
import Glibc
package import SQLite

/// Why the local state of a mount cannot be used: the one error type of this module. Each text names the remedy.
package enum JournalingError: Error, Sendable, Hashable {
    /// Another process uses the directory; with its pid and mountpoint, if it has written them.
    case held(directory: String, pid: Int32?, mountpoint: String?)
    /// The directory belongs to another user.
    case foreign(directory: String, owner: UInt32)
    /// The directory is a symbolic link or no directory at all.
    case notADirectory(directory: String)
    case file(FileError)
    /// `journal.db` cannot be opened or read.
    case journal(path: String, SQLiteError)
    /// A row could not be written: no part of it is in the journal.
    case write(SQLiteError)
}

extension JournalingError {
    /// Whether the journal exists and cannot be read as one.
    package var isDamage: Bool {
        if case .journal(_, let cause) = self { return cause.isCorrupt }
        return false
    }

    /// Whether the disk has no room for a row.
    package var isDiskFull: Bool {
        switch self {
        case .journal(_, let cause), .write(let cause): cause.kind == .full
        case .held, .foreign, .notADirectory, .file: false
        }
    }

    /// Whether the disk takes no writes.
    package var isOfReadOnlyDisk: Bool {
        switch self {
        case .journal(_, let cause), .write(let cause): cause.kind == .readOnly
        case .file(let error): error.errno == EROFS
        case .held, .foreign, .notADirectory: false
        }
    }
}

extension JournalingError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .held(let directory, let pid, let mountpoint):
            let holder = "process \(pid.map { "\($0)" } ?? "unknown")"
            let place = mountpoint.map { ", mounted on \($0)" } ?? ""
            return "the directory \(directory) is in use by \(holder)\(place); "
                + "run \"pailfs unmount\", which waits until everything is stored, or set another cache-dir"
        case .foreign(let directory, let owner):
            return "the directory \(directory) belongs to user \(owner); "
                + "mount as that user, or set another cache-dir"
        case .notADirectory(let directory):
            return "the directory \(directory) is a symbolic link or not a directory; "
                + "set cache-dir or state-dir to the directory itself"
        case .file(let error): return error.description
        case .journal(let path, let error) where error.kind == .full:
            return "the journal \(path) cannot be used: \(error); make room on its disk, or set another cache-dir"
        case .journal(let path, let error):
            return
                "the journal \(path) cannot be used: \(error); it lists the files that are not stored yet, whose bytes are "
                + "in staging/ next to it: save them with \"pailfs recover\", and copy both before you move it away"
        case .write(let error): return "the journal could not be written: \(error)"
        }
    }
}
