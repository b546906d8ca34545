import Basics
import Settings
import Synchronization

/// The counts of a copy so far, and what a terminal shows of it. Several tasks count. Locks: the mutex is a leaf.
final class CopyTally: Sendable {
    private struct Figures {
        var files = 0
        var same = 0
        var failures: [(name: ByteString, reason: String)] = []
        /// Failures that the same command has again, whatever happens meanwhile.
        var refusals = 0
        /// Bytes that a store copied without this machine.
        var copiedAtStore: Int64 = 0
        /// Bytes that need not move: the destination has them.
        var skipped: Int64 = 0
        /// All files and bytes, as far as they are counted.
        var expectedFiles = 0
        var expectedBytes: Int64 = 0
        var isCounted = false
    }

    private let figures = Mutex(Figures())
    /// Bytes that have passed through this machine's connections.
    private let moved: @Sendable () -> Int64

    /// `moved` counts the bytes of the bodies that were sent or received so far.
    init(moved: @escaping @Sendable () -> Int64 = { 0 }) { self.moved = moved }

    var failures: [(name: ByteString, reason: String)] { figures.withLock { $0.failures } }
    /// Whether the same command may have more success with an item that failed.
    var hasRepairable: Bool { figures.withLock { $0.failures.count > $0.refusals } }
    var files: Int { figures.withLock { $0.files } }
    /// Items that were copied, left out as the same, or failed.
    var items: Int { figures.withLock { $0.files + $0.same + $0.failures.count } }

    func expect(_ bytes: Int64) {
        figures.withLock { figures in
            figures.expectedFiles += 1
            figures.expectedBytes += bytes
        }
    }

    /// The size of an item that was counted without one.
    func learn(_ bytes: Int64) { figures.withLock { $0.expectedBytes += bytes } }
    /// Everything is counted.
    func counted() { figures.withLock { $0.isCounted = true } }
    func skip(_ bytes: Int64) { figures.withLock { $0.skipped += bytes } }
    func copiedAtStore(_ bytes: Int64) { figures.withLock { $0.copiedAtStore += bytes } }

    func ended(_ outcome: CopyOutcome) {
        figures.withLock { figures in
            if outcome == .same { figures.same += 1 } else { figures.files += 1 }
        }
    }

    func failed(_ name: ByteString, _ reason: String) { figures.withLock { $0.failures.append((name, reason)) } }

    /// The name cannot be copied.
    func refused(_ name: ByteString, _ reason: String) {
        figures.withLock { figures in
            figures.failures.append((name, reason))
            figures.refusals += 1
        }
    }

    /// The progress after `elapsed`: bytes, rate and, once everything is counted, a bar and the time that the rest takes at this
    /// rate. Bytes that need not move count as done, but not in the rate.
    func progress(after elapsed: Duration, _ style: StatusStyle) -> String {
        let now = figures.withLock { $0 }
        let total = now.expectedBytes
        let moved = moved() + now.copiedAtStore
        let done = now.isCounted ? min(total, moved + now.skipped) : moved + now.skipped
        let seconds = Double(elapsed / .seconds(1))
        let rate = seconds > 0 ? Int64(Double(moved) / seconds) : 0
        let failed = now.failures.isEmpty ? "" : ", \(now.failures.count) failed"
        let ended = now.files + now.same
        guard now.isCounted else {
            return
                "\(StatusText.count(ended, "file")), \(ByteSize.format(done)), \(ByteSize.format(rate))/s\(failed); counting"
        }
        let files = now.expectedFiles > 1 ? "\(ended) of \(StatusText.count(now.expectedFiles, "file")), " : ""
        let line =
            "\(style.bar(done, of: max(total, 1)))  \(files)\(ByteSize.format(done)) of "
            + "\(ByteSize.format(total)), \(ByteSize.format(rate))/s\(failed)"
        let rest = total - done
        guard rate > 0, rest > 0 else { return line }
        return "\(line), \(DurationText.format(.seconds(max(1, rest / rate)))) left"
    }
}
