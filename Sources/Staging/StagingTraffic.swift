import Synchronization

/// Counts the staged bytes that move to the store: a writer that waits for local space learns from it whether uploads make
/// progress. Any thread; no lock.
package final class StagingTraffic: Sendable {
    /// Both only grow.
    package struct Count: Sendable, Hashable {
        /// Bytes read for uploads; bytes that are read again for a retry do not count.
        package var read: Int64 = 0
        /// Parts and objects that the store has acknowledged.
        package var stored = 0

        package init() {}
    }

    private let read = Atomic<Int64>(0)
    private let stored = Atomic<Int>(0)

    package init() {}

    package var count: Count {
        var count = Count()
        (count.read, count.stored) = (read.load(ordering: .relaxed), stored.load(ordering: .relaxed))
        return count
    }

    package func noteStored() { stored.add(1, ordering: .relaxed) }

    func noteRead(_ bytes: Int64) { read.add(bytes, ordering: .relaxed) }
}
