import Basics
import Synchronization

import func Glibc.unlink

/// A database whose file another program has removed, or whose disk has become read-only. The open connections can still read
/// it, so calls continue. The content is copied to a new file or a temporary one, which calls use from then on.
///
/// Locks: the writing connection is lent for the copy, so that no commit is lost; calls that read finish on the old file. The
/// old connections close when the last of their calls has ended.
extension Database {
    /// Whether the file and its log are at their paths as they were opened. True when a failing disk gives no answer.
    package var isInPlace: Bool {
        guard let files = lenders.withLock({ $0.files }) else { return true }
        return zip(Self.suffixes, files).allSatisfy { suffix, opened in
            do { return try LocalFileStatus(of: location.path + suffix)?.identity == opened } catch { return true }
        }
    }

    /// Makes the file again, with all of its content, in a directory that exists. Takes time in proportion to its length.
    package func restore() throws(SQLiteError) {
        let writer = lenders.withLock { $0.writer }
        try exchange(writer) { (connection) throws(SQLiteError) in
            for _ in 1..<Self.attempts {
                if let made = try? copy(connection) { return made }
            }
            return try copy(connection)
        }
    }

    /// How often another program may remove the new file before all connections to it are open.
    private static let attempts = 5

    private func copy(_ connection: Connection) throws(SQLiteError) -> Lenders {
        let path = location.path
        let copy = path + "-copy"
        Self.remove(copy)
        try connection.run("VACUUM INTO ?1", copy)
        let file = Self.files(at: copy)[0]
        // The log of the lost file does not belong to the new one.
        for suffix in ["-wal", "-shm"] { unlink(path + suffix) }
        do throws(FileError) { try File.rename(copy, to: path) } catch {
            throw SQLiteError(.cannotOpen, message: error.description)
        }
        let made = try Self.lenders(try Connection(location, options: options), location, options)
        guard file != nil, made.files?.first == file else {
            throw SQLiteError(.cannotOpen, message: "another program removes \(path)")
        }
        return made
    }

    /// Continues in a temporary copy. False if another call has made one already.
    func leaveDisk(with writer: Lender) throws(SQLiteError) -> Bool {
        try exchange(writer) { (connection) throws(SQLiteError) in
            let copy = Lender([try connection.temporaryCopy(options)])
            return Lenders(writer: copy, readers: copy, files: nil)
        }
    }

    /// Makes calls use the result of `make` in place of `writer` and its readers. False if another call has replaced them
    /// already.
    @discardableResult
    private func exchange(
        _ writer: Lender, _ make: (Connection) throws(SQLiteError) -> Lenders
    ) throws(SQLiteError) -> Bool {
        // While this call has the one connection that writes, no other call can be here.
        let former: Lenders? = try writer.lend { (connection) throws(SQLiteError) in
            guard lenders.withLock({ $0.writer === writer }) else { return nil }
            let made = try make(connection)
            return lenders.withLock { lenders in
                defer { lenders = made }
                return lenders
            }
        }
        guard let former else { return false }
        former.readers.close()
        if former.writer !== former.readers { former.writer.close() }
        return true
    }

    // MARK: Files

    /// The lenders of a database whose writing connection `first` is open.
    static func lenders(_ first: Connection, _ location: Location, _ options: Options) throws(SQLiteError) -> Lenders {
        let writer = Lender([first])
        guard case .file(let path) = location else { return Lenders(writer: writer, readers: writer, files: nil) }
        // The first read makes the log.
        _ = try first.number("SELECT count(*) FROM sqlite_schema")
        let files = files(at: path)
        guard options.readers > 0 else { return Lenders(writer: writer, readers: writer, files: files) }
        var connections: [Connection] = []
        for _ in 0..<options.readers {
            let connection = try Connection(location, options: options)
            try connection.forbidWriting()
            connections.append(connection)
        }
        guard files == Self.files(at: path) else {
            throw SQLiteError(.cannotOpen, message: "another program has removed \(path)")
        }
        return Lenders(writer: writer, readers: Lender(connections), files: files)
    }

    private static let suffixes = ["", "-wal"]

    static func files(at path: String) -> [FileIdentity?] {
        suffixes.map { ((try? LocalFileStatus(of: path + $0)) ?? nil)?.identity }
    }
}
