import Basics
import Glibc
import HTTP
import Synchronization
import TestSupport
import Testing

/// What becomes of connections whose other end does not hear us any more, though nobody has closed them.
@Suite(.timeLimit(.minutes(2)))
struct DeadPathTests {
    private static func engine(stallTimeout: Duration) -> HTTPEngine {
        var options = HTTPOptions(userAgent: "pailfs-test")
        options.proxy = ""
        options.stallTimeout = stallTimeout
        return HTTPEngine(options)
    }

    private static func request(_ method: HTTPMethod, _ server: LocalServer) -> HTTPRequest {
        HTTPRequest(method, HTTPOrigin(isSecure: false, host: "127.0.0.1", port: server.port), target: "/")
    }

    @Test func bytesThatNobodyTakesEndTheirConnectionBeforeTheRequestIsGivenUp() async throws {
        let over = Semaphore()
        let together = Mutex(0)
        let server = LocalServer(serving: { connection in
            while let request = connection.readRequest() {
                if request.method == "PUT" {
                    // The kernel's buffers fill up.
                    over.wait()
                    return
                }
                // The first three come at the same time, and so on as many connections.
                let number = together.withLock { count in
                    count += 1
                    return count
                }
                while number <= 3, together.withLock({ $0 < 3 }) { usleep(5_000) }
                connection.send(LocalAnswer(200), to: request)
            }
        })
        defer { over.signal() }
        let engine = Self.engine(stallTimeout: .seconds(6))
        async let first = engine.execute(Self.request(.get, server))
        async let second = engine.execute(Self.request(.get, server))
        async let third = engine.execute(Self.request(.get, server))
        #expect(try await [first.status, second.status, third.status] == [200, 200, 200])
        #expect(server.connections == 3)

        let body = MemorySource([UInt8](repeating: 7, count: 64 << 20))
        let error = await #expect(throws: HTTPError.self) {
            _ = try await engine.execute(Self.request(.put, server), body: body)
        }
        // And not `timedOut`, after which there is no time left for another try.
        #expect(error?.kind == .interrupted)
        #expect(server.connections == 3)

        // Those that are left are as old, and lead to where that one did.
        #expect(try await engine.execute(Self.request(.get, server)).status == 200)
        #expect(server.connections == 4)
    }
}
