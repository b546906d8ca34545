import Basics
import Synchronization

/// Lends connections. A borrower waits while none is available.
///
/// The mutex guards only the list; a connection taken from the list belongs to its borrower, so it may do I/O.
final class Lender: Sendable {
    private struct Shelf: @unchecked Sendable {
        // Sendable: connections on the shelf have no user, and the mutex orders one borrower after the other.
        var connections: [Connection]
        var isClosed = false
    }

    private let shelf: Mutex<Shelf>
    private let available: Semaphore
    private let count: Int

    init(_ connections: [Connection]) {
        count = connections.count
        shelf = Mutex(Shelf(connections: connections))
        available = Semaphore()
        for _ in connections { available.signal() }
    }

    func lend<Result>(_ body: (Connection) throws(SQLiteError) -> Result) throws(SQLiteError) -> Result {
        available.wait()
        defer { available.signal() }
        let taken = shelf.withLock { Taken(connection: $0.isClosed ? nil : $0.connections.popLast()) }
        guard let connection = taken.connection else {
            throw SQLiteError(.closed, message: "the database is closed")
        }
        defer {
            shelf.withLock { [taken] in if let connection = taken.connection { $0.connections.append(connection) } }
        }
        return try body(connection)
    }

    func close() {
        for _ in 0..<count { available.wait() }
        let closed = shelf.withLock { shelf in
            defer { shelf.connections = [] }
            shelf.isClosed = true
            return Shelf(connections: shelf.connections)
        }
        // The connections end here, outside the lock: closing the last one writes the log back to the file.
        withExtendedLifetime(closed) {}
        for _ in 0..<count { available.signal() }
    }

    private struct Taken: @unchecked Sendable {
        // Sendable: one borrower at a time, see above.
        let connection: Connection?
    }
}
