import Basics
import SQLite

/// The readable rows of a journal that cannot be used any more: for users to save their bytes, never to mount with.
///
/// Reads a copy and does not change the original: it may be the only record of a user's bytes.
package struct JournalSalvage: Sendable {
    /// The rows that could be read.
    package private(set) var contents = JournalContents()
    /// The bytes of small files that were acknowledged beside their rows.
    package private(set) var small: [IntentID: [UInt8]] = [:]
    /// The rows that could not be read, and why; empty when all were read.
    package private(set) var lost: [String] = []

    /// Copies the journal at `path` into `directory`, which exists and is private, and reads the rows of the copy. Throws
    /// when it cannot be copied.
    package init(of path: String, in directory: String) throws(JournalingError) {
        let copy = directory + "/journal.db"
        do throws(FileError) {
            for suffix in ["", "-wal"] {
                if try LocalFileStatus(of: path + suffix) == nil { continue }
                let original = try File(path + suffix)
                let bytes = try original.read(0..<(try original.size))
                try File(copy + suffix, .readWrite, create: .exclusive).write(bytes, at: 0)
            }
        } catch { throw .file(error) }
        guard let size = try? LocalFileStatus(of: copy)?.size, size >= Journal.leastSize else {
            lost.append("the whole journal: the file was cut or is missing")
            return
        }
        var options = Database.Options()
        options.readers = 0
        do throws(SQLiteError) {
            let database = try Database(.file(copy), options: options, migrations: JournalSchema.migrations)
            (contents, small, lost) = try database.read { (connection) throws(SQLiteError) in
                JournalSchema.salvage(connection)
            }
            database.close()
        } catch { lost.append("the whole journal: \(error)") }
    }
}
