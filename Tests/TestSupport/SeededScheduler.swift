package import Basics
import Synchronization

/// A worker pool whose next job a seed chooses: the same seed repeats the same interleaving of tasks, as long as all of them run
/// on this pool and take the time from `time`.
///
/// The jobs run on the thread that calls `run`. The mutex is a leaf.
package final class SeededScheduler: Sendable {
    /// The waiting jobs. The pool's closure holds this and not the scheduler, which holds the pool.
    private final class Jobs: Sendable {
        private struct State {
            var waiting: [UnownedJob] = []
            var generator: SeededGenerator
        }

        private let state: Mutex<State>

        init(seed: UInt64) { state = Mutex(State(generator: SeededGenerator(seed: seed))) }

        func add(_ job: UnownedJob) { state.withLock { $0.waiting.append(job) } }

        func next() -> UnownedJob? {
            state.withLock { state in
                guard !state.waiting.isEmpty else { return nil }
                let index = Int(state.generator.next() % UInt64(state.waiting.count))
                state.waiting.swapAt(index, state.waiting.count - 1)
                return state.waiting.removeLast()
            }
        }
    }

    /// How a run ended.
    package enum Ending: Sendable, Equatable {
        case done
        /// No job is left, no task sleeps, and not all is done: tasks wait for each other.
        case deadlock
        /// Tasks sleep again and again, and nothing comes of it.
        case endless
    }

    package let pool: WorkerPool
    package let time: ManualTime
    private let jobs: Jobs

    package init(seed: UInt64, time: ManualTime = ManualTime()) {
        let jobs = Jobs(seed: seed)
        (self.jobs, self.time) = (jobs, time)
        pool = WorkerPool { jobs.add($0) }
    }

    /// Runs jobs until `isDone`. The clock stands still while there is a job, and then goes on to the next sleeper's time.
    package func run(until isDone: () -> Bool) -> Ending {
        var wakes = 0
        while !isDone() {
            if let job = jobs.next() {
                pool.run(job)
            } else if let pause = time.untilNextWake {
                wakes += 1
                if wakes > 10_000 { return .endless }
                time.advance(by: pause)
            } else {
                return .deadlock
            }
        }
        return .done
    }

    /// Runs what is left, and gives each task that sleeps its time, a hundred times at most.
    package func end() {
        for _ in 0..<100 {
            while let job = jobs.next() { pool.run(job) }
            guard let pause = time.untilNextWake else { return }
            time.advance(by: pause)
        }
    }

    /// Runs jobs until `body` has returned. No value: tasks wait for each other.
    package func run<Value: Sendable>(_ body: @escaping @Sendable () async -> Value) -> (ending: Ending, value: Value?)
    {
        let answer = Mutex<Value?>(nil)
        pool.start {
            let value = await body()
            answer.withLock { $0 = value }
        }
        let ending = run { answer.withLock { $0 != nil } }
        return (ending, answer.withLock { $0 })
    }
}
