import Glibc

/// Where a test kills the process: `before:STEP` or `after:STEP` of the journal's steps, `:N` for the N-th time.
///
/// Read from the environment by the command; a process that was not given one has none.
package struct StopPoint: Sendable, Hashable {
    package enum Side: String, Sendable { case before, after }

    package let side: Side
    package let step: String
    package let count: Int

    /// nil for text that names no stop point.
    package init?(_ text: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2 || parts.count == 3, let side = Side(rawValue: String(parts[0])), !parts[1].isEmpty
        else {
            return nil
        }
        (self.side, step) = (side, String(parts[1]))
        guard parts.count == 3 else {
            count = 1
            return
        }
        guard let count = Int(parts[2]), count > 0 else { return nil }
        self.count = count
    }

    /// Ends the process as a crash would, with nothing closed or flushed. kill(2)
    static func crash() -> Never {
        kill(getpid(), SIGKILL)
        while true { pause() }
    }
}
