import Testing

@testable import Basics

@Suite struct MonitorTests {
    /// A state of free seats; who waits wants so many of them.
    private final class Seats: Sendable {
        let room = Monitor<Int, Int, Bool>(0)

        var free: Int { room.withLock { $0 } }

        func take(_ count: Int) async -> Bool {
            await room.wait(whenCancelled: false) { free, queue in
                guard queue.isEmpty, free >= count else { return .wait(count) }
                free -= count
                return .answer(true)
            } leaving: { free, queue, _ in
                Self.serve(&free, &queue)
            }
        }

        func give(_ count: Int) {
            room.change { free, queue in
                free += count
                Self.serve(&free, &queue)
            }
        }

        private static func serve(_ free: inout Int, _ queue: inout Monitor<Int, Int, Bool>.Queue) {
            while let wanted = queue.first, free >= wanted {
                free -= wanted
                queue.answerFirst(true)
            }
        }

        func awaitWaiters(_ count: Int) async {
            while room.change({ _, queue in queue.count }) < count { await Task.yield() }
        }
    }

    @Test func whoCameFirstIsServedFirst() async {
        let seats = Seats()
        let order = Monitor<[Int], Void, Void>([])
        var tasks: [Task<Void, Never>] = []
        for number in 1...3 {
            tasks.append(
                Task {
                    _ = await seats.take(number)
                    order.withLock { $0.append(number) }
                })
            await seats.awaitWaiters(number)
        }
        // Enough for the second and not for the first, who is not overtaken.
        seats.give(1)
        await tasks[0].value
        seats.give(2)
        await tasks[1].value
        seats.give(3)
        await tasks[2].value
        #expect(order.withLock { $0 } == [1, 2, 3])
        #expect(seats.free == 0)
    }

    @Test func whoIsCancelledLetsThoseBehindGoOn() async {
        let seats = Seats()
        seats.give(1)
        let large = Task { await seats.take(5) }
        await seats.awaitWaiters(1)
        let small = Task { await seats.take(1) }
        await seats.awaitWaiters(2)
        large.cancel()
        #expect(await large.value == false)
        #expect(await small.value)
    }

    @Test func aTaskThatWasCancelledBeforeDoesNotDecide() async {
        let seats = Seats()
        seats.give(1)
        let isCancelled = Monitor<Bool, Void, Void>(false)
        let task = Task {
            while !isCancelled.withLock({ $0 }) { await Task.yield() }
            return await seats.take(1)
        }
        task.cancel()
        isCancelled.withLock { $0 = true }
        #expect(await task.value == false)
        #expect(seats.free == 1)
    }

    @Test func whoWaitsRegardlessIsNotSentAway() async {
        let room = Monitor<Bool, Void, Void>(false)
        let task = Task { await room.waitRegardless { isOpen, _ in isOpen ? .answer(()) : .wait(()) } }
        while room.change({ _, queue in queue.isEmpty }) { await Task.yield() }
        task.cancel()
        #expect(room.change { _, queue in queue.count } == 1)
        room.change { isOpen, queue in
            isOpen = true
            queue.answer { () }
        }
        await task.value
    }

    /// Seats that are given and taken by many tasks, some of them cancelled at any moment, are all there in the end.
    @Test func nothingIsLostWhereverTasksAreCancelled() async {
        let seats = Seats()
        seats.give(3)
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<400 {
                group.addTask {
                    let task = Task {
                        guard await seats.take(number % 3 + 1) else { return }
                        await Task.yield()
                        seats.give(number % 3 + 1)
                    }
                    if number % 2 == 0 { task.cancel() }
                    await task.value
                }
            }
        }
        #expect(seats.free == 3)
        #expect(seats.room.change { _, queue in queue.isEmpty })
    }
}
