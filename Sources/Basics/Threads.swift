import CLinux

/// A counting semaphore (sem_init(3)) for threads of this program; tasks never wait on one outside `WorkerPool`.
package final class Semaphore: Sendable {
    // `sem_t` must not move, so it lives on the heap; libc synchronises all access to it.
    private nonisolated(unsafe) let handle: UnsafeMutablePointer<sem_t>

    package init() {
        handle = .allocate(capacity: 1)
        sem_init(handle, 0, 0)
    }

    deinit {
        sem_destroy(handle)
        handle.deallocate()
    }

    package func signal() { sem_post(handle) }

    package func wait() {
        while sem_wait(handle) != 0 {}
    }

    /// Waits at most `duration`; false when it passed without a signal (sem_clockwait(3)).
    package func wait(for duration: Duration) -> Bool {
        var deadline = timespec()
        clock_gettime(CLOCK_MONOTONIC, &deadline)
        let (seconds, attoseconds) = duration.components
        let nanoseconds = Int64(deadline.tv_nsec) + attoseconds / 1_000_000_000
        deadline.tv_sec += Int(seconds + nanoseconds / 1_000_000_000)
        deadline.tv_nsec = Int(nanoseconds % 1_000_000_000)
        return linux_wait_until(handle, &deadline) == 0
    }
}

/// Starts a detached thread that runs `body` with every signal blocked, as signals belong to the main thread.
package func startThread(name: String, _ body: @escaping @Sendable () -> Void) {
    final class Start {
        let name: String
        let body: @Sendable () -> Void
        init(name: String, body: @escaping @Sendable () -> Void) { (self.name, self.body) = (name, body) }
    }
    var everySignal = sigset_t()
    var previous = sigset_t()
    sigfillset(&everySignal)
    pthread_sigmask(SIG_BLOCK, &everySignal, &previous)
    var thread = pthread_t()
    let status = pthread_create(
        &thread, nil,
        { context in
            guard let context else { return nil }
            let start = Unmanaged<Start>.fromOpaque(context).takeRetainedValue()
            linux_name_thread(String(start.name.prefix(15)))
            start.body()
            return nil
        }, Unmanaged.passRetained(Start(name: name, body: body)).toOpaque())
    pthread_sigmask(SIG_SETMASK, &previous, nil)
    precondition(status == 0, "pthread_create failed with errno \(status)")
    pthread_detach(thread)
}
