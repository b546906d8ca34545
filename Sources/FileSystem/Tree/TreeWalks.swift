import Basics
import Metadata
import ObjectStorage
import Synchronization

/// Detects that a program lists directories one after the other, as `find` does, and then lists their tree with one flat listing.
///
/// The third of neighbouring directories begins that listing. `state` is a leaf lock.
final class TreeWalks: Sendable {
    private struct Walk {
        /// The directory of the parent that was listed last.
        var component: ByteString
        /// How many neighbouring directories were listed in a row.
        var count: Int
    }

    private struct State {
        /// By parent.
        var walks = LRU<InodeNumber, Walk>(capacity: 64)
        var trees: [TreeListing] = []
    }

    private let metadata: MetadataCache
    private let store: any ObjectStore
    private let pendingDeletions: PendingDeletions
    private let pool: WorkerPool
    private let state = Mutex(State())
    /// How many neighbouring directories are listed by themselves first.
    private static let proof = 2
    /// With a shorter ttl the listing of a directory would expire before the walk reaches it.
    private static let shortestTTL = Duration.seconds(5)
    /// The most entries between two directories that are looked through.
    private static let batch = 256

    init(metadata: MetadataCache, store: any ObjectStore, pendingDeletions: PendingDeletions, pool: WorkerPool) {
        (self.metadata, self.store, self.pendingDeletions, self.pool) = (metadata, store, pendingDeletions, pool)
    }

    /// To be called before a directory is listed. Returns true when a flat listing has brought all of it, so that it is not
    /// needed.
    func bring(_ directory: InodeNumber) async -> Bool {
        guard metadata.ttl >= Self.shortestTTL, directory != .root, let entry = try? metadata.entry(directory),
            let key = try? metadata.key(of: directory)
        else { return false }
        await tree(for: entry, key)?.comeBy(key)
        return isListed(directory)
    }

    private func isListed(_ directory: InodeNumber) -> Bool {
        guard let state = try? metadata.directory(directory) else { return false }
        return state.isComplete && state.isFresh
    }

    private func tree(for entry: Entry, _ key: ByteString) -> TreeListing? {
        let isNext = isNext(entry)
        let (known, count) = state.withLock { state in
            let last = state.walks.value(for: entry.parent)
            let walk = Walk(component: entry.component, count: isNext ? (last?.count ?? 0) + 1 : 1)
            state.walks.insert(walk, for: entry.parent)
            return (state.trees.first { $0.isAhead(of: key) }, walk.count)
        }
        if let known { return known }
        // A flat listing may just have passed the directory.
        guard count > Self.proof, !isListed(entry.ino), !(store.capabilities.bucketsInKeys && entry.parent == .root),
            let prefix = try? metadata.key(of: entry.parent), prefix + entry.component == key
        else { return nil }
        let start = ListRequest.bound(before: key, longest: store.capabilities.longestKey)
        let tree = TreeListing(root: entry.parent, prefix: prefix, after: start)
        state.withLock { $0.trees.append(tree) }
        pool.start { [self] in
            await tree.run(metadata, store, without: pendingDeletions)
            state.withLock { state in state.trees.removeAll { $0 === tree } }
        }
        return tree
    }

    /// Whether a directory is the next one after the last listed directory of its parent, and the parent is listed completely.
    private func isNext(_ entry: Entry) -> Bool {
        guard let last = state.withLock({ $0.walks.peek(entry.parent) }), last.component < entry.component,
            isListed(entry.parent),
            let between = try? metadata.children(
                of: entry.parent, after: last.component, before: entry.component, limit: Self.batch)
        else { return false }
        return between.count < Self.batch && !between.contains { $0.attributes.kind == .directory }
    }
}
