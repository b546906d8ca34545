package import Basics
import SQLite

/// Files that have lost their names while programs had them open, for a process that goes on with the same mount. Anybody
/// else begins with none.
extension MetadataCache {
    package struct Unlinked: Sendable {
        package var ino: InodeNumber
        /// What the caller keeps of it.
        package var record: [UInt8]
    }

    /// Remembers `record` for the file, in the place of an earlier one. `name` is given while its object outlives it: until
    /// `forget` no start brings that back.
    package func keep(
        unlinked ino: InodeNumber, _ record: [UInt8], hiding name: (parent: InodeNumber, component: ByteString)?
    ) throws(MetadataError) {
        try write { (connection) throws(SQLiteError) in
            try connection.run(
                "INSERT OR REPLACE INTO unlinked VALUES (?1, ?2, ?3, ?4)", ino.row, name?.parent.row,
                name?.component, record)
        }
    }

    /// Nobody has the file open any more.
    package func forget(unlinked ino: InodeNumber) throws(MetadataError) {
        try write { (connection) throws(SQLiteError) in
            try connection.run("DELETE FROM unlinked WHERE ino = ?1", ino.row)
        }
    }

    /// All of them.
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
