import Basics
import SQLite

/// What can be read of a journal that cannot be used any more: for people to save their bytes by, never to go on with.
///
/// Reads a copy and changes nothing of the original: it may be all there is of somebody's bytes.
package struct JournalSalvage: Sendable {
    /// The rows that could be read.
    package private(set) var contents = JournalContents()
    /// The bytes of small files that were acknowledged beside their rows.
    package private(set) var small: [IntentID: [UInt8]] = [:]
    /// What could not, and why; empty when everything was there.
    package private(set) var lost: [String] = []

    /// Copies the journal at `path` into `directory`, which exists and is private, and reads what there is of the copy. Throws when it
    /// cannot be copied.
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
