import Basics
import Commits
import FileSystem
import Journaling
import Logging
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

    /// Gives the file system what was found, before it serves anything.
    static func takeUp(
        _ plan: Recovery.Plan, _ unlinked: [UnlinkedFile], _ fileSystem: BucketFileSystem, isRestart: Bool,
        _ pool: WorkerPool
    ) throws(FileSystemError) {
        // What was promised goes to the store from then on, and may replace objects that these still have.
        for file in unlinked { fileSystem.takeUp(file) }
        try fileSystem.takeUp(plan)
        guard isRestart else { return }
        let isSettled = Semaphore()
        pool.start {
            await fileSystem.settlePending()
            isSettled.signal()
        }
        isSettled.wait()
    }
}
