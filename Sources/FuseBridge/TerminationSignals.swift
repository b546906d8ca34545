import CFuse3
import CLinux

/// SIGTERM, SIGINT and SIGHUP, and SIGUSR2, which asks this process to hand over to another; a thread waits for them instead of
/// handlers.
///
/// Made on the main thread before any other thread exists: threads inherit the blocked mask, and a signal that one
/// thread has not blocked would end the process with commits undone.
package struct TerminationSignals: Sendable {
    private static let numbers = [SIGTERM, SIGINT, SIGHUP, SIGUSR2]

    /// Blocks the signals in this thread and its future ones, and ignores SIGPIPE.
    package init() {
        var set = Self.set
        pthread_sigmask(SIG_BLOCK, &set, nil)
        linux_ignore_signal(SIGPIPE)
        // A shell starts background jobs with SIGINT ignored; an ignored signal is never delivered to sigwait.
        for number in Self.numbers { linux_catch_signal(number) }
    }

    /// Waits for one of them (sigwait(3)).
    package func wait() -> Int32 {
        var set = Self.set
        var number: Int32 = 0
        while sigwait(&set, &number) != 0 {}
        return number
    }

    private static var set: sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        for number in numbers { sigaddset(&set, number) }
        return set
    }
}
