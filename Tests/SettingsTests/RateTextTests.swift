import Basics
import Settings
import Testing

struct RateTextTests {
    @Test func aRateIsASizeOrOff() {
        #expect(RateText.bytes.parse("2MiB") == RateSchedule(2 << 20))
        #expect(RateText.bytes.parse("off") == .unlimited)
        #expect(RateText.requests.parse("50") == RateSchedule(50))
    }

    @Test func ratesCanHaveTimesOfTheDay() {
        let wanted = RateSchedule([.init(start: 480, rate: 512 << 10), .init(start: 1170, rate: nil)])
        #expect(RateText.bytes.parse("512KiB@08:00/off@19:30") == wanted)
        #expect(RateText.requests.parse("5@00:00") == RateSchedule([.init(start: 0, rate: 5)]))
    }

    @Test(arguments: [
        "", "0", "1", "-1", "16383", "fast", "2MiB@", "@08:00", "2MiB@8:00", "2MiB@24:00", "2MiB@08:60",
        "2MiB/off@08:00", "2MiB@08:00/1MiB@08:00", "2MiB@08:00/", "2MiB@08:00@09:00", "2TiB",
    ])
    func anythingElseIsRefused(text: String) { #expect(RateText.bytes.parse(text) == nil) }

    @Test func theOptionsTakeThem() throws {
        var settings = MountSettings()
        #expect(settings.uploadLimit == .unlimited)
        try settings.change("upload-limit=1MiB,download-limit=2MiB@08:00/off@09:00,request-limit=20")
        #expect(settings.uploadLimit.rateNow == 1 << 20 && settings.requestLimit.rateNow == 20)
        #expect(settings.downloadLimit.rate(atMinute: 500) == 2 << 20)
        #expect(throws: SettingsError.self) { try settings.change("upload-limit=1") }
    }
}
