import Basics
import CFuse3
import CLinux
import Glibc
import Synchronization

/// Reads the kernel's requests from the device of a mount and has libfuse process them, on threads of its own.
///
/// Replaces fuse_session_loop_mt(3): a worker that takes a mount over has to see each request before libfuse does
/// (`HeldConnection`), and libfuse 3.18 has dropped the hooks for that. Each thread reads, calls libfuse, which calls
/// `FuseCallbacks`, and reads again; another thread starts when none is left that reads, up to `mostThreads`. `run` occupies the
/// calling thread until all of them have ended; `stop` may be called from any thread, also before `run`.
/// Locks: `state` is a leaf. After a crash: nothing is left; the next worker starts its own loop.
final class RequestLoop: Sendable {
    private struct State {
        /// The threads that `stop` has to interrupt.
        var threads: Set<pthread_t> = []
        var started = 0
        /// The errno with which the first thread ended by itself; 0 when the mount is gone.
        var failure: Int32 = 0
    }

    private nonisolated(unsafe) let session: OpaquePointer  // libfuse allows any thread; it outlives `run`
    private let device: Int32
    private let mostThreads: Int
    private let state = Mutex(State())
    /// Threads that wait for a request, or are about to.
    private let readers = Atomic(0)
    private let isStopping = Atomic(false)
    private let received = Atomic(0)
    /// Signalled when a thread has ended, or all are to end.
    private let changed = Semaphore()

    /// Interrupts the threads that wait in read(2), nothing else.
    private static let wakeSignal = SIGUSR1
    /// The size of a request without the bytes of a write: its headers.
    private static let headerSpace = 4096

    /// `device` is the descriptor of the session's connection.
    init(_ session: OpaquePointer, device: Int32, mostThreads: Int) {
        (self.session, self.device, self.mostThreads) = (session, device, mostThreads)
    }

    /// Serves until the mount is gone or `stop` is called. Returns 0, or the errno with which the device failed.
    func run() -> Int32 {
        linux_catch_signal(Self.wakeSignal)
        startReader()
        changed.wait()
        stop()
        while state.withLock({ $0.started > 0 }) {
            interrupt()
            _ = changed.wait(for: .milliseconds(20))
        }
        return state.withLock { $0.failure }
    }

    /// How many requests the kernel has sent.
    var requests: Int { received.load(ordering: .relaxed) }

    /// Makes `run` return once libfuse has processed the requests it has. Returns at once.
    func stop() {
        isStopping.store(true, ordering: .sequentiallyConsistent)
        // Without this libfuse reports each reply that the kernel no longer takes.
        fuse_session_exit(session)
        changed.signal()
    }

    /// A thread that read the flag before it was set and has not begun to read misses the signal: `run` repeats this.
    private func interrupt() {
        state.withLock { state in
            for thread in state.threads { pthread_kill(thread, Self.wakeSignal) }
        }
    }

    private func startReader() {
        let number: Int? = state.withLock { state in
            guard state.started < mostThreads else { return nil }
            state.started += 1
            return state.started
        }
        guard let number else { return }
        readers.add(1, ordering: .relaxed)
        startThread(name: "fuse-\(number)") { [self] in serve() }
    }

    private func serve() {
        var wake = sigset_t()
        sigemptyset(&wake)
        sigaddset(&wake, Self.wakeSignal)
        let thread = pthread_self()
        state.withLock { _ = $0.threads.insert(thread) }
        pthread_sigmask(SIG_UNBLOCK, &wake, nil)
        let failure = processRequests()
        state.withLock { state in
            state.threads.remove(thread)
            state.started -= 1
            if failure != 0, state.failure == 0 { state.failure = failure }
        }
        changed.signal()
    }

    /// Returns 0 when the mount is gone or the loop is to stop, else the errno of the device.
    private func processRequests() -> Int32 {
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: Int(KernelContract.largestTransfer) + Self.headerSpace, alignment: Int(getpagesize()))
        defer { buffer.deallocate() }
        while !isStopping.load(ordering: .relaxed) {
            let size = linux_held_receive(device, buffer.baseAddress, buffer.count)
            guard size >= 0 else {
                switch Int32(-size) {
                // ENOENT: the caller gave up while its request was read (fuse(4)).
                case EINTR, EAGAIN, ENOENT: continue
                case ENODEV: return 0
                case let failure: return failure
                }
            }
            received.add(1, ordering: .relaxed)
            if readers.subtract(1, ordering: .relaxed).newValue == 0 { startReader() }
            var request = fuse_buf()
            (request.size, request.mem) = (size, buffer.baseAddress)
            fuse_session_process_buf(session, &request)
            linux_held_processed()
            readers.add(1, ordering: .relaxed)
        }
        return 0
    }
}
