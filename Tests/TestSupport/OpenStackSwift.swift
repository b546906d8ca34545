import Foundation

/// A running OpenStack Swift in a directory of its own (Swift documentation, SAIO): Tests/ServerTests/openstack_swift.py starts
/// it.
///
/// The servers end with `stop`, and with this process however that ends.
package final class OpenStackSwift: Sendable {
    private static let programs = ["account", "container", "object", "proxy"].map { "/usr/bin/swift-\($0)-server" }
    package static var isInstalled: Bool {
        programs.allSatisfy { FileManager.default.isExecutableFile(atPath: $0) }
    }

    /// Who may do everything in the account `test`.
    package static let user = "test:tester"
    package static let key = "testing"
    /// A user of the same account without a role: the access control lists of containers say what that user may do.
    package static let narrowUser = "test:narrow"
    package static let narrowKey = "narrow"

    package let port: Int
    private let ports: [Int]
    private let logPath: String
    private let process: Process
    private let input: Pipe

    package var endpoint: String { "http://127.0.0.1:\(port)" }
    /// Where to log in (TempAuth).
    package var authURL: String { endpoint + "/auth/v1.0" }
    /// What the servers have said, for messages.
    package var log: String { (try? String(contentsOfFile: logPath, encoding: .utf8)) ?? "" }

    /// Starts the servers with everything they have in `directory`; they answer some seconds later.
    package init(in directory: String) throws {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        logPath = directory + "/log"
        process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
        process.arguments = [tests.appendingPathComponent("ServerTests/openstack_swift.py").path, directory]
        let output = Pipe()
        input = Pipe()
        // A mount that a test starts meanwhile must not hold the servers' end back.
        _ = fcntl(input.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
        ports = try Self.line(from: output.fileHandleForReading).split(separator: " ").compactMap { Int($0) }
        guard let port = ports.first else { throw NotListening(log: "the program that starts them told no ports") }
        self.port = port
    }

    private static func line(from output: FileHandle) throws -> String {
        var bytes = Data()
        while bytes.last != UInt8(ascii: "\n"), let more = try output.read(upToCount: 1), !more.isEmpty {
            bytes += more
        }
        return String(decoding: bytes.dropLast(), as: UTF8.self)
    }

    /// Returns when all four servers accept connections: a proxy that is up before the others answers 503.
    package func waitUntilListening() async throws {
        for _ in 0..<1800 {
            if ports.allSatisfy(isListening(on:)) { return }
            try await Task.sleep(for: .milliseconds(100))
        }
        throw NotListening(log: String(log.suffix(2000)))
    }

    package struct NotListening: Error {
        let log: String
    }

    package func stop() {
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
    }
}
