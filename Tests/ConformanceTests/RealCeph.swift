import Basics
import Foundation
import HTTP
import ObjectStorage
import Providers
import TestSupport
import Testing

/// A real Ceph with a gateway, as Tests/ServerTests/ceph_cluster.py starts it.
enum RealCeph {
    static let isInstalled = ["ceph-mon", "ceph-osd", "radosgw"].allSatisfy { name in
        FileManager.default.isExecutableFile(atPath: "/usr/bin/\(name)")
    }

    /// The gateway's Swift API with a container.
    @Sendable static func swift(_ body: Against.Body) async throws {
        try await withGateway { port in
            var server = Server(port: port, dialect: .swift)
            (server.accessKey, server.secret) = ("tester:swift", "testing")
            try await makeContainer(at: server)
            try await body(Fixture(store: try server.store(), server: server))
        }
    }

    private static func makeContainer(at server: Server) async throws {
        var head = SwiftRequestHead(
            .put, ByteString("/\(server.bucket)"),
            HTTPHeaders([("X-Container-Meta-Temp-URL-Key", RealSwift.temporaryURLKey)]))
        let address = try await server.authenticator().authorize(&head)
        let request = HTTPRequest(
            .put, address.origin, target: address.path(server.bucket, nil), headers: head.headers)
        try #require(try await server.engine.execute(request).isSuccess)
    }

    private static func withGateway(_ body: (Int) async throws -> Void) async throws {
        let directory = try TemporaryDirectory()
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
        process.arguments = [tests.appendingPathComponent("ServerTests/ceph_cluster.py").path, directory.path("ceph")]
        process.environment = ["PATH": "/usr/sbin:/usr/bin:/bin", "HOME": directory.path]
        let (input, output) = (Pipe(), Pipe())
        _ = fcntl(input.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
        let result: Result<Void, any Error>
        do {
            let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
            let port = try #require(line.split(separator: ":").last.flatMap { Int($0.prefix { $0.isNumber }) })
            result = .success(try await body(port))
        } catch { result = .failure(error) }
        try input.fileHandleForWriting.close()
        process.waitUntilExit()
        try result.get()
    }
}
