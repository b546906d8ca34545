private let weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
private let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

extension Timestamp {
    /// ISO 8601 basic, whole seconds: `20231114T221320Z`. Its first eight characters are the date of signing scopes.
    package var iso8601Basic: String {
        let time = CivilTime(self)
        return "\(digits(time.year, 4))\(digits(time.month))\(digits(time.day))"
            + "T\(digits(time.hour))\(digits(time.minute))\(digits(time.second))Z"
    }

    /// ISO 8601 extended with `fraction` (0...9) digits of the second: `2023-11-14T22:13:20.000Z`.
    package func iso8601(fraction: Int = 0) -> String {
        let time = CivilTime(self)
        var text = "\(digits(time.year, 4))-\(digits(time.month))-\(digits(time.day))"
        text += "T\(digits(time.hour)):\(digits(time.minute)):\(digits(time.second))"
        if fraction > 0 { text += "." + digits(Int(nanoseconds), 9).prefix(fraction) }
        return text + "Z"
    }

    /// The date of HTTP headers (RFC 9110 section 5.6.7, the RFC 1123 form): `Tue, 14 Nov 2023 22:13:20 GMT`.
    package var httpDate: String {
        let time = CivilTime(self)
        return "\(weekdays[time.weekday]), \(digits(time.day)) \(months[time.month - 1]) \(digits(time.year, 4)) "
            + "\(digits(time.hour)):\(digits(time.minute)):\(digits(time.second)) GMT"
    }

    /// Reads ISO 8601, basic or extended, with or without a fraction, in UTC (`Z`) or with an offset (`+08:00`, `+0800`).
    package init?(iso8601 text: String) {
        var reader = DateReader(text)
        guard let year = reader.number(4) else { return nil }
        let isExtended = reader.take("-")
        guard let month = reader.number(2), !isExtended || reader.take("-"), let day = reader.number(2) else {
            return nil
        }
        guard reader.take("T") || reader.take("t") || reader.take(" ") else { return nil }
        guard let hour = reader.number(2), reader.take(":") == isExtended else { return nil }
        guard let minute = reader.number(2), reader.take(":") == isExtended else { return nil }
        guard let second = reader.number(2) else { return nil }
        var nanoseconds = 0
        if reader.take(".") {
            guard let fraction = reader.fraction() else { return nil }
            nanoseconds = fraction
        }
        guard let offset = reader.zone(), reader.isAtEnd else { return nil }
        guard
            let time = CivilTime(
                year: year, month: month, day: day, hour: hour, minute: minute, second: second)
        else { return nil }
        self.init(seconds: time.timestamp.seconds - Int64(offset), nanoseconds: Int32(nanoseconds))
    }

    /// Reads the date of HTTP headers. The day of the week may be missing and is not checked; the zone may be `GMT`, `UTC`
    /// or an offset.
    package init?(httpDate text: String) {
        var reader = DateReader(text)
        if let name = reader.letters() {
            guard name.count >= 3, reader.take(",") else { return nil }
            reader.skipSpaces()
        }
        guard let day = reader.number(2) ?? reader.number(1) else { return nil }
        guard reader.take(" ") || reader.take("-"), let name = reader.letters()?.lowercased() else { return nil }
        guard let month = months.firstIndex(where: { $0.lowercased() == name }) else { return nil }
        guard reader.take(" ") || reader.take("-"), let year = reader.number(4), reader.take(" ") else { return nil }
        guard let hour = reader.number(2), reader.take(":"), let minute = reader.number(2), reader.take(":"),
            let second = reader.number(2), reader.take(" "), let offset = reader.zone(), reader.isAtEnd
        else { return nil }
        guard
            let time = CivilTime(
                year: year, month: month + 1, day: day, hour: hour, minute: minute, second: second)
        else { return nil }
        self.init(seconds: time.timestamp.seconds - Int64(offset))
    }
}

private func digits(_ value: Int, _ width: Int = 2) -> String {
    let text = String(value)
    return String(repeating: "0", count: max(0, width - text.utf8.count)) + text
}

/// Reads the pieces of a date from the front of a text; a method that returns nil or false consumes nothing.
private struct DateReader {
    private var rest: Substring.UTF8View

    init(_ text: String) { rest = text[...].utf8 }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard let first = rest.first, UInt32(first) == character.value else { return false }
        rest.removeFirst()
        return true
    }

    mutating func skipSpaces() {
        while take(" ") {}
    }

    /// Exactly `width` digits.
    mutating func number(_ width: Int) -> Int? {
        let candidate = rest.prefix(width)
        guard candidate.count == width, candidate.allSatisfy(isDigit) else { return nil }
        rest = rest.dropFirst(width)
        return candidate.reduce(0) { $0 * 10 + Int($1 - 48) }
    }

    /// One digit or more after the point, as nanoseconds.
    mutating func fraction() -> Int? {
        let all = rest.prefix(while: isDigit)
        guard !all.isEmpty else { return nil }
        rest = rest.dropFirst(all.count)
        let nine = Array(all.prefix(9)) + [UInt8](repeating: 48, count: max(0, 9 - all.count))
        return nine.reduce(0) { $0 * 10 + Int($1 - 48) }
    }

    mutating func letters() -> String? {
        let word = rest.prefix { ($0 | 0x20) >= 0x61 && ($0 | 0x20) <= 0x7a }
        guard !word.isEmpty else { return nil }
        rest = rest.dropFirst(word.count)
        return String(word)
    }

    /// A zone as seconds east of UTC.
    mutating func zone() -> Int? {
        if let name = letters() { return ["z", "gmt", "utc"].contains(name.lowercased()) ? 0 : nil }
        let sign = take("+") ? 1 : take("-") ? -1 : 0
        guard sign != 0, let hours = number(2) else { return nil }
        _ = take(":")
        guard let minutes = number(2), hours < 24, minutes < 60 else { return nil }
        return sign * (hours * 3600 + minutes * 60)
    }

    private func isDigit(_ byte: UInt8) -> Bool { byte >= 48 && byte <= 57 }
}
