import Basics
import NIOCore
import NIOHTTP1
import Synchronization

/// Serves a dialect's exchanges: decides faults, lets the dialect answer, sends, logs. Shared by all its connections.
final class RequestEngine: Sendable {
    private let dialect: any Dialect
    private let log: RequestLog?
    private let control: ServerControl
    private let pool: WorkerPool
    private let time: any TimeSource
    private let active = Atomic(0)

    init(dialect: any Dialect, log: RequestLog?, control: ServerControl, pool: WorkerPool, time: any TimeSource) {
        (self.dialect, self.log, self.control, self.pool, self.time) = (dialect, log, control, pool, time)
    }

    /// Starts serving on a worker thread and returns at once.
    func serve(_ exchange: Exchange) {
        active.add(1, ordering: .relaxed)
        pool.start { [self] in
            defer { active.subtract(1, ordering: .relaxed) }
            if exchange.isFromLoopback, let response = await control.answer(exchange.request, exchange.body) {
                try? await exchange.send(response) {}
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
        let (decided, generation) = control.plan.decide(route)
        var effects = decided
        if effects.latency > .zero { try? await time.sleep(for: effects.latency) }
        var entry = RequestLogEntry(
            time: began, operation: route.operation, bucket: route.bucket, key: route.key, status: 0, bytesIn: 0,
            bytesOut: 0, milliseconds: 0, range: request.header("range"),
            agent: request.header("user-agent"), faults: effects.kinds)
        if effects.resetsAtOnce || effects.hangs {
            record(entry, exchange, since: started)
            while effects.hangs, exchange.channel.isActive, control.plan.isInForce(generation) {
                try? await Task.sleep(for: .milliseconds(10))
            }
            return await exchange.end(resetting: true)
        }
        let hasBody = request.contentLength.map { $0 > 0 } ?? request.headers.contains(name: "transfer-encoding")
        if hasBody, effects.isDamagingBody {
            exchange.body.shape(effects.shaping(length: request.contentLength))
            (effects.cutAfter, effects.alters) = (nil, false)
        }
        let response = await ServerClock.$offset.withValue(effects.clockOffset) {
            await Departures.$current.withValue(effects.departures) { await answer(exchange, route, effects) }
        }
        entry.key = response?.key ?? entry.key
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
        if let prefix = effects.allowedPrefix, !Permission.reaches(prefix, request, route) {
            return dialect.failure(status: 403, retryAfter: nil, request, route)
        }
        var response = await dialect.answer(request, route, body: exchange.body)
        if exchange.body.isDisconnected { return nil }
        if effects.hidesMissing, Permission.isOfMissingObject(response, request, route) {
            response = dialect.failure(status: 403, retryAfter: nil, request, route)
        }
        response.omitsLength = effects.omitsLengthOfHEAD && request.method == "HEAD"
        return response
    }

    private func send(
        _ response: ServerResponse, _ exchange: Exchange, _ effects: FaultEffects, _ entry: RequestLogEntry,
        since started: Duration
    ) async {
        do {
            if effects.isDamagingBody, response.body.length > 0 {
                let shaping = effects.shaping(length: response.body.length)
                try await exchange.send(
                    response, through: shaping, cutIsReset: effects.cutIsReset, time: time
                ) { [self] sent in
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
}
