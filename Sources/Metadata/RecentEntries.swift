import Basics
import Synchronization

/// Entries asked for by number lately, as they are in the database now: a kernel that asks for the attributes of the same
/// files again and again gets them without a look there.
///
/// What was read counts as long as nothing is written: each write makes everything unknown, from before it begins. So an
/// answer is never older than the newest commit, and nobody has to tell which entries a write changes. Bounded; locked by
/// its own mutex, a leaf.
final class RecentEntries: Sendable {
    /// What `MetadataCache.entry` reads of one.
    struct Known {
        let row: EntryRow
        let directory: DirectoryRow
        let name: ByteString
    }

    private struct State {
        var entries: [Int64: Known] = [:]
        /// What `version` was when they were read.
        var version: UInt64 = 0
    }

    private static let capacity = 1024
    /// Counts beginnings and ends of writes: odd while there is one.
    private let changes = Atomic<UInt64>(0)
    private let state = Mutex(State())

    /// Around each write of the database; they come one after the other.
    func writing<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        changes.add(1, ordering: .sequentiallyConsistent)
        defer { changes.add(1, ordering: .sequentiallyConsistent) }
        return try body()
    }

    /// To be asked for before an entry is read that is to be inserted.
    var version: UInt64 { changes.load(ordering: .sequentiallyConsistent) }

    subscript(ino: Int64) -> Known? {
        state.withLock { state in
            state.version == changes.load(ordering: .sequentiallyConsistent) ? state.entries[ino] : nil
        }
    }

    func insert(_ known: Known, readAt version: UInt64) {
        // What is read beside a write may be of before or after it.
        guard version.isMultiple(of: 2) else { return }
        state.withLock { state in
            if state.version > version { return }
            if state.version < version || state.entries.count >= Self.capacity { state.entries = [:] }
            state.version = version
            state.entries[known.row.ino] = known
        }
    }
}
