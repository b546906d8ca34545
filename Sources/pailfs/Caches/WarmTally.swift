import Basics
import Glibc
import Synchronization

/// The counts of `pailfs warm` so far, and its progress display. Several threads count. Locks: the mutex is a leaf.
final class WarmTally: Sendable {
    private struct Figures {
        var files = 0
        var bytes: Int64 = 0
        var failures = 0
        /// Files that were read and were not wholly on disk when that was checked: their last bytes may still be on the way.
        var late: [@Sendable () -> Bool] = []
        var unkept = 0
        /// The total of files to read, as far as it is counted.
        var expectedFiles = 0
        var expectedBytes: Int64 = 0
        var uncounted: Int
    }

    /// Most failures that are named; the rest are only counted.
    private static let mostNames = 100
    /// Most files in `late`.
    private static let mostLate = 256
    /// How often `settle` checks them.
    private static let mostLooks = 60

    private let figures: Mutex<Figures>
    /// Whether a terminal shows the progress: only then are the files to read counted.
    let isShown: Bool

    /// The total is known when each of `places` is counted.
    init(places: Int, isShown: Bool = ProgressLine.isTerminal) {
        figures = Mutex(Figures(uncounted: places))
        self.isShown = isShown
    }

    var failures: Int { figures.withLock { $0.failures } }
    /// Files that were read and are not cached, of those before the last `settle`.
    var unkept: Int { figures.withLock { $0.unkept } }

    /// Checks again the files whose bytes were still on the way to the disk, and waits for them for a limited time.
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

    /// Counts a file that is to be read.
    func expect(_ bytes: Int64) {
        figures.withLock { figures in
            figures.expectedFiles += 1
            figures.expectedBytes += bytes
        }
    }

    /// All files of one place were counted.
    func counted() { figures.withLock { $0.uncounted -= 1 } }

    func read(_ bytes: Int64) { figures.withLock { $0.bytes += bytes } }

    /// `isKept` returns whether all of the file is in the cache; it may be called again, on another thread.
    func finished(_ isKept: @escaping @Sendable () -> Bool) {
        let isThere = isKept()
        var oldest: (@Sendable () -> Bool)?
        figures.withLock { figures in
            figures.files += 1
            if isThere { return }
            figures.late.append(isKept)
            guard figures.late.count > Self.mostLate else { return }
            // This file has had the longest time to reach the disk.
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

    /// The progress after `elapsed`. Once everything is counted, it has a total, a bar and the time that the rest takes at this
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

    /// Runs `work`, and shows its progress on a terminal.
    func watch(_ work: () throws(CommandError) -> Void) throws(CommandError) {
        try ProgressLine.watch(isShown: isShown, { [self] in progress(after: $0, $1) }, while: work)
    }
}
