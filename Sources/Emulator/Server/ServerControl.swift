import Basics
import Synchronization

/// The faults of a whole server, whatever the dialect. Behind its own mutex, a leaf.
final class SharedFaultPlan: Sendable {
    private struct State {
        var plan: FaultPlan
        /// When they were set, of the time source's `uptime`.
        var began: Duration
        /// How often they were replaced.
        var generation = 0
    }

    private let state: Mutex<State>
    private let seed: UInt64
    private let time: any TimeSource

    init(_ specs: [FaultSpec], seed: UInt64, time: any TimeSource) {
        (self.seed, self.time) = (seed, time)
        state = Mutex(State(plan: FaultPlan(specs, seed: seed), began: time.uptime()))
    }

    var specs: [FaultSpec] { state.withLock { $0.plan.specs } }

    /// Replaces the faults; counters and times start anew. nil keeps the server's seed.
    func set(_ specs: [FaultSpec], seed: UInt64? = nil) {
        let began = time.uptime()
        state.withLock { state in
            let plan = FaultPlan(specs, seed: seed ?? self.seed)
            state = State(plan: plan, began: began, generation: state.generation + 1)
        }
    }

    /// What goes wrong with a request, and for `isInForce` by which faults.
    func decide(_ route: RequestRoute) -> (effects: FaultEffects, generation: Int) {
        let now = time.uptime()
        return state.withLock { state in
            let effects = state.plan.decide(
                operation: route.operation, bucket: route.bucket, key: route.key, at: now - state.began)
            return (effects, state.generation)
        }
    }

    /// Whether the faults of then have not been replaced.
    func isInForce(_ generation: Int) -> Bool { state.withLock { $0.generation == generation } }
}

/// The dialects' clock, as wrong as the faults of the request being served make it.
struct ServerClock: TimeSource {
    @TaskLocal static var offset = Duration.zero
    let base: any TimeSource

    func now() -> Timestamp { base.now() + Self.offset }
    func uptime() -> Duration { base.uptime() }
    func sleep(for duration: Duration) async throws(CancellationError) { try await base.sleep(for: duration) }
}

/// What can be changed while a server runs, by unsigned requests from this machine: `PUT /_pailstore/faults` with one fault
/// a line, `PUT /_pailstore/session-tokens` with the tokens of which requests have to carry one, one a line.
struct ServerControl: Sendable {
    let plan: SharedFaultPlan
    let tokens: SessionTokens

    /// nil when the request is none of these.
    func answer(_ request: ServerRequest, _ body: RequestBody) async -> ServerResponse? {
        switch request.path {
        case "/_pailstore/faults":
            return await answer(request, body, shown: plan.specs.map { $0.text + "\n" }.joined()) { text in
                plan.set(try Self.lines(text).map { (line) throws(FaultSyntaxError) in try FaultSpec(parsing: line) })
            }
        case "/_pailstore/session-tokens":
            return await answer(request, body, shown: tokens.valid.map { $0 + "\n" }.joined()) { text in
                tokens.replace(by: Self.lines(text))
            }
        default: return nil
        }
    }

    private static func lines(_ text: String) -> [String] { text.split(whereSeparator: \.isNewline).map(String.init) }

    private func answer(
        _ request: ServerRequest, _ body: RequestBody, shown: String, change: (String) throws -> Void
    ) async -> ServerResponse {
        var response = ServerResponse(status: 200, headers: [Field("Content-Type", "text/plain")])
        switch request.method {
        case "GET": response.body = .bytes(Array(shown.utf8))
        case "PUT":
            do { try change(String(decoding: try await body.collect(limit: 1 << 20), as: UTF8.self)) } catch {
                response.status = 400
                response.body = .bytes(Array("\(error)\n".utf8))
            }
        default: response.status = 405
        }
        return response
    }
}
