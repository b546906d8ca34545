/// Sizes in the form that people write: `8MiB`, `512k`, `1.5G`.
package enum ByteSize {
    private static let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]

    /// Digits, perhaps with a fraction, and a unit in either case: `K M G T P` and `KiB …` count in 1024, `KB …` in 1000;
    /// none or `B` is bytes. nil for anything else and for more than `Int64` holds.
    package static func parse(_ text: String) -> Int64? {
        let (number, suffix) = splitNumber(text)
        guard let multiplier = multiplier(suffix.lowercased()) else { return nil }
        let parts = number.split(separator: ".", omittingEmptySubsequences: false)
        guard let whole = parts.first.flatMap({ Int64($0) }), parts.count <= 2 else { return nil }
        let (bytes, overflow) = whole.multipliedReportingOverflow(by: multiplier)
        guard !overflow else { return nil }
        guard parts.count == 2 else { return bytes }
        let fraction = parts[1].prefix(6)
        guard let value = Int64(fraction), multiplier > 1 else { return nil }
        let scale = fraction.reduce(Int64(1)) { scale, _ in scale * 10 }
        // Six digits of a petabyte stay below 2^63.
        let (sum, tooMuch) = bytes.addingReportingOverflow(
            multiplier / scale * value + multiplier % scale * value / scale)
        return tooMuch ? nil : sum
    }

    /// In the largest unit of which the size has at least one, with a decimal where it is no whole number of them: `8MiB`,
    /// `1.5GiB`, `123B`.
    package static func format(_ bytes: Int64) -> String {
        let magnitude = bytes.magnitude
        var unit = 0
        while unit + 1 < units.count, magnitude >> UInt64(10 * (unit + 1)) > 0 { unit += 1 }
        let size = UInt64(1) << UInt64(10 * unit)
        let whole = magnitude / size
        let tenth = magnitude % size * 10 / size
        let isWhole = magnitude % size == 0
        return "\(bytes < 0 ? "-" : "")\(whole)\(isWhole ? "" : ".\(tenth)")\(units[unit])"
    }

    private static func multiplier(_ suffix: String) -> Int64? {
        if suffix.isEmpty || suffix == "b" { return 1 }
        guard let power = ["k", "m", "g", "t", "p"].firstIndex(of: String(suffix.prefix(1))) else { return nil }
        let base: Int64
        switch suffix.dropFirst() {
        case "", "ib": base = 1024
        case "b": base = 1000
        default: return nil
        }
        return (0..<power).reduce(base) { product, _ in product * base }
    }
}

/// Times in the form that people write: `30s`, `500ms`, `1h30m`.
package enum DurationText {
    private static let units: [(suffix: String, milliseconds: Int64)] = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1),
    ]

    /// Whole numbers, each with a unit of `d h m s ms`; a lone number is seconds. nil for anything else.
    package static func parse(_ text: String) -> Duration? {
        if let seconds = Int64(text), seconds >= 0 { return .seconds(seconds) }
        var rest = text[...]
        var total: Int64 = 0
        guard !rest.isEmpty else { return nil }
        while !rest.isEmpty {
            let number = rest.prefix { $0.isASCII && $0.isNumber }
            rest = rest.dropFirst(number.count)
            let suffix = rest.prefix { $0.isASCII && $0.isLetter }
            rest = rest.dropFirst(suffix.count)
            guard let value = Int64(number), let unit = units.first(where: { $0.suffix == suffix }) else { return nil }
            let (product, tooMuch) = value.multipliedReportingOverflow(by: unit.milliseconds)
            let (sum, overflow) = total.addingReportingOverflow(product)
            guard !tooMuch, !overflow else { return nil }
            total = sum
        }
        return .milliseconds(total)
    }

    /// The same form, to the millisecond: `1h30m`, `0s`.
    package static func format(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        var rest = overflow ? Int64.max : scaled + attoseconds / 1_000_000_000_000_000
        var text = rest < 0 ? "-" : ""
        rest = Int64(clamping: rest.magnitude)
        guard rest > 0 else { return "0s" }
        for unit in units where rest >= unit.milliseconds {
            text += "\(rest / unit.milliseconds)\(unit.suffix)"
            rest %= unit.milliseconds
        }
        return text
    }
}

private func splitNumber(_ text: String) -> (number: Substring, suffix: Substring) {
    let number = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
    return (number, text.dropFirst(number.count))
}
