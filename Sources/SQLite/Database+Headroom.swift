extension Database {
    /// Makes the log as long as it gets between two checkpoints, and gives the file as many free pages, so that a disk that
    /// others fill afterwards leaves room for rows to change and to go. The log keeps its length, and checkpoints start it over
    /// (sqlite.org/wal.html, section 2.3). To be called once, when the database is opened.
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
