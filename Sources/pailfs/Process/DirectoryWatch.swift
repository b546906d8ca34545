import Basics
import Blocks
import FileSystem
import Glibc
import Journaling
import Logging
import SQLite
import Staging
import Synchronization

/// Recreates the directories of a mount when another program deletes them, or a part of them.
///
/// Until then the mount works with the files that it has open, so no call fails. Of the files not stored yet, those that have an
/// open descriptor or that the journal holds are recreated; the others are named in the log. Owns the locks on directories that
/// it has recreated: they have to be locked again. One thread checks. Locks: the mutex is a leaf. After a crash: missing parts of
/// the cache are fetched again; parts of the state that were deleted since the last check are lost.
final class DirectoryWatch: Sendable {
    private struct State {
        var locks: [CacheDirectoryLock]
        /// The parts, `cache` and `state`, of which the log has a warning; later messages about them are of level info.
        var hasSaid: Set<String> = []
        /// The parts of which something is still missing.
        var faults: Set<String> = []
        /// Why the last repair failed.
        var reason = ""
    }

    /// A check takes some 20 us.
    private static let interval = Duration.seconds(1)

    /// The open contents of the directories.
    struct Contents: Sendable {
        /// Of the cache.
        let databases: [Database]
        let blocks: BlockCache
        let journal: Journal
        let staging: StagingArea
        let fileSystem: BucketFileSystem
    }

    private let place: DirectoryPair
    private let contents: Contents
    private let logger: Logger
    private let state: Mutex<State>
    private let ends = Semaphore()
    private let ended = Semaphore()

    /// Checks until `stop`.
    init(_ directories: LocalDirectories, _ contents: Contents, logger: Logger) {
        (place, self.contents, self.logger) = (directories.place, contents, logger)
        state = Mutex(State(locks: [directories.lock] + (directories.cacheLock.map { [$0] } ?? [])))
        startThread(name: "directory-watch") { [self] in
            while !ends.wait(for: Self.interval) {
                lookAtState()
                lookAtCache()
            }
            ended.signal()
        }
    }

    /// Requires: called once, before the databases are closed.
    func stop() {
        ends.signal()
        ended.wait()
    }

    private func lookAtCache() {
        let (databases, blocks) = (contents.databases, contents.blocks)
        let isWhole =
            access(place.blocks, F_OK) == 0 && databases.allSatisfy(\.isInPlace) && isLocked(place.cache)
        guard !isWhole else { return mended(place.cache, "cache") }
        say("the cache or a part of it was deleted; pailfs makes it again", place.cache, "cache")
        attempt { try takeDirectory(place.cache) }
        for database in databases where !database.isInPlace {
            attempt {
                try database.restore()
                // On a full disk the database does without headroom.
                try? database.takeHeadroom()
            }
        }
        blocks.findLost()
    }

    private func lookAtState() {
        let isWhole = contents.journal.isInPlace && contents.staging.isInPlace && isLocked(place.state)
        guard !isWhole else { return mended(place.state, "state") }
        say(
            "the state or a part of it was deleted; pailfs makes it again, and names the files whose bytes are gone",
            place.state, "state")
        attempt { try takeDirectory(place.state) }
        if !contents.journal.isInPlace { attempt { try contents.journal.restore() } }
        contents.fileSystem.putBackStaging()
    }

    /// Logs a fault once until it is repaired.
    private func say(_ message: Logger.Message, _ directory: String, _ part: String) {
        let (isNew, isFirst) = state.withLock { state in
            (state.faults.insert(part).inserted, state.hasSaid.insert(part).inserted)
        }
        guard isNew else { return }
        logger.log(level: isFirst ? .warning : .info, message, metadata: ["directory": "\(directory)"])
    }

    private func mended(_ directory: String, _ part: String) {
        let wasBroken = state.withLock { state in
            defer { if state.faults.isEmpty { state.reason = "" } }
            return state.faults.remove(part) != nil
        }
        if wasBroken { logger.info("the \(part) is whole again", metadata: ["directory": "\(directory)"]) }
    }

    private func attempt(_ act: () throws -> Void) {
        do { try act() } catch {
            let isNew = state.withLock { state in
                defer { state.reason = "\(error)" }
                return state.reason != "\(error)"
            }
            guard isNew else { return }
            logger.info("a deleted directory cannot be made again; pailfs retries", metadata: ["reason": "\(error)"])
        }
    }

    private func isLocked(_ directory: String) -> Bool {
        state.withLock { $0.locks.first { $0.directory == directory }?.isInPlace ?? true }
    }

    private func takeDirectory(_ directory: String) throws {
        guard !isLocked(directory) else { return }
        let lock = state.withLock { $0.locks.first { $0.directory == directory } }
        guard let taken = try lock?.taken() else { return }
        state.withLock { state in
            state.locks.removeAll { $0.directory == directory }
            state.locks.append(taken)
        }
        try place.nameEachOther()
    }
}
