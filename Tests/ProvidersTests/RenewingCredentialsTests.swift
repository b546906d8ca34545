import Basics
import ObjectStorage
import Providers
import Synchronization
import TestSupport
import Testing

/// A source that counts how often it is asked, and answers what it is told to.
private final class Source: Sendable {
    private struct State {
        var asked = 0
        var lifetime: Duration? = .seconds(3600)
        var failure: ObjectStoreError?
        var isSilent = false
    }

    let time = ManualTime()
    private let state = Mutex(State())

    var asked: Int { state.withLock { $0.asked } }
    func live(for lifetime: Duration?) { state.withLock { $0.lifetime = lifetime } }
    func beSilent(_ isSilent: Bool) { state.withLock { $0.isSilent = isSilent } }
    func fail(_ kind: ObjectStoreError.Kind?) {
        state.withLock { $0.failure = kind.map { ObjectStoreError($0, .checkAccess, message: "no answer") } }
    }

    func credentials(gate: Gate? = nil) -> RenewingCredentials {
        RenewingCredentials(time: time) { [self] () async throws(ObjectStoreError) in
            let (number, lifetime, failure, isSilent) = state.withLock { state in
                state.asked += 1
                return (state.asked, state.lifetime, state.failure, state.isSilent)
            }
            await gate?.pass()
            if let failure { throw failure }
            if isSilent { return nil }
            return Credentials(
                accessKeyID: "key\(number)", secretKey: Secret("secret"),
                expires: lifetime.map { time.now() + $0 })
        }
    }
}

@Suite struct RenewingCredentialsTests {
    private let source = Source()

    @Test func theSourceIsAskedOnceWhileItsAnswerIsGood() async throws {
        let credentials = source.credentials()
        for _ in 0..<3 { #expect(try await credentials.current()?.accessKeyID == "key1") }
        source.time.advance(by: .seconds(3200))
        #expect(try await credentials.current()?.accessKeyID == "key1")
        #expect(source.asked == 1)
    }

    @Test func newOnesAreFetchedBeforeTheOldOnesEnd() async throws {
        let credentials = source.credentials()
        _ = try await credentials.current()
        source.time.advance(by: .seconds(3400))
        #expect(try await credentials.current()?.accessKeyID == "key2")
    }

    @Test func theOldOnesServeWhileTheyWorkAndTheSourceFails() async throws {
        let credentials = source.credentials()
        _ = try await credentials.current()
        source.fail(.unreachable)
        source.time.advance(by: .seconds(3400))
        #expect(try await credentials.current()?.accessKeyID == "key1")
        #expect(try await credentials.current()?.accessKeyID == "key1")
        #expect(source.asked == 2)
        source.time.advance(by: .seconds(300))
        await #expect(throws: ObjectStoreError.self) { try await credentials.current() }
        source.fail(nil)
        #expect(try await credentials.current()?.accessKeyID == "key4")
    }

    @Test func whoHadCredentialsDoesNotBecomeAnonymous() async throws {
        let credentials = source.credentials()
        _ = try await credentials.current()
        source.beSilent(true)
        source.time.advance(by: .seconds(3400))
        #expect(try await credentials.current()?.accessKeyID == "key1")
        source.time.advance(by: .seconds(300))
        let error = await #expect(throws: ObjectStoreError.self) { try await credentials.current() }
        #expect(error?.kind == .unreachable)
        source.beSilent(false)
        #expect(try await credentials.current()?.accessKeyID == "key4")
    }

    @Test func whoNeverHadCredentialsIsAnonymous() async throws {
        let credentials = source.credentials()
        source.beSilent(true)
        for _ in 0..<2 { #expect(try await credentials.current() == nil) }
        #expect(source.asked == 1)
    }

    @Test func refusedOnesAreReplacedAtOnce() async throws {
        let credentials = source.credentials()
        source.live(for: nil)
        let used = try await credentials.current()
        #expect(try await credentials.replace(used, after: .named))
        #expect(try await credentials.current()?.accessKeyID == "key2")
        #expect(try await credentials.current()?.accessKeyID == "key2")
        #expect(source.asked == 2)
    }

    /// Requests that were sent with the same credentials are refused one after the other.
    @Test func aRefusalOfFormerOnesReadsNothing() async throws {
        let credentials = source.credentials()
        let used = try await credentials.current()
        for _ in 0..<5 { #expect(try await credentials.replace(used, after: .named)) }
        #expect(source.asked == 2)
    }

    @Test func requestsRefusedAtTheSameTimeShareOneReading() async throws {
        let credentials = source.credentials()
        let used = try await credentials.current()
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 0..<8 { group.addTask { try await credentials.replace(used, after: .unexplained) } }
            for try await isOther in group { #expect(isOther) }
        }
        #expect(source.asked == 2)
    }

    @Test func aSourceWithTheSameOnesIsReadOncePerSecond() async throws {
        let reads = Mutex(0)
        let credentials = RenewingCredentials(time: source.time) { [source] () in
            reads.withLock { $0 += 1 }
            source.time.advance(by: .milliseconds(500))
            return Credentials(accessKeyID: "same", secretKey: Secret("s"))
        }
        let used = try await credentials.current()
        for _ in 0..<3 { #expect(try await !credentials.replace(used, after: .named)) }
        #expect(reads.withLock { $0 } == 2)
        source.time.advance(by: .seconds(2))
        #expect(try await !credentials.replace(used, after: .named))
        #expect(reads.withLock { $0 } == 3)
        // Nobody may read some object: that says less, and a source that takes its time is left alone for longer.
        source.time.advance(by: .seconds(9))
        #expect(try await !credentials.replace(used, after: .unexplained))
        #expect(reads.withLock { $0 } == 3)
        source.time.advance(by: .seconds(2))
        #expect(try await !credentials.replace(used, after: .unexplained))
        #expect(reads.withLock { $0 } == 4)
    }

    @Test func aSourceThatFailsIsTheReasonAndTheOldOnesStay() async throws {
        let credentials = source.credentials()
        let used = try await credentials.current()
        source.fail(.unreachable)
        for _ in 0..<2 {
            let error = await #expect(throws: ObjectStoreError.self) {
                try await credentials.replace(used, after: .named)
            }
            #expect(error?.kind == .unreachable)
        }
        #expect(source.asked == 2)
        #expect(try await credentials.current() == used)
    }

    @Test func anonymousRequestsLookForNothing() async throws {
        let credentials = source.credentials()
        source.beSilent(true)
        _ = try await credentials.current()
        #expect(try await !credentials.replace(nil, after: .unexplained))
        #expect(source.asked == 1)
    }

    @Test(arguments: ["id\n", "id\r", "i\u{0}d"]) func aLineBreakInAKeyIsNamed(id: String) async throws {
        for part in 0..<3 {
            let texts = [0, 1, 2].map { $0 == part ? id : "good" }
            let credentials = RenewingCredentials(time: source.time) { () in
                Credentials(
                    accessKeyID: texts[0], secretKey: Secret(texts[1]), sessionToken: Secret(texts[2]))
            }
            let error = await #expect(throws: ObjectStoreError.self) { try await credentials.current() }
            #expect(error?.kind == .credentialsRejected)
            #expect(error?.message.contains(["key ID", "secret", "token"][part]) == true)
            #expect(error?.message.contains(id == "i\u{0}d" ? "control character" : "line break") == true)
        }
    }

    @Test func manyRequestsShareOneRenewal() async throws {
        let gate = Gate()
        let credentials = source.credentials(gate: gate)
        try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 0..<8 { group.addTask { try await credentials.current()?.accessKeyID } }
            gate.open()
            for try await name in group { #expect(name == "key1") }
        }
        #expect(source.asked == 1)
    }
}
