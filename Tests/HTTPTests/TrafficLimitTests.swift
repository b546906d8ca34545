import Basics
import HTTP
import Synchronization
import TestSupport
import Testing

/// Limits of an engine's traffic. Only that something takes its time is held against the clock, never that it is quick.
@Suite(.timeLimit(.minutes(2)))
struct TrafficLimitTests {
    private static let rate: Int64 = 4 << 20
    private static let length = 3 << 20

    private static func engine(_ traffic: HTTPTraffic, stallTimeout: Duration = .seconds(20)) -> HTTPEngine {
        var options = HTTPOptions()
        options.proxy = ""
        options.stallTimeout = stallTimeout
        return HTTPEngine(options, traffic: traffic)
    }

    private static func request(_ method: HTTPMethod, _ server: LocalServer, _ target: String = "/") -> HTTPRequest {
        HTTPRequest(method, HTTPOrigin(isSecure: false, host: "127.0.0.1", port: server.port), target: target)
    }

    private final class Length: ByteSink {
        private let bytes = Mutex(0)
        var value: Int { bytes.withLock { $0 } }
        func receive(_ span: RawSpan) {
            let count = span.byteCount
            bytes.withLock { $0 += count }
        }
        func restart() { bytes.withLock { $0 = 0 } }
    }

    private final class Order: Sendable {
        private let state = Mutex<[String]>([])
        var names: [String] { state.withLock { $0 } }
        func append(_ name: String) { state.withLock { $0.append(name) } }
    }

    private static func server() -> LocalServer {
        LocalServer { LocalAnswer(200, body: $0.target == "/big" ? big : "\($0.body.count)") }
    }

    private static let big = String(repeating: "b", count: length)

    /// What `body` moves, beyond the tenth of a second that may go at once, takes its time.
    private func takesItsTime(_ bytes: Int, _ body: () async throws -> Void) async throws {
        let start = ContinuousClock.now
        try await body()
        let least = (Double(bytes) / Double(Self.rate) - 0.15) * 0.9
        #expect(ContinuousClock.now - start >= .seconds(least))
    }

    @Test(arguments: [1, 4]) func uploadsKeepTheLimitTogether(count: Int) async throws {
        let (server, traffic) = (Self.server(), HTTPTraffic())
        traffic.limits.set(upload: RateSchedule(Self.rate), download: .unlimited)
        let engine = Self.engine(traffic)
        try await takesItsTime(Self.length) {
            try await withThrowingTaskGroup { group in
                for _ in 0..<count {
                    group.addTask {
                        let body = MemorySource([UInt8](repeating: 1, count: Self.length / count))
                        let answer = try await engine.execute(Self.request(.put, server), body: body)
                        #expect(String(decoding: answer.body, as: UTF8.self) == "\(Self.length / count)")
                    }
                }
                try await group.waitForAll()
            }
        }
        #expect(traffic.sent == Int64(Self.length))
    }

    @Test(arguments: [1, 4]) func downloadsKeepTheLimitTogether(count: Int) async throws {
        let (server, traffic) = (Self.server(), HTTPTraffic())
        traffic.limits.set(upload: .unlimited, download: RateSchedule(Self.rate))
        let engine = Self.engine(traffic)
        try await takesItsTime(Self.length * count) {
            try await withThrowingTaskGroup { group in
                for _ in 0..<count {
                    group.addTask {
                        let sink = Length()
                        let answer = try await engine.execute(Self.request(.get, server, "/big"), sink: sink)
                        #expect(answer.delivered == Int64(Self.length) && sink.value == Self.length)
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    @Test func aSmallReadGoesBeforeBigOnesThatBeganEarlier() async throws {
        let (server, traffic) = (Self.server(), HTTPTraffic())
        traffic.limits.set(upload: .unlimited, download: RateSchedule(Self.rate / 4))
        let engine = Self.engine(traffic)
        let ended = Order()
        try await withThrowingTaskGroup { group in
            for _ in 0..<4 {
                group.addTask {
                    _ = try await engine.execute(Self.request(.get, server, "/big"), sink: Length())
                    ended.append("big")
                }
            }
            try await waitUntil("big transfers are under way") { traffic.received > 256 << 10 }
            _ = try await engine.execute(Self.request(.put, server), body: MemorySource([1, 2, 3]))
            ended.append("small")
            traffic.limits.set(upload: .unlimited, download: .unlimited)
            try await group.waitForAll()
        }
        #expect(ended.names == ["small", "big", "big", "big", "big"])
    }

    @Test func waitingForTheLimitIsNoSilenceOfTheServer() async throws {
        let (server, traffic) = (Self.server(), HTTPTraffic())
        traffic.limits.set(upload: RateSchedule(64 << 10), download: RateSchedule(64 << 10))
        let engine = Self.engine(traffic, stallTimeout: .milliseconds(100))
        // Two transfers wait for one another for longer than the server may be silent.
        try await withThrowingTaskGroup { group in
            for _ in 0..<2 {
                group.addTask {
                    let body = MemorySource([UInt8](repeating: 1, count: 64 << 10))
                    let answer = try await engine.execute(Self.request(.put, server), body: body)
                    #expect(answer.isSuccess)
                }
            }
            try await group.waitForAll()
        }
    }

    @Test func aTransferThatWaitsCanBeCancelled() async throws {
        let (server, traffic) = (Self.server(), HTTPTraffic())
        traffic.limits.set(upload: .unlimited, download: RateSchedule(16 << 10))
        let engine = Self.engine(traffic)
        let task = Task { try await engine.execute(Self.request(.get, server, "/big"), sink: Length()) }
        try await waitUntil("bytes have come") { traffic.received > 0 }
        task.cancel()
        let result = await task.result
        #expect(throws: HTTPError.self) { try result.get() }
        traffic.limits.set(upload: .unlimited, download: .unlimited)
        #expect(try await engine.execute(Self.request(.get, server)).isSuccess)
    }

    @Test func aLimitThatGoesLetsThoseThatWaitGoOn() async throws {
        let (server, traffic) = (Self.server(), HTTPTraffic())
        // Alone it would take three minutes.
        traffic.limits.set(upload: .unlimited, download: RateSchedule(16 << 10))
        let engine = Self.engine(traffic)
        let task = Task { try await engine.execute(Self.request(.get, server, "/big"), sink: Length()) }
        try await waitUntil("bytes have come") { traffic.received > 0 }
        traffic.limits.set(upload: .unlimited, download: .unlimited)
        #expect(try await task.value.delivered == Int64(Self.length))
    }
}
