package import Basics
import CSQLite3

/// One use of a prepared statement: bind, step, read columns. Reset and returned to its connection's cache when it ends.
///
/// Belongs to the thread that holds the connection. Parameters count from 1, columns from 0, as in SQLite. Values are
/// copied in and out, except through `withBlob`.
package struct Statement: ~Copyable {
    private let handle: OpaquePointer
    private let connection: Connection
    /// The place in the connection's cache; nil for a second use at the same time, which is finalized at its end.
    private let slot: Int?

    init(handle: OpaquePointer, connection: Connection, slot: Int?) {
        (self.handle, self.connection, self.slot) = (handle, connection, slot)
    }

    deinit {
        if let slot {
            // The status repeats the error that `step` already threw.
            sqlite3_reset(handle)
            sqlite3_clear_bindings(handle)
            connection.endUse(of: slot)
        } else {
            sqlite3_finalize(handle)
        }
    }

    /// Advances to the next row; false when there is none. sqlite3_step
    package func step() throws(SQLiteError) -> Bool {
        switch sqlite3_step(handle) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        case let status: throw error(status)
        }
    }

    /// Runs a statement that returns no rows to its end, and makes it ready for other parameters.
    package func run() throws(SQLiteError) {
        while try step() {}
        sqlite3_reset(handle)
    }

    /// Makes the statement ready to run again; bindings stay. sqlite3_reset
    package func reset() { sqlite3_reset(handle) }

    // MARK: Parameters

    /// sqlite3_bind_int64
    package func bind(_ value: Int64, at index: Int32) throws(SQLiteError) {
        try check(sqlite3_bind_int64(handle, index, value))
    }

    /// UTF-8 text. sqlite3_bind_text64
    package func bind(_ value: String, at index: Int32) throws(SQLiteError) {
        var value = value
        let status = value.withUTF8 { text in
            text.withMemoryRebound(to: CChar.self) {
                // An empty buffer may have no address, which SQLite would take for NULL.
                guard let base = $0.baseAddress else {
                    return sqlite3_bind_text64(handle, index, "", 0, copyNow, UInt8(SQLITE_UTF8))
                }
                return sqlite3_bind_text64(handle, index, base, UInt64($0.count), copyNow, UInt8(SQLITE_UTF8))
            }
        }
        try check(status)
    }

    /// A blob. sqlite3_bind_blob64
    package func bind(_ value: RawSpan, at index: Int32) throws(SQLiteError) {
        let status = value.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress else { return sqlite3_bind_zeroblob(handle, index, 0) }
            return sqlite3_bind_blob64(handle, index, base, UInt64(bytes.count), copyNow)
        }
        try check(status)
    }

    /// A blob.
    package func bind(_ value: [UInt8], at index: Int32) throws(SQLiteError) {
        try bind(value.span.bytes, at: index)
    }

    /// A blob.
    package func bind(_ value: ByteString, at index: Int32) throws(SQLiteError) {
        try bind(value.bytes.span.bytes, at: index)
    }

    /// sqlite3_bind_null
    package func bindNull(at index: Int32) throws(SQLiteError) {
        try check(sqlite3_bind_null(handle, index))
    }

    /// Binds `values` to the parameters from 1 on, in order.
    package func bind<each Value: Bindable>(_ values: repeat each Value) throws(SQLiteError) {
        var index: Int32 = 1
        for value in repeat each values {
            try value.bind(to: self, at: index)
            index += 1
        }
    }

    // MARK: Columns of the current row

    /// sqlite3_column_type
    package func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }

    /// 0 for NULL. sqlite3_column_int64
    package func int64(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }

    package func optionalInt64(_ column: Int32) -> Int64? { isNull(column) ? nil : int64(column) }

    /// Empty for NULL. sqlite3_column_text
    package func text(_ column: Int32) -> String {
        // The length is read after the conversion to UTF-8, as sqlite3_column_bytes demands.
        guard let text = sqlite3_column_text(handle, column) else { return "" }
        let count = Int(sqlite3_column_bytes(handle, column))
        return String(decoding: UnsafeBufferPointer(start: text, count: count), as: UTF8.self)
    }

    package func optionalText(_ column: Int32) -> String? { isNull(column) ? nil : text(column) }

    /// Empty for NULL. sqlite3_column_blob
    package func blob(_ column: Int32) -> [UInt8] {
        guard let base = sqlite3_column_blob(handle, column) else { return [] }
        let count = Int(sqlite3_column_bytes(handle, column))
        return Array(UnsafeRawBufferPointer(start: base, count: count))
    }

    package func optionalBlob(_ column: Int32) -> [UInt8]? { isNull(column) ? nil : blob(column) }

    /// Empty for NULL.
    package func bytes(_ column: Int32) -> ByteString { ByteString(blob(column)) }

    package func optionalBytes(_ column: Int32) -> ByteString? { isNull(column) ? nil : bytes(column) }

    /// Lends the column's bytes without a copy; they are invalid after the next step. Empty for NULL.
    package func withBlob<Result>(_ column: Int32, _ body: (RawSpan) -> Result) -> Result {
        let base = sqlite3_column_blob(handle, column)
        let count = base == nil ? 0 : Int(sqlite3_column_bytes(handle, column))
        return body(UnsafeRawBufferPointer(start: base, count: count).bytes)
    }

    private func check(_ status: Int32) throws(SQLiteError) {
        if status != SQLITE_OK { throw error(status) }
    }

    private func error(_ status: Int32) -> SQLiteError {
        SQLiteError(
            status: status, connection: sqlite3_db_handle(handle), sql: sqlite3_sql(handle).map { String(cString: $0) })
    }
}

/// SQLITE_TRANSIENT, a cast that Swift does not import: SQLite copies the bytes before the bind returns.
private let copyNow = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

/// A value that fills a parameter of a statement.
package protocol Bindable {
    func bind(to statement: borrowing Statement, at index: Int32) throws(SQLiteError)
}

extension Int64: Bindable {
    package func bind(to statement: borrowing Statement, at index: Int32) throws(SQLiteError) {
        try statement.bind(self, at: index)
    }
}

extension String: Bindable {
    package func bind(to statement: borrowing Statement, at index: Int32) throws(SQLiteError) {
        try statement.bind(self, at: index)
    }
}

extension ByteString: Bindable {
    package func bind(to statement: borrowing Statement, at index: Int32) throws(SQLiteError) {
        try statement.bind(self, at: index)
    }
}

extension [UInt8]: Bindable {
    package func bind(to statement: borrowing Statement, at index: Int32) throws(SQLiteError) {
        try statement.bind(self, at: index)
    }
}

extension Optional: Bindable where Wrapped: Bindable {
    package func bind(to statement: borrowing Statement, at index: Int32) throws(SQLiteError) {
        switch self {
        case .some(let value): try value.bind(to: statement, at: index)
        case nil: try statement.bindNull(at: index)
        }
    }
}
