import Basics
import Foundation
import HTTP
import ObjectStorage
import Providers
import TestSupport
import Testing

/// A real OpenStack Swift with a container.
enum RealSwift {
    @Sendable static func run(_ body: Against.Body) async throws {
        let directory = try TemporaryDirectory()
        let swift = try OpenStackSwift(in: directory.path)
        defer { swift.stop() }
        try await swift.waitUntilListening()
        var server = Server(port: swift.port, dialect: .swift)
        (server.accessKey, server.secret) = (OpenStackSwift.user, OpenStackSwift.key)
        try await awaitReadiness(of: server, swift)
        try await body(Fixture(store: try server.store(), server: server))
    }

    /// Makes the container, and returns when an object can be stored in it.
    private static func awaitReadiness(of server: Server, _ swift: OpenStackSwift) async throws {
        let login = TempAuthLogin(
            url: "\(server.endpoint)/auth/v1.0", user: server.accessKey, key: Secret(server.secret))
        let store = try server.store()
        let time = SystemTime()
        for _ in 0..<900 {
            if let token = try? await login.token(server.engine, time), let address = StorageAddress(token.storageURL) {
                let headers = HTTPHeaders([
                    ("X-Auth-Token", token.token.revealed), ("X-Container-Meta-Temp-URL-Key", temporaryURLKey),
                ])
                let request = HTTPRequest(
                    .put, address.origin, target: address.path(server.bucket, nil), headers: headers)
                let answer = try? await server.engine.execute(request)
                if let answer, answer.isSuccess,
                    await failure({ try await store.put(PutRequest("ready"), body: MemorySource([1])) }) == nil
                {
                    try await store.delete("ready", ifMatch: nil)
                    return
                }
            }
            try await time.sleep(for: .milliseconds(200))
        }
        Issue.record("Swift did not become ready: \(swift.log.suffix(2000))")
        throw CancellationError()
    }

    static let temporaryURLKey = "key of URLs"

    // MARK: The emulator's own list

    static let python = ProcessInfo.processInfo.environment["PAILFS_TEST_PYTHON"].flatMap { $0.isEmpty ? nil : $0 }

    /// Asks the server what the emulator's CSSP dialect is asked; returns what the program printed when it is content.
    static func runEmulatorsList(against server: Server) throws -> String {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let process = Process()
        process.executableURL = URL(fileURLWithPath: try #require(python))
        process.arguments = [tests.appendingPathComponent("EmulatorTests/cssp_conformance.py").path]
        process.environment = [
            "SWIFT_AUTH": "\(server.endpoint)/auth/v1.0", "SWIFT_USER": server.accessKey, "SWIFT_KEY": server.secret,
            "PATH": "/usr/bin:/bin",
        ]
        let output = Pipe()
        (process.standardOutput, process.standardError) = (output, output)
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        try #require(process.terminationStatus == 0, "\(text)")
        return text
    }
}
