extension Database {
    /// Makes the log as long as it gets between two checkpoints, and gives the file as many free pages, so that rows can
    /// still be changed and deleted after other programs have filled the disk. The log keeps its length, and checkpoints
    /// start it over (sqlite.org/wal.html, section 2.3). Call once, when the database is opened.
    package func takeHeadroom() throws(SQLiteError) {
        try write { (connection) throws(SQLiteError) in
            try connection.execute(
                """
                PRAGMA wal_autocheckpoint = 256;
                CREATE TABLE IF NOT EXISTS headroom (body BLOB) STRICT;
                INSERT INTO headroom VALUES (zeroblob(\(300 * 4096)));
                DELETE FROM headroom;
                """)
        }
    }
}
