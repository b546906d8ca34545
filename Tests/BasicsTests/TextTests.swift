import Basics
import TestSupport
import Testing

@Suite struct TimestampTests {
    @Test func textMatchesTheProvidersExamples() {
        let time = Timestamp(seconds: 1_700_000_000, nanoseconds: 123_456_789)
        #expect(time.iso8601Basic == "20231114T221320Z")
        #expect(time.iso8601() == "2023-11-14T22:13:20Z")
        #expect(time.iso8601(fraction: 3) == "2023-11-14T22:13:20.123Z")
        #expect(time.httpDate == "Tue, 14 Nov 2023 22:13:20 GMT")
    }

    @Test(arguments: [
        "20231114T221320Z", "2023-11-14T22:13:20Z", "2023-11-14T22:13:20.000Z", "2023-11-15T06:13:20+08:00",
        "2023-11-14T16:43:20-0530", "2023-11-14t22:13:20z",
    ])
    func isoFormsAreRead(text: String) {
        #expect(Timestamp(iso8601: text) == Timestamp(seconds: 1_700_000_000))
    }

    @Test func fractionsAreRead() {
        #expect(Timestamp(iso8601: "1970-01-01T00:00:01.5Z") == Timestamp(seconds: 1, nanoseconds: 500_000_000))
        #expect(Timestamp(iso8601: "19700101T000001.1234567891Z")?.nanoseconds == 123_456_789)
    }

    @Test(arguments: [
        "Tue, 14 Nov 2023 22:13:20 GMT", "14 Nov 2023 22:13:20 GMT", "Tue, 14 nov 2023 22:13:20 UTC",
        "Tue, 14 Nov 2023 23:13:20 +0100",
    ])
    func httpFormsAreRead(text: String) {
        #expect(Timestamp(httpDate: text) == Timestamp(seconds: 1_700_000_000))
    }

    @Test(arguments: [
        "", "2023", "2023-11-14", "2023-13-14T22:13:20Z", "2023-02-29T00:00:00Z", "2023-11-14T24:00:00Z",
        "2023-11-14T22:13:20", "2023-11-14T22:13:20.Z", "2023-11-14T22:13:20Zx", "20231114T22:13:20Z",
        "2023-1114T221320Z", "Tue, 31 Feb 2023 22:13:20 GMT", "Tue 14 Nov 2023 22:13:20 GMT",
        "2023-11-14T22:13:20+99:00",
        "Tue, 14 Now 2023 22:13:20 GMT", "Tue, 14 Nov 2023 22:13:20 PST", "２023-11-14T22:13:20Z",
    ])
    func otherTextIsNoDate(text: String) {
        #expect(Timestamp(iso8601: text) == nil)
        #expect(Timestamp(httpDate: text) == nil)
    }

    @Test func everyDayComesBack() {
        for day in stride(from: Int64(-719_528), through: 2_932_896, by: 97) {
            let time = Timestamp(seconds: day * 86_400 + 12_345)
            #expect(Timestamp(iso8601: time.iso8601()) == time)
            #expect(Timestamp(httpDate: time.httpDate) == time)
        }
    }

    @Test func theWeekdayIsRight() {
        #expect(CivilTime(.epoch).weekday == 4)
        #expect(Timestamp(seconds: 951_782_400).httpDate == "Tue, 29 Feb 2000 00:00:00 GMT")
        #expect(Timestamp(seconds: -1).httpDate == "Wed, 31 Dec 1969 23:59:59 GMT")
    }

    @Test func timesOutsideTheCalendarAreCut() {
        #expect(Timestamp.distantPast.iso8601() == "0000-01-01T00:00:00Z")
        #expect(Timestamp(seconds: .max).iso8601() == "9999-12-31T23:59:59Z")
    }

    @Test func durationsAreAddedWithCarry() {
        let time = Timestamp(seconds: 10, nanoseconds: 900_000_000)
        #expect(time + .milliseconds(200) == Timestamp(seconds: 11, nanoseconds: 100_000_000))
        #expect(time + .milliseconds(-950) == Timestamp(seconds: 9, nanoseconds: 950_000_000))
        #expect(time + .seconds(-20) == Timestamp(seconds: -10, nanoseconds: 900_000_000))
        #expect(Timestamp(seconds: 11, nanoseconds: 100_000_000) - time == .milliseconds(200))
        #expect(time - Timestamp(seconds: 11, nanoseconds: 100_000_000) == .milliseconds(-200))
    }

    @Test func arithmeticSaturates() {
        #expect(Timestamp(seconds: .max) + .seconds(1) > Timestamp(seconds: .max - 1))
        #expect(Timestamp.distantPast + .seconds(-1) == .distantPast)
        #expect(Timestamp.distantPast + .milliseconds(-1) == .distantPast)
        #expect(Timestamp(seconds: 1) - .distantPast > .seconds(1 << 60))
        #expect(.distantPast - Timestamp(seconds: 1) < .seconds(-(1 << 60)))
    }

    @Test func timestampsAreOrdered() {
        #expect(Timestamp(seconds: 1, nanoseconds: 2) < Timestamp(seconds: 2, nanoseconds: 1))
        #expect(Timestamp(seconds: 1, nanoseconds: 1) < Timestamp(seconds: 1, nanoseconds: 2))
        #expect(Timestamp.distantPast < .epoch)
    }
}

@Suite struct TextTests {
    @Test func onlyUnreservedBytesStayAsTheyAre() {
        #expect(PercentEncoding.encode("aZ09-._~") == "aZ09-._~")
        #expect(PercentEncoding.encode("dir/a b+c中") == "dir%2Fa%20b%2Bc%E4%B8%AD")
        #expect(PercentEncoding.encode("dir/a b", keepingSlash: true) == "dir/a%20b")
        #expect(PercentEncoding.encode(ByteString([0, 0xff])) == "%00%FF")
    }

    @Test func percentDecodingIsItsInverse() {
        let all = Array(UInt8.min...UInt8.max)
        #expect(PercentEncoding.decode(PercentEncoding.encode(all)) == all)
        #expect(PercentEncoding.decode("a+b%2b") == Array("a+b+".utf8))
        #expect(PercentEncoding.decode("a+b%2b", plusIsSpace: true) == Array("a b+".utf8))
    }

    @Test(arguments: ["%", "%4", "%4g", "a%%41"])
    func brokenEscapesAreRefused(text: String) {
        #expect(PercentEncoding.decode(text) == nil)
    }

    @Test(
        arguments: [
            ("0", 0), ("123", 123), ("5B", 5), ("8MiB", 8 << 20), ("512k", 512 << 10), ("1G", 1 << 30),
            ("1.5G", 3 << 29),
            ("2KB", 2000), ("0.5KiB", 512), ("7p", 7 << 50), ("8191P", 8191 << 50),
        ] as [(String, Int64)])
    func sizesAreRead(text: String, bytes: Int64) {
        #expect(ByteSize.parse(text) == bytes)
    }

    @Test(arguments: ["", "k", "-1", "1x", "1 k", "1.2.3k", "1.k", ".5k", "1.5", "8192P", "99999999999999999999", "+1"])
    func otherTextIsNoSize(text: String) {
        #expect(ByteSize.parse(text) == nil)
    }

    @Test func sizesAreWrittenInTheirLargestUnit() {
        #expect(ByteSize.format(0) == "0B")
        #expect(ByteSize.format(1023) == "1023B")
        #expect(ByteSize.format(8 << 20) == "8MiB")
        #expect(ByteSize.format(3 << 29) == "1.5GiB")
        #expect(ByteSize.format((1 << 20) - 1) == "1023.9KiB")
        #expect(ByteSize.format(.max) == "8191.9PiB")
        #expect(ByteSize.format(-2048) == "-2KiB")
    }

    @Test(
        arguments: [
            ("30s", .seconds(30)), ("500ms", .milliseconds(500)), ("1h", .seconds(3600)), ("1h30m", .seconds(5400)),
            ("2d", .seconds(172_800)), ("45", .seconds(45)), ("0s", .zero),
        ] as [(String, Duration)])
    func durationsGoBothWays(text: String, duration: Duration) {
        #expect(DurationText.parse(text) == duration)
        #expect(DurationText.parse(DurationText.format(duration)) == duration)
    }

    @Test(arguments: ["", "s", "-1s", "1y", "1h30", "1 s", "999999999999999999d", "1.5s"])
    func otherTextIsNoDuration(text: String) {
        #expect(DurationText.parse(text) == nil)
    }

    @Test func durationsAreWrittenShort() {
        #expect(DurationText.format(.seconds(5400)) == "1h30m")
        #expect(DurationText.format(.milliseconds(1500)) == "1s500ms")
        #expect(DurationText.format(.microseconds(1)) == "0s")
        #expect(DurationText.format(.seconds(-90)) == "-1m30s")
    }
}

@Suite struct TextColumnsTests {
    @Test(arguments: [
        ("", 0), ("abc", 3), ("█░…", 3), ("照片", 4), ("e\u{301}", 1), ("ｈ", 2), ("한글", 4), ("\u{200B}", 0),
    ])
    func lettersOfEastAsiaAreTwoColumnsWide(text: String, columns: Int) {
        #expect(TextColumns.count(text) == columns)
    }

    @Test func textIsCutAtEitherEndWithAMark() {
        #expect(TextColumns.beginning(of: "abcdef", in: 6, mark: "…") == "abcdef")
        #expect(TextColumns.beginning(of: "abcdefg", in: 6, mark: "…") == "abcde…")
        #expect(TextColumns.end(of: "abcdefg", in: 6, mark: "...") == "...efg")
        // Half a letter cannot be shown.
        #expect(TextColumns.beginning(of: "照片很多", in: 6, mark: "…") == "照片…")
        #expect(TextColumns.end(of: "照片很多", in: 6, mark: "…") == "…很多")
    }
}
