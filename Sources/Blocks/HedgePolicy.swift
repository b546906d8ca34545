import Basics

/// When a GET whose first byte does not come is asked for once more: past the time in which 99 of 100 lately came. Pure.
///
/// A store's slowest answers take many times as long as the others, for reasons of the one machine that gives them, and a
/// program that reads a range of many blocks waits for the slowest of all. Second requests are few by what is counted, and never
/// more than one in fifty, so that a store that is slow altogether is not asked twice for everything.
struct HedgePolicy {
    /// First bytes that have to be seen before one is called late.
    static let leastSeen: UInt64 = 256
    /// After so many, older ones are forgotten.
    static let memory: UInt64 = 4096
    /// How many fetches there are to a second request.
    static let fetchesPerHedge = 50
    /// Second requests that may be saved up.
    private static let mostSaved = 8
    /// What comes within that is not worth a request, and may be this machine's own fault.
    static let shortestWait = Duration.milliseconds(100)
    /// Between looks at the quantile.
    private static let lookInterval: UInt64 = 64

    private var times = Histogram()
    private var wait: Duration?
    private var credit = 0

    /// Another fetch begins: how long its first byte is waited for before the second request; nil: it has none.
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

    /// How long a first byte took, whichever request brought it.
    mutating func record(_ firstByte: Duration) {
        times.record(firstByte)
        guard times.count >= Self.leastSeen, times.count.isMultiple(of: Self.lookInterval) else { return }
        wait = max(times.duration(0.99), Self.shortestWait)
        // What is known stays in force until as many were seen again.
        if times.count >= Self.memory { times = Histogram() }
    }
}
