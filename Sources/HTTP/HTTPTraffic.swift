import Synchronization

/// Bytes of bodies that engines have moved, counted while they move, and how fast they may; heads and TLS are not in it. Any
/// thread may look.
package final class HTTPTraffic: Sendable {
    private let sentBytes = Atomic<Int64>(0)
    private let receivedBytes = Atomic<Int64>(0)

    package let limits = TrafficLimits()

    package init() {}

    package var sent: Int64 { sentBytes.load(ordering: .relaxed) }
    package var received: Int64 { receivedBytes.load(ordering: .relaxed) }

    func send(_ bytes: Int) { sentBytes.add(Int64(bytes), ordering: .relaxed) }
    func receive(_ bytes: Int) { receivedBytes.add(Int64(bytes), ordering: .relaxed) }
}
