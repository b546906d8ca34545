import Basics
import Synchronization

/// Bytes of disk that the databases and directories of a cache directory take, and what they may grow by before anybody looks
/// again. Any thread may ask; its mutex is a leaf, and the files are looked at outside it.
final class DatabaseSpace: Sendable {
    private struct State {
        var bytes: Int64 = 0
        var measured: Duration?
    }

    /// Looking takes some 20 us: too long for every write, and what grows in this time fits `growth`.
    private static let interval = Duration.milliseconds(50)
    private static let files =
        ["meta.db", "blocks.db", "journal.db"].flatMap { name in ["", "-wal", "-shm"].map { name + $0 } }
        + [".", "blocks", "staging"]

    private let directory: String
    private let growth: Int64
    private let time: any TimeSource
    private let state = Mutex(State())

    init(directory: String, growth: Int64, time: any TimeSource) {
        (self.directory, self.growth, self.time) = (directory, growth, time)
    }

    /// Counted against the quota.
    var bytes: Int64 {
        let now = time.uptime()
        let known: Int64? = state.withLock { state in
            guard let measured = state.measured, now - measured < Self.interval else {
                // Others make do with what is known until this look is over.
                state.measured = now
                return nil
            }
            return state.bytes
        }
        if let known { return known }
        // One that is not there takes nothing.
        let bytes = Self.files.reduce(growth) { $0 + ((try? File("\(directory)/\($1)").allocated) ?? 0) }
        state.withLock { $0.bytes = bytes }
        return bytes
    }
}
