import Basics
import Blocks
import FileSystem
import HTTP
import Journaling
import Metadata
import ObjectStorage
import Synchronization

/// A mount's answers to commands. Each call comes on a thread that nothing else waits for.
struct ControlService: Sendable {
    /// Constants of one mount.
    struct Identity: Sendable {
        var url: String
        var mountpoint: String
        var pid: Int32
        var since: Timestamp
        var durable: String
        var readOnly: Bool
        var place: DirectoryPair
    }

    /// The sources of the figures that a status shows beside the files.
    struct Figures: Sendable {
        var meter: RequestMeter
        var traffic: HTTPTraffic
        var throttle: Throttle
        var ledger: SpaceLedger
        /// The budgets between which the memory for bytes of objects is divided.
        var memory: [MemoryBudget]
        /// nil where the prices of requests are not known.
        var prices: RequestPrices?
    }

    /// Files that a status names.
    private static let mostFiles = 1000

    let identity: Identity
    let asked: MountRequest
    let fileSystem: BucketFileSystem
    let blocks: BlockCache
    let figures: Figures
    let pool: WorkerPool
    /// nil without a mount.
    var live: LiveSettings?

    /// `isWanted` returns whether the command still waits for the answer.
    func answer(_ request: ControlRequest, isWanted: @escaping @Sendable () -> Bool) -> ControlAnswer {
        switch request {
        case .status: return .status(status())
        case .flush(let path, let waits):
            return answer(for: path) { ino throws(FileSystemError) in flush(ino, waits: waits, isWanted) }
        case .explain(let path):
            return answer(for: path) { ino throws(FileSystemError) in .explained(try fileSystem.explain(ino)) }
        case .refresh(let path):
            return act(isWanted) { [fileSystem] () async throws(FileSystemError) in
                try await fileSystem.refreshEverywhere(try fileSystem.inode(at: path))
                return .done
            }
        case .locate(let path):
            return act(isWanted) { [fileSystem, asked] () async throws(FileSystemError) in
                .located(ObjectPlace(asked, try await fileSystem.locateWithoutRemovals(path)))
            }
        case .changed(let path, let key):
            return act(isWanted) { [fileSystem] () async throws(FileSystemError) in
                try await fileSystem.noteChange(at: path, key: key)
                return .done
            }
        case .set(let options):
            guard let live else { return .failed("this process serves no mount whose options can change") }
            do throws(CommandError) { try live.change(options) } catch { return .failed(error.message) }
            return .done
        case .prune(let bytes):
            blocks.prune(to: max(0, bytes))
            return .done
        case .recoverable:
            let files = fileSystem.listRecoverableFiles().prefix(RecoverableLine.mostFiles)
            return .recoverable(files.map { RecoverableLine($0) })
        case .save(let file, let path, let evenIfDoubtful, let evenIfPartial):
            return act(isWanted) { [fileSystem] () async throws(FileSystemError) in
                ControlAnswer(
                    saved: try await fileSystem.saveRecoverable(
                        IntentID(rawValue: file), to: path, evenIfDoubtful: evenIfDoubtful,
                        evenIfPartial: evenIfPartial ?? false))
            }
        case .commit(let file, let evenIfDoubtful):
            return act(isWanted) { [fileSystem] () async throws(FileSystemError) in
                try await fileSystem.commitRecoverable(IntentID(rawValue: file), evenIfDoubtful: evenIfDoubtful)
                return .done
            }
        case .discard(let file):
            return act(isWanted) { [fileSystem] () async throws(FileSystemError) in
                try await fileSystem.discardRecoverable(IntentID(rawValue: file))
                return .done
            }
        }
    }

    /// Carries out a request that may wait.
    private func act(
        _ isWanted: @Sendable () -> Bool,
        _ body: @escaping @Sendable () async throws(FileSystemError) -> ControlAnswer
    ) -> ControlAnswer {
        let answer = wait(isWanted) { () -> ControlAnswer in
            do throws(FileSystemError) { return try await body() } catch { return .failed(error.reason) }
        }
        return answer ?? .failed("the command was interrupted")
    }

    private func answer(
        for path: ByteString, _ body: (InodeNumber) throws(FileSystemError) -> ControlAnswer
    ) -> ControlAnswer {
        answer { () throws(FileSystemError) in try body(try fileSystem.inode(at: path)) }
    }

    private func answer(_ body: () throws(FileSystemError) -> ControlAnswer) -> ControlAnswer {
        do throws(FileSystemError) { return try body() } catch { return .failed(error.reason) }
    }

    // MARK: status

    private func status() -> MountStatus {
        let activity = fileSystem.report(mostFiles: Self.mostFiles)
        let queue = MountStatus.Queue(
            uploadingFiles: activity.uploadingFiles, waitingFiles: activity.waitingFiles,
            waitingRequests: figures.throttle.waiting)
        let meter = figures.meter.snapshot
        let departures = fileSystem.departures
        return MountStatus(
            url: identity.url, mountpoint: identity.mountpoint, state: .serving, pid: identity.pid,
            since: identity.since.iso8601(), program: Entry.version, durable: identity.durable,
            readOnly: identity.readOnly, changes: live?.changes.isEmpty == false ? live?.changes : nil,
            departures: departures.isEmpty ? nil : departures,
            cache: MountStatus.Cache(
                directory: identity.place.cache, state: identity.place.state, usedBytes: figures.ledger.used,
                limitBytes: figures.ledger.limit),
            memory: MountStatus.Memory(
                usedBytes: figures.memory.reduce(0) { $0 + Int64($1.used) },
                limitBytes: figures.memory.reduce(0) { $0 + Int64($1.limit) }),
            activity: activity, queue: queue,
            traffic: MountStatus.Traffic(
                sentBytes: figures.traffic.sent, receivedBytes: figures.traffic.received),
            limits: limits,
            requests: Self.requests(meter), cost: figures.prices.map { MountStatus.Cost(meter, $0) })
    }

    private var limits: MountStatus.Limits? {
        let (traffic, throttle) = (figures.traffic.limits, figures.throttle)
        let limits = MountStatus.Limits(
            uploadBytes: traffic.upload, downloadBytes: traffic.download, requests: throttle.requestsPerSecond)
        return limits.uploadBytes ?? limits.downloadBytes ?? limits.requests == nil ? nil : limits
    }

    private static func requests(
        _ meter: [ObjectStoreError.Operation: RequestMeter.Figures]
    ) -> [String: MountStatus.Requests] {
        var result: [String: MountStatus.Requests] = [:]
        for (operation, figures) in meter {
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
        guard let unstored else { return .failed("the command was interrupted") }
        let names = unstored.prefix(FlushResult.mostNames).map {
            FlushResult.Unstored(path: $0.path.description, reason: $0.reason)
        }
        return .flushed(FlushResult(files: files, unstored: Array(names), unstoredFiles: unstored.count))
    }

    /// Runs work on the pool and waits for it here; nil, with the work cancelled, when the command no longer waits.
    private func wait<Value: Sendable>(
        _ isWanted: @Sendable () -> Bool, _ work: @escaping @Sendable () async -> Value
    ) -> Value? {
        let answer = WorkAnswer<Value>()
        let task = answer.begin(on: pool, work)
        while true {
            if let value = answer.wait(for: .milliseconds(200)) { return value }
            guard isWanted() else {
                task.cancel()
                return nil
            }
        }
    }
}
