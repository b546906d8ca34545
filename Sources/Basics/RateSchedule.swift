import Glibc

/// A limit per second by the time of day: one rate for the whole day, or one from each of several times on, which holds until
/// the next.
package struct RateSchedule: Sendable, Hashable {
    package struct Span: Sendable, Hashable {
        /// The minute of the day, local time, from which on the rate holds: 0 to 1439.
        package var start: Int
        /// The rate per second; nil sets no limit.
        package var rate: Int64?

        package init(start: Int, rate: Int64?) { (self.start, self.rate) = (start, rate) }
    }

    /// In the order of their starts, which all differ; the last span holds over midnight, until the first.
    package let spans: [Span]

    /// One rate at any time.
    package init(_ rate: Int64?) { spans = [Span(start: 0, rate: rate)] }

    /// nil without a span, with two spans for one time, or with a time outside the day.
    package init?(_ spans: [Span]) {
        guard !spans.isEmpty, spans.allSatisfy({ (0..<1440).contains($0.start) }),
            Set(spans.map(\.start)).count == spans.count
        else { return nil }
        self.spans = spans.sorted { $0.start < $1.start }
    }

    package static let unlimited = RateSchedule(nil)

    package func rate(atMinute minute: Int) -> Int64? { (spans.last { $0.start <= minute } ?? spans.last)?.rate ?? nil }

    /// The rate now, by this machine's clock and time zone.
    package var rateNow: Int64? {
        if spans.count == 1 { return spans[0].rate }
        var seconds = time(nil)
        var local = tm()
        guard localtime_r(&seconds, &local) != nil else { return spans.last?.rate ?? nil }
        return rate(atMinute: Int(local.tm_hour) * 60 + Int(local.tm_min))
    }
}
