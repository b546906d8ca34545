import Synchronization

/// How much of what is staged moves to the store: who waits for local space learns from it whether there is hope. Any
/// thread; no lock.
package final class StagingTraffic: Sendable {
    /// Both only grow.
    package struct Count: Sendable, Hashable {
        /// Bytes that were read to be sent; what is read again to be sent again does not count.
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
