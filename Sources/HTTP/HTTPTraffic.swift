import Synchronization

/// The bytes of bodies that engines have transferred, counted while they are, and their rate limits; heads and TLS do not count.
/// Any thread may read them.
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
