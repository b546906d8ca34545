import Basics

/// When a GET is sent a second time: when its first byte takes longer than 99 of 100 recent ones. Pure.
///
/// A store's slowest answers take many times as long as the others, because of the one machine that gives them, and a program
/// that reads a range of many blocks waits for the slowest. Second requests are few by that measure, and never more than one
/// in fifty, so that a store that is slow altogether does not get every request twice.
struct HedgePolicy {
    /// First bytes that have to be measured before one counts as late.
    static let leastSeen: UInt64 = 256
    /// After so many measured, older ones are dropped.
    static let memory: UInt64 = 4096
    /// The number of fetches that allow one second request.
    static let fetchesPerHedge = 50
    /// Second requests that may be saved up.
    private static let mostSaved = 8
    /// A first byte that arrives within this time is not worth a second request, and the delay may be this machine's own.
    static let shortestWait = Duration.milliseconds(100)
    /// First bytes between computations of the quantile.
    private static let lookInterval: UInt64 = 64

    private var times = Histogram()
    private var wait: Duration?
    private var credit = 0

    /// Another fetch begins. Returns how long to wait for its first byte before the second request; nil: it gets none.
    mutating func begin() -> Duration? {
        credit = min(credit + 1, Self.fetchesPerHedge * Self.mostSaved)
        return credit >= Self.fetchesPerHedge ? wait : nil
    }

    /// Whether the second request may be sent.
    mutating func spend() -> Bool {
        guard credit >= Self.fetchesPerHedge else { return false }
        credit -= Self.fetchesPerHedge
        return true
    }

    /// Records how long a first byte took, whichever request brought it.
    mutating func record(_ firstByte: Duration) {
        times.record(firstByte)
        guard times.count >= Self.leastSeen, times.count.isMultiple(of: Self.lookInterval) else { return }
        wait = max(times.duration(0.99), Self.shortestWait)
        // The wait stays in force until enough new ones are measured.
        if times.count >= Self.memory { times = Histogram() }
    }
}
