import Basics
import Metadata
import ObjectStorage
import Synchronization

/// Listings of directories in flight: one for each directory, however many read it.
///
/// Pages go into the metadata cache as they arrive; readers follow the frontier up to which rows are final. A listing stops after
/// the last page that a reader wants, or after its current page when no reader is left. Locks are leaves.
final class DirectoryListings: Sendable {
    private let metadata: MetadataCache
    private let store: any ObjectStore
    private let pendingDeletions: PendingDeletions
    private let pool: WorkerPool
    private let running = Mutex<[InodeNumber: DirectoryListing]>([:])
    private let walks: TreeWalks
    /// Whether one handle of the directory is open and no other.
    private let isAlone: @Sendable (InodeNumber) -> Bool

    init(
        metadata: MetadataCache, store: any ObjectStore, pendingDeletions: PendingDeletions, pool: WorkerPool,
        isAlone: @escaping @Sendable (InodeNumber) -> Bool
    ) {
        (self.metadata, self.store, self.pendingDeletions, self.pool) = (metadata, store, pendingDeletions, pool)
        self.isAlone = isAlone
        walks = TreeWalks(metadata: metadata, store: store, pendingDeletions: pendingDeletions, pool: pool)
    }

    /// The listing of `directory` under way, or a new one, for a reader of `pages` of its pages. Call `leave` on it with the same
    /// number when done.
    func join(_ directory: InodeNumber, pages: Int = .max) -> DirectoryListing {
        let (listing, isNew) = running.withLock { running in
            if let listing = running[directory], listing.enter(pages) { return (listing, false) }
            let listing = DirectoryListing(directory: directory, pages)
            running[directory] = listing
            return (listing, true)
        }
        if isNew {
            pool.start { [self] in
                listing.end(await run(listing))
                running.withLock { if $0[directory] === listing { $0[directory] = nil } }
            }
        }
        return listing
    }

    private func run(_ listing: DirectoryListing) async -> FileSystemError? {
        if await walks.bring(listing.directory) { return nil }
        while true {
            do {
                return try await take(listing)
            } catch let error as ObjectStoreError {
                return FileSystemError(error)
            } catch MetadataError.superseded {
                // A directory that was renamed is listed anew, at the key it has now.
            } catch let error as MetadataError {
                return FileSystemError(error)
            } catch {
                return FileSystemError(.inputOutput, "listing failed: \(error)")
            }
        }
    }

    /// How many pages a listing is ahead of its reader where the names exceed their share of the cache.
    private static let lead = 2

    private func take(_ listing: DirectoryListing) async throws -> FileSystemError? {
        let ingest = try metadata.beginListing(of: listing.directory)
        listing.begin(ingest)
        var request = ListRequest(prefix: ingest.key, delimiter: UInt8(ascii: "/"))
        var progress = ListingProgress()
        // Where the last pages ended.
        var ends: [ByteString] = []
        while true {
            let page = try await store.list(request, without: pendingDeletions)
            try progress.take(page)
            try ingest.add(page)
            guard let next = page.next else {
                try ingest.finish()
                return nil
            }
            request.cursor = next
            ingest.release(before: isAlone(listing.directory) ? listing.handedOut : nil)
            ends = ends.suffix(Self.lead) + [ingest.frontier ?? ""]
            // Where the names exceed their share of the cache, the listing waits for its reader.
            if ends.count > Self.lead, metadata.isTooLong { await listing.awaitReader(at: ends[0]) }
            if !listing.advance(to: ingest.frontier) { return .interrupted }
        }
    }
}

/// The progress of one listing, and the tasks that wait for it.
final class DirectoryListing: Sendable {
    /// How far a listing is.
    struct Progress: Sendable {
        var pages = 0
        /// Rows before this component are final; nil once the listing is through.
        var frontier: ByteString? = ""
        var isEnded = false
        var error: FileSystemError?
    }

    private struct State {
        var progress = Progress()
        /// How many pages each reader wants.
        var readers: [Int]
        /// The component up to which the only reader has got the rows.
        var handedOut: ByteString?
        /// The task of the listing itself, while it waits for its reader to reach `place`.
        var follower: (place: ByteString, continuation: CheckedContinuation<Void, Never>)?
        /// nil after the end.
        var ingest: ListingIngest?
        /// After the end: rows before this component may be gone.
        var forgotten: ByteString?
        /// No reader wanted another page.
        var isLeft = false
    }

    let directory: InodeNumber
    /// A waiting task has this number of pages, and wants more.
    private let state: Monitor<State, Int, Bool>

    fileprivate init(directory: InodeNumber, _ pages: Int) {
        self.directory = directory
        state = Monitor(State(readers: [pages]))
    }

    var progress: Progress { state.withLock { $0.progress } }

    fileprivate func begin(_ ingest: ListingIngest) { state.withLock { $0.ingest = ingest } }

    /// Whether rows from `place` on may be gone because the only reader has got them. If not, they stay until it has read them
    /// again.
    func mayLack(from place: ByteString) -> Bool {
        state.withLock { state in
            if let handedOut = state.handedOut, place < handedOut {
                state.handedOut = place
                state.ingest?.release(before: place)
            }
            return place < (state.forgotten ?? state.ingest?.forgotten) ?? ""
        }
    }

    /// The component up to which the only reader has got the rows; nil when there are several readers.
    fileprivate var handedOut: ByteString? { state.withLock { $0.readers.count == 1 ? $0.handedOut : nil } }

    /// A reader continues from here, and never needs the rows before.
    func read(upTo component: ByteString?) {
        change { $0.handedOut = $0.readers.count == 1 ? component : nil }
    }

    /// Returns when the only reader has reached `place` or has left, or when there are several readers; at once when no reader
    /// has read anything.
    fileprivate func awaitReader(at place: ByteString) async {
        await withCheckedContinuation { continuation in
            state.withLock { $0.follower = (place, continuation) }
            change { _ in }
        }
    }

    /// Changes the readers or their positions, and resumes the task of the listing where that allows it.
    private func change<Answer: Sendable>(_ change: (inout State) -> Answer) -> Answer {
        let (answer, follower) = state.withLock { state in
            let answer = change(&state)
            guard let follower = state.follower else { return (answer, nil as CheckedContinuation<Void, Never>?) }
            if state.readers.count == 1, let handedOut = state.handedOut, handedOut < follower.place {
                return (answer, nil)
            }
            state.follower = nil
            return (answer, follower.continuation)
        }
        follower?.resume()
        return answer
    }

    /// Adds a reader; false when the listing has no reader any more or has ended, or some of its rows are gone.
    fileprivate func enter(_ pages: Int) -> Bool {
        change { state in
            state.ingest?.release(before: nil)
            state.handedOut = nil
            guard !state.readers.isEmpty, !state.isLeft, !state.progress.isEnded, state.ingest?.forgotten == nil else {
                return false
            }
            state.readers.append(pages)
            return true
        }
    }

    func leave(pages: Int = .max) {
        change { state in
            state.handedOut = nil
            if let index = state.readers.firstIndex(of: pages) { state.readers.remove(at: index) }
        }
    }

    /// Waits until more than `pages` pages are in or the listing has ended.
    func wait(after pages: Int) async throws(FileSystemError) {
        let isDone = await state.wait(whenCancelled: false) { state, _ in
            state.progress.isEnded || state.progress.pages > pages ? .answer(true) : .wait(pages)
        }
        if !isDone { throw .interrupted }
    }

    /// Notes that another page is in; false when no reader wants one more.
    fileprivate func advance(to frontier: ByteString?) -> Bool {
        wake { state in
            state.progress.pages += 1
            state.progress.frontier = frontier
            state.isLeft = !state.readers.contains { [pages = state.progress.pages] in $0 > pages }
            return !state.isLeft
        }
    }

    fileprivate func end(_ error: FileSystemError?) {
        wake { state in
            state.progress.pages += 1
            state.progress.isEnded = true
            (state.forgotten, state.ingest) = (state.ingest?.forgotten, nil)
            state.progress.frontier = nil
            state.progress.error = error
        }
    }

    private func wake<Answer: Sendable>(_ change: (inout State) -> Answer) -> Answer {
        state.change { state, queue in
            defer { queue.answer { _ in true } }
            return change(&state)
        }
    }
}
