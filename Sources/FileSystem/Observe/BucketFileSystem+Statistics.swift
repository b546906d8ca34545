import Basics
import Metadata
import ObjectStorage
import Synchronization

/// statfs: the capacity is the `size` option or a large constant. The used space is the store's figure, where the store counts
/// it.
extension BucketFileSystem {
    /// The store's figures and when they were asked for. Its own mutex is a leaf.
    struct KnownUsage: Sendable {
        var usage: BucketUsage?
        /// Of the time source's `uptime`; nil before the first question.
        var asked: Duration?
    }

    /// The figures count for `ttl`, and at least for this long.
    private static let shortestInterval = Duration.seconds(10)

    package func statistics() -> Outcome<FileSystemStatistics> {
        guard store.capabilities.usage else { return .success(figures(nil)) }
        let now = time.uptime()
        // One call asks the store; the others answer with the known figures meanwhile.
        let (known, asks) = usage.withLock { known in
            let isFresh = known.asked.map { now - $0 < max(metadata.ttl, Self.shortestInterval) } ?? false
            if !isFresh { known.asked = now }
            return (known.usage, !isFresh)
        }
        guard asks else { return .success(figures(known)) }
        return later { [self] () async throws(FileSystemError) in
            // `df` does not fail because the store cannot count.
            guard let answer = try? await store.usage() else { return figures(known) }
            usage.withLock { $0.usage = answer }
            return figures(answer)
        }
    }

    private func figures(_ usage: BucketUsage?) -> FileSystemStatistics {
        let capacity = usage?.quota.map { min($0, policy.capacity) } ?? policy.capacity
        var statistics = FileSystemStatistics(
            capacity: capacity, available: max(0, capacity - (usage?.bytes ?? 0)), longestName: 255)
        statistics.files = usage?.objects ?? 0
        return statistics
    }
}
