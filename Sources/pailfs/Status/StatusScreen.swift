import Basics
import CLinux
import Glibc
import Synchronization

/// Standard output as a place for one view that is drawn again and again: in place on a terminal, one below the other anywhere
/// else.
///
/// SIGINT, SIGTERM, SIGHUP and the key q end the process in order, between two drawings and never within one. Locks: its mutex is
/// held while a view is written.
final class StatusScreen: Sendable {
    private static let signals = [SIGINT, SIGTERM, SIGHUP, SIGWINCH]

    let isTerminal: Bool
    private let environment: [String: String]
    /// Signalled when the terminal has another size.
    private let resized = Semaphore()
    /// Whether something was drawn.
    private let drawing = Mutex(false)
    /// The terminal's modes to restore at the end; nil where they were not changed.
    private let formerModes = Mutex<termios?>(nil)

    /// Requires: made on the main thread before any other thread exists.
    init(environment: [String: String]) {
        self.environment = environment
        isTerminal = isatty(STDOUT_FILENO) == 1 && environment["TERM"] != "dumb"
        var set = Self.set
        pthread_sigmask(SIG_BLOCK, &set, nil)
        readKeys()
        startThread(name: "signals") { [self] in
            var set = Self.set
            var number: Int32 = 0
            while true {
                guard sigwait(&set, &number) == 0 else { continue }
                if number != SIGWINCH { end() }
                resized.signal()
            }
        }
    }

    /// On a terminal whose foreground process this is, the key q ends it: until then keys are read at once and not echoed.
    private func readKeys() {
        var modes = termios()
        guard isTerminal, tcgetpgrp(STDIN_FILENO) == getpgrp(), tcgetattr(STDIN_FILENO, &modes) == 0 else { return }
        formerModes.withLock { $0 = modes }
        modes.c_lflag &= ~tcflag_t(ICANON | ECHO)
        guard tcsetattr(STDIN_FILENO, TCSANOW, &modes) == 0 else { return }
        // In the background, reading fails instead of stopping the process.
        linux_ignore_signal(SIGTTIN)
        startThread(name: "keys") { [self] in
            while true {
                var key: UInt8 = 0
                let count = read(STDIN_FILENO, &key, 1)
                if count == 1, key == UInt8(ascii: "q") { end() }
                if count == 0 { return }
                if count < 0 { usleep(500_000) }
            }
        }
    }

    /// The style for the terminal's present size.
    var style: StatusStyle { StatusStyle(columns: size?.columns, environment: environment) }

    /// Draws `views` in the place of those before, as many of their lines as the terminal has rows.
    func draw(_ views: [[String]]) {
        let lines = Array(views.joined(separator: [""]))
        drawing.withLock { hasDrawn in
            let text: String
            if let size {
                let fitting = Self.fitting(lines, rows: size.rows - 1, style)
                text =
                    (hasDrawn ? "\u{1B}[H" : "\u{1B}[H\u{1B}[2J")
                    + fitting.map { "\u{1B}[K\($0)\n" }.joined() + "\u{1B}[J"
            } else {
                text = (hasDrawn ? "\n" : "") + lines.map { $0 + "\n" }.joined()
            }
            hasDrawn = true
            guard Output.write(Array(text.utf8)[...]) else { exit(EXIT_FAILURE) }
        }
    }

    /// Writes one line below those before, to a terminal or not.
    func write(_ line: String) {
        drawing.withLock { _ in Output.line(ByteString(line)) }
    }

    /// Waits for up to `duration`. Returns true, earlier, when the terminal has another size and has to be redrawn.
    func waits(for duration: Duration) -> Bool {
        guard resized.wait(for: max(.zero, duration)) else { return false }
        drawing.withLock { $0 = false }
        return true
    }

    private func end() -> Never {
        // The newline puts the prompt below the view, and below the ^C that the terminal shows.
        drawing.withLock { hasDrawn in
            if isTerminal, hasDrawn { _ = Output.write(Array("\n".utf8)[...]) }
            formerModes.withLock { modes in
                guard var former = modes, tcgetpgrp(STDIN_FILENO) == getpgrp() else { return }
                tcsetattr(STDIN_FILENO, TCSANOW, &former)
            }
            exit(EXIT_SUCCESS)
        }
    }

    private static func fitting(_ lines: [String], rows: Int, _ style: StatusStyle) -> [String] {
        guard lines.count > rows, rows > 0 else { return lines }
        return lines.prefix(rows - 1) + [style.line("\(style.mark) \(lines.count - rows + 1) more lines")]
    }

    /// The size of the terminal; nil without one. `COLUMNS` and `LINES` override it.
    private var size: (columns: Int, rows: Int)? {
        guard isTerminal else { return nil }
        var window = winsize()
        let isKnown = ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &window) == 0
        func number(_ variable: String, _ told: UInt16, otherwise: Int) -> Int {
            if let number = environment[variable].flatMap({ Int($0) }), number > 0 { return number }
            return isKnown && told > 0 ? Int(told) : otherwise
        }
        return (
            number("COLUMNS", window.ws_col, otherwise: 80), number("LINES", window.ws_row, otherwise: 24)
        )
    }

    private static var set: sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        for number in signals { sigaddset(&set, number) }
        return set
    }
}
