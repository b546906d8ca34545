import Basics
import Metadata
import Synchronization

/// One opendir(3): its position in the directory, and the map from its offsets to positions there.
///
/// Offset 0 is the start, 1 and 2 follow `.` and `..`, and 2 + k follows the k-th entry handed out. For each reply the stream
/// keeps its first offset and the component before it, and for the last reply every component, so that it continues right after
/// any entry of that reply and near any older one, in memory that does not grow with the directory's entries but with its
/// replies. The end of the last reply is logged for the next process of this mount; programs read replies to their end.
final class DirectoryStream: Sendable {
    struct Position: Sendable {
        var offset: UInt64
        /// The last component before this position; nil before the first entry.
        var component: ByteString?
    }

    private struct State {
        var replies: [Position] = []
        var recent: [Position] = []
        var listing: DirectoryListing?
    }

    static let firstEntryOffset: UInt64 = 2

    let directory: InodeNumber
    private let state = Mutex(State())

    init(directory: InodeNumber) { self.directory = directory }

    /// The nearest known position at or before `offset` and, unless that is at `offset`, the next known position after it.
    func position(at offset: UInt64) -> (place: Position, next: Position?) {
        state.withLock { state in
            if let exact = state.recent.last(where: { $0.offset == offset }) { return (exact, nil) }
            let place = state.replies.last { $0.offset <= offset }
            return (
                place ?? Position(offset: Self.firstEntryOffset, component: nil),
                place?.offset == offset ? nil : (state.replies + state.recent).first { $0.offset > offset }
            )
        }
    }

    /// The component before the last reply.
    var start: ByteString? { state.withLock { $0.recent.first?.component } }

    /// Whether names from `offset` on may be gone because they were handed out. If not, they stay until they are handed out
    /// again.
    func mayLack(at offset: UInt64) -> Bool {
        let listing = state.withLock { $0.listing }
        return listing?.mayLack(from: position(at: offset).place.component ?? "") ?? false
    }

    /// The end of the last reply.
    var end: Position? { state.withLock { $0.recent.last } }

    /// A reply handed out the entries ending at `places`, from `start` on.
    func handedOut(from start: Position, _ places: [Position]) {
        state.withLock { state in
            if state.replies.last.map({ $0.offset < start.offset }) ?? true { state.replies.append(start) }
            state.recent = [start] + places
        }
    }

    /// The listing this stream follows; `begin` makes it when there is none.
    func listing(_ begin: () -> DirectoryListing?) -> DirectoryListing? {
        if let listing = state.withLock({ $0.listing }) { return listing }
        guard let listing = begin() else { return nil }
        let loser = state.withLock { state -> DirectoryListing? in
            if state.listing == nil {
                state.listing = listing
                return nil
            }
            return listing
        }
        loser?.leave()
        return state.withLock { $0.listing }
    }

    /// After rewinddir(3), or at the end: the next read looks at the directory anew.
    func dropListing() {
        let listing = state.withLock { $0.listing.take() }
        listing?.leave()
    }
}
