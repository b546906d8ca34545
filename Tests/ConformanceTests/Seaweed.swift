import Basics
import Foundation
import HTTP
import ObjectStorage
import Providers
import TestSupport
import Testing

/// A SeaweedFS with an S3 gateway on loopback ports, in a directory of its own.
enum Seaweed {
    static let program = ProcessInfo.processInfo.environment["PAILFS_TEST_WEED"].flatMap { $0.isEmpty ? nil : $0 }

    private static let identities = """
        {"identities": [{"name": "tester", "actions": ["Admin", "Read", "Write", "List", "Tagging"],
         "credentials": [{"accessKey": "tester", "secretKey": "tester-secret"}]}]}
        """

    /// Ends the server by its process ID when its own input ends: also when this process dies.
    private static let keeper = """
        "$@" </dev/null >"$LOG" 2>&1 & server=$!
        read -r _
        kill -KILL $server
        """

    @Sendable static func run(_ body: Against.Body) async throws {
        let directory = try TemporaryDirectory()
        try identities.write(toFile: directory.path("s3.json"), atomically: true, encoding: .utf8)
        try FileManager.default.createDirectory(atPath: directory.path("data"), withIntermediateDirectories: false)
        let ports = unusedPorts(8)
        let names = ["master", "volume", "filer", "s3"].flatMap { ["-\($0).port", "-\($0).port.grpc"] }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.environment = ["LOG": directory.path("log"), "HOME": directory.path, "PATH": "/usr/bin:/bin"]
        process.currentDirectoryURL = URL(fileURLWithPath: directory.path)
        process.arguments =
            [
                "-c", keeper, "sh", try #require(program), "server", "-dir=\(directory.path("data"))",
                "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", "-s3.config=\(directory.path("s3.json"))",
                "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false", "-volume.max=100",
                "-master.volumeSizeLimitMB=64",
            ] + zip(names, ports).map { "\($0)=\($1)" }
        let input = Pipe()
        // A program that a test starts meanwhile must not hold the server's end back.
        _ = fcntl(input.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
        process.standardInput = input
        try process.run()
        let result: Result<Void, any Error>
        do {
            let server = Server(port: ports[6])
            try await awaitReadiness(of: server, log: directory.path("log"))
            result = .success(
                try await body(Fixture(store: try server.store(), differences: differences, server: server)))
        } catch { result = .failure(error) }
        try input.fileHandleForWriting.close()
        process.waitUntilExit()
        try result.get()
    }

    /// Makes the bucket, and returns when an object can be stored in it.
    private static func awaitReadiness(of server: Server, log: String) async throws {
        let credentials = Credentials(accessKeyID: server.accessKey, secretKey: Secret(server.secret))
        let store = try server.store()
        let time = SystemTime()
        for _ in 0..<300 {
            var headers = HTTPHeaders([("Host", server.origin.authority)])
            let path = "/" + server.bucket
            let signed = SignedRequest(
                .put, host: server.origin.authority, path: path, bucket: server.bucket, key: nil, region: "us-east-1",
                at: time.now())
            SigV4Signer().sign(&headers, signed, with: credentials)
            let request = HTTPRequest(.put, server.origin, target: path, headers: headers)
            let answer = try? await server.engine.execute(request)
            if let answer, answer.isSuccess || answer.status == 409,
                await failure({ try await store.put(PutRequest("ready"), body: MemorySource([1])) }) == nil
            {
                try await store.delete("ready", ifMatch: nil)
                return
            }
            try await time.sleep(for: .milliseconds(200))
        }
        let text = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
        Issue.record("SeaweedFS did not become ready: \(text.suffix(2000))")
        throw CancellationError()
    }

    /// As version 4.48 answers.
    private static let differences: Differences = {
        var differences = Differences()
        differences.keys = [
            "a//b": .becomes("a/b"), "back\\slash": .becomes("back/slash"), "a/./b": .refused(.invalidRequest),
            "a/../b": .refused(.invalidRequest),
        ]
        differences.keepsHeadersOfMarkers = false
        differences.copiesMarkers = false
        differences.listsInByteOrder = false
        differences.forgetsReplacedParts = false
        differences.encodesPlusInUploads = false
        return differences
    }()
}
