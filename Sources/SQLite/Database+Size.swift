/// The disk space of a database once its log is written to the file.
extension Database {
    /// In bytes.
    package struct Size: Sendable, Hashable {
        /// The whole file.
        package var file: Int64
        /// The part of it in free pages.
        package var free: Int64
    }

    package func size() throws(SQLiteError) -> Size {
        try read { (connection) throws(SQLiteError) in
            let page = try connection.number("PRAGMA page_size")
            return Size(
                file: try connection.number("PRAGMA page_count") * page,
                free: try connection.number("PRAGMA freelist_count") * page)
        }
    }

    /// Returns up to `bytes` of free pages to the file system, if the file was made with `Options.shrinks`; otherwise they
    /// stay for new rows.
    package func shrink(by bytes: Int64) throws(SQLiteError) {
        try write { (connection) throws(SQLiteError) in
            let page = try connection.number("PRAGMA page_size")
            try connection.execute("PRAGMA incremental_vacuum(\(max(1, bytes / max(1, page))))")
        }
    }
}
