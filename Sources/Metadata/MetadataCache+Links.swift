package import Basics
package import ObjectStorage
import SQLite

/// Targets of symbolic links, by version. They are removed with their entries.
extension MetadataCache {
    /// Remembers the target of a link that this mount made or read. A link without a version is not remembered.
    package func keep(
        target: ByteString, of ino: InodeNumber, _ version: ObjectVersion?
    ) throws(MetadataError) {
        guard let version else { return }
        try write(.entry(ino.row)) { (connection) throws(SQLiteError) in
            try connection.run(
                "INSERT OR REPLACE INTO link VALUES (?1, ?2, ?3)", ino.row, version.etag.text, target)
        }
    }

    /// Returns the target of the link in that version; nil if this mount has neither made nor read it.
    package func target(of ino: InodeNumber, _ version: ObjectVersion) throws(MetadataError) -> ByteString? {
        try read { (connection) throws(SQLiteError) in
            let statement = try connection.prepare("SELECT target FROM link WHERE ino = ?1 AND etag = ?2")
            try statement.bind(ino.row, version.etag.text)
            return try statement.step() ? statement.bytes(0) : nil
        }
    }
}
