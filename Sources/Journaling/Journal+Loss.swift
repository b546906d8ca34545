import Basics
import SQLite

/// Another program may delete the journal while it is used. The open connection still has every row.
extension Journal {
    /// Whether the journal is at the path where it was opened. True when a failing disk gives no answer.
    package var isInPlace: Bool {
        guard database.isInPlace else { return false }
        do { return try LocalFileStatus(of: path + Self.madeSuffix) != nil } catch { return true }
    }

    /// Makes the journal again with all its rows, in a directory that exists. Rows that were flushed are on the disk again.
    package func restore() throws(JournalingError) {
        do throws(SQLiteError) {
            if !database.isInPlace {
                try database.restore()
                try database.write(JournalSchema.takeHeadroom)
            }
        } catch { throw .write(error) }
        do throws(FileError) {
            try File(path, .readWrite).sync()
            try Self.claim(path)
            try Directory.sync(Directory.parent(of: path))
        } catch { throw .file(error) }
    }
}
