import Synchronization
import Testing

@testable import Commits

/// Whose turn it is to send, and how many may at a time.
@Suite struct UploadSlotsTests {
    @Test func theMostThereMayBeChangesWhatIsGrantedNext() {
        var slots = UploadSlots(most: 2)
        let first = (0..<6).map { _ in slots.request(for: 1) }
        #expect(slots.grant() == Array(first[..<2]))
        slots.setMost(4)
        #expect(slots.grant() == Array(first[2..<4]))
        slots.setMost(1)
        for id in first[..<3] { slots.release(id, .stored) }
        #expect(slots.grant().isEmpty)
        slots.release(first[3], .stored)
        #expect(slots.grant() == [first[4]])
    }

    @Test func aLargeFileLeavesRoomForSmallOnes() {
        var slots = UploadSlots(most: 4)
        let large = (0..<10).map { _ in slots.request(for: 1) }
        #expect(slots.grant() == Array(large[..<4]))
        let small = slots.request(for: 2)
        let other = slots.request(for: 3)
        slots.release(large[0], .stored)
        #expect(slots.grant() == [small], "who has none comes before who has three")
        slots.release(large[1], .stored)
        #expect(slots.grant() == [other])
        slots.release(small, .stored)
        #expect(slots.grant() == [large[4]])
    }

    @Test func equalsAreServedInTheOrderTheyCame() {
        var slots = UploadSlots(most: 1)
        let ids = (1...4).map { slots.request(for: $0) }
        for id in ids {
            #expect(slots.grant() == [id])
            slots.release(id, .stored)
        }
    }

    @Test func theNumberHalvesOnceForAllThatWereUnderWay() {
        var slots = UploadSlots(most: 16)
        let ids = (0..<16).map { slots.request(for: UInt64($0)) }
        #expect(slots.grant() == ids)
        for id in ids { slots.release(id, .slowedDown) }
        #expect(slots.limit == 8)
        let next = (0..<16).map { slots.request(for: UInt64($0)) }
        #expect(slots.grant().count == 8)
        slots.release(next[0], .slowedDown)
        #expect(slots.limit == 4)
        #expect(slots.grant().isEmpty)
    }

    @Test func oneAlwaysMayAndSuccessBringsTheNumberBack() {
        var slots = UploadSlots(most: 8)
        func send(_ ending: UploadSlots.Ending) {
            let id = slots.request(for: 1)
            #expect(slots.grant() == [id])
            slots.release(id, ending)
        }
        for _ in 0..<10 { send(.slowedDown) }
        #expect(slots.limit == 1)
        send(.other)
        #expect(slots.limit == 1)
        send(.stored)
        #expect(slots.limit == 2)
        for _ in 0..<(2 + 3 + 4 + 5 + 6 + 7) { send(.stored) }
        #expect(slots.limit == 8)
        for _ in 0..<100 { send(.stored) }
        #expect(slots.limit == 8)
    }

    @Test func whoGivesUpWaitingTakesNoSlot() {
        var slots = UploadSlots(most: 1)
        let (first, second, third) = (slots.request(for: 1), slots.request(for: 2), slots.request(for: 3))
        #expect(slots.grant() == [first])
        let wasWaiting = (slots.cancel(second), slots.cancel(first))
        #expect(wasWaiting == (true, false))
        slots.release(first, .stored)
        #expect(slots.grant() == [third])
    }

    @Test func whatAFailedFileWaitsForIsWithdrawnAndNothingElse() async throws {
        let limiter = UploadLimiter(limit: 1)
        let slot = try await limiter.acquire(for: 1)
        let hasEnded = Mutex(false)
        async let failed: Void = {
            defer { hasEnded.withLock { $0 = true } }
            await #expect(throws: CancellationError.self) { try await limiter.acquire(for: 1) }
        }()
        async let other = limiter.acquire(for: 2)
        while !hasEnded.withLock({ $0 }) {
            limiter.withdraw(1)
            await Task.yield()
        }
        await failed
        limiter.release(slot, .other)
        limiter.release(try await other, .stored)
        #expect(limiter.used == 0)
    }
}
