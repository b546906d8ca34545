import Basics
package import SQLite

extension BlockCache {
    /// Evicts the chunks used longest ago of a cache that no process has open, until at most `bytes` of disk are left.
    /// Removes files without a row, too. `database` is the cache's own.
    package static func prune(
        directory: String, database: Database, to bytes: Int64
    ) throws(SQLiteError) {
        let index = BlockIndex(database: database)
        try index.dropOldest(downTo: bytes)
        try settle(index, directory: directory, unit: DiskUnit(of: directory))
        for name in (try? Directory.names(in: directory)) ?? [] {
            if let id = Int64(name.description, radix: 16), try index.isKnown(id) { continue }
            try? File.remove("\(directory)/\(name)")
        }
    }
}

extension BlockIndex {
    /// Removes the rows of chunks used longest ago until the remaining rows account for at most `bytes`. The files of the
    /// removed rows are unsettled afterwards, and hold more than their rows say until they are settled.
    fileprivate func dropOldest(downTo bytes: Int64) throws(SQLiteError) {
        try database.transaction { (connection) throws(SQLiteError) in
            try connection.run(
                """
                UPDATE files SET settled = 0 WHERE id IN (SELECT file FROM
                    (SELECT file, SUM(bytes) OVER (ORDER BY used DESC, file, chunk) AS total FROM chunks)
                    WHERE total > ?)
                """, bytes)
            try connection.run(
                """
                DELETE FROM chunks WHERE (file, chunk) IN (SELECT file, chunk FROM
                    (SELECT file, chunk, SUM(bytes) OVER (ORDER BY used DESC, file, chunk) AS total FROM chunks)
                    WHERE total > ?)
                """, bytes)
        }
    }
}
