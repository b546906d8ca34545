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
            try await prepare(server)
            let store = try server.store()
            // As a mount does first: the container's answer shows which server this is.
            try await store.checkAccess()
            try await body(Fixture(store: store, differences: differences, server: server))
        }
    }

    /// As version 16.2 answers.
    private static let differences: Differences = {
        var differences = Differences()
        differences.copiesRanges = false
        differences.copiesBecomePlain = false
        differences.checksManifests = false
        differences.endsRangesByPrefix = false
        return differences
    }()

    /// Makes the container, and the account's key for URLs that work without a token.
    private static func prepare(_ server: Server) async throws {
        let key = HTTPHeaders([("X-Account-Meta-Temp-URL-Key", RealSwift.temporaryURLKey)])
        for (method, container, headers) in [(HTTPMethod.put, server.bucket, HTTPHeaders()), (.post, "", key)] {
            let resource = container.isEmpty ? "" : ByteString("/\(container)")
            var head = SwiftRequestHead(method, resource, headers)
            let address = try await server.authenticator().authorize(&head)
            let request = HTTPRequest(
                method, address.origin, target: address.path(container, nil), headers: head.headers)
            try #require(try await server.engine.execute(request).isSuccess)
        }
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
            let reader = output.fileHandleForReading.fileDescriptor
            let data = await onThreadOfItsOwn {
                FileHandle(fileDescriptor: reader, closeOnDealloc: false).availableData
            }
            let line = String(decoding: data, as: UTF8.self)
            let port = try #require(line.split(separator: ":").last.flatMap { Int($0.prefix { $0.isNumber }) })
            result = .success(try await body(port))
        } catch { result = .failure(error) }
        try input.fileHandleForWriting.close()
        await onThreadOfItsOwn { process.waitUntilExit() }
        try result.get()
    }

    /// The cluster takes its time to start and to end; the tests that run beside have two threads in all.
    private static func onThreadOfItsOwn<Value: Sendable>(_ work: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            startThread(name: "ceph") { continuation.resume(returning: work()) }
        }
    }
}
