import Basics
import Foundation
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct WorkerPoolTests {
    @Test func blockingTasksRunSideBySide() async {
        let pool = WorkerPool(threads: 8, name: "test")
        let (arrived, go) = (Semaphore(), Semaphore())
        // Each blocks its thread until all have arrived: fewer than eight threads would never end.
        let tasks = (0..<8).map { _ in
            pool.start {
                arrived.signal()
                go.wait()
            }
        }
        let opener = pool.start {}
        for _ in 0..<8 { arrived.wait() }
        for _ in 0..<8 { go.signal() }
        for task in tasks { await task.value }
        await opener.value
    }

    @Test func childTasksStayOnThePool() async {
        let pool = WorkerPool(threads: 2, name: "inherited")
        let names = await pool.start {
            async let first = threadName()
            async let second = threadName()
            return await [first, second, threadName()]
        }.value
        #expect(names == ["inherited", "inherited", "inherited"])
    }

    @Test func everyTaskRunsOnce() async {
        let pool = WorkerPool(threads: 4, name: "test")
        let counter = Counter()
        let tasks = (0..<5000).map { _ in
            pool.start {
                counter.value.add(1, ordering: .relaxed)
                await Task.yield()
            }
        }
        for task in tasks { await task.value }
        #expect(counter.value.load(ordering: .relaxed) == 5000)
    }
}

private final class Counter: Sendable {
    let value = Atomic(0)
}

private func threadName() async -> String {
    (try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8))?
        .trimmingCharacters(in: .newlines) ?? ""
}
