import Basics
import Testing

struct RateScheduleTests {
    private static let working = RateSchedule([.init(start: 8 * 60, rate: 512), .init(start: 19 * 60 + 30, rate: nil)])

    @Test func oneRateHoldsAtAnyTime() {
        #expect(RateSchedule(7).rate(atMinute: 0) == 7)
        #expect(RateSchedule(7).rateNow == 7)
        #expect(RateSchedule.unlimited.rate(atMinute: 1439) == nil)
    }

    @Test(arguments: [(480, 512), (1169, 512), (1170, nil), (0, nil), (479, nil), (1439, nil)] as [(Int, Int64?)])
    func aRateHoldsUntilTheNextOne(minute: Int, rate: Int64?) throws {
        #expect(try #require(Self.working).rate(atMinute: minute) == rate)
    }

    @Test func theLastRateHoldsOverMidnight() throws {
        let schedule = try #require(RateSchedule([.init(start: 1200, rate: 2), .init(start: 600, rate: 1)]))
        #expect(schedule.rate(atMinute: 599) == 2)
        #expect(schedule.rate(atMinute: 600) == 1)
    }

    @Test func twoRatesForOneTimeAreNone() {
        #expect(RateSchedule([.init(start: 1, rate: 2), .init(start: 1, rate: 3)]) == nil)
        #expect(RateSchedule([.init(start: 1440, rate: 2)]) == nil)
        #expect(RateSchedule([]) == nil)
    }
}
