import Basics
import FileSystem
import FuseBridge
import Metadata
import ObjectStorage
import Synchronization

/// What a mount answers to commands. Each call comes on a thread that nothing else waits for.
struct ControlService: Sendable {
    /// Of one mount, constant.
    struct Identity: Sendable {
        var url: String
        var mountpoint: String
        var pid: Int32
        var since: Timestamp
        var durable: String
        var readOnly: Bool
        var cacheDirectory: String
    }

    /// Files that a status names.
    private static let mostFiles = 1000

    let identity: Identity
    let fileSystem: BucketFileSystem
    let meter: RequestMeter
    let ledger: SpaceLedger
    let pool: WorkerPool

    /// `isWanted` tells whether anybody still waits for the answer.
    func answer(_ request: ControlRequest, isWanted: @escaping @Sendable () -> Bool) -> ControlAnswer {
        switch request {
        case .status: return .status(status())
        case .flush(let path, let waits):
            return answer(for: path) { flush($0, waits: waits, isWanted) }
        }
    }

    private func answer(for path: ByteString, _ body: (InodeNumber) -> ControlAnswer) -> ControlAnswer {
        let ino: InodeNumber
        do throws(FileSystemError) { ino = try fileSystem.inode(at: path) } catch { return .failed(error.reason) }
        return body(ino)
    }

    // MARK: status

    private func status() -> MountStatus {
        MountStatus(
            url: identity.url, mountpoint: identity.mountpoint, state: .serving, pid: identity.pid,
            since: identity.since.iso8601(), program: Entry.version, durable: identity.durable,
            readOnly: identity.readOnly,
            cache: MountStatus.Cache(
                directory: identity.cacheDirectory, usedBytes: ledger.used, limitBytes: ledger.limit),
            activity: fileSystem.report(mostFiles: Self.mostFiles), requests: requests)
    }

    private var requests: [String: MountStatus.Requests] {
        var result: [String: MountStatus.Requests] = [:]
        for (operation, figures) in meter.snapshot {
            let hasLatency = figures.latency.count > 0
            func milliseconds(_ fraction: Double) -> Double? {
                hasLatency ? Double(figures.latency.quantile(fraction) / 1000) / 1000 : nil
            }
            result[operation.rawValue] = MountStatus.Requests(
                requests: figures.requests, failures: figures.failures, retries: figures.retries,
                inFlight: figures.inFlight, medianMilliseconds: milliseconds(0.5), p99Milliseconds: milliseconds(0.99))
        }
        return result
    }

    // MARK: flush

    private func flush(_ ino: InodeNumber, waits: Bool, _ isWanted: @escaping @Sendable () -> Bool) -> ControlAnswer {
        guard waits else {
            return .flushed(
                FlushResult(files: fileSystem.startStoring(below: ino), unstored: [], unstoredFiles: 0))
        }
        let files = fileSystem.dirtyFiles(below: ino)
        let unstored = wait(isWanted) { [fileSystem] in await fileSystem.store(below: ino) }
        guard let unstored else { return .failed("nobody waits for the flush any more") }
        let names = unstored.prefix(FlushResult.mostNames).map {
            FlushResult.Unstored(path: $0.path.description, reason: $0.reason)
        }
        return .flushed(FlushResult(files: files, unstored: Array(names), unstoredFiles: unstored.count))
    }

    /// Runs work on the pool and waits for it here; nil, with the work cancelled, when nobody wants it any more.
    private func wait<Value: Sendable>(
        _ isWanted: @Sendable () -> Bool, _ work: @escaping @Sendable () async -> Value
    ) -> Value? {
        let answer = WorkAnswer<Value>()
        let task = pool.start {
            let value = await work()
            answer.value.withLock { $0 = value }
            answer.arrived.signal()
        }
        while !answer.arrived.wait(for: .milliseconds(200)) {
            guard isWanted() else {
                task.cancel()
                return nil
            }
        }
        return answer.value.withLock { $0 }
    }
}

/// Carries a result from a task to the thread that waits for it; locked by its own mutex.
private final class WorkAnswer<Value: Sendable>: Sendable {
    let value = Mutex<Value?>(nil)
    let arrived = Semaphore()
}
