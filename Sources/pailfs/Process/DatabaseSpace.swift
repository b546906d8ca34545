import Basics
import Synchronization

/// Bytes on disk of a mount's databases and directories, and the growth allowed for until they are measured again. Any thread may
/// read it. Locks: the mutex is a leaf, and the files are measured outside it.
final class DatabaseSpace: Sendable {
    private struct State {
        var bytes: Int64 = 0
        var measured: Duration?
    }

    /// A measurement takes some 20 us: too long for every write. The growth in this time fits `growth`.
    private static let interval = Duration.milliseconds(50)
    private let files: [String]
    private let growth: Int64
    private let time: any TimeSource
    private let state = Mutex(State())

    init(_ place: DirectoryPair, growth: Int64, time: any TimeSource) {
        let databases = [place.cache + "/meta.db", place.cache + "/blocks.db", place.journal]
        files =
            databases.flatMap { name in ["", "-wal", "-shm"].map { name + $0 } }
            + place.directories + [place.blocks, place.staging]
        (self.growth, self.time) = (growth, time)
    }

    /// Counted against the quota.
    var bytes: Int64 {
        let now = time.uptime()
        let known: Int64? = state.withLock { state in
            guard let measured = state.measured, now - measured < Self.interval else {
                // Other threads use the known value until this measurement is over.
                state.measured = now
                return nil
            }
            return state.bytes
        }
        if let known { return known }
        // A missing file takes no space.
        let bytes = files.reduce(growth) { $0 + ((try? File($1).allocated) ?? 0) }
        state.withLock { $0.bytes = bytes }
        return bytes
    }
}
