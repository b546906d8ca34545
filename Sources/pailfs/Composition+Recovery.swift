import Basics
import Commits
import FileSystem
import Journaling
import Logging
import Metadata
import ObjectStorage
import Synchronization

extension Composition {
    /// Works off what the journal of an earlier process holds. A mount that may not write only looks.
    static func recover(
        _ journal: Journal, _ cache: CacheDirectory, store: any ObjectStore, readOnly: Bool, isRestart: Bool,
        waiting: Set<IntentID>, pool: WorkerPool, time: any TimeSource, logger: Logger
    ) throws(CommandError) -> Recovery.Plan {
        final class Answer: Sendable {
            let result = Mutex<Result<Recovery.Plan, JournalingError>?>(nil)
            let arrived = Semaphore()
        }
        let answer = Answer()
        let recovery = Recovery(
            store: store, journal: journal, isRestart: isRestart, waiting: waiting, time: time, logger: logger)
        pool.start {
            do throws(JournalingError) {
                let plan = readOnly ? try recovery.look() : try await recovery.run()
                answer.result.withLock { $0 = .success(plan) }
            } catch { answer.result.withLock { $0 = .failure(error) } }
            answer.arrived.signal()
        }
        answer.arrived.wait()
        switch answer.result.withLock({ $0 }) {
        case .success(let plan): return plan
        case .failure(let error): throw cache.unusable(error.description)
        case nil: throw cache.unusable("the journal was not read")
        }
    }

    /// Gives the file system what was found, before it serves anything. With `openFiles` the mount was there all the time.
    static func takeUp(
        _ plan: Recovery.Plan, _ unlinked: [UnlinkedFile], openFiles: [(handle: HandleID, ino: InodeNumber)]?,
        _ fileSystem: BucketFileSystem, _ pool: WorkerPool
    ) throws(FileSystemError) {
        let failure = Mutex<FileSystemError?>(nil)
        let isDone = Semaphore()
        pool.start {
            do throws(FileSystemError) {
                try await fileSystem.takeUp(plan, unlinked: unlinked, openFiles: openFiles)
            } catch { failure.withLock { $0 = error } }
            isDone.signal()
        }
        isDone.wait()
        if let failure = failure.withLock({ $0 }) { throw failure }
    }
}
