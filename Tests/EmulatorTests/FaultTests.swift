import Basics
import Emulator
import Testing

@Suite struct FaultTests {
    @Test(arguments: [
        ("kind=latency:30ms", FaultKind.latency(.milliseconds(30))), ("kind=first-byte:2s", .firstByte(.seconds(2))),
        ("kind=status:503", .status(503)), ("kind=expired", .expired), ("kind=reset", .reset(after: nil)),
        ("kind=reset:10", .reset(after: 10)), ("kind=cut:1000", .cut(1000)), ("kind=alter", .alter),
        ("kind=bandwidth:80MB/s", .bandwidth(80_000_000)), ("kind=lost-reply", .lostReply), ("kind=hang", .hang),
        ("kind=clock:2h", .clock(.seconds(7200))), ("kind=clock:-90s", .clock(.seconds(-90))),
        ("kind=refuse:DeleteObjects:501", .status(501)), ("kind=prefix:data/", .prefixPolicy("data/")),
        ("kind=403-for-404", .hidesMissing), ("kind=head-without-length", .headWithoutLength),
    ])
    func everyKindIsRead(text: String, kind: FaultKind) throws {
        #expect(try FaultSpec(parsing: text).kind == kind)
    }

    @Test func aRefusalIsOfOneOperation() throws {
        var plan = FaultPlan([try FaultSpec(parsing: "kind=refuse:DeleteObjects:501")])
        #expect(statuses(&plan, 1) == [0])
        #expect(statuses(&plan, 1, "DeleteObjects") == [501])
    }

    @Test func everyLimitIsRead() throws {
        let spec = try FaultSpec(
            parsing: "op=GetObject,bucket=b,key=a*,probability=0.25,count=3,after=2,retry-after:7,kind=status:503")
        #expect(spec.operation == "GetObject")
        #expect(spec.bucket == "b")
        #expect(spec.key == "a*")
        #expect(spec.probability == 0.25)
        #expect((spec.count, spec.after, spec.retryAfter) == (3, 2, 7))
        #expect(FaultPlan([spec]).specs.map(\.text) == [spec.text])
    }

    @Test(arguments: [
        "", "op=GetObject", "kind=nothing", "kind=status:99", "kind=status:5x", "kind=cut", "kind=alter:3",
        "kind=alter,probability=2", "kind=alter,colour=red", "kind=alter,count=-1", "kind=bandwidth:0",
        "kind=refuse-keys", "kind=refuse-keys:latin", "kind=refuse-keys:utf8:500", "kind=clock", "kind=clock:x",
        "kind=refuse", "kind=refuse:GetObject", "kind=refuse:GetObject:200", "kind=refuse::403", "kind=prefix:",
        "kind=hang:3", "kind=alter,every=0", "kind=alter,from=soon",
    ])
    func nonsenseIsRefused(text: String) {
        #expect(throws: FaultSyntaxError.self) { try FaultSpec(parsing: text) }
    }

    @Test(arguments: [
        ("abc", "abc", true), ("abc", "ab", false), ("abc", "a*", true), ("abc", "*c", true), ("abc", "a*c", true),
        ("abc", "*", true), ("", "*", true), ("abc", "*b*", true), ("abc", "*d*", false), ("ab", "ab*b", false),
        ("a.b.c", "a*.*c", true), ("aXbXc", "a*X*X*c", true), ("abc", "", false),
    ])
    func patternsFit(text: String, pattern: String, fits: Bool) {
        #expect(FaultSpec.fits(ByteString(text), pattern: pattern) == fits)
    }

    private func statuses(_ plan: inout FaultPlan, _ count: Int, _ operation: String = "GetObject") -> [Int] {
        (0..<count).map { _ in plan.decide(operation: operation, bucket: "b", key: "k").status ?? 0 }
    }

    @Test func countAndAfterLimitHowOftenAFaultFires() throws {
        var plan = FaultPlan([try FaultSpec(parsing: "op=GetObject,after=2,count=2,kind=status:500")])
        #expect(statuses(&plan, 1, "PutObject") == [0])
        #expect(statuses(&plan, 6) == [0, 0, 500, 500, 0, 0])
    }

    @Test func windowsOfTimeLimitWhenAFaultFires() throws {
        let once = try FaultSpec(parsing: "from=10s,until=12s,kind=status:503")
        let often = try FaultSpec(parsing: "every=60s,until=5s,kind=status:500")
        func fired(_ spec: FaultSpec) -> [Int] {
            var plan = FaultPlan([spec])
            return [0, 4, 5, 10, 11, 12, 59, 60, 64, 65, 3600].filter { second in
                plan.decide(operation: "GetObject", bucket: "b", key: "k", at: .seconds(second)).status != nil
            }
        }
        #expect(fired(once) == [10, 11])
        #expect(fired(often) == [0, 4, 60, 64, 3600])
    }

    @Test func theSameSeedGivesTheSameFaults() throws {
        let specs = [try FaultSpec(parsing: "probability=0.3,kind=status:503")]
        var (one, two, other) = (FaultPlan(specs, seed: 7), FaultPlan(specs, seed: 7), FaultPlan(specs, seed: 8))
        let fired = statuses(&one, 1000)
        #expect(fired == statuses(&two, 1000))
        #expect(fired != statuses(&other, 1000))
        #expect((200..<400).contains(fired.filter { $0 == 503 }.count))
    }

    @Test func aPaceIsKeptThoughSleepsAreLate() throws {
        var pace = Pace(bytesPerSecond: 1_000_000, now: .zero)
        var now = Duration.zero
        for _ in 0..<1000 {
            if let pause = pace.pause(for: 10_000, now: now) { now += pause + .milliseconds(3) }
        }
        #expect(now >= .seconds(10) && now <= .seconds(10.1))
        // Standing still earns no burst.
        now += .seconds(5)
        var sent = 0
        while pace.pause(for: 10_000, now: now) == nil { sent += 10_000 }
        #expect(sent <= 60_000)
    }

    @Test func severalFaultsJoin() throws {
        var plan = FaultPlan([
            try FaultSpec(parsing: "kind=latency:10ms"), try FaultSpec(parsing: "kind=latency:20ms"),
            try FaultSpec(parsing: "kind=cut:5"), try FaultSpec(parsing: "kind=bandwidth:10kB/s"),
            try FaultSpec(parsing: "key=other,kind=expired"),
        ])
        let effects = plan.decide(operation: "GetObject", bucket: "b", key: "k")
        #expect(effects.latency == .milliseconds(30))
        #expect(effects.cutAfter == 5)
        #expect(effects.bytesPerSecond == 10_000)
        #expect(!effects.isExpired)
        #expect(effects.kinds == ["latency:10ms", "latency:20ms", "cut:5", "bandwidth:10kB/s"])
    }
}
