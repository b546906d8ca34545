import Basics
import ObjectStorage
import Synchronization
import TestSupport
import Testing

@testable import Blocks

@Suite(.timeLimit(.minutes(5))) struct HedgingTests {
    // MARK: When

    @Test func nothingIsLateBeforeEnoughWasSeen() {
        var policy = HedgePolicy()
        for _ in 0..<Int(HedgePolicy.leastSeen) - 1 {
            #expect(policy.begin() == nil)
            policy.record(.seconds(1))
        }
        policy.record(.seconds(1))
        let wait = policy.begin()
        #expect(wait.map { $0 >= .seconds(1) && $0 < .milliseconds(1100) } == true)
    }

    @Test func whatOneInAHundredTakesIsLate() {
        var policy = HedgePolicy()
        for number in 0..<2000 {
            _ = policy.begin()
            // Two in a hundred take a second.
            policy.record(number % 50 == 0 ? .seconds(1) : .milliseconds(300))
        }
        #expect(Self.wait(policy) >= .seconds(1))
        policy = HedgePolicy()
        for number in 0..<2000 {
            _ = policy.begin()
            policy.record(number % 200 == 0 ? .seconds(1) : .milliseconds(300))
        }
        #expect(Self.wait(policy) < .milliseconds(330))
    }

    @Test func aFewMillisecondsAreNeverLate() {
        #expect(Self.wait(Self.policy(.milliseconds(1))) == HedgePolicy.shortestWait)
    }

    @Test func atMostOneInFiftyIsAskedForTwice() {
        var policy = Self.policy(.milliseconds(200))
        while policy.spend() {}
        var hedges = 0
        for _ in 0..<1000 where policy.begin() != nil && policy.spend() { hedges += 1 }
        #expect(hedges == 1000 / HedgePolicy.fetchesPerHedge)
    }

    @Test func aStoreThatGrowsSlowIsNotAskedTwiceForEverything() {
        var policy = Self.policy(.milliseconds(200))
        for _ in 0..<Int(HedgePolicy.memory) * 2 {
            _ = policy.begin()
            policy.record(.seconds(3))
        }
        #expect(Self.wait(policy) >= .seconds(3))
    }

    /// How long the next fetch is waited for; zero where it has no second request.
    private static func wait(_ policy: HedgePolicy) -> Duration {
        var next = policy
        return next.begin() ?? .zero
    }

    /// One that has seen enough first bytes after `time`.
    private static func policy(_ time: Duration) -> HedgePolicy {
        var policy = HedgePolicy()
        for _ in 0..<512 {
            _ = policy.begin()
            policy.record(time)
        }
        return policy
    }

    // MARK: What

    /// A store whose GETs of a key have been quick so often that the next one may be found late.
    private static func quick(
        _ bytes: [UInt8]
    ) async throws -> (memory: MemoryStore, time: ManualTime, reads: HedgedReads) {
        let memory = MemoryStore(deliverySize: 1000)
        memory.setObject("k", bytes)
        let time = ManualTime()
        let reads = HedgedReads(memory, time: time)
        for _ in 0..<512 { _ = try await reads.get(GetRequest("k", range: 0..<1), into: CollectingSink()) }
        memory.forgetRequests()
        return (memory, time, reads)
    }

    @Test func theSecondRequestBringsWhatTheFirstKeepsBack() async throws {
        let bytes = content(10_000)
        let (memory, time, reads) = try await Self.quick(bytes)
        let first = Gate(), number = Counter()
        memory.beforeDelivery = { _, offset in
            if offset == 5, number.increment() == 1 { await first.pass() }
        }
        let sink = CollectingSink()
        async let answer = reads.get(GetRequest("k", range: 5..<9000), into: sink)
        await first.waitForArrivals()
        await time.waitForSleepers()
        #expect(memory.count(.get) == 1, "nothing is late yet")
        time.advance(by: HedgePolicy.shortestWait)
        #expect(try await answer.range == 5..<9000)
        #expect(sink.bytes == bytes[bytes: 5..<9000])
        #expect(memory.count(.get) == 2)
        #expect(reads.hedges == 1)
        #expect(first.arrivals == 1, "the first one was given up")
    }

    @Test func nothingOfTheSlowerOneReachesTheReader() async throws {
        let bytes = content(10_000)
        let (memory, time, reads) = try await Self.quick(bytes)
        // Both wait before their first byte; the second one goes, and the first comes in its midst.
        let gates = [Gate(), Gate()], middle = Gate(), number = Counter()
        memory.beforeDelivery = { _, offset in
            if offset == 0 { await gates[number.increment() - 1].pass() }
            if offset == 5000 { await middle.pass() }
        }
        let sink = CollectingSink()
        async let answer = reads.get(GetRequest("k", range: 0..<10_000), into: sink)
        await gates[0].waitForArrivals()
        await time.waitForSleepers()
        time.advance(by: HedgePolicy.shortestWait)
        await gates[1].waitForArrivals()
        gates[1].open()
        await middle.waitForArrivals()
        gates[0].open()
        middle.open()
        #expect(try await answer.range == 0..<10_000)
        #expect(sink.bytes == bytes)
    }

    @Test func whatHasBegunToArriveIsNotLate() async throws {
        let (memory, time, reads) = try await Self.quick(content(10_000))
        let middle = Gate()
        memory.beforeDelivery = { _, offset in if offset == 1000 { await middle.pass() } }
        let sink = CollectingSink()
        async let answer = reads.get(GetRequest("k", range: 0..<10_000), into: sink)
        await middle.waitForArrivals()
        time.advance(by: .seconds(60))
        middle.open()
        _ = try await answer
        #expect(memory.count(.get) == 1)
        #expect(reads.hedges == 0)
    }

    @Test func aFailureThatMayPassIsLeftToTheOther() async throws {
        let bytes = content(3000)
        let (memory, time, reads) = try await Self.quick(bytes)
        let gate = memory.hold(.get), number = Counter()
        memory.fault = { operation, key in
            number.increment() == 1 ? ObjectStoreError(.serverFault, operation, key: key, message: "no") : nil
        }
        let sink = CollectingSink()
        async let answer = reads.get(GetRequest("k", range: 0..<3000), into: sink)
        await gate.waitForArrivals()
        await time.waitForSleepers()
        time.advance(by: HedgePolicy.shortestWait)
        await gate.waitForArrivals(2)
        gate.letOnePass()
        while number.value == 0 { await Task.yield() }
        gate.letOnePass()
        #expect(try await answer.range == 0..<3000)
        #expect(sink.bytes == bytes)
    }

    @Test func aFailureOfTheOnlyOneIsTheAnswer() async throws {
        let (memory, _, reads) = try await Self.quick(content(100))
        memory.fault = { operation, key in ObjectStoreError(.serverFault, operation, key: key, message: "no") }
        await #expect(throws: ObjectStoreError.self) {
            try await reads.get(GetRequest("k", range: 0..<10), into: CollectingSink())
        }
        #expect(memory.count(.get) == 1)
    }

    @Test func aRefusalIsTheAnswer() async throws {
        let (memory, _, reads) = try await Self.quick(content(100))
        memory.removeObject("k")
        await #expect(throws: ObjectStoreError.self) {
            try await reads.get(GetRequest("k", range: 0..<10), into: CollectingSink())
        }
        #expect(memory.count(.get) == 1)
    }

    @Test func whoGivesUpEndsBoth() async throws {
        let (memory, time, reads) = try await Self.quick(content(100))
        let gate = Gate()
        memory.beforeDelivery = { _, _ in await gate.pass() }
        let task = Task { try await reads.get(GetRequest("k", range: 0..<10), into: CollectingSink()) }
        await gate.waitForArrivals()
        await time.waitForSleepers()
        time.advance(by: HedgePolicy.shortestWait)
        await gate.waitForArrivals(2)
        task.cancel()
        await #expect(throws: ObjectStoreError.self) { try await task.value }
    }

    @Test func aCacheReadsThroughAStallOfTheStore() async throws {
        let memory = MemoryStore()
        let bytes = content(64 << 20)
        let version = memory.setObject("k", bytes)
        let time = ManualTime()
        let fixture = try Fixture(memory, time: time)
        let object = fixture.cache.open("k", version)
        // Random blocks, each a fetch, until stalls are noticed; then one stalls for good.
        for block in 0..<Int64(600) where block % 2 == 0 {
            _ = try await fixture.read(object, ByteRange(at: block << 16, count: 4096))
        }
        let gate = Gate(), number = Counter()
        memory.beforeDelivery = { _, _ in if number.increment() == 1 { await gate.pass() } }
        let range = ByteRange(at: 701 << 16, count: 4096)
        async let read = fixture.read(object, range)
        await gate.waitForArrivals()
        // The other one is to write rows.
        await time.waitForSleepers(2)
        time.advance(by: HedgePolicy.shortestWait)
        #expect(try await read == bytes[bytes: range])
        #expect(fixture.cache.statistics().hedges == 1)
        #expect(fixture.cache.statistics().fetches == 301)
    }
}
