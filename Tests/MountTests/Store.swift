import Foundation
import Glibc
import Testing

/// One line of pailstore's request log.
struct LoggedRequest: Decodable, Sendable {
    let operation: String
    let key: String?
    let status: Int
    /// Of the request's body.
    let bytesIn: Int
    let bytesOut: Int

    private enum CodingKeys: String, CodingKey {
        case operation, key, status
        case bytesIn = "bytes_in"
        case bytesOut = "bytes_out"
    }
}

/// A pailstore serving one bucket on a port the kernel chose.
struct Store: Sendable {
    static let accessKey = "pailstore"
    static let secretKey = "pailstore-secret"

    /// Of each dialect.
    let endpoints: [String: String]
    let bucket: String
    private let child: Child
    /// The process, for tests that stop it.
    var pid: pid_t { child.pid }
    private let logPath: String
    private let scratch: Scratch

    static func start(
        in scratch: Scratch, bucket: String = "pail", arguments: [String] = []
    ) async throws -> Store {
        for program in [Programs.pailfs, Programs.pailstore] {
            try #require(access(program, X_OK) == 0, "\(program) is not built; scripts/test builds it")
        }
        let directory = try scratch.makeDirectory("store")
        let log = scratch.path("requests.log")
        let child = try Child(
            [
                Programs.pailstore, directory, "--listen", "127.0.0.1:0", "--bucket", bucket, "--log-requests", log,
                "--seed", "1",
            ] + arguments,
            environment: scratch.environment(), directory: scratch.directory, scratch: scratch)
        let ready = await poll(for: .seconds(20)) {
            child.output.split(separator: "\n").first.flatMap {
                (try? JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])?
                    .compactMapValues { $0 as? String }
            }
        }
        let endpoints = ready?.filter { $0.value.hasPrefix("http") }
        guard let endpoints, endpoints["s3"] != nil else {
            child.send(SIGKILL)
            throw ChildFailed(command: Programs.pailstore, outcome: await child.wait(deadline: .seconds(5)))
        }
        return Store(endpoints: endpoints, bucket: bucket, child: child, logPath: log, scratch: scratch)
    }

    /// Of the S3 dialect.
    var endpoint: String { endpoints["s3"] ?? "" }

    /// Every request answered so far.
    var requests: [LoggedRequest] {
        let text = (try? String(contentsOfFile: logPath, encoding: .utf8)) ?? ""
        return text.split(separator: "\n").compactMap {
            try? JSONDecoder().decode(LoggedRequest.self, from: Data($0.utf8))
        }
    }

    /// Replaces the fault plan; no faults without specs.
    func setFaults(_ specs: String...) async throws { try await setFaults(specs) }

    func setFaults(_ specs: [String]) async throws {
        let plan = scratch.path("faults")
        try specs.map { $0 + "\n" }.joined().write(toFile: plan, atomically: true, encoding: .utf8)
        let curl = try Child(
            ["curl", "-sS", "--fail", "-T", plan, "\(endpoint)/_pailstore/faults"], environment: scratch.environment(),
            directory: scratch.directory, scratch: scratch)
        let outcome = await curl.wait(deadline: .seconds(20))
        guard outcome.succeeded else { throw ChildFailed(command: "PUT /_pailstore/faults", outcome: outcome) }
    }

    /// SIGSTOP freezes it, SIGCONT lets it go on.
    func send(_ signal: Int32) { child.send(signal) }

    func stop() async {
        child.send(SIGTERM)
        let outcome = await child.wait(deadline: .seconds(20))
        #expect(!outcome.missedDeadline, "pailstore did not end on SIGTERM")
        #expect(outcome.errors == "", "pailstore complained")
    }
}
