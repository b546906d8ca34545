import Basics
import Synchronization

/// Entries recently looked up by number, as they are in the database now, and names found missing. It answers a kernel that
/// requests the attributes of the same files again and again, or creates a file after a lookup of its name, without a query.
///
/// A write declares beforehand which entries it changes (`Change`), and these are dropped before it begins. So an answer is
/// never older than the newest commit. Bounded; locked by its own mutex, a leaf.
final class RecentEntries: Sendable {
    /// The rows and the name that `MetadataCache.entry` reads for one entry.
    struct Known {
        let row: EntryRow
        let directory: DirectoryRow
        let name: ByteString
    }

    /// The entries whose row, name or directory row a write may change. Any write may add names.
    enum Change {
        case everything
        case entry(Int64)
    }

    private struct Name: Hashable {
        let parent: Int64
        let name: ByteString
    }

    private struct State {
        var entries: [Int64: Known] = [:]
        /// Until when each name counts as missing.
        var missing: [Name: Int64] = [:]
    }

    private static let capacity = 1024
    /// Counts beginnings and ends of writes: odd while one is under way.
    private let changes = Atomic<UInt64>(0)
    private let state = Mutex(State())

    /// Runs a write of the database; writes run one at a time.
    func writing<Result, Failure: Error>(
        _ change: Change, _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        changes.add(1, ordering: .sequentiallyConsistent)
        defer { changes.add(1, ordering: .sequentiallyConsistent) }
        state.withLock { state in
            state.missing.removeAll(keepingCapacity: true)
            switch change {
            case .everything: state.entries.removeAll(keepingCapacity: true)
            case .entry(let ino): state.entries[ino] = nil
            }
        }
        return try body()
    }

    /// Read this before the rows that are to be remembered.
    var version: UInt64 { changes.load(ordering: .sequentiallyConsistent) }

    subscript(ino: Int64) -> Known? { state.withLock { $0.entries[ino] } }

    func insert(_ known: Known, readAt version: UInt64) {
        insert(readAt: version) { state in
            if state.entries.count >= Self.capacity { state.entries = [:] }
            state.entries[known.row.ino] = known
        }
    }

    /// Until when a name counts as missing in a directory; nil: not remembered.
    func missing(_ name: ByteString, in parent: Int64) -> Int64? {
        state.withLock { $0.missing.isEmpty ? nil : $0.missing[Name(parent: parent, name: name)] }
    }

    func insert(missing name: ByteString, in parent: Int64, until: Int64, readAt version: UInt64) {
        insert(readAt: version) { state in
            if state.missing.count >= Self.capacity { state.missing = [:] }
            state.missing[Name(parent: parent, name: name)] = until
        }
    }

    /// Drops the missing names, because the time for which they count has changed.
    func forgetMissing() { state.withLock { $0.missing = [:] } }

    private func insert(readAt version: UInt64, _ change: (inout State) -> Void) {
        // A read beside a write may see the state before or after it.
        guard version.isMultiple(of: 2) else { return }
        // A write that begins now drops the entry afterwards.
        state.withLock { if changes.load(ordering: .sequentiallyConsistent) == version { change(&$0) } }
    }
}
