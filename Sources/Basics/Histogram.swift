/// Counts of values in buckets that grow with the value: quantiles within 1/16 of the truth in constant memory.
///
/// A plain value: its owner locks it. Durations are counted in nanoseconds.
package struct Histogram: Sendable {
    /// 16 exact buckets below 16, then 16 for each power of two.
    private static let bucketCount = 16 + 60 * 16
    private var buckets = [UInt64](repeating: 0, count: bucketCount)
    package private(set) var count: UInt64 = 0
    package private(set) var largest: UInt64 = 0
    /// Of all values; saturates.
    package private(set) var sum: UInt64 = 0

    package init() {}

    package mutating func record(_ value: UInt64) {
        buckets[Self.bucket(of: value)] += 1
        count += 1
        largest = max(largest, value)
        let (total, overflow) = sum.addingReportingOverflow(value)
        sum = overflow ? .max : total
    }

    /// Negative durations count as zero.
    package mutating func record(_ duration: Duration) {
        let (seconds, attoseconds) = duration.components
        let (nanoseconds, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        record(
            overflow
                ? .max : UInt64(clamping: nanoseconds.addingReportingOverflow(attoseconds / 1_000_000_000).partialValue)
        )
    }

    /// A value that `fraction` (0...1) of all values do not exceed: the upper end of its bucket, 0 when empty.
    package func quantile(_ fraction: Double) -> UInt64 {
        guard count > 0 else { return 0 }
        let rank = max(1, UInt64((Double(count) * min(max(fraction, 0), 1)).rounded(.up)))
        var seen: UInt64 = 0
        for (index, number) in buckets.enumerated() where number > 0 {
            seen += number
            if seen >= rank { return min(Self.upperEnd(of: index), largest) }
        }
        return largest
    }

    /// The same for recorded durations.
    package func duration(_ fraction: Double) -> Duration {
        .nanoseconds(Int64(clamping: quantile(fraction)))
    }

    /// Adds all values that `other` counted.
    package mutating func merge(_ other: Histogram) {
        for (index, number) in other.buckets.enumerated() { buckets[index] += number }
        count += other.count
        largest = max(largest, other.largest)
        let (total, overflow) = sum.addingReportingOverflow(other.sum)
        sum = overflow ? .max : total
    }

    private static func bucket(of value: UInt64) -> Int {
        guard value >= 16 else { return Int(value) }
        let exponent = 63 - value.leadingZeroBitCount  // 4...63
        return 16 + (exponent - 4) * 16 + Int(value >> UInt64(exponent - 4) & 15)
    }

    private static func upperEnd(of bucket: Int) -> UInt64 {
        guard bucket >= 16 else { return UInt64(bucket) }
        let shift = UInt64((bucket - 16) / 16)
        return (UInt64(16 + (bucket - 16) % 16) << shift) + ((1 << shift) - 1)
    }
}
