/// What a database takes on the disk, once its log is written to it.
extension Database {
    /// In bytes.
    package struct Size: Sendable, Hashable {
        /// The whole file.
        package var file: Int64
        /// Of that, pages that hold nothing.
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

    /// Gives up to `bytes` of free pages back to the disk, if the file was made with `Options.shrinks`; otherwise they stay
    /// for new rows.
    package func shrink(by bytes: Int64) throws(SQLiteError) {
        try write { (connection) throws(SQLiteError) in
            let page = try connection.number("PRAGMA page_size")
            try connection.execute("PRAGMA incremental_vacuum(\(max(1, bytes / max(1, page))))")
        }
    }
}
