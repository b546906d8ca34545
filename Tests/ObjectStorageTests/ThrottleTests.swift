import Basics
import Logging
import ObjectStorage
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5))) struct ThrottleTests {
    @Test func transfersAndOtherRequestsAreBoundedApart() async throws {
        let memory = MemoryStore()
        memory.setObject("k", [1])
        let store = InterceptedStore(memory, Throttle(transfers: 2, others: 3))
        let gates = [memory.hold(.get), memory.hold(.head)]
        try await withThrowingTaskGroup { group in
            for _ in 0..<10 {
                group.addTask { _ = try await store.get(GetRequest("k"), into: CollectingSink()) }
                group.addTask { _ = try await store.head("k", condition: nil) }
            }
            await gates[0].waitForArrivals(2)
            await gates[1].waitForArrivals(3)
            for gate in gates { gate.open() }
            try await group.waitForAll()
        }
        #expect(memory.mostInFlight(.get) == 2)
        #expect(memory.mostInFlight(.head) == 3)
    }

    @Test func waitingEndsWithTheTask() async {
        let memory = MemoryStore()
        memory.setObject("k", [1])
        let store = InterceptedStore(memory, Throttle(transfers: 1, others: 1))
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
