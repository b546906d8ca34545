package import Basics

/// Rates as users write them: `2MiB`, `off`, or by the time of day `512KiB@08:00/off@19:30`.
package enum RateText: Sendable {
    /// The unit a second.
    case bytes, requests

    private var range: ClosedRange<Int64> { self == .bytes ? 16 << 10...1 << 40 : 1...1_000_000 }

    var limits: String {
        self == .bytes
            ? "\(ByteSize.format(range.lowerBound)) to \(ByteSize.format(range.upperBound))"
            : "\(range.lowerBound) to \(range.upperBound)"
    }

    var expected: String {
        let (one, other) = self == .bytes ? ("2MiB", "512KiB") : ("50", "10")
        return "a rate such as \(one), from \(limits) a second, or off, or rates by the time of day such as "
            + "\(other)@08:00/off@19:30"
    }

    /// nil for anything else.
    package func parse(_ text: String) -> RateSchedule? {
        guard text.contains("@") else { return rate(text).map { RateSchedule($0) } }
        var spans: [RateSchedule.Span] = []
        for entry in text.split(separator: "/", omittingEmptySubsequences: false) {
            let parts = entry.split(separator: "@", omittingEmptySubsequences: false)
            guard parts.count == 2, let rate = rate(String(parts[0])), let start = Self.minute(parts[1]) else {
                return nil
            }
            spans.append(RateSchedule.Span(start: start, rate: rate))
        }
        return RateSchedule(spans)
    }

    /// The inner nil is no limit; the outer nil is an invalid rate.
    private func rate(_ text: String) -> Int64?? {
        if text == "off" { return .some(nil) }
        guard let value = self == .bytes ? ByteSize.parse(text) : Int64(text), range.contains(value) else { return nil }
        return .some(value)
    }

    /// `08:00`, from 00:00 to 23:59.
    private static func minute(_ text: Substring) -> Int? {
        let digits = text.split(separator: ":", omittingEmptySubsequences: false)
        guard digits.count == 2, digits.allSatisfy({ $0.utf8.count == 2 && $0.utf8.allSatisfy { 48..<58 ~= $0 } }),
            let hour = Int(digits[0]), let minute = Int(digits[1]), hour < 24, minute < 60
        else { return nil }
        return hour * 60 + minute
    }
}
