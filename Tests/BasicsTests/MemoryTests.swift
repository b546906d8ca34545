import Basics
import Synchronization
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5))) struct MemoryBudgetTests {
    /// Starts a reservation and returns when it waits.
    func startWaiting(_ budget: MemoryBudget, _ bytes: Int) async -> Task<Bool, Never> {
        let before = budget.waiting
        let task = Task {
            do {
                try await budget.reserve(bytes)
                return true
            } catch { return false }
        }
        while budget.waiting == before { await Task.yield() }
        return task
    }

    @Test func bytesAreBoundedAndComeBack() async throws {
        let budget = MemoryBudget(limit: 100)
        try await budget.reserve(60)
        #expect(!budget.tryReserve(41))
        #expect(budget.tryReserve(40))
        budget.release(100)
        #expect(budget.used == 0)
    }

    @Test func aLargeWaiterIsNotOvertaken() async throws {
        let budget = MemoryBudget(limit: 100)
        try await budget.reserve(50)
        let large = await startWaiting(budget, 80)
        let small = await startWaiting(budget, 10)
        #expect(!budget.tryReserve(1))
        budget.release(50)
        #expect(await large.value)
        #expect(await small.value)
        #expect(budget.used == 90)
    }

    @Test func moreThanTheLimitCountsAsTheLimit() async throws {
        let budget = MemoryBudget(limit: 100)
        try await budget.reserve(1000)
        #expect(budget.used == 100)
        budget.release(1000)
        #expect(budget.used == 0)
    }

    @Test func aCancelledWaiterLetsTheNextPass() async throws {
        let budget = MemoryBudget(limit: 100)
        try await budget.reserve(50)
        let large = await startWaiting(budget, 80)
        let small = await startWaiting(budget, 10)
        large.cancel()
        #expect(await !large.value)
        #expect(await small.value)
        #expect(budget.used == 60)
    }

    @Test func aTaskCancelledBeforeItWaitsTakesNothing() async throws {
        let budget = MemoryBudget(limit: 100)
        try await budget.reserve(100)
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            do {
                try await budget.reserve(10)
                return true
            } catch { return false }
        }
        task.cancel()
        #expect(await !task.value)
        #expect(!budget.hasWaiters)
    }

    @Test func manyTasksNeverPassTheLimit() async {
        let budget = MemoryBudget(limit: 1000)
        let most = Peak()
        await withTaskGroup(of: Void.self) { group in
            for index in 0..<200 {
                group.addTask {
                    let bytes = 1 + index * 37 % 600
                    do { try await budget.reserve(bytes) } catch { return }
                    most.value.withLock { $0 = max($0, budget.used) }
                    await Task.yield()
                    budget.release(bytes)
                }
            }
            for _ in 0..<50 { await group.next() }
            group.cancelAll()
        }
        #expect(budget.used == 0)
        #expect(most.value.withLock { $0 } <= 1000)
    }
}

private final class Peak: Sendable {
    let value = Mutex(0)
}

@Suite(.timeLimit(.minutes(5))) struct BufferPoolTests {
    @Test func buffersAreAlignedRoundedAndReused() async throws {
        let pool = BufferPool(budget: MemoryBudget(limit: 1 << 20))
        var buffer = try await pool.borrow(5000)
        #expect(buffer.capacity == 8192)
        #expect(Int(bitPattern: buffer.base).isMultiple(of: 4096))
        let address = buffer.base
        buffer = try await pool.borrow(4096)  // the first goes back idle
        buffer = try await pool.borrow(8192)
        #expect(buffer.base == address)
        #expect(pool.budget.used == 8192 + 4096)
    }

    @Test func largeBuffersBeginWhereHugePagesMay() async throws {
        let pool = BufferPool(budget: MemoryBudget(limit: 64 << 20))
        var held: [Buffer] = []
        for _ in 0..<3 {
            for size in [1 << 20, 2 << 20, 8 << 20] {
                let buffer = try await pool.borrow(size)
                #expect(buffer.capacity == size)
                #expect(Int(bitPattern: buffer.base).isMultiple(of: size < 2 << 20 ? 4096 : 2 << 20))
                buffer.bytes[0] = 1
                buffer.bytes[size - 1] = 2
                held.append(buffer)
            }
        }
        let starts = held.map { UInt(bitPattern: $0.base) }.sorted()
        #expect(Set(starts).count == 9)
        held = []
        pool.freeIdle()
        #expect(pool.budget.used == 0)
    }

    @Test func idleBuffersOfAnotherSizeMakeRoom() async throws {
        let pool = BufferPool(budget: MemoryBudget(limit: 64 << 10))
        do {
            var held: [Buffer] = []
            for _ in 0..<16 { held.append(try await pool.borrow(4096)) }
        }
        #expect(pool.budget.used == 64 << 10)
        let large = try #require(pool.tryBorrow(32 << 10))
        #expect(large.capacity == 32 << 10)
        // Only as many were freed as were needed.
        #expect(pool.budget.used == 64 << 10)
        #expect(pool.tryBorrow(64 << 10) == nil)
    }

    @Test func aPlainReservationAlsoGetsIdleBytes() async throws {
        let budget = MemoryBudget(limit: 64 << 10)
        let pool = BufferPool(budget: budget)
        _ = try await pool.borrow(64 << 10)
        #expect(budget.used == 64 << 10)
        #expect(budget.tryReserve(1))
        try await budget.reserve(60 << 10)
        #expect(budget.used == 1 + (60 << 10))
        pool.freeIdle()
    }

    @Test func aWaiterGetsTheMemoryThatComesBack() async throws {
        let pool = BufferPool(budget: MemoryBudget(limit: 64 << 10))
        var held: Buffer? = try await pool.borrow(64 << 10)
        let address = held?.base
        async let waiting = pool.borrow(64 << 10)
        while !pool.budget.hasWaiters { await Task.yield() }
        held = nil
        #expect(try await waiting.base == address)
    }

    @Test func aPoolThatEndsGivesItsIdleBuffersBack() async throws {
        let budget = MemoryBudget(limit: 64 << 10)
        do {
            let pool = BufferPool(budget: budget)
            _ = try await pool.borrow(4096)
        }
        #expect(budget.used == 0)
    }

    @Test func borrowersOfEverySizeAlwaysEnd() async throws {
        let pool = BufferPool(budget: MemoryBudget(limit: 256 << 10))
        await withTaskGroup(of: Void.self) { group in
            for task in 0..<16 {
                group.addTask {
                    var random = SeededGenerator(seed: UInt64(task))
                    for _ in 0..<200 {
                        let size = 4096 << Int.random(in: 0...7, using: &random)  // up to twice the limit
                        guard let buffer = try? await pool.borrow(size) else { return }
                        buffer.base.storeBytes(of: UInt64(task), as: UInt64.self)
                        await Task.yield()
                        if buffer.base.load(as: UInt64.self) != UInt64(task) { Issue.record("two owners") }
                    }
                }
            }
        }
        pool.freeIdle()
        #expect(pool.budget.used == 0)
    }
}

@Suite struct SpaceLedgerTests {
    @Test func spaceIsTakenUpToTheLimitAndComesBack() {
        let ledger = SpaceLedger(limit: 100, floor: 0) { 1000 }
        #expect(ledger.reserve(60, evicting: false))
        #expect(!ledger.reserve(41, evicting: true))
        #expect(ledger.reserve(40, evicting: false))
        ledger.release(100)
        #expect(ledger.used == 0)
        #expect(!ledger.reserve(.max, evicting: true))
    }

    @Test func aFloorOfFreeSpaceIsKept() {
        let ledger = SpaceLedger(limit: 1000, floor: 50) { 100 }
        #expect(!ledger.reserve(51, evicting: false))
        #expect(ledger.reserve(50, evicting: false))
    }

    /// Staged bytes lie on another disk than cached ones.
    @Test func eachDiskKeepsItsFloor() {
        let cache = Atomic<Int64>(500)
        let staging = Atomic<Int64>(500)
        let ledger = SpaceLedger(
            limit: 1000, floor: 50, freeSpace: { cache.load(ordering: .relaxed) },
            stagingSpace: { staging.load(ordering: .relaxed) })
        let asked = Mutex(0)
        ledger.setReclaimer { bytes in
            asked.withLock { $0 += 1 }
            ledger.release(min(bytes, ledger.used - ledger.staged))
        }
        #expect(ledger.reserve(400, evicting: true))
        cache.store(50, ordering: .relaxed)
        #expect(!ledger.reserve(1, evicting: false))
        #expect(ledger.reserve(400, for: .written, evicting: true), "the full disk is the cache's")
        staging.store(100, ordering: .relaxed)
        #expect(ledger.pressure > 0.8)
        #expect(!ledger.reserve(51, for: .committing, evicting: true))
        #expect(asked.withLock { $0 } == 0, "what is evicted makes no room on the other disk")
        #expect(ledger.reserve(50, for: .committing, evicting: true))
        cache.store(1000, ordering: .relaxed)
        staging.store(1000, ordering: .relaxed)
        #expect(ledger.reserve(500, for: .committing, evicting: true), "cache-size bounds both together")
        #expect(asked.withLock { $0 } > 0 && ledger.used == 950)
    }

    @Test func lowerLimitsEvictWhatIsTooMuchAndHigherOnesLetMoreIn() {
        let ledger = SpaceLedger(limit: 100, floor: 0) { 1000 }
        ledger.setReclaimer { bytes in ledger.release(min(bytes, ledger.used)) }
        #expect(ledger.reserve(100, evicting: false))
        ledger.setLimits(limit: 30, floor: 0)
        #expect(ledger.used == 30 && ledger.limit == 30)
        ledger.setLimits(limit: 200, floor: 0)
        #expect(ledger.reserve(170, evicting: false))
        ledger.setLimits(limit: 200, floor: 900)
        #expect(!ledger.reserve(101, evicting: false))
    }

    @Test func aHigherLimitOfABudgetLetsWaitersIn() async throws {
        let budget = MemoryBudget(limit: 1)
        try await budget.reserve(1)
        let waiter = Task { try await budget.reserve(1) }
        while budget.waiting == 0 { await Task.yield() }
        budget.setLimit(2)
        try await waiter.value
        #expect(budget.used == 2)
        budget.setLimit(1)
        budget.release(1)
        #expect(!budget.tryReserve(1))
    }

    @Test func cleanBytesGiveWayOnlyWhenAsked() {
        let ledger = SpaceLedger(limit: 100, floor: 0) { 1000 }
        let asked = Mutex<[Int64]>([])
        ledger.setReclaimer { bytes in
            asked.withLock { $0.append(bytes) }
            ledger.release(min(bytes, ledger.used))
        }
        #expect(ledger.reserve(90, evicting: true))
        #expect(!ledger.reserve(30, evicting: false))
        #expect(ledger.reserve(30, evicting: true))
        #expect(asked.withLock { $0 } == [30])
        #expect(ledger.used == 90)
    }

    @Test func anAdoptedExcessIsEvictedFirst() {
        let ledger = SpaceLedger(limit: 100, floor: 0) { 1000 }
        ledger.adopt(250)
        ledger.setReclaimer { ledger.release($0) }
        #expect(ledger.reserve(10, evicting: true))
        #expect(ledger.used == 100)
    }

    @Test func writersLeaveAShareToCommits() {
        let ledger = SpaceLedger(limit: 100, floor: 0, commitShare: 20) { 1000 }
        #expect(ledger.reserve(80, for: .written, evicting: true))
        #expect(ledger.pressure == 1)
        #expect(!ledger.reserve(1, for: .written, evicting: true))
        #expect(ledger.reserve(20, for: .committing, evicting: true))
        #expect(!ledger.reserve(1, for: .committing, evicting: true))
        ledger.release(20, of: .committing)
        ledger.becomeClean(80)
        #expect(ledger.pressure == 0)
        ledger.setReclaimer { ledger.release(min($0, ledger.used)) }
        #expect(ledger.reserve(50, for: .written, evicting: true))
        #expect(ledger.used <= 100)
    }

    @Test func cleanBytesMayTakeWhatWritersDoNot() {
        let ledger = SpaceLedger(limit: 100, floor: 0, commitShare: 20) { 1000 }
        #expect(ledger.reserve(100, evicting: false))
        ledger.setReclaimer { ledger.release(min($0, 100)) }
        #expect(ledger.reserve(80, for: .written, evicting: true))
    }

    @Test func whatOthersUseOfTheDirectoryCounts() {
        let overhead = Mutex<Int64>(30)
        let ledger = SpaceLedger(limit: 100, floor: 0, overhead: { overhead.withLock { $0 } }) { 1000 }
        #expect(!ledger.reserve(71, evicting: false))
        #expect(ledger.reserve(70, evicting: false))
        overhead.withLock { $0 = 50 }
        #expect(!ledger.reserve(1, evicting: false))
    }

    @Test func aDiskThatOthersFillCountsAsPressure() {
        let free = Mutex<Int64>(1000)
        let ledger = SpaceLedger(limit: 1 << 40, floor: 100) { free.withLock { $0 } }
        #expect(ledger.reserve(450, for: .written, evicting: true))
        free.withLock { $0 = 250 }
        #expect(ledger.pressure == 0.75)
        free.withLock { $0 = 0 }
        #expect(ledger.pressure > 1)
    }

    @Test func racersNeverPassTheLimitOrTheFloor() {
        for isFloor in [false, true] {
            let ledger = SpaceLedger(limit: isFloor ? 1 << 40 : 1000, floor: 0) { isFloor ? 1000 : 1 << 40 }
            let (start, done) = (Semaphore(), Semaphore())
            let taken = Mutex<Int64>(0)
            for _ in 0..<8 {
                startThread(name: "racer") {
                    start.wait()
                    // All look at the disk before anything is written, so what they take must fit together.
                    if ledger.reserve(300, evicting: false) { taken.withLock { $0 += 300 } }
                    done.signal()
                }
            }
            for _ in 0..<8 { start.signal() }
            for _ in 0..<8 { done.wait() }
            if !isFloor { #expect(taken.withLock { $0 } == 900) }
            #expect(ledger.used == taken.withLock { $0 })
        }
    }

    @Test func aReservationDuringTheLookAtTheDiskCounts() {
        final class Nested: Sendable {
            let ledger = Mutex<SpaceLedger?>(nil)
            let depth = Mutex(0)
        }
        let nested = Nested()
        let ledger = SpaceLedger(limit: 1000, floor: 0) {
            // Another reservation succeeds between this look and the decision that follows it.
            let isFirst = nested.depth.withLock { depth in
                depth += 1
                return depth == 1
            }
            if isFirst { #expect(nested.ledger.withLock { $0 }?.reserve(80, evicting: false) == true) }
            return 100
        }
        nested.ledger.withLock { $0 = ledger }
        #expect(!ledger.reserve(30, evicting: false))
        #expect(ledger.used == 80)
        nested.ledger.withLock { $0 = nil }
    }
}
