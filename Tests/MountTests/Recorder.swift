import Foundation
import Glibc
import Testing

/// One request as it was sent.
struct RecordedRequest: Decodable, Sendable {
    let method: String
    /// Absolute where the recorder was used as a proxy.
    let target: String
    /// By names in lower case.
    let headers: [String: String]
    /// Of the body.
    let length: Int
    /// Transfers of its kind that were under way with it, itself among them.
    let together: Int

    subscript(_ header: String) -> String? { headers[header] }

    /// Whether it makes an object, or begins to.
    var makesAnObject: Bool {
        method == "PUT" && !target.contains("partNumber=") || method == "POST" && target.hasSuffix("?uploads=")
    }
}

/// programs/recorder.py in front of a store: what a store does not tell of its requests.
struct Recorder: Sendable {
    let port: Int
    private let child: Child
    private let logPath: String
    private let scratch: Scratch

    /// `to` is the URL of what it passes requests on to.
    static func start(in scratch: Scratch, to: String, _ options: [String] = []) async throws -> Recorder {
        let log = scratch.path("recorded-\(scratch.nextNumber())")
        let target = to.replacing("http://", with: "").split(separator: "/").first.map(String.init) ?? ""
        let child = try Child(
            [Programs.python, Programs.helper("recorder.py"), log, target] + options,
            environment: scratch.environment(), directory: scratch.directory, scratch: scratch)
        let port = await poll(for: .seconds(20)) { Int(child.output.trimmingCharacters(in: .whitespacesAndNewlines)) }
        guard let port else {
            child.send(SIGKILL)
            throw ChildFailed(command: "recorder.py", outcome: await child.wait(deadline: .seconds(5)))
        }
        return Recorder(port: port, child: child, logPath: log, scratch: scratch)
    }

    var endpoint: String { "http://127.0.0.1:\(port)" }

    /// Every request that has come so far.
    var requests: [RecordedRequest] {
        let text = (try? String(contentsOfFile: logPath, encoding: .utf8)) ?? ""
        return text.split(separator: "\n").compactMap {
            try? JSONDecoder().decode(RecordedRequest.self, from: Data($0.utf8))
        }
    }

    /// The most transfers of a method that were under way together.
    func most(_ method: String, since count: Int = 0) -> Int {
        requests.dropFirst(count).filter { $0.method == method }.map(\.together).max() ?? 0
    }

    /// Transfers of `method` wait until `count` of them are under way; nil lets all go on.
    func hold(_ method: String? = nil, until count: Int = 0) async throws {
        let curl = try Child(
            [
                "curl", "-sS", "--fail", "-X", "PUT", "-d", method.map { "\($0) \(count)" } ?? "",
                "\(endpoint)/_recorder/hold",
            ],
            environment: scratch.environment(), directory: scratch.directory, scratch: scratch)
        let outcome = await curl.wait(deadline: .seconds(20))
        guard outcome.succeeded else { throw ChildFailed(command: "PUT /_recorder/hold", outcome: outcome) }
    }

    func stop() async {
        child.send(SIGTERM)
        let outcome = await child.wait(deadline: .seconds(20))
        #expect(!outcome.missedDeadline && outcome.errors == "", "\(outcome)")
    }
}

/// Runs a test whose requests to `to` come by a recorder.
func withRecorder(
    _ world: World, to: String, _ options: String..., body: (Recorder) async throws -> Void
) async throws {
    let recorder = try await Recorder.start(in: world.scratch, to: to, options)
    do { try await body(recorder) } catch {
        if world.isMounted { _ = try? await world.pailfs(["unmount", world.mountpoint]) }
        await recorder.stop()
        throw error
    }
    await recorder.stop()
}
