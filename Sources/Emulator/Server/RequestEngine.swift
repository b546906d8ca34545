import Basics
import NIOHTTP1
import Synchronization

/// The faults of a whole server, whatever the dialect. Behind its own mutex, a leaf.
final class SharedFaultPlan: Sendable {
    private let plan: Mutex<FaultPlan>
    private let seed: UInt64

    init(_ specs: [FaultSpec], seed: UInt64) {
        self.seed = seed
        plan = Mutex(FaultPlan(specs, seed: seed))
    }

    var specs: [FaultSpec] { plan.withLock { $0.specs } }

    /// Replaces the faults; counters start anew. nil keeps the server's seed.
    func set(_ specs: [FaultSpec], seed: UInt64? = nil) {
        plan.withLock { $0 = FaultPlan(specs, seed: seed ?? self.seed) }
    }

    func decide(_ route: RequestRoute) -> FaultEffects {
        plan.withLock { $0.decide(operation: route.operation, bucket: route.bucket, key: route.key) }
    }
}

/// Serves a dialect's exchanges: decides faults, lets the dialect answer, sends, logs. Shared by all its connections.
final class RequestEngine: Sendable {
    private let dialect: any Dialect
    private let log: RequestLog?
    private let plan: SharedFaultPlan
    private let pool: WorkerPool
    private let time: any TimeSource
    private let active = Atomic(0)
    static let controlPath = "/_pailstore/faults"

    init(dialect: any Dialect, log: RequestLog?, plan: SharedFaultPlan, pool: WorkerPool, time: any TimeSource) {
        (self.dialect, self.log, self.plan, self.pool, self.time) = (dialect, log, plan, pool, time)
    }

    /// Starts serving on a worker thread and returns at once.
    func serve(_ exchange: Exchange) {
        active.add(1, ordering: .relaxed)
        pool.start { [self] in
            defer { active.subtract(1, ordering: .relaxed) }
            if exchange.request.path == Self.controlPath, exchange.isFromLoopback {
                await control(exchange)
            } else {
                await respond(exchange)
            }
        }
    }

    /// Waits until no request is being served, or the time is up.
    func drain(until deadline: ContinuousClock.Instant) async {
        while active.load(ordering: .relaxed) > 0, ContinuousClock.now < deadline {
            try? await Task.sleep(for: .milliseconds(10))
        }
    }

    private func respond(_ exchange: Exchange) async {
        let (started, began) = (time.uptime(), time.now())
        let request = exchange.request
        let route = dialect.route(request)
        var effects = plan.decide(route)
        if effects.latency > .zero { try? await time.sleep(for: effects.latency) }
        var entry = RequestLogEntry(
            time: began, operation: route.operation, bucket: route.bucket, key: route.key, status: 0, bytesIn: 0,
            bytesOut: 0, milliseconds: 0, range: request.header("range"))
        if effects.resetsAtOnce {
            record(entry, exchange, since: started)
            return await exchange.end(resetting: true)
        }
        let hasBody = request.contentLength.map { $0 > 0 } ?? request.headers.contains(name: "transfer-encoding")
        if hasBody, effects.isDamagingBody {
            exchange.body.shape(effects.shaping(length: request.contentLength))
            (effects.cutAfter, effects.alters) = (nil, false)
        }
        let response = await answer(exchange, route, effects)
        guard let response, !effects.losesReply else {
            record(entry, exchange, since: started)
            return await exchange.end(resetting: true)
        }
        if effects.firstByte > .zero { try? await time.sleep(for: effects.firstByte) }
        entry.status = response.status
        if case .promised = response.body {} else { entry.bytesOut = response.body.length }
        await send(response, exchange, effects, entry, since: started)
    }

    /// nil when the client went away while it was sending.
    private func answer(_ exchange: Exchange, _ route: RequestRoute, _ effects: FaultEffects) async -> ServerResponse? {
        let request = exchange.request
        if effects.isExpired { return dialect.expired(request, route) }
        if let status = effects.status {
            return dialect.failure(status: status, retryAfter: effects.retryAfter, request, route)
        }
        let response = await dialect.answer(request, route, body: exchange.body)
        return exchange.body.isDisconnected ? nil : response
    }

    private func send(
        _ response: ServerResponse, _ exchange: Exchange, _ effects: FaultEffects, _ entry: RequestLogEntry,
        since started: Duration
    ) async {
        do {
            if effects.isDamagingBody, response.body.length > 0 {
                let shaping = effects.shaping(length: response.body.length)
                try await exchange.send(response, through: shaping, cutIsReset: effects.cutIsReset) { sent in
                    var entry = entry
                    entry.bytesOut = sent
                    record(entry, exchange, since: started)
                }
            } else {
                try await exchange.send(response) { [self] in record(entry, exchange, since: started) }
            }
        } catch {
            // The client went away in the middle of the answer, or a file could not be read: nobody is left to tell.
            await exchange.end(resetting: true)
        }
    }

    private func record(_ entry: RequestLogEntry, _ exchange: Exchange, since started: Duration) {
        guard let log else { return }
        var entry = entry
        entry.bytesIn = exchange.body.receivedBytes
        entry.milliseconds = (time.uptime() - started) / .milliseconds(1)
        log.write(entry)
    }

    /// Reads or replaces the faults: `GET` and `PUT /_pailstore/faults`, one fault a line.
    private func control(_ exchange: Exchange) async {
        var response = ServerResponse(status: 200, headers: [Field("Content-Type", "text/plain")])
        switch exchange.request.method {
        case "GET":
            response.body = .bytes(Array(plan.specs.map { $0.text + "\n" }.joined().utf8))
        case "PUT":
            do {
                let text = String(decoding: try await exchange.body.collect(limit: 1 << 20), as: UTF8.self)
                let lines = text.split(whereSeparator: \.isNewline).map(String.init)
                let specs = try lines.map { (line) throws(FaultSyntaxError) in try FaultSpec(parsing: line) }
                plan.set(specs)
            } catch {
                response.status = 400
                response.body = .bytes(Array("\(error)\n".utf8))
            }
        default: response.status = 405
        }
        try? await exchange.send(response) {}
    }
}
