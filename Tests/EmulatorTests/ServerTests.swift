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
