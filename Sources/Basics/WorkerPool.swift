import CLinux
import Synchronization

/// Fixed threads that run tasks and may block.
///
/// Every task that answers a kernel request later runs here and never on Swift's global pool, which has one thread per core
/// and starves when its threads wait. Child tasks and `async let` inherit the pool. The pool lives as long as the process;
/// its threads are detached.
package final class WorkerPool: TaskExecutor {
    private struct Queue {
        var jobs: [UnownedJob] = []
        var head = 0
    }

    private let queue = Mutex(Queue())
    private let available = Semaphore()
    /// Takes the jobs of a pool that has no threads.
    private let scheduler: (@Sendable (UnownedJob) -> Void)?

    /// Starts `threads` threads named `name` (15 bytes at most are kept).
    package init(threads: Int, name: String) {
        scheduler = nil
        for _ in 0..<threads {
            startThread(name: name) { [self] in
                while true {
                    available.wait()
                    if let job = next() { run(job) }
                }
            }
        }
    }

    /// Makes a pool without threads. `scheduler` gets each job and calls `run` for it once, on any thread: a test chooses the
    /// order in this way.
    package init(scheduler: @escaping @Sendable (UnownedJob) -> Void) { self.scheduler = scheduler }

    /// Runs a job of this pool on the calling thread.
    package func run(_ job: UnownedJob) { unsafe job.runSynchronously(on: asUnownedTaskExecutor()) }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        if let scheduler { return scheduler(job) }
        queue.withLock { $0.jobs.append(job) }
        available.signal()
    }

    /// Starts `body` on the pool and returns at once.
    @discardableResult
    package func start<Value: Sendable>(_ body: @escaping @Sendable () async -> Value) -> Task<Value, Never> {
        Task(executorPreference: self) { await LockOrder.withoutLocks(body) }
    }

    private func next() -> UnownedJob? {
        queue.withLock { queue in
            guard queue.head < queue.jobs.count else { return nil }
            let job = queue.jobs[queue.head]
            queue.head += 1
            if queue.head == queue.jobs.count {
                queue.jobs.removeAll(keepingCapacity: true)
                queue.head = 0
            } else if queue.head > 1024, queue.head * 2 > queue.jobs.count {
                queue.jobs.removeFirst(queue.head)
                queue.head = 0
            }
            return job
        }
    }
}
