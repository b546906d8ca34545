import Basics
import HTTP
import Logging
import ObjectStorage
import Providers
import Settings
import Synchronization

extension Composition {
    /// The bucket of the request, proved to exist and to be open to these credentials.
    static func openStore(
        _ request: MountRequest, pool: WorkerPool, time: any TimeSource, logger: Logger
    ) throws(CommandError) -> any ObjectStore {
        let store = try makeStore(
            request, engine: HTTPEngine(httpOptions(request.settings)), time: time, logger: logger)
        try check(store, request, pool)
        return store
    }

    /// The provider of the URL's scheme, with everything that stands around it.
    private static func makeStore(
        _ request: MountRequest, engine: HTTPEngine, time: any TimeSource, logger: Logger
    ) throws(CommandError) -> any ObjectStore {
        guard request.scheme == .s3 else {
            throw CommandError(
                "\(request.url): \(request.scheme.rawValue) buckets cannot be mounted yet; this version mounts s3://")
        }
        let options = request.settings
        let sources = S3Credentials(
            environment: request.environment, profile: options.profile, bucket: request.bucket)
        let endpoint = options.endpoint ?? sources.endpoint
        var settings = FamilyStore.Settings(bucket: request.bucket, .s3(endpoint: endpoint))
        settings.endpoint = endpoint
        settings.region = options.region ?? sources.region
        settings.addressing = options.pathStyle ? .path : nil
        settings.storageClass = options.storageClass
        settings.headers = options.headers.map { ($0.name, $0.value) }
        let provider: FamilyStore
        do {
            provider = try FamilyStore(
                settings, credentials: FixedCredentials(sources.find()?.credentials), engine: engine, time: time)
        } catch { throw CommandError(error, request) }
        var stack = StoreStack.Options()
        stack.retry.deadline = options.timeout
        stack.retry.transferTries = options.retries + 1
        stack.transfers = options.uploads + options.downloads
        return StoreStack.make(
            provider, prefix: request.prefix, options: stack, meter: RequestMeter(), time: time, logger: logger)
    }

    private static func httpOptions(_ settings: MountSettings) -> HTTPOptions {
        var options = HTTPOptions(userAgent: settings.userAgent ?? "pailfs/\(Entry.version)")
        options.caFile = settings.caFile
        options.proxy = settings.proxy
        options.stallTimeout = settings.timeout
        // Small requests must find a connection while every upload and download is under way.
        options.maxConnections = settings.uploads + settings.downloads + 16
        options.maxConnectionsPerOrigin = options.maxConnections
        return options
    }

    /// One request to the store, in time: whoever waits for a mount must get an answer.
    private static func check(
        _ store: any ObjectStore, _ request: MountRequest, _ pool: WorkerPool
    ) throws(CommandError) {
        final class Answer: Sendable {
            let error = Mutex<ObjectStoreError?>(nil)
            let arrived = Semaphore()
        }
        let answer = Answer()
        let task = pool.start {
            do throws(ObjectStoreError) { try await store.checkAccess() } catch {
                answer.error.withLock { $0 = error }
            }
            answer.arrived.signal()
        }
        if !answer.arrived.wait(for: request.settings.timeout + .seconds(5)) {
            task.cancel()
            throw CommandError(
                ObjectStoreError(
                    .timedOut, .checkAccess,
                    message: "no answer within \(DurationText.format(request.settings.timeout))"),
                request)
        }
        if let error = answer.error.withLock({ $0 }) { throw CommandError(error, request) }
    }
}
