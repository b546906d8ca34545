import Basics
import Commits
import FileSystem
import Journaling
import Logging
import Metadata
import ObjectStorage
import Settings

extension Composition {
    /// The longest time that programs wait for an absent store when a worker takes over a mount.
    private static let longestPatience = Duration.seconds(1)

    /// Recovers the journal of an earlier process. A read-only mount changes nothing.
    static func recover(
        _ journal: Journal, _ cache: LocalDirectories, store: any ObjectStore, _ settings: MountSettings,
        isRestart: Bool, waiting: Set<IntentID>, pool: WorkerPool, time: any TimeSource, logger: Logger
    ) throws(CommandError) -> Recovery.Plan {
        let readOnly = settings.readOnly
        let recovery = Recovery(
            store: store, journal: journal, isRestart: isRestart, waiting: waiting,
            patience: isRestart ? min(settings.timeout / 10, longestPatience) : nil, time: time, logger: logger)
        do throws(JournalingError) {
            return try WorkAnswer.wait(on: pool) { () async throws(JournalingError) in
                readOnly ? try recovery.look() : try await recovery.run()
            }
        } catch { throw cache.unusable(error.description) }
    }

    /// Warns that the directory is a copy. The original may still be used, on another machine or in another directory.
    static func warnOfCopy(_ place: DirectoryPair, withheld: Int) {
        guard withheld > 0 else { return }
        Entry.warn(
            "\(place.state) is a copy of another state directory, whose mount may have stored or removed \(StatusText.count(withheld, "file")) of its journal; "
                + "\"pailfs recover list\" shows them, and \"pailfs recover commit\" stores them")
    }

    /// Gives the result of the recovery to the file system, before it serves anything. With `openFiles` the mount was there all
    /// the time.
    static func recover(
        _ plan: Recovery.Plan, _ unlinked: [Orphan], openFiles: [(handle: HandleID, ino: InodeNumber)]?,
        _ fileSystem: BucketFileSystem, _ pool: WorkerPool
    ) throws(FileSystemError) {
        try WorkAnswer.wait(on: pool) { () async throws(FileSystemError) in
            try await fileSystem.recover(plan, unlinked: unlinked, openFiles: openFiles)
        }
    }
}
