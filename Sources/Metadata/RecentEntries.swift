import Basics
import Synchronization

/// Entries asked for by number lately, as they are in the database now, and names found missing: a kernel that asks for the
/// attributes of the same files again and again, or makes a file after it looked for one, is answered without a look there.
///
/// A write says beforehand what it changes (`Change`), and that is unknown from before it begins. So an answer is never older
/// than the newest commit. Bounded; locked by its own mutex, a leaf.
final class RecentEntries: Sendable {
    /// What `MetadataCache.entry` reads of one.
    struct Known {
        let row: EntryRow
        let directory: DirectoryRow
        let name: ByteString
    }

    /// Of which entries a write may change the row, the name, or the directory's row. Names may come with any write.
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
        /// Until when each counts as missing.
        var missing: [Name: Int64] = [:]
    }

    private static let capacity = 1024
    /// Counts beginnings and ends of writes: odd while there is one.
    private let changes = Atomic<UInt64>(0)
    private let state = Mutex(State())

    /// Around each write of the database; they come one after the other.
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

    /// To be asked for before something is read that is to be remembered.
    var version: UInt64 { changes.load(ordering: .sequentiallyConsistent) }

    subscript(ino: Int64) -> Known? { state.withLock { $0.entries[ino] } }

    func insert(_ known: Known, readAt version: UInt64) {
        insert(readAt: version) { state in
            if state.entries.count >= Self.capacity { state.entries = [:] }
            state.entries[known.row.ino] = known
        }
    }

    /// Until when a name counts as missing in a directory; nil: not known.
    func missing(_ name: ByteString, in parent: Int64) -> Int64? {
        state.withLock { $0.missing.isEmpty ? nil : $0.missing[Name(parent: parent, name: name)] }
    }

    func insert(missing name: ByteString, in parent: Int64, until: Int64, readAt version: UInt64) {
        insert(readAt: version) { state in
            if state.missing.count >= Self.capacity { state.missing = [:] }
            state.missing[Name(parent: parent, name: name)] = until
        }
    }

    /// What counts as missing, and for how long, is another question from now on.
    func forgetMissing() { state.withLock { $0.missing = [:] } }

    private func insert(readAt version: UInt64, _ change: (inout State) -> Void) {
        // What is read beside a write may be of before or after it.
        guard version.isMultiple(of: 2) else { return }
        // A write that begins now has yet to make things unknown.
        state.withLock { if changes.load(ordering: .sequentiallyConsistent) == version { change(&$0) } }
    }
}
