import Basics
import Metadata
import ObjectStorage
import Synchronization

/// One flat listing of the directories below `root`, begun when a program lists them one after the other: one request for each
/// page of objects instead of one for each directory.
///
/// A directory counts as listed when the listing has passed all of its keys, in pages requested after the directory's listing
/// began. Directories that are complete already stay as they are. The listing ends when it is too far ahead of the walk, when one
/// directory turns out to be large, or when this mount renames a directory below `root`: the other directories are then listed
/// one by one. Of a directory that this mount removes, as by `rm -r`, nothing more is recorded. `state` is a leaf lock; the open
/// directories belong to the one task that runs the listing.
final class TreeListing: Sendable {
    private struct Directory {
        let prefix: ByteString
        /// nil: the directory is unknown here, or was removed.
        var ino: InodeNumber?
        /// nil: nothing of the directory is recorded.
        var ingest: ListingIngest?
        /// Objects of the current page that are not recorded yet.
        var objects: [ListedObject] = []
    }

    private struct State {
        /// Every key up to here has been seen.
        var position: ByteString
        var open: [ByteString] = []
        var pages = 0
        /// How many pages there were when the walk last asked.
        var askedAt = 0
        var isEnded = false
    }

    /// How many pages the listing may be ahead of the walk.
    private static let mostAhead = 8
    /// After this many pages of one directory the listing ends: a listing of that directory alone shows its first names at once.
    private static let mostOfOne = 3

    let root: InodeNumber
    private let prefix: ByteString
    /// Waiting tasks look again after each change.
    private let state: Monitor<State, Void, Void>

    /// `prefix` is the key of `root`; the listing begins after `start`.
    init(root: InodeNumber, prefix: ByteString, after start: ByteString) {
        (self.root, self.prefix) = (root, prefix)
        state = Monitor(State(position: start))
    }

    // MARK: The walk's side

    /// Whether the listing may still get through a directory with this key.
    func isAhead(of key: ByteString) -> Bool {
        state.withLock { state in
            !state.isEnded && key.hasPrefix(prefix) && (key > state.position || state.open.contains(key))
        }
    }

    /// Waits until the listing is through a directory, for a few pages at most. The directory's state then shows whether it was.
    func comeBy(_ key: ByteString) async {
        let first = state.withLock { $0.pages }
        var isOver = false
        while !isOver {
            await state.waitRegardless { state, _ in
                state.askedAt = state.pages
                let isPast = key <= state.position && !state.open.contains(key)
                isOver = state.isEnded || isPast || state.pages - first >= Self.mostOfOne
                return isOver ? .answer(()) : .wait(())
            }
        }
    }

    // MARK: The listing's side

    func run(_ metadata: MetadataCache, _ store: any ObjectStore, without pendingDeletions: PendingDeletions) async {
        try? await list(metadata, store, pendingDeletions)
        report { $0.isEnded = true }
    }

    private func list(
        _ metadata: MetadataCache, _ store: any ObjectStore, _ pendingDeletions: PendingDeletions
    ) async throws {
        // Records nothing. A rename below the root supersedes it, and that ends this listing.
        let whole = try metadata.beginListing(of: root, isDeep: true)
        guard whole.key == prefix else { return }
        var open: [Directory] = []
        var (inOne, start) = (0, whole.start)
        var page = try await store.list(
            ListRequest(prefix: prefix, startAfter: state.withLock { $0.position }), without: pendingDeletions)
        while true {
            // The next page is on its way while this one is taken in.
            let next = page.next.map { ListRequest(prefix: prefix, cursor: $0) }
            let asked = metadata.beginRequest()
            async let coming = Self.page(next, store, pendingDeletions)
            try take(page, since: start, &open, of: whole, metadata)
            inOne = open.last.map { $0.objects.count == page.objects.count } ?? false ? inOne + 1 : 0
            for index in open.indices { try hand(on: &open[index], isWhole: next == nil, of: whole) }
            if next == nil { open = [] }
            report { [open] state in
                state.pages += 1
                state.open = open.map(\.prefix)
                if let last = page.objects.last { state.position = max(state.position, last.key.bytes) }
            }
            let isFarAhead = state.withLock { $0.pages - $0.askedAt > Self.mostAhead }
            guard inOne < Self.mostOfOne, !isFarAhead, let following = try await coming.get() else { return }
            (page, start) = (following, asked)
        }
    }

    private static func page(
        _ request: ListRequest?, _ store: any ObjectStore, _ pendingDeletions: PendingDeletions
    ) async -> Result<ListingPage?, ObjectStoreError> {
        guard let request else { return .success(nil) }
        return await Result { () async throws(ObjectStoreError) in
            try await store.list(request, without: pendingDeletions)
        }
    }

    private func take(
        _ page: ListingPage, since start: RequestStart, _ open: inout [Directory], of whole: ListingIngest,
        _ metadata: MetadataCache
    ) throws(MetadataError) {
        for object in page.objects {
            let key = object.key.bytes
            guard key.hasPrefix(prefix) else { throw .foreignKey }
            while var last = open.last, !key.hasPrefix(last.prefix) {
                try hand(on: &last, isWhole: true, of: whole)
                open.removeLast()
                report { [open] state in
                    state.open = open.map(\.prefix)
                    state.position = max(state.position, last.prefix)
                }
            }
            var above = open.last?.prefix ?? prefix
            while let slash = key.bytes[above.count...].firstIndex(of: UInt8(ascii: "/")) {
                let component = ByteString(key.bytes[above.count...slash])
                if !open.isEmpty {
                    // The directory above gets this one as an entry first.
                    open[open.count - 1].objects.append(object)
                    try hand(on: &open[open.count - 1], isWhole: false, of: whole)
                }
                let parent = open.isEmpty ? root : open[open.count - 1].ino
                above += component
                open.append(directory(component, in: parent, prefix: above, since: start, metadata))
            }
            if !open.isEmpty { open[open.count - 1].objects.append(object) }
        }
    }

    private func directory(
        _ component: ByteString, in parent: InodeNumber?, prefix: ByteString, since start: RequestStart,
        _ metadata: MetadataCache
    ) -> Directory {
        var directory = Directory(prefix: prefix)
        guard let parent, let ino = try? metadata.directory(of: component, in: parent) else { return directory }
        directory.ino = ino
        if let state = try? metadata.directory(ino), state.isComplete, state.isFresh { return directory }
        if let ingest = try? metadata.beginListing(of: ino, since: start), ingest.key == prefix {
            directory.ingest = ingest
        }
        return directory
    }

    /// Records the listed objects of a directory in the metadata cache. `isWhole` says that no more of them come.
    private func hand(
        on directory: inout Directory, isWhole: Bool, of whole: ListingIngest
    ) throws(MetadataError) {
        defer { directory.objects = [] }
        if whole.isSuperseded { throw .superseded }
        guard let ingest = directory.ingest, isWhole || !directory.objects.isEmpty else { return }
        do throws(MetadataError) {
            try ingest.add(ListingPage(objects: directory.objects, next: isWhole ? nil : ListingCursor("")))
            if isWhole { try ingest.finish() }
        } catch {
            guard case .superseded = error, !whole.isSuperseded else { throw error }
            // The directory was removed meanwhile.
            (directory.ino, directory.ingest) = (nil, nil)
        }
    }

    private func report(_ change: (inout State) -> Void) {
        state.change { state, queue in
            change(&state)
            queue.answer { () }
        }
    }
}
