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
    }

    /// Failures that are named; the rest are counted.
    private static let mostNames = 100
    /// Files that are looked at again.
    private static let mostLate = 256
    /// Times that the last of them are looked at.
    private static let mostLooks = 60

    private let figures = Mutex(Figures())

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

    /// Runs `work`, and shows on a terminal how far it is.
    func watch(_ work: () throws(CommandError) -> Void) throws(CommandError) {
        let isDone = Semaphore()
        let hasEnded = Semaphore()
        let isShown = isatty(STDERR_FILENO) == 1
        startThread(name: "progress") { [self] in
            while !isDone.wait(for: .milliseconds(500)) { if isShown { show(text) } }
            if isShown { show("") }
            hasEnded.signal()
        }
        defer {
            isDone.signal()
            hasEnded.wait()
        }
        try work()
    }

    private func show(_ line: String) {
        let bytes = Array("\r\u{1B}[K\(line)".utf8)
        _ = write(STDERR_FILENO, bytes, bytes.count)
    }
}
