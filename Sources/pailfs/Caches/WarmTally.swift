import Basics
import Glibc
import Synchronization

/// What `pailfs warm` has read so far, and how it tells. Several threads count; its mutex is a leaf.
final class WarmTally: Sendable {
    private struct Figures {
        var files = 0
        var bytes: Int64 = 0
        var failures = 0
        /// Read, and not on disk when that was looked at: it may have been on its way.
        var late: [@Sendable () -> Bool] = []
        var unkept = 0
        /// Of what is to be read, as far as it is counted.
        var expectedFiles = 0
        var expectedBytes: Int64 = 0
        var uncounted: Int
    }

    /// Failures that are named; the rest are counted.
    private static let mostNames = 100
    /// Files that are looked at again.
    private static let mostLate = 256
    /// Times that the last of them are looked at.
    private static let mostLooks = 60

    private let figures: Mutex<Figures>
    /// Whether a terminal shows how far it is: only then it is worth counting what there is to read.
    let isShown: Bool

    /// `places` are counted one by one, and the total is known when all are.
    init(places: Int, isShown: Bool = isatty(STDERR_FILENO) == 1) {
        figures = Mutex(Figures(uncounted: places))
        self.isShown = isShown
    }

    var failures: Int { figures.withLock { $0.failures } }
    /// Files that were read and are not kept, of those before the last `settle`.
    var unkept: Int { figures.withLock { $0.unkept } }

    /// Looks again for what was still on its way to the disk, and waits for it, but not for long.
    func settle() {
        var late = figures.withLock { figures in
            defer { figures.late = [] }
            return figures.late
        }
        for _ in 0..<Self.mostLooks where !late.isEmpty {
            late.removeAll { $0() }
            if !late.isEmpty { usleep(50_000) }
        }
        let count = late.count
        figures.withLock { $0.unkept += count }
    }

    /// A file that is to be read.
    func expect(_ bytes: Int64) {
        figures.withLock { figures in
            figures.expectedFiles += 1
            figures.expectedBytes += bytes
        }
    }

    /// All files of one place were counted.
    func counted() { figures.withLock { $0.uncounted -= 1 } }

    func read(_ bytes: Int64) { figures.withLock { $0.bytes += bytes } }

    /// `isKept` tells whether all of the file is in the cache; it may be asked again, on another thread.
    func finished(_ isKept: @escaping @Sendable () -> Bool) {
        let isThere = isKept()
        var oldest: (@Sendable () -> Bool)?
        figures.withLock { figures in
            figures.files += 1
            if isThere { return }
            figures.late.append(isKept)
            guard figures.late.count > Self.mostLate else { return }
            // This one has had the time of all the others.
            oldest = figures.late.removeFirst()
        }
        if let oldest, !oldest() { figures.withLock { $0.unkept += 1 } }
    }

    func failed(_ name: String, _ reason: String) {
        let count = figures.withLock { figures in
            figures.failures += 1
            return figures.failures
        }
        if count <= Self.mostNames { Entry.say("pailfs: not read: \(name): \(reason)") }
    }

    var text: String {
        let now = figures.withLock { $0 }
        return "\(StatusText.count(now.files, "file")), \(ByteSize.format(now.bytes))"
            + (now.failures > 0 ? ", \(now.failures) failed" : "")
    }

    /// How far it is after `elapsed`: once everything is counted with a total, a bar and the time that the rest takes at this
    /// rate.
    func progress(after elapsed: Duration, _ style: StatusStyle) -> String {
        let now = figures.withLock { $0 }
        guard now.uncounted <= 0, now.expectedFiles > 0 else { return "\(text); counting" }
        let failed = now.failures > 0 ? ", \(now.failures) failed" : ""
        let line =
            "\(style.bar(now.bytes, of: max(now.expectedBytes, 1)))  \(now.files) of "
            + "\(StatusText.count(now.expectedFiles, "file")), \(ByteSize.format(now.bytes)) of "
            + "\(ByteSize.format(now.expectedBytes))\(failed)"
        let rest = max(0, now.expectedBytes - now.bytes)
        guard now.bytes > 0, rest > 0, elapsed > .zero else { return line }
        let left = elapsed * (Double(rest) / Double(now.bytes))
        return "\(line), \(DurationText.format(.seconds(max(1, left.components.seconds)))) left"
    }

    /// Runs `work`, and shows on a terminal how far it is.
    func watch(_ work: () throws(CommandError) -> Void) throws(CommandError) {
        let isDone = Semaphore()
        let hasEnded = Semaphore()
        let time = SystemTime()
        let start = time.uptime()
        startThread(name: "progress") { [self] in
            while !isDone.wait(for: .milliseconds(500)) {
                guard isShown else { continue }
                let style = StatusStyle(columns: Self.columns, environment: Entry.environment)
                show(style.line(progress(after: time.uptime() - start, style)))
            }
            if isShown { show("") }
            hasEnded.signal()
        }
        defer {
            isDone.signal()
            hasEnded.wait()
        }
        try work()
    }

    /// Of the terminal on standard error; the last one is left free, so that the line does not wrap.
    private static var columns: Int {
        var window = winsize()
        let isKnown = ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &window) == 0 && window.ws_col > 1
        return isKnown ? Int(window.ws_col) - 1 : 79
    }

    private func show(_ line: String) {
        let bytes = Array("\r\u{1B}[K\(line)".utf8)
        _ = write(STDERR_FILENO, bytes, bytes.count)
    }
}
