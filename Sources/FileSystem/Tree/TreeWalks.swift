import Basics
import Metadata
import ObjectStorage
import Synchronization

/// Sees when directories are listed one after the other, as by `find`, and then lists the tree they are in at once.
///
/// The third of neighbouring directories begins it. `state` is a leaf lock.
final class TreeWalks: Sendable {
    private struct Walk {
        /// The directory of the parent that was listed last.
        var component: ByteString
        /// How many neighbours in a row.
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
    /// Neighbours listed singly first.
    private static let proof = 2
    /// With a shorter one a directory would have grown old before the walk came to it.
    private static let shortestTTL = Duration.seconds(5)
    /// Entries between two directories that are looked through.
    private static let batch = 256

    init(metadata: MetadataCache, store: any ObjectStore, pendingDeletions: PendingDeletions, pool: WorkerPool) {
        (self.metadata, self.store, self.pendingDeletions, self.pool) = (metadata, store, pendingDeletions, pool)
    }

    /// A directory is about to be listed. True when that is not needed any more, as a flat listing brought all of it.
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
        // It may just have gone past.
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

    /// Whether a directory is the one after that which was listed last in its parent, of which all is known.
    private func isNext(_ entry: Entry) -> Bool {
        guard let last = state.withLock({ $0.walks.peek(entry.parent) }), last.component < entry.component,
            isListed(entry.parent),
            let between = try? metadata.children(
                of: entry.parent, after: last.component, before: entry.component, limit: Self.batch)
        else { return false }
        return between.count < Self.batch && !between.contains { $0.attributes.kind == .directory }
    }
}
