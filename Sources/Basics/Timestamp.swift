package import CLinux

/// A point in time as `struct timespec` has it: seconds since 1970-01-01 UTC and nanoseconds in 0..<1_000_000_000.
package struct Timestamp: Hashable, Sendable {
    package var seconds: Int64
    package var nanoseconds: Int32

    package init(seconds: Int64, nanoseconds: Int32 = 0) {
        self.seconds = seconds
        self.nanoseconds = nanoseconds
    }

    package static let epoch = Timestamp(seconds: 0)
    /// Before every other timestamp: "never".
    package static let distantPast = Timestamp(seconds: .min)

    /// Saturates instead of overflowing; less than a nanosecond is dropped.
    package static func + (left: Timestamp, right: Duration) -> Timestamp {
        let (seconds, attoseconds) = right.components
        var nanoseconds = Int64(left.nanoseconds) + attoseconds / 1_000_000_000
        var carry: Int64 = 0
        if nanoseconds < 0 { (nanoseconds, carry) = (nanoseconds + 1_000_000_000, -1) }
        if nanoseconds >= 1_000_000_000 { (nanoseconds, carry) = (nanoseconds - 1_000_000_000, 1) }
        let (sum, firstOverflow) = left.seconds.addingReportingOverflow(seconds)
        let (total, secondOverflow) = sum.addingReportingOverflow(carry)
        if firstOverflow || secondOverflow { return Timestamp(seconds: right < .zero ? .min : .max) }
        return Timestamp(seconds: total, nanoseconds: Int32(nanoseconds))
    }

    /// The time from `right` to `left`; negative when `left` is earlier. Saturates instead of overflowing.
    package static func - (left: Timestamp, right: Timestamp) -> Duration {
        let (seconds, overflow) = left.seconds.subtractingReportingOverflow(right.seconds)
        if overflow { return left > right ? .seconds(Int64.max / 4) : .seconds(Int64.min / 4) }
        return .seconds(seconds) + .nanoseconds(Int64(left.nanoseconds) - Int64(right.nanoseconds))
    }
}

extension Timestamp {
    /// The nearest time that every program can show as a date: localtime(3) has a year of 32 bits. A day is left free at
    /// either end for the time zones.
    package var shownAsDate: Timestamp {
        let first: Int64 = -67_768_040_609_654_400
        let last: Int64 = 67_768_036_191_590_399
        return first <= seconds && seconds <= last ? self : Timestamp(seconds: seconds < first ? first : last)
    }

    /// The nanosecond after it.
    package var next: Timestamp { self + .nanoseconds(1) }
}

extension Timestamp: Comparable {
    package static func < (left: Timestamp, right: Timestamp) -> Bool {
        (left.seconds, left.nanoseconds) < (right.seconds, right.nanoseconds)
    }
}

extension Timestamp {
    package init(_ time: timespec) { self.init(seconds: Int64(time.tv_sec), nanoseconds: Int32(time.tv_nsec)) }
}
