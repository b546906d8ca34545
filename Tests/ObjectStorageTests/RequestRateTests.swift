import Basics
import ObjectStorage
import TestSupport
import Testing

struct RequestRateTests {
    @Test(.timeLimit(.minutes(1))) func requestsBeginNoFasterThanTheLimit() async throws {
        let (memory, time) = (MemoryStore(), ManualTime())
        memory.setObject("k", [1])
        let throttle = Throttle(sends: 64, fetches: 64, others: 64, time: time)
        throttle.setRate(RateSchedule(10))
        let store = InterceptedStore(memory, throttle)
        try await withThrowingTaskGroup { group in
            for _ in 0..<20 { group.addTask { _ = try await store.head("k", condition: nil) } }
            // What may begin after a pause at once has begun.
            await time.waitForSleepers(18)
            #expect(memory.count(.head) == 2 && throttle.waiting == 18)
            time.advance(by: .seconds(1))
            try await waitUntil("a second's requests have begun") { memory.count(.head) == 12 }
            #expect(time.sleepers == 8)
            time.advance(by: .seconds(1))
            try await group.waitForAll()
        }
        throttle.setRate(.unlimited)
        for _ in 0..<20 { _ = try await store.head("k", condition: nil) }
        #expect(memory.count(.head) == 40 && throttle.waiting == 0 && time.sleepers == 0)
    }
}
