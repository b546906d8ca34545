import Basics
import Emulator
import Foundation
import TestSupport
import Testing

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The server in this process: what only shows on a connection. Requests that are signed are boto3_conformance.py's.
@Suite struct ServerTests {
    private func answer(_ method: String, _ url: String, body: String? = nil) async throws -> (Int, String) {
        var request = URLRequest(url: try #require(URL(string: url)))
        request.httpMethod = method
        request.httpBody = body.map { Data($0.utf8) }
        request.timeoutInterval = 20
        let (data, response) = try await URLSession.shared.data(for: request)
        return ((response as? HTTPURLResponse)?.statusCode ?? 0, String(decoding: data, as: UTF8.self))
    }

    private func withServer(
        _ options: EmulatorOptions = EmulatorOptions(), _ body: (EmulatorServer) async throws -> Void
    ) async throws {
        let directory = try TemporaryDirectory()
        var options = options
        options.buckets = ["bucket"]
        let server = try await EmulatorServer.start(directory: directory.path, options: options)
        let access = AccessControl(
            grants: ["READ", "WRITE"].map {
                .init(grantee: .group(uri: "http://acs.amazonaws.com/groups/global/AllUsers"), permission: $0)
            })
        try server.library.bucket("bucket").setAccess(access)
        do { try await body(server) } catch {
            await server.stop()
            throw error
        }
        await server.stop()
    }

    @Test func itServesListsAndStops() async throws {
        try await withServer { server in
            #expect(try await answer("PUT", "\(server.endpoint)/bucket/a%20b", body: "bytes").0 == 200)
            let (status, text) = try await answer("GET", "\(server.endpoint)/bucket/?list-type=2")
            #expect(status == 200)
            #expect(text.contains("<Key>a b</Key>"))
            #expect(try await answer("GET", "\(server.endpoint)/bucket/a%20b").0 == 403)
            #expect(try await answer("GET", "\(server.endpoint)/").0 == 403)
        }
    }

    @Test func brokenRequestsAreRefusedAndWhoeverGoesAwayHarmsNobody() async throws {
        try await withServer { server in
            let refused = try RawConnection(port: server.port)
            try refused.send("NONSENSE\r\n\r\n")
            #expect(try refused.receive().hasPrefix("HTTP/1.1 400 "))
            // A length is missing, so the body is no part of the request.
            let unframed = try RawConnection(port: server.port)
            try unframed.send("PUT /bucket/key HTTP/1.1\r\nHost: a\r\n\r\nnew")
            #expect(try unframed.receive().hasPrefix("HTTP/1.1 4"))
            // Answered before it has sent everything, and gone without ever doing so.
            let gone = try RawConnection(port: server.port)
            try gone.send("PUT /no-such-bucket/key HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc")
            #expect(try gone.receive().hasPrefix("HTTP/1.1 4"))
            gone.close()
            for _ in 1...20 {
                let again = try RawConnection(port: server.port)
                try again.send("GET /bucket/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                #expect(try again.receive().hasPrefix("HTTP/1.1 "))
            }
        }
    }

    @Test func bucketsMayBeNamedByTheHost() async throws {
        try await withServer { server in
            let url = "http://bucket.localhost:\(server.port)/"
            var request = URLRequest(url: try #require(URL(string: "\(server.endpoint)/?list-type=2&prefix=x")))
            request.setValue("bucket.localhost:\(server.port)", forHTTPHeaderField: "Host")
            let (data, _) = try await URLSession.shared.data(for: request)
            #expect(String(decoding: data, as: UTF8.self).contains("<Name>bucket</Name>"), "\(url)")
        }
    }

    @Test func requestsAreLoggedBeforeTheirAnswerEnds() async throws {
        let directory = try TemporaryDirectory()
        var options = EmulatorOptions()
        options.requestLog = directory.path("log")
        try await withServer(options) { server in
            _ = try await answer("PUT", "\(server.endpoint)/bucket/k", body: "12345")
            let log = try String(contentsOfFile: directory.path("log"), encoding: .utf8)
            #expect(log.contains(#""operation":"PutObject","bucket":"bucket","key":"k","status":200,"bytes_in":5"#))
        }
    }

    @Test func faultsCanBeChangedWhileItRuns() async throws {
        try await withServer { server in
            let faults = "\(server.endpoint)/_pailstore/faults"
            let line = "op=PutObject,count=1,kind=status:503,retry-after=3"
            #expect(try await answer("PUT", faults, body: "\(line)\n").0 == 200)
            #expect(try await answer("GET", faults).1 == "\(line)\n")
            let (status, text) = try await answer("PUT", "\(server.endpoint)/bucket/k", body: "x")
            #expect(status == 503)
            #expect(text.contains("<Code>SlowDown</Code>"))
            #expect(try await answer("PUT", "\(server.endpoint)/bucket/k", body: "x").0 == 200)
            #expect(try await answer("PUT", faults, body: "kind=wrong").0 == 400)
        }
    }

    @Test func theFaultsOfARequestAreInTheLog() async throws {
        let directory = try TemporaryDirectory()
        var options = EmulatorOptions()
        options.requestLog = directory.path("log")
        options.faults = [try FaultSpec(parsing: "kind=latency:1ms"), try FaultSpec(parsing: "kind=status:500")]
        try await withServer(options) { server in
            _ = try await answer("PUT", "\(server.endpoint)/bucket/k", body: "12345")
            server.setFaults([])
            _ = try await answer("PUT", "\(server.endpoint)/bucket/k", body: "12345")
            let log = try String(contentsOfFile: directory.path("log"), encoding: .utf8).split(separator: "\n")
            #expect(log.count == 2)
            #expect(log.first?.contains(#""faults":["latency:1ms","status:500"]"#) == true)
            #expect(log.last?.contains("faults") == false)
        }
    }

    /// A server with a wrong clock says so in its answers and in what it stores.
    @Test func theClockCanBeWrong() async throws {
        try await withServer { server in
            server.setFaults([try FaultSpec(parsing: "op=PutObject,kind=clock:-48h")])
            let url = try #require(URL(string: "\(server.endpoint)/bucket/k"))
            var request = URLRequest(url: url)
            (request.httpMethod, request.httpBody) = ("PUT", Data("x".utf8))
            let (_, response) = try await URLSession.shared.data(for: request)
            let date = (response as? HTTPURLResponse)?.value(forHTTPHeaderField: "Date")
            let told = try #require(date.flatMap { Timestamp(httpDate: $0) })
            let offset = told - SystemTime().now()
            #expect(offset < .seconds(-47 * 3600) && offset > .seconds(-49 * 3600))
            let stored = try server.library.bucket("bucket").object("k").record.modified - SystemTime().now()
            #expect(stored < .seconds(-47 * 3600))
        }
    }

    /// The client gives up before the server answers; others are served meanwhile.
    @Test func aRequestCanHang() async throws {
        try await withServer { server in
            server.setFaults([try FaultSpec(parsing: "op=PutObject,count=1,kind=hang")])
            var request = URLRequest(url: try #require(URL(string: "\(server.endpoint)/bucket/k")))
            (request.httpMethod, request.httpBody, request.timeoutInterval) = ("PUT", Data("x".utf8), 1)
            let hanging = request
            await #expect(throws: URLError.self) { try await URLSession.shared.data(for: hanging) }
            #expect(try await answer("PUT", "\(server.endpoint)/bucket/k", body: "x").0 == 200)
        }
    }

    @Test func aRequestHangsNoLongerThanItsFault() async throws {
        let directory = try TemporaryDirectory()
        var options = EmulatorOptions()
        options.requestLog = directory.path("log")
        options.faults = [try FaultSpec(parsing: "kind=hang")]
        try await withServer(options) { server in
            let connection = try RawConnection(port: server.port)
            try connection.send("GET /bucket/k HTTP/1.1\r\nHost: a\r\n\r\n")
            while try String(contentsOfFile: directory.path("log"), encoding: .utf8).isEmpty {
                try await Task.sleep(for: .milliseconds(5))
            }
            server.setFaults([])
            let failure = #expect(throws: RawConnection.Failure.self) { try connection.receive() }
            #expect(failure?.errno == ECONNRESET)
        }
    }

    @Test func sessionTokensCanBeChangedWhileItRuns() async throws {
        var options = EmulatorOptions()
        options.credentials = EmulatorCredentials(sessionToken: "first")
        try await withServer(options) { server in
            let (address, tokens) = ("\(server.endpoint)/_pailstore/session-tokens", options.credentials.tokens)
            let shown = try await answer("GET", address).1
            #expect(shown == "first\n")
            #expect(try await answer("PUT", address, body: "first\nsecond\n").0 == 200)
            #expect(tokens.accept("first") && tokens.accept("second") && !tokens.accept(nil))
            #expect(try await answer("PUT", address, body: "second\n").0 == 200)
            #expect(tokens.hasEnded("first") && !tokens.accept("first"))
            #expect(try await answer("PUT", address, body: "").0 == 200)
            #expect(tokens.accept(nil) && tokens.hasEnded("second"))
        }
    }

    @Test func othersAreNotServedUnasked() async throws {
        let directory = try TemporaryDirectory()
        var options = EmulatorOptions()
        options.host = "0.0.0.0"
        await #expect(throws: EmulatorError.self) {
            try await EmulatorServer.start(directory: directory.path, options: options)
        }
    }

    @Test(arguments: [
        "<A><B>1 &lt; 2 &amp; &#x41;&#66;</B><!-- c --><B><![CDATA[<raw>]]></B></A>",
        "<?xml version='1.0'?>\n<x:A xmlns:x='u'> <x:B>1 &lt; 2 &amp; AB</x:B>\n<B a=\"1\">&lt;raw&gt;</B></x:A>\n",
    ])
    func documentsAreRead(text: String) throws {
        let root = try #require(XMLReader.parse(Array(text.utf8)))
        #expect(root.name == "A")
        #expect(root.all("B").map(\.text) == ["1 < 2 & AB", "<raw>"])
    }

    @Test(arguments: [
        "", "<A>", "<A></B>", "<A/><B/>", "<A>&unknown;</A>", "<A b=1/>", "text", "<!DOCTYPE A><A/>",
        "<A>&#x110000;</A>",
        String(repeating: "<A>", count: 100_000),
    ])
    func brokenDocumentsAreRefused(text: String) {
        #expect(XMLReader.parse(Array(text.utf8)) == nil)
    }
}
