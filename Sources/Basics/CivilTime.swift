/// A point in time as date and time of day in UTC, proleptic Gregorian calendar.
package struct CivilTime: Hashable, Sendable {
    package var year: Int
    /// 1...12
    package var month: Int
    /// 1...31
    package var day: Int
    package var hour = 0
    package var minute = 0
    /// 0...59
    package var second = 0

    private static let daysIn400Years = 146_097
    /// From 1 March of year 0, where the leap day is the last of a year, to 1 January 1970.
    private static let daysToEpoch = 719_468

    /// Years 0 to 9999; times outside are clamped to the nearest in them, as the texts made from them have four digits for
    /// the year.
    package init(_ timestamp: Timestamp) {
        let seconds = Int(min(max(timestamp.seconds, -62_167_219_200), 253_402_300_799))
        let secondOfDay = (seconds % 86_400 + 86_400) % 86_400
        (hour, minute, second) = (secondOfDay / 3600, secondOfDay / 60 % 60, secondOfDay % 60)

        let days = (seconds - secondOfDay) / 86_400 + Self.daysToEpoch
        let era = (days < 0 ? days - Self.daysIn400Years + 1 : days) / Self.daysIn400Years
        let dayOfEra = days - era * Self.daysIn400Years
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        year = era * 400 + yearOfEra + (month <= 2 ? 1 : 0)
    }

    /// nil unless the fields name a day of the calendar and a time of day; a leap second counts as the second after 59.
    package init?(year: Int, month: Int, day: Int, hour: Int, minute: Int, second: Int) {
        guard (0...9999).contains(year), (1...12).contains(month), day >= 1 else { return nil }
        let isLeap = year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400))
        let days = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        guard day <= days[month - 1] else { return nil }
        guard (0...23).contains(hour), (0...59).contains(minute), (0...60).contains(second) else { return nil }
        (self.year, self.month, self.day) = (year, month, day)
        (self.hour, self.minute, self.second) = (hour, minute, second)
    }

    /// Days since 1970-01-01.
    private var dayNumber: Int {
        let shifted = month <= 2 ? year - 1 : year
        let era = (shifted < 0 ? shifted - 399 : shifted) / 400
        let yearOfEra = shifted - era * 400
        let monthFromMarch = month > 2 ? month - 3 : month + 9
        let dayOfYear = (153 * monthFromMarch + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * Self.daysIn400Years + dayOfEra - Self.daysToEpoch
    }

    /// 0 is Sunday.
    package var weekday: Int { ((dayNumber + 4) % 7 + 7) % 7 }

    package var timestamp: Timestamp {
        Timestamp(seconds: Int64(dayNumber * 86_400 + hour * 3600 + minute * 60 + second))
    }
}
