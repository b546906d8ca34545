import SQLite
import Synchronization

/// The one counter behind inode numbers and the numbers of this host's changes: it only grows, also across crashes.
///
/// Numbers are reserved in the database in blocks and handed out from memory, inside write transactions only (which run one
/// at a time); any thread may read `current`. After a crash: the rest of a block is lost, and no number is handed out twice,
/// because the reservation is on disk before its numbers are seen.
final class Sequence: Sendable {
    private struct State {
        var next: Int64 = 1
        var limit: Int64 = 1
        var last: Int64 = 0
        var reservedInTransaction = false
    }

    private static let block: Int64 = 1 << 20

    private let state = Mutex(State())

    /// The newest number handed out; 0 before the first.
    var current: Int64 { state.withLock { $0.last } }

    func take(_ connection: Connection) throws(SQLiteError) -> Int64 {
        if let number = takeReserved() { return number }
        let statement = try connection.prepare("UPDATE sequence SET next = next + ?1 RETURNING next")
        try statement.bind(Self.block, at: 1)
        guard try statement.step() else {
            throw SQLiteError(.corrupt, message: "the metadata cache has lost its counter")
        }
        let limit = statement.int64(0)
        state.withLock { state in
            (state.next, state.limit) = (limit - Self.block, limit)
            state.reservedInTransaction = true
        }
        guard let number = takeReserved() else {
            throw SQLiteError(.corrupt, message: "the counter of the metadata cache overflowed")
        }
        return number
    }

    private func takeReserved() -> Int64? {
        state.withLock { state in
            guard state.next < state.limit else { return nil }
            defer { state.next += 1 }
            state.last = max(state.last, state.next)
            return state.next
        }
    }

    /// Call after each commit; true when it reserved a block, which then has to reach the disk.
    func didCommit() -> Bool {
        state.withLock { state in
            defer { state.reservedInTransaction = false }
            return state.reservedInTransaction
        }
    }

    /// Call after a failed transaction: its reservation is not in the database.
    func didRollBack() {
        state.withLock { state in
            if state.reservedInTransaction { state.limit = state.next }
            state.reservedInTransaction = false
        }
    }
}
