import CLinux

/// The source of time. All code that reads the time or waits takes one of these, so that tests set the clock.
package protocol TimeSource: Sendable {
    /// Wall-clock time (CLOCK_REALTIME); may jump.
    func now() -> Timestamp
    /// Time since some fixed point (CLOCK_MONOTONIC); never jumps. For measuring and deadlines.
    func uptime() -> Duration
    /// Returns after `duration`, or throws when the task is cancelled.
    func sleep(for duration: Duration) async throws(CancellationError)
}

/// The machine's clocks.
package struct SystemTime: TimeSource {
    package init() {}

    package func now() -> Timestamp {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Timestamp(time)
    }

    package func uptime() -> Duration {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return .seconds(Int64(time.tv_sec)) + .nanoseconds(Int64(time.tv_nsec))
    }

    package func sleep(for duration: Duration) async throws(CancellationError) {
        do { try await Task.sleep(for: duration) } catch { throw CancellationError() }
    }
}
