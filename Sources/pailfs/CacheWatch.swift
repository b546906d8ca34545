import Basics
import Blocks
import Glibc
import Journaling
import Logging
import SQLite
import Synchronization

/// Makes the cache of a mount anew when another program deletes it, or a part of it.
///
/// Until then the mount works with the files that it has open, so no call fails. Owns the lock on the cache directory where that
/// is one of its own: a directory that is made again has to be locked again. One thread looks; the mutex is a leaf.
/// After a crash: what was deleted since the last look is asked of the store again.
final class CacheWatch: Sendable {
    private struct State {
        var lock: CacheDirectoryLock?
        var hasWarned = false
    }

    /// A look takes some 20 us.
    private static let interval = Duration.seconds(1)

    private let place: DirectoryPair
    private let databases: [Database]
    private let blocks: BlockCache
    private let logger: Logger
    private let state: Mutex<State>
    private let ends = Semaphore()
    private let ended = Semaphore()

    /// Looks until `stop`.
    init(_ directories: LocalDirectories, databases: [Database], blocks: BlockCache, logger: Logger) {
        (place, self.databases, self.blocks, self.logger) = (directories.place, databases, blocks, logger)
        state = Mutex(State(lock: directories.cacheLock))
        startThread(name: "cache-watch") { [self] in
            while !ends.wait(for: Self.interval) { look() }
            ended.signal()
        }
    }

    /// To be called once, before the databases are closed.
    func stop() {
        ends.signal()
        ended.wait()
    }

    private var isWhole: Bool {
        access(place.blocks, F_OK) == 0 && databases.allSatisfy(\.isInPlace)
            && state.withLock { $0.lock?.isInPlace ?? true }
    }

    private func look() {
        if isWhole { return }
        let isNews = state.withLock { state in
            defer { state.hasWarned = true }
            return !state.hasWarned
        }
        logger.log(
            level: isNews ? .warning : .info, "the cache or a part of it was deleted; pailfs makes it again",
            metadata: ["directory": "\(place.cache)"])
        attempt(takeDirectory)
        for database in databases where !database.isInPlace {
            attempt {
                try database.restore()
                // On a disk that is full it goes without.
                try? database.takeHeadroom()
            }
        }
        blocks.findLost()
    }

    private func attempt(_ act: () throws -> Void) {
        do { try act() } catch {
            logger.info("the cache cannot be made again; pailfs retries", metadata: ["reason": "\(error)"])
        }
    }

    private func takeDirectory() throws {
        guard !place.isOne else { return try Directory.create(place.cache) }
        if state.withLock({ $0.lock?.isInPlace ?? false }) { return }
        let lock = try CacheDirectoryLock(directory: place.cache, pid: getpid(), mountpoint: place.cache)
        state.withLock { $0.lock = lock }
        try place.nameEachOther()
    }
}
