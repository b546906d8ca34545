import Basics
import Logging
import ObjectStorage
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5))) struct ThrottleTests {
    @Test func eachDirectionAndTheOthersAreBoundedApart() async throws {
        let memory = MemoryStore()
        memory.setObject("k", [1])
        let throttle = Throttle(sends: 1, fetches: 2, others: 3)
        let store = InterceptedStore(memory, throttle)
        let gates = [memory.hold(.put), memory.hold(.get), memory.hold(.head)]
        try await withThrowingTaskGroup { group in
            for _ in 0..<10 {
                group.addTask { _ = try await store.put(PutRequest("p"), body: MemorySource([1])) }
                group.addTask { _ = try await store.get(GetRequest("k"), into: CollectingSink()) }
                group.addTask { _ = try await store.head("k", condition: nil) }
            }
            // None has to wait for another kind.
            await gates[0].waitForArrivals(1)
            await gates[1].waitForArrivals(2)
            await gates[2].waitForArrivals(3)
            for gate in gates { gate.open() }
            try await group.waitForAll()
        }
        #expect(memory.mostInFlight(.put) == 1)
        #expect(memory.mostInFlight(.get) == 2)
        #expect(memory.mostInFlight(.head) == 3)
        #expect(throttle.waiting == 0)
    }

    @Test func newLimitsAreOfTheirOwnDirection() async throws {
        let memory = MemoryStore()
        memory.setObject("k", [1])
        let throttle = Throttle(sends: 1, fetches: 3, others: 1)
        throttle.setLimits(sends: 2, fetches: 1)
        let store = InterceptedStore(memory, throttle)
        let gates = [memory.hold(.put), memory.hold(.get)]
        try await withThrowingTaskGroup { group in
            for _ in 0..<6 {
                group.addTask { _ = try await store.put(PutRequest("p"), body: MemorySource([1])) }
                group.addTask { _ = try await store.get(GetRequest("k"), into: CollectingSink()) }
            }
            await gates[0].waitForArrivals(2)
            await gates[1].waitForArrivals(1)
            for gate in gates { gate.open() }
            try await group.waitForAll()
        }
        #expect(memory.mostInFlight(.put) == 2)
        #expect(memory.mostInFlight(.get) == 1)
    }

    @Test func aStoreThatHasEnoughGetsLessUntilItAnswersAgain() async throws {
        let throttle = Throttle(sends: 1, fetches: 8, others: 1)
        /// Fetches eight times at once, of which `expected` may be under way; answers how many were.
        func fetch(expected: Int, failing: ObjectStoreError.Kind? = nil) async -> Int {
            let memory = MemoryStore()
            memory.setObject("k", [1])
            memory.fault = { _, _ in failing.map { ObjectStoreError($0, .get, message: "no") } }
            let store = InterceptedStore(memory, throttle)
            let gate = memory.hold(.get)
            await withTaskGroup { group in
                for _ in 0..<8 { group.addTask { _ = try? await store.get(GetRequest("k"), into: CollectingSink()) } }
                await gate.waitForArrivals(expected)
                gate.open()
            }
            return memory.mostInFlight(.get)
        }
        #expect(await fetch(expected: 8, failing: .throttled) == 8)
        #expect(await fetch(expected: 2, failing: .notFound) == 2, "a quarter is left")
        throttle.setLimits(sends: 1, fetches: 1)
        #expect(await fetch(expected: 1) == 1, "and something is always left")
        throttle.setLimits(sends: 1, fetches: 8)
        #expect(await fetch(expected: 8) == 8)
        #expect(throttle.waiting == 0)
    }

    @Test func waitingEndsWithTheTask() async {
        let memory = MemoryStore()
        memory.setObject("k", [1])
        let store = InterceptedStore(memory, Throttle(sends: 1, fetches: 1, others: 1))
        let gate = memory.hold(.head)
        let first = Task { try await store.head("k", condition: nil) }
        await gate.waitForArrivals(1)
        let second = Task { () -> ObjectStoreError.Kind? in
            do throws(ObjectStoreError) { _ = try await store.head("k", condition: nil) } catch { return error.kind }
            return nil
        }
        second.cancel()
        #expect(await second.value == .cancelled)
        gate.open()
        _ = await first.result
        #expect(memory.count(.head) == 1)
    }

    @Test func everyRequestIsCountedAndTimed() async throws {
        let time = ManualTime()
        let memory = MemoryStore(time: time)
        memory.setObject("k", [1])
        let meter = RequestMeter()
        let store = InterceptedStore(memory, Measuring(meter, time: time, logger: Logger(label: "test")))
        _ = try await store.head("k", condition: nil)
        await #expect(throws: ObjectStoreError.self) { try await store.head("absent", condition: nil) }
        let figures = try #require(meter.snapshot[.head])
        #expect((figures.requests, figures.failures, figures.inFlight) == (2, 1, 0))
        #expect(meter.snapshot[.get] == nil)
    }
}
