import Basics
import Glibc
import HTTP
import Synchronization
import TestSupport
import Testing

/// Bytes that are made up as they are read.
private struct PatternSource: ByteSource {
    let count: Int64

    func read(at offset: Int64, into output: inout OutputRawSpan) {
        let start = min(count, offset)
        let end = min(count, start + Int64(output.freeCapacity))
        output.withUnsafeMutableBytes { buffer, initialized in
            for index in initialized..<(initialized + Int(end - start)) { buffer[index] = 0x5A }
            initialized += Int(end - start)
        }
    }
}

/// Counts bytes and remembers the largest piece.
private final class CountingSink: ByteSink {
    private let state = Mutex((bytes: Int64(0), largest: 0))

    var bytes: Int64 { state.withLock { $0.bytes } }
    var largest: Int { state.withLock { $0.largest } }

    func receive(_ bytes: RawSpan) {
        let count = bytes.byteCount
        state.withLock { $0 = ($0.bytes + Int64(count), max($0.largest, count)) }
    }
    func restart() { state.withLock { $0 = (0, 0) } }
}

@Suite(.timeLimit(.minutes(5)))
struct HTTPEngineTests {
    private static func engine(stallTimeout: Duration = .seconds(20), connections: Int = 8) -> HTTPEngine {
        var options = HTTPOptions(userAgent: "pailfs-test")
        options.proxy = ""
        options.stallTimeout = stallTimeout
        options.maxConnections = connections
        return HTTPEngine(options)
    }

    private static func request(_ method: HTTPMethod, _ server: LocalServer, _ target: String = "/") -> HTTPRequest {
        HTTPRequest(method, HTTPOrigin(isSecure: false, host: "127.0.0.1", port: server.port), target: target)
    }

    private func kind(of call: () async throws -> Void) async -> HTTPError.Kind? {
        do {
            try await call()
            return nil
        } catch {
            return (error as? HTTPError)?.kind
        }
    }

    @Test func connectionsAreKeptAndReused() async throws {
        let server = LocalServer { _ in LocalAnswer(200, body: "hello") }
        let engine = Self.engine()
        for _ in 0..<20 {
            let response = try await engine.execute(Self.request(.get, server))
            #expect(response.body == Array("hello".utf8))
        }
        #expect(server.connections == 1)
    }

    @Test func bytesOfBodiesAreCountedBothWays() async throws {
        let server = LocalServer { LocalAnswer($0.method == "PUT" ? 503 : 200, body: "answer") }
        var options = HTTPOptions()
        options.proxy = ""
        let traffic = HTTPTraffic()
        let engine = HTTPEngine(options, traffic: traffic)
        _ = try await engine.execute(Self.request(.get, server))
        #expect(traffic.sent == 0 && traffic.received == 6)
        // What is refused was sent all the same.
        _ = try await engine.execute(Self.request(.put, server), body: PatternSource(count: 1000))
        #expect(traffic.sent == 1000 && traffic.received == 12)
    }

    @Test func requestsWaitForAConnection() async throws {
        let server = LocalServer { _ in LocalAnswer(200) }
        let engine = Self.engine(connections: 2)
        try await withThrowingTaskGroup { group in
            for _ in 0..<40 { group.addTask { _ = try await engine.execute(Self.request(.get, server)) } }
            try await group.waitForAll()
        }
        #expect(server.connections <= 2)
    }

    @Test(arguments: ["/a%20b/../c//d/.?x=%2F&y", "/%E4%B8%AD/./~-_.!*'()"])
    func theTargetArrivesUnchanged(target: String) async throws {
        let server = LocalServer { LocalAnswer(200, body: $0.target) }
        let response = try await Self.engine().execute(Self.request(.get, server, target))
        #expect(String(decoding: response.body, as: UTF8.self) == target)
    }

    @Test func headersGoOutInOrderAndComeBackWithoutCase() async throws {
        let seen = Mutex<LocalRequest?>(nil)
        let server = LocalServer { request in
            seen.withLock { $0 = request }
            return LocalAnswer(200, [("X-AMZ-Thing", " padded "), ("Set-Cookie", "a"), ("set-cookie", "b")])
        }
        var request = Self.request(.get, server)
        request.headers = HTTPHeaders([("x-b", "2"), ("x-a", "1"), ("x-empty", "")])
        let response = try await Self.engine().execute(request)
        let names = try #require(seen.withLock { $0 })
        #expect(names.headers.map(\.name).filter { $0.hasPrefix("x-") } == ["x-b", "x-a", "x-empty"])
        #expect(names["x-empty"]?.isEmpty == true)
        #expect(names["user-agent"] == "pailfs-test")
        #expect(names["host"] == "127.0.0.1:\(server.port)")
        #expect(response.headers["x-amz-thing"] == "padded")
        #expect(response.headers.values("SET-COOKIE") == ["a", "b"])
    }

    @Test func headersWithLineBreaksAreRefused() async throws {
        let server = LocalServer { _ in LocalAnswer(200) }
        var request = Self.request(.get, server)
        request.headers = HTTPHeaders([("x-a", "1\r\nx-b: 2")])
        #expect(await kind { _ = try await Self.engine().execute(request) } == .invalidRequest)
        #expect(server.connections == 0)
    }

    @Test(arguments: [HTTPMethod.get, .head, .put, .post, .delete])
    func methodsWithoutBodySayThatThereIsNone(method: HTTPMethod) async throws {
        let server = LocalServer { LocalAnswer(200, [("X-Saw", "\($0.method) \($0["content-length"] ?? "-")")]) }
        let response = try await Self.engine().execute(Self.request(method, server))
        let length = method == .put || method == .post ? "0" : "-"
        #expect(response.headers["x-saw"] == "\(method.rawValue) \(length)")
    }

    @Test func largeBodiesStreamUp() async throws {
        let size = 64 << 20
        let server = LocalServer(serving: { connection in
            guard let request = connection.readRequest() else { return }
            let count = connection.skip(request.contentLength)
            connection.send(LocalAnswer(200, body: "\(count) \(request["expect"] ?? "-")"), to: request)
        })
        let response = try await Self.engine().execute(
            Self.request(.put, server), body: PatternSource(count: Int64(size)))
        #expect(String(decoding: response.body, as: UTF8.self) == "\(size) -")
    }

    @Test func largeBodiesStreamDown() async throws {
        let pieces = 64
        let server = LocalServer(serving: { connection in
            guard connection.readRequest() != nil else { return }
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(pieces << 20)\r\n\r\n")
            let piece = [UInt8](repeating: 7, count: 1 << 20)
            for _ in 0..<pieces { connection.write(piece) }
        })
        let sink = CountingSink()
        let response = try await Self.engine().execute(Self.request(.get, server), sink: sink)
        #expect(response.body.isEmpty)
        #expect(response.delivered == Int64(pieces << 20))
        #expect(sink.bytes == Int64(pieces << 20))
        #expect(sink.largest <= 1 << 20)
    }

    @Test func aChunkedBodyArrivesDecoded() async throws {
        let server = LocalServer(serving: { connection in
            _ = connection.readRequest()
            connection.write(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
        })
        let response = try await Self.engine().execute(Self.request(.get, server))
        #expect(String(decoding: response.body, as: UTF8.self) == "hello world")
    }

    @Test func aBodyCutShortIsInterrupted() async {
        let server = LocalServer(serving: { connection in
            _ = connection.readRequest()
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
        })
        #expect(await kind { _ = try await Self.engine().execute(Self.request(.get, server)) } == .interrupted)
    }

    @Test func aResetIsInterrupted() async {
        let server = LocalServer(serving: { connection in
            _ = connection.readRequest()
            connection.resetOnClose()
        })
        #expect(await kind { _ = try await Self.engine().execute(Self.request(.get, server)) } == .interrupted)
    }

    /// libcurl sends again by itself what gets no answer over a kept connection; what it is may have been done.
    @Test(arguments: [(HTTPMethod.put, [1, 2, 3]), (.put, []), (.post, []), (.delete, [])] as [(HTTPMethod, [UInt8])])
    func aChangeIsNeverSentTwiceOverABrokenConnection(method: HTTPMethod, body: [UInt8]) async throws {
        let changes = Mutex(0)
        let server = LocalServer(serving: { connection in
            while let request = connection.readRequest() {
                if request.method != "GET" {
                    _ = connection.readBody(request)
                    changes.withLock { $0 += 1 }
                    return
                }
                connection.send(LocalAnswer(200), to: request)
            }
        })
        let engine = Self.engine()
        _ = try await engine.execute(Self.request(.get, server))
        let change = await kind {
            let source = body.isEmpty ? nil : MemorySource(body)
            _ = try await engine.execute(Self.request(method, server), body: source)
        }
        #expect(change == .interrupted)
        #expect(changes.withLock { $0 } == 1)
        #expect(try await engine.execute(Self.request(.get, server)).status == 200)
    }

    @Test func aServerThatSaysNothingTimesOut() async {
        let server = LocalServer(serving: { connection in
            _ = connection.readRequest()
            connection.waitForClose()
        })
        let engine = Self.engine(stallTimeout: .milliseconds(200))
        #expect(await kind { _ = try await engine.execute(Self.request(.get, server)) } == .timedOut)
    }

    /// A copy at the store may take minutes; a store that is away is not waited for as long.
    @Test(arguments: [false, true]) func aServerMayThinkForLongWhileItAnswersOthers(isAway: Bool) async throws {
        let server = LocalServer(serving: { connection in
            guard let request = connection.readRequest() else { return }
            if isAway { return connection.waitForClose() }
            if request.method == "PUT" { usleep(900_000) }
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        })
        let engine = Self.engine(stallTimeout: .milliseconds(200))
        var request = Self.request(.put, server)
        request.stallTimeout = .seconds(300)
        let began = SystemTime().uptime()
        let failure = await kind { [request] in _ = try await engine.execute(request) }
        #expect(failure == (isAway ? .timedOut : nil))
        #expect(SystemTime().uptime() - began < .seconds(60))
    }

    @Test func aSlowBodyThatMovesDoesNotTimeOut() async throws {
        let server = LocalServer(serving: { connection in
            _ = connection.readRequest()
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n")
            for _ in 0..<8 {
                var pause = timespec(tv_sec: 0, tv_nsec: 100_000_000)
                nanosleep(&pause, nil)
                connection.write("x")
            }
        })
        let engine = Self.engine(stallTimeout: .milliseconds(400))
        let response = try await engine.execute(Self.request(.get, server))
        #expect(response.body.count == 8)
    }

    @Test func aTransferThatTakesTooLongEndsThoughItMoves() async {
        let server = LocalServer(serving: { connection in
            _ = connection.readRequest()
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while connection.write("x") {
                var pause = timespec(tv_sec: 0, tv_nsec: 20_000_000)
                nanosleep(&pause, nil)
            }
        })
        var options = HTTPOptions()
        options.transferTimeout = .milliseconds(300)
        let engine = HTTPEngine(options)
        #expect(await kind { _ = try await engine.execute(Self.request(.get, server)) } == .timedOut)
    }

    @Test func nobodyListeningIsUnreachable() async {
        let port: Int
        do {
            let server = LocalServer { _ in LocalAnswer(200) }
            port = server.port
        }
        let request = HTTPRequest(.get, HTTPOrigin(isSecure: false, host: "127.0.0.1", port: port), target: "/")
        #expect(await kind { _ = try await Self.engine().execute(request) } == .unreachable)
    }

    @Test func aServerWithoutTLSIsInsecure() async {
        let server = LocalServer(serving: { connection in
            _ = connection.skip(16)
            connection.write("HTTP/1.1 400 Bad Request\r\n\r\n")
        })
        let request = HTTPRequest(.get, HTTPOrigin(isSecure: true, host: "127.0.0.1", port: server.port), target: "/")
        #expect(await kind { _ = try await Self.engine().execute(request) } == .insecure)
    }

    @Test func cancellingTheTaskEndsTheTransfer() async {
        let arrived = Gate()
        let (server, left) = Self.silentServer(arrived)
        let engine = Self.engine()
        let task = Task { await kind { _ = try await engine.execute(Self.request(.get, server)) } }
        await arrived.waitForArrivals()
        task.cancel()
        #expect(await task.value == .cancelled)
        await left.waitForArrivals()
    }

    /// The server may carry it out after whatever is sent next: whoever gave it up has to know.
    @Test func whatWasSentIsAnsweredThoughItsTaskIsCancelled() async {
        let (arrived, withdrawn) = (Gate(), Gate())
        arrived.open()
        withdrawn.open()
        let pool = WorkerPool(threads: 1, name: "test-gates")
        let server = LocalServer(serving: { connection in
            _ = connection.readRequest()
            pool.start { await arrived.pass() }
            while withdrawn.arrivals == 0 { usleep(1000) }
            connection.write("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
        })
        let engine = Self.engine()
        let task = Task {
            try await engine.execute(Self.request(.put, server), body: MemorySource([1, 2, 3])).status
        }
        await arrived.waitForArrivals()
        task.cancel()
        await withdrawn.pass()
        #expect((try? await task.value) == 201)
    }

    /// But not for ever.
    @Test func whatWasSentAndIsNotAnsweredIsGivenUp() async {
        let arrived = Gate()
        let (server, left) = Self.silentServer(arrived)
        let engine = Self.engine()
        let task = Task {
            await kind { _ = try await engine.execute(Self.request(.put, server), body: MemorySource([1, 2, 3])) }
        }
        await arrived.waitForArrivals()
        task.cancel()
        #expect(await task.value == .cancelled)
        await left.waitForArrivals()
    }

    @Test func aCancelledTaskSendsNothing() async {
        let server = LocalServer { _ in LocalAnswer(200) }
        let engine = Self.engine()
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await kind { _ = try await engine.execute(Self.request(.get, server)) }
        }
        #expect(await task.value == .cancelled)
        #expect(server.connections == 0)
    }

    /// Passes through the first gate when a request is there and through the second when the client has gone.
    private static func silentServer(_ arrived: Gate) -> (LocalServer, Gate) {
        let left = Gate()
        arrived.open()
        left.open()
        let pool = WorkerPool(threads: 1, name: "test-gates")
        let server = LocalServer(serving: { connection in
            _ = connection.readRequest()
            pool.start { await arrived.pass() }
            connection.waitForClose()
            pool.start { await left.pass() }
        })
        return (server, left)
    }

    @Test func errorDocumentsAreCollectedAndKeptFromTheSink() async throws {
        let server = LocalServer { _ in LocalAnswer(503, body: "<Error/>") }
        let sink = CollectingSink()
        let response = try await Self.engine().execute(Self.request(.get, server), sink: sink)
        #expect(response.status == 503)
        #expect(String(decoding: response.body, as: UTF8.self) == "<Error/>")
        #expect(sink.bytes.isEmpty)
    }

    @Test func longErrorDocumentsAreCutAndLongAnswersRefused() async throws {
        let server = LocalServer {
            LocalAnswer($0.target == "/error" ? 500 : 200, bytes: [UInt8](repeating: 1, count: 5000))
        }
        var request = Self.request(.get, server, "/error")
        request.collectLimit = 1000
        let response = try await Self.engine().execute(request)
        #expect(response.body.count == 1000)
        request.target = "/answer"
        #expect(await kind { _ = try await Self.engine().execute(request) } == .tooLarge)
    }

    @Test func aRefusedBodyEndsTheTransfer() async throws {
        let server = LocalServer(serving: { connection in
            _ = connection.readRequest()
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
            connection.write([UInt8](repeating: 0, count: 100_000))
            connection.waitForClose()
        })
        let sink = CollectingSink()
        let response = try await Self.engine().execute(Self.request(.get, server), sink: sink) { _ in .refuse }
        #expect(response.status == 200)
        #expect(sink.bytes.isEmpty)
    }

    @Test func aFailingSinkIsALocalError() async {
        let server = LocalServer { _ in LocalAnswer(200, body: "hello") }
        let sink = CollectingSink()
        sink.fail(with: ByteTransferError(errno: 28, reason: "disk full"))
        let failure = await kind { _ = try await Self.engine().execute(Self.request(.get, server), sink: sink) }
        #expect(failure == .local(errno: 28))
    }

    @Test func aSourceThatEndsEarlyIsALocalError() async {
        struct Liar: ByteSource {
            let count: Int64 = 100
            func read(at offset: Int64, into output: inout OutputRawSpan) {}
        }
        let server = LocalServer(serving: { connection in
            _ = connection.readRequest()
            connection.waitForClose()
        })
        let failure = await kind { _ = try await Self.engine().execute(Self.request(.put, server), body: Liar()) }
        #expect(failure == .local(errno: 5))
    }

    @Test func informationalAnswersAreSkipped() async throws {
        let server = LocalServer(serving: { connection in
            _ = connection.readRequest()
            connection.write(
                "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        })
        let response = try await Self.engine().execute(Self.request(.get, server))
        #expect(response.status == 200)
        #expect(response.headers["link"] == nil)
        #expect(response.body == Array("ok".utf8))
    }

    @Test func whatIsNotHTTPIsMalformed() async {
        let server = LocalServer(serving: { connection in
            _ = connection.readRequest()
            connection.write("SSH-2.0-OpenSSH_9.2\r\n")
            // Stays open until the client has seen it and leaves.
            _ = connection.readRequest()
        })
        #expect(await kind { _ = try await Self.engine().execute(Self.request(.get, server)) } == .malformed)
    }

    @Test func aProxyGetsTheAbsoluteForm() async throws {
        let proxy = LocalServer { LocalAnswer(200, body: "\($0.target) \($0["host"] ?? "-")") }
        var options = HTTPOptions()
        options.proxy = "http://127.0.0.1:\(proxy.port)"
        let origin = HTTPOrigin(isSecure: false, host: "bucket.example.test")
        let response = try await HTTPEngine(options).execute(HTTPRequest(.get, origin, target: "/a%20b?c"))
        let saw = String(decoding: response.body, as: UTF8.self)
        #expect(saw == "http://bucket.example.test/a%20b?c bucket.example.test")
    }
}
