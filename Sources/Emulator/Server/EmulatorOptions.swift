package import Basics
import Synchronization

/// Who may sign, and with what.
package struct EmulatorCredentials: Sendable {
    private let pair: KeyPair
    /// Those of a fault have taken their place while it lasts.
    package var accessKey: String { (Departures.current.key ?? pair).accessKey }
    package var secretKey: String { (Departures.current.key ?? pair).secretKey }
    package let tokens: SessionTokens

    package init(
        accessKey: String = "pailstore", secretKey: String = "pailstore-secret", sessionToken: String? = nil
    ) {
        pair = KeyPair(accessKey: accessKey, secretKey: secretKey)
        tokens = SessionTokens(sessionToken.map { [$0] } ?? [])
    }
}

package struct KeyPair: Hashable, Sendable {
    let accessKey: String
    let secretKey: String

    init(accessKey: String, secretKey: String) { (self.accessKey, self.secretKey) = (accessKey, secretKey) }

    /// `ID:SECRET`
    init?(parsing text: String) {
        let parts = text.split(separator: ":", maxSplits: 1)
        guard parts.count == 2 else { return nil }
        self.init(accessKey: String(parts[0]), secretKey: String(parts[1]))
    }
}

/// The session tokens of a server, of which a request must carry one unless there is none. They may become others while
/// it runs; those that are no longer among them have expired. Its mutex is a leaf.
package final class SessionTokens: Sendable {
    private struct State {
        var valid: [String] = []
        var ended: Set<String> = []
    }

    private let state: Mutex<State>

    package init(_ valid: [String]) { state = Mutex(State(valid: valid)) }

    package var valid: [String] { state.withLock { $0.valid } }

    package func replace(by tokens: [String]) {
        state.withLock { state in
            state.ended = state.ended.union(state.valid).subtracting(tokens)
            state.valid = tokens
        }
    }

    /// Whether a request with this token, or without any, is as it should be.
    package func accept(_ token: String?) -> Bool {
        state.withLock { state in token.map { state.valid.contains($0) } ?? state.valid.isEmpty }
    }

    /// Whether it was a valid one once.
    package func hasEnded(_ token: String?) -> Bool {
        state.withLock { state in token.map { state.ended.contains($0) } ?? false }
    }
}

/// How a server is set up.
package struct EmulatorOptions: Sendable {
    package var host = "127.0.0.1"
    /// 0 lets the kernel choose.
    package var port = 0
    /// Serve addresses other machines reach.
    package var allowsRemote = false
    package var credentials = EmulatorCredentials()
    /// The region of buckets made without one.
    package var region = "us-east-1"
    /// Buckets to make unless they are there.
    package var buckets: [String] = []
    /// Whether versioning is enabled in those that are made.
    package var keepsVersions = false
    /// Host names whose first labels are a bucket, besides Amazon's.
    package var domains = ["localhost"]
    package var requestLog: String?
    package var faults: [FaultSpec] = []
    package var seed: UInt64 = 0
    /// Writes wait for the disk.
    package var sync = false
    /// In bytes; binds all parts of an upload but the last.
    package var smallestPart: Int64 = 5 << 20
    /// Whether a completion that S3 clients repeat is answered with the ETag of what the first one made; Ceph's gateway leaves it
    /// empty.
    package var tellsRepeatedCompletions = true
    /// How long an archived object takes to be restored.
    package var restoreDelay = Duration.seconds(1)
    package var time: any TimeSource = SystemTime()
    /// Threads that do the blocking work.
    package var workers = 8
    /// Takes sentences for the operator.
    package var report: @Sendable (String) -> Void = { _ in }

    package init() {}
}
