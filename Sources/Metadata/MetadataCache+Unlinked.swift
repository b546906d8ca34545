package import Basics
import SQLite

/// Files that lost their names while programs had them open, for a process that resumes the same mount. Every other process
/// begins with none.
extension MetadataCache {
    package struct Unlinked: Sendable {
        package var ino: InodeNumber
        /// The caller's own record of the file.
        package var record: [UInt8]
    }

    /// Stores `record` for the file, in place of an earlier one. `name` is passed while the object still exists under it:
    /// until `forget` the tombstone of that name survives restarts.
    package func keep(
        unlinked ino: InodeNumber, _ record: [UInt8], hiding name: (parent: InodeNumber, component: ByteString)?
    ) throws(MetadataError) {
        try write { (connection) throws(SQLiteError) in
            try connection.run(
                "INSERT OR REPLACE INTO unlinked VALUES (?1, ?2, ?3, ?4)", ino.row, name?.parent.row,
                name?.component, record)
        }
    }

    /// The last descriptor of the file is closed.
    package func forget(unlinked ino: InodeNumber) throws(MetadataError) {
        try write { (connection) throws(SQLiteError) in
            try connection.run("DELETE FROM unlinked WHERE ino = ?1", ino.row)
        }
    }

    /// All stored records.
    package func unlinked() throws(MetadataError) -> [Unlinked] {
        try read { (connection) throws(SQLiteError) in
            let statement = try connection.prepare("SELECT ino, record FROM unlinked ORDER BY ino")
            var files: [Unlinked] = []
            while try statement.step() {
                files.append(Unlinked(ino: InodeNumber(row: statement.int64(0)), record: statement.blob(1)))
            }
            return files
        }
    }
}
