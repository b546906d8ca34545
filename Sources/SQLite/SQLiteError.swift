import Basics
import CSQLite3

import var Glibc.EROFS

/// Why a database call failed: the one error type of this module.
package struct SQLiteError: Error, Sendable, Hashable {
    package var kind: Kind
    /// SQLite's primary result code (`SQLITE_FULL`), 0 when the error is not SQLite's.
    package var code: Int32
    /// SQLite's extended result code (`SQLITE_IOERR_FSYNC`), 0 when the error is not SQLite's.
    package var extendedCode: Int32
    package var message: String
    /// The statement that failed, when there was one.
    package var sql: String?

    /// The kind of failure, as far as callers distinguish it.
    package enum Kind: Sendable, Hashable {
        /// The file is damaged or is no database: a cache is thrown away and built anew.
        case corrupt
        /// No space left on the disk.
        case full
        /// The disk failed, or the file was removed under the connection.
        case inputOutput
        /// Another process held the database longer than the busy timeout.
        case busy
        /// A row broke a constraint of the schema.
        case constraint
        case cannotOpen
        /// Nothing can be written to the file or its disk.
        case readOnly
        case outOfMemory
        /// A newer release of this program wrote the database.
        case newerSchema(found: Int, known: Int)
        case closed
        /// The SQL or its use is wrong: a mistake in this program.
        case misuse
    }

    /// Whether the disk has failed to make something durable: earlier writes may be lost although they can be read.
    /// https://www.sqlite.org/rescode.html#ioerr_fsync
    package var isLostWrite: Bool {
        [sqlite_ioerr_fsync, sqlite_ioerr_dir_fsync].contains(extendedCode)
    }

    /// Whether the file itself is damaged, so that only a new one helps.
    package var isCorrupt: Bool { kind == .corrupt }

    package init(_ kind: Kind, message: String, sql: String? = nil) {
        (self.kind, self.message, self.sql) = (kind, message, sql)
        (code, extendedCode) = (0, 0)
    }

    /// The error a call on `connection` left there. sqlite3_extended_errcode, sqlite3_errmsg.
    init(status: Int32, connection: OpaquePointer?, sql: String?) {
        extendedCode = connection.map(sqlite3_extended_errcode) ?? status
        if extendedCode & 0xff != status & 0xff { extendedCode = status }
        code = extendedCode & 0xff
        kind = Self.kind(code)
        if [.inputOutput, .cannotOpen].contains(kind), let connection, Self.isOnReadOnlyDisk(connection) {
            kind = .readOnly
        }
        let text = connection.flatMap(sqlite3_errmsg) ?? sqlite3_errstr(status)
        message = text.map { String(cString: $0) } ?? "SQLite error \(status)"
        self.sql = sql
    }

    /// SQLite does not keep the errno of a failed write, and a file system that became read-only by itself may not report
    /// that in statvfs(2). Creating a file beside the database shows it.
    private static func isOnReadOnlyDisk(_ connection: OpaquePointer) -> Bool {
        guard let name = sqlite3_db_filename(connection, "main").map({ String(cString: $0) }), !name.isEmpty else {
            return false
        }
        let path = name + "-probe"
        do throws(FileError) {
            _ = try File(path, .readWrite, create: .exclusive)
            try File.remove(path)
            return false
        } catch { return error.errno == EROFS }
    }

    /// https://www.sqlite.org/rescode.html, primary codes.
    private static func kind(_ code: Int32) -> Kind {
        switch code {
        case SQLITE_CORRUPT, SQLITE_NOTADB: .corrupt
        case SQLITE_FULL: .full
        case SQLITE_IOERR, SQLITE_PROTOCOL: .inputOutput
        case SQLITE_BUSY, SQLITE_LOCKED: .busy
        case SQLITE_CONSTRAINT: .constraint
        case SQLITE_CANTOPEN, SQLITE_PERM, SQLITE_AUTH: .cannotOpen
        case SQLITE_READONLY: .readOnly
        case SQLITE_NOMEM: .outOfMemory
        default: .misuse
        }
    }
}

extension SQLiteError: CustomStringConvertible {
    package var description: String {
        var text = message
        if code != 0 { text += " (SQLite \(extendedCode))" }
        // The first line identifies the statement: scripts have many.
        if let sql { text += " in: \(sql.prefix { $0 != "\n" && $0 != ";" })" }
        return text
    }
}
