import Basics
import FileSystem
import Glibc
import HTTP
import Logging
import ObjectStorage
import Providers
import Settings
import Synchronization

extension Composition {
    /// The bucket of the request. If `checked`, it exists and is open to these credentials. A worker that takes over does not
    /// check: that was done at the mount, and an error would end a mount that is served. For a command at `path` only keys with
    /// that prefix are listed. Credentials that may not list may allow other requests: a mount (`path` is nil) warns, and a
    /// command's own requests fail with what they lack.
    static func openStore(
        _ request: MountRequest, checked: Bool = true, at path: ByteString? = nil, pool: WorkerPool,
        meter: RequestMeter = RequestMeter(), traffic: HTTPTraffic = HTTPTraffic(), throttle: Throttle? = nil,
        time: any TimeSource, logger: Logger
    ) throws(CommandError) -> any ObjectStore {
        if checked { try checkSurroundings(request) }
        if checked, path == nil {
            for setting in request.unreadSettings where setting.isGrave { Entry.warn("\(setting)") }
        }
        let store = try makeUncheckedStore(
            request, meter: meter, traffic: traffic, throttle: throttle, time: time, logger: logger)
        guard checked, let refusal = try check(store, at: path ?? "", request, pool), path == nil else { return store }
        let reason = refusal.message
        logger.warning("the store refuses to list", metadata: ["op": "list", "reason": "\(reason)"])
        Entry.warn("directories cannot be read and names are found one by one: \(reason)")
        return store
    }

    /// The provider of the URL's scheme, with all stores around it. Sends no request yet.
    static func makeStore(
        _ request: MountRequest, probes: Bool = false, meter: RequestMeter = RequestMeter(),
        traffic: HTTPTraffic = HTTPTraffic(), throttle: Throttle? = nil, time: any TimeSource, logger: Logger
    ) throws(CommandError) -> any ObjectStore {
        try checkSurroundings(request)
        return try makeUncheckedStore(
            request, probes: probes, meter: meter, traffic: traffic, throttle: throttle, time: time, logger: logger)
    }

    private static func makeUncheckedStore(
        _ request: MountRequest, probes: Bool = false, meter: RequestMeter, traffic: HTTPTraffic, throttle: Throttle?,
        time: any TimeSource,
        logger: Logger
    ) throws(CommandError) -> any ObjectStore {
        let options = request.settings
        traffic.limits.set(upload: options.uploadLimit, download: options.downloadLimit)
        let engine = HTTPEngine(httpOptions(request), traffic: traffic)
        let provider: any ObjectStore
        let onQuirk: @Sendable (StoreQuirk) -> Void = { quirk in
            logger.warning(
                "the server departs from its protocol", metadata: ["quirk": "\(quirk.rawValue)", "reason": "\(quirk)"])
        }
        var maker = StoreMaker(request: request, engine: engine, time: time)
        (maker.probes, maker.onQuirk) = (probes, probes ? nil : onQuirk)
        do { provider = try maker.make() } catch {
            throw CommandError(error, request)
        }
        var stack = StoreStack.Options(throttle: throttle ?? self.throttle(options))
        stack.retry.deadline = options.timeout
        stack.retry.transferTries = options.retries + 1
        stack.limits.filter = KeyFilter(options.filters)
        stack.asOf = options.asOf
        stack.limits.largestFile = options.largestFile ?? .max
        return StoreStack.make(
            provider, prefix: request.prefix, options: stack, meter: meter, time: time, logger: logger)
    }

    /// Checks settings whose errors would otherwise show late or unclearly, in requests to the store.
    private static func checkSurroundings(_ request: MountRequest) throws(CommandError) {
        do throws(SettingsError) {
            try request.sources.requireHonoured(by: request.scheme)
            try request.settings.requireConsistent()
        } catch { throw CommandError(error) }
        for case .metadata(let name) in request.settings.headerRules.map(\.header)
        where UserMetadataName(UserMetadataName.prefix + name)?.isOurs == true {
            throw CommandError(
                "header-for cannot set x-amz-meta-\(name), in which pailfs keeps attributes of the file; leave it out"
            )
        }
        if let time = request.settings.asOf {
            guard time <= SystemTime().now() else {
                throw CommandError("as-of is a time that has not come yet; write an earlier one, or leave it out")
            }
            guard request.bucket != nil else {
                throw CommandError("as-of shows one bucket, not those of an account; name a bucket in the URL")
            }
        }
        let pair = ["PAILFS_ACCESS_KEY_ID", "PAILFS_SECRET_ACCESS_KEY"]
        let given = pair.filter { request.environment[$0].map { !$0.isEmpty } ?? false }
        if let one = given.first, given.count == 1, let other = pair.first(where: { $0 != one }) {
            throw CommandError(
                "\(one) is set and \(other) is not; set both, or none for the credentials of the provider's tools")
        }
        try request.requireReadableAuthorities()
    }

    /// The limits on a mount's requests.
    static func throttle(_ settings: MountSettings) -> Throttle {
        let throttle = Throttle(sends: settings.uploads, fetches: settings.downloads, others: 64)
        throttle.setRate(settings.requestLimit)
        return throttle
    }

    static func httpOptions(_ request: MountRequest) -> HTTPOptions {
        let settings = request.settings
        var options = HTTPOptions(userAgent: userAgent(settings))
        options.caFile = request.authorities?.path
        options.clientCertificate = request.clientCertificate
        options.proxy = settings.proxy
        options.dnsOverHTTPS = settings.dnsOverHTTPS
        options.connectTimeout = settings.connectTimeout
        options.stallTimeout = settings.timeout
        options.transferTimeout = settings.transferTimeout
        // Small requests must have a connection while every upload and download is under way.
        options.maxConnections = settings.uploads + settings.downloads + 16
        options.maxConnectionsPerOrigin = options.maxConnections
        return options
    }

    private static func userAgent(_ settings: MountSettings) -> String {
        var text = settings.userAgent ?? "pailfs/\(Entry.version)"
        if settings.userAgentSystem {
            var names = utsname()
            if uname(&names) == 0 {
                text += " (\(names.text(\.sysname)) \(names.text(\.release)); \(names.text(\.machine)))"
            }
        }
        if let mark = settings.userAgentMark { text += " " + mark }
        return text
    }

    /// Sends one request to the store, so that a mount without access fails at once. Returns the refusal where the credentials
    /// may not list the bucket; for anonymous requests it throws.
    private static func check(
        _ store: any ObjectStore, at path: ByteString, _ request: MountRequest, _ pool: WorkerPool
    ) throws(CommandError) -> CommandError? {
        // A policy with a condition on data/* does not allow a listing of "data".
        let prefix = path.isEmpty || path.hasSuffix("/") ? path : path + "/"
        let refusal = try answer(request, pool) { () async throws(ObjectStoreError) -> ObjectStoreError? in
            do throws(ObjectStoreError) {
                try await store.checkAccess(below: prefix)
                return nil
            } catch {
                guard request.bucket != nil, error.kind == .accessDenied, error.status == 403 else { throw error }
                return error
            }
        }
        guard let refusal else { return nil }
        let (problem, isAnonymous) = problem(refusal, request, pool)
        if path.isEmpty, isAnonymous { throw problem }
        return problem
    }

    /// The result of a command's requests to the store: within the deadline or, where the time depends on the size of an object,
    /// when each has ended or given up by itself. Throws errors as the command reports them.
    static func answer<Value: Sendable>(
        _ request: MountRequest, _ pool: WorkerPool, inTime: Bool = true, notice: SilenceNotice = SilenceNotice(),
        _ body: @escaping @Sendable () async throws(ObjectStoreError) -> Value
    ) throws(CommandError) -> Value {
        let answer = WorkAnswer<Result<Value, ObjectStoreError>>()
        let task = answer.begin(on: pool) {
            do throws(ObjectStoreError) { return .success(try await body()) } catch { return .failure(error) }
        }
        // Retries end up to a quarter later.
        let tried = request.settings.timeout * 5 / 4
        let limit = tried + .seconds(5)
        var result = answer.wait(for: inTime ? min(limit, SilenceNotice.patience) : nil)
        if result == nil, limit > SilenceNotice.patience {
            notice.say(request, limit: tried)
            result = answer.wait(for: limit - SilenceNotice.patience)
        }
        if result == nil { task.cancel() }
        switch result {
        case .success(let value)?: return value
        case .failure(let error)?:
            throw problem(error, request, pool).error
        case nil:
            throw CommandError(
                ObjectStoreError(
                    .timedOut, .checkAccess,
                    message: "no answer within \(DurationText.format(request.settings.timeout))"),
                request)
        }
    }
}

extension Composition {
    /// An error as a command reports it, and whether its cause is that there are no credentials at all. Where the store refuses
    /// credentials, the message has their source.
    private static func problem(
        _ error: ObjectStoreError, _ request: MountRequest, _ pool: WorkerPool
    ) -> (error: CommandError, isAnonymous: Bool) {
        let isOfCredentials = [.accessDenied, .credentialsRejected, .credentialsExpired].contains(error.kind)
        guard isOfCredentials, error.status != nil else { return (CommandError(error, request), false) }
        let answer = WorkAnswer<String?>()
        answer.begin(on: pool) { (try? await identity(of: request))??.origin }
        guard let found = answer.wait(for: .seconds(5)) else { return (CommandError(error, request), false) }
        if let origin = found { return (CommandError(error, request, origin: origin), false) }
        return (CommandError(anonymous: error, request), true)
    }
}

extension utsname {
    /// A field of the struct, which ends with a NUL.
    fileprivate func text<Field>(_ field: KeyPath<utsname, Field>) -> String {
        withUnsafeBytes(of: self[keyPath: field]) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }
}
