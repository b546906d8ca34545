import Basics
import Glibc

/// A line on the terminal of standard error that is drawn again and again while a command works.
enum ProgressLine {
    /// Whether standard error is a terminal.
    static var isTerminal: Bool { isatty(STDERR_FILENO) == 1 }

    /// Runs `work`. Where `isShown`, another thread draws `text` twice a second with the time since the beginning; the line is
    /// removed before this returns.
    static func watch<Failure: Error>(
        isShown: Bool, _ text: @escaping @Sendable (Duration, StatusStyle) -> String,
        while work: () throws(Failure) -> Void
    ) throws(Failure) {
        guard isShown else { return try work() }
        let isDone = Semaphore()
        let hasEnded = Semaphore()
        let time = SystemTime()
        let start = time.uptime()
        startThread(name: "progress") {
            while !isDone.wait(for: .milliseconds(500)) {
                let style = StatusStyle(columns: columns, environment: Entry.environment)
                show(style.line(text(time.uptime() - start, style)))
            }
            show("")
            hasEnded.signal()
        }
        defer {
            isDone.signal()
            hasEnded.wait()
        }
        try work()
    }

    /// Columns of the terminal on standard error, less one, so that the line does not wrap.
    private static var columns: Int {
        var window = winsize()
        let isKnown = ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &window) == 0 && window.ws_col > 1
        return isKnown ? Int(window.ws_col) - 1 : 79
    }

    private static func show(_ line: String) {
        let bytes = Array("\r\u{1B}[K\(line)".utf8)
        _ = write(STDERR_FILENO, bytes, bytes.count)
    }
}
