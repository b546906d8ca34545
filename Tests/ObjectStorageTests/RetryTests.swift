import Basics
import ObjectStorage
import Synchronization
import TestSupport
import Testing

@Suite struct RetryTests {
    private func error(_ kind: ObjectStoreError.Kind, retryAfter: Duration? = nil) -> ObjectStoreError {
        ObjectStoreError(kind, .get, message: "", retryAfter: retryAfter)
    }

    @Test func whatCannotSucceedIsNotTriedAgain() {
        let policy = RetryPolicy()
        for kind in [ObjectStoreError.Kind.notFound, .accessDenied, .preconditionFailed, .cancelled, .invalidRequest] {
            #expect(policy.delay(after: error(kind), tries: 1, elapsed: .zero, isTransfer: false, random: 0) == nil)
        }
    }

    @Test func anUploadWhoseKeyChangedIsNotCompletedAgainUnderItsCondition() {
        func delay(_ code: String) -> Duration? {
            let error = ObjectStoreError(.conflict, .completeUpload, status: 409, code: code, message: "")
            return RetryPolicy().delay(after: error, tries: 1, elapsed: .zero, isTransfer: false, random: 0)
        }
        #expect(delay("ConditionalRequestConflict") == nil)
        #expect(delay("OperationAborted") != nil)
    }

    @Test(.rule("deadline")) func delaysGrowAndEndAfterTheDeadline() throws {
        let policy = RetryPolicy()
        var last = Duration.zero
        for tries in 1...7 {
            let delay = try #require(
                policy.delay(after: error(.serverFault), tries: tries, elapsed: .zero, isTransfer: true, random: 0))
            #expect(delay > last)
            last = delay
        }
        func delay(_ kind: ObjectStoreError.Kind, _ elapsed: Duration) -> Duration? {
            policy.delay(after: error(kind), tries: 1, elapsed: elapsed, isTransfer: false, random: 0)
        }
        #expect(delay(.serverFault, .seconds(37)) != nil)
        #expect(delay(.serverFault, .milliseconds(37_500)) == nil)
        #expect(delay(.timedOut, .seconds(30)) == nil, "the next try would be silent for as long again")
    }

    /// So that no wait swallows a store's return.
    @Test func whoWaitsForARequestWaitsATenthOfTheDeadlineBetweenTries() {
        let policy = RetryPolicy()
        for tries in 1...40 {
            let delay = policy.delay(
                after: error(.throttled), tries: tries, elapsed: .zero, isTransfer: false, random: 0.99)
            #expect(delay.map { $0 <= .seconds(3) } == true)
            let transfer = policy.delay(
                after: error(.throttled), tries: tries, elapsed: .zero, isTransfer: true, random: 0.99)
            #expect(transfer.map { $0 <= .seconds(5) } == true, "a program waits for its close as well")
        }
    }

    @Test func theStoresOwnDelayIsAFloor() {
        let delay = RetryPolicy().delay(
            after: error(.throttled, retryAfter: .seconds(7)), tries: 1, elapsed: .zero, isTransfer: true, random: 0)
        #expect(delay == .seconds(7))
    }

    @Test func theLastTryComesWhenTheTimeIsUp() {
        let policy = RetryPolicy()
        let last = policy.delay(
            after: error(.unreachable), tries: 10, elapsed: .seconds(36), isTransfer: false, random: 0.9)
        #expect(last == .milliseconds(1500))
        let asked = policy.delay(
            after: error(.throttled, retryAfter: .seconds(5)), tries: 1, elapsed: .seconds(33), isTransfer: false,
            random: 0)
        #expect(asked == nil, "the store wants to be left alone longer than the caller can wait")
    }

    /// More than a small body, which is no transfer.
    private static let large = Array(repeating: UInt8(1), count: 1 << 16)

    /// Requests to a network that swallows everything, where each try to connect takes a third of the deadline or a half.
    @Test(.rule("deadline"), arguments: [3, 2], ["head", "delete", "small put", "large put"])
    func aSilentNetworkIsGivenUpInTime(triesInDeadline: Int, request: String) async throws {
        let time = ManualTime()
        let memory = MemoryStore()
        let policy = RetryPolicy()
        memory.fault = { operation, key in
            time.advance(by: policy.deadline / triesInDeadline)
            return ObjectStoreError(.unreachable, operation, key: key, message: "no connection")
        }
        let store = InterceptedStore(memory, Retrying(policy, time: time))
        let clock = running(time)
        defer { clock.cancel() }
        let began = time.uptime()
        await #expect(throws: ObjectStoreError.self) {
            switch request {
            case "head": _ = try await store.head("k", condition: nil)
            case "delete": try await store.delete("k", ifMatch: nil)
            case "small put": _ = try await store.put(PutRequest("k/"), body: MemorySource([]))
            default: _ = try await store.put(PutRequest("k"), body: MemorySource(Self.large))
            }
        }
        let limit = policy.deadline * 5 / 4 * (request == "large put" ? 2 : 1)
        #expect(time.uptime() - began <= limit, "\(time.uptime() - began)")
    }

    /// The answer of a put is lost, the next try meets the object, and then the store is silent.
    @Test(.rule("deadline")) func askingWhatBecameOfAPutHasNoDeadlineOfItsOwn() async throws {
        let time = ManualTime()
        let memory = MemoryStore()
        let policy = RetryPolicy()
        let tries = Mutex(0)
        memory.fault = { operation, key in
            if operation == .head {
                time.advance(by: policy.deadline / 3)
                return ObjectStoreError(.unreachable, operation, key: key, message: "no connection")
            }
            let count = tries.withLock { count in
                count += 1
                return count
            }
            time.advance(by: policy.deadline * 9 / 10)
            return count == 1
                ? ObjectStoreError(.interrupted, operation, key: key, message: "lost")
                : ObjectStoreError(.preconditionFailed, operation, key: key, status: 412, message: "there")
        }
        let store = InterceptedStore(memory, Retrying(policy, time: time))
        let clock = running(time)
        defer { clock.cancel() }
        let began = time.uptime()
        await #expect(throws: ObjectStoreError.self) {
            _ = try await store.put(PutRequest("k", condition: .absent), body: MemorySource(Self.large))
        }
        #expect(time.uptime() - began <= policy.deadline * 5 / 2, "\(time.uptime() - began)")
    }

    /// A clock that goes on whenever somebody waits.
    private func running(_ time: ManualTime) -> Task<Void, Never> {
        Task {
            while !Task.isCancelled {
                if time.sleepers > 0 { time.advance(by: .milliseconds(100)) }
                await Task.yield()
            }
        }
    }

    /// However often a store that is away can be asked meanwhile.
    @Test func aTransferOutlastsAnOutageShorterThanTheDeadline() async throws {
        let time = ManualTime()
        let memory = MemoryStore()
        let back = time.uptime() + .seconds(25)
        memory.fault = { operation, key in
            time.uptime() < back ? ObjectStoreError(.unreachable, operation, key: key, message: "away") : nil
        }
        let store = InterceptedStore(memory, Retrying(RetryPolicy(), time: time))
        let clock = running(time)
        defer { clock.cancel() }
        _ = try await store.put(PutRequest("k"), body: MemorySource(Self.large))
        #expect(memory.content("k") == Self.large)
    }

    /// Though the store, when it is back, fails the first two tries all the same.
    @Test(.rule("deadline")) func aRequestOutlastsAnOutageAsLongAsTheDeadline() async throws {
        let time = ManualTime()
        let memory = MemoryStore()
        memory.setObject("k", [1])
        let back = time.uptime() + .seconds(30)
        let failures = Mutex(2)
        memory.fault = { operation, key in
            let isAway = time.uptime() < back
            let fails = failures.withLock { left in
                guard !isAway, left > 0 else { return isAway }
                left -= 1
                return true
            }
            return fails ? ObjectStoreError(.throttled, operation, key: key, status: 503, message: "busy") : nil
        }
        let store = InterceptedStore(memory, Retrying(RetryPolicy(), time: time))
        let clock = running(time)
        defer { clock.cancel() }
        #expect(try await store.head("k", condition: nil).version.size == 1)
    }

    /// Each try waits longer for its turn than the store may be away, and longer than a connection takes.
    @Test(.rule("deadline")) func triesThatWaitForTheirTurnAreNotTriedForEver() async throws {
        let time = ManualTime()
        let memory = MemoryStore()
        memory.fault = { operation, key in
            time.advance(by: .seconds(40))
            return ObjectStoreError(.unreachable, operation, key: key, message: "away")
        }
        let store = InterceptedStore(memory, Retrying(RetryPolicy(), time: time))
        let clock = running(time)
        defer { clock.cancel() }
        await #expect(throws: ObjectStoreError.self) {
            try await store.put(PutRequest("k"), body: MemorySource(Self.large))
        }
        // Twice the deadline, a third of it for each.
        #expect(memory.count(.put) <= 6)
    }

    @Test(.rule("deadline")) func aTransferFailsWhenTheStoreStaysAway() {
        let policy = RetryPolicy()
        func delay(_ tries: Int, _ still: Duration) -> Duration? {
            policy.delay(after: error(.unreachable), tries: tries, elapsed: still, isTransfer: true, random: 0)
        }
        #expect(delay(6, .seconds(29)) != nil)
        #expect(delay(5, .seconds(31)) != nil)
        #expect(delay(6, .seconds(30)) == nil)
        #expect(delay(2, .seconds(60)) == nil)
    }

    @Test func aRequestThatFailsTwiceSucceedsTheThirdTime() async throws {
        let time = ManualTime()
        let memory = MemoryStore()
        memory.setObject("k", [1, 2, 3])
        memory.fault = { [weak memory] operation, key in
            (memory?.count(.get) ?? 0) < 3
                ? ObjectStoreError(.serverFault, operation, key: key, status: 500, message: "") : nil
        }
        let store = InterceptedStore(memory, Retrying(RetryPolicy(), time: time))
        let sink = CollectingSink()
        async let answer = store.get(GetRequest("k"), into: sink)
        for _ in 0..<2 {
            await time.waitForSleepers(1)
            time.advance(by: .seconds(1))
        }
        _ = try await answer
        #expect(sink.bytes == [1, 2, 3])
        #expect(sink.restarts == 2)
        #expect(memory.count(.get) == 3)
    }

    @Test func aPrefixIsInvisibleAbove() async throws {
        let memory = MemoryStore()
        let store = PrefixedStore(memory, prefix: "p/q/")
        _ = try await store.put(PutRequest("a/b"), body: MemorySource(Self.large))
        #expect(memory.keys == ["p/q/a/b"])
        let page = try await store.list(ListRequest(delimiter: UInt8(ascii: "/")))
        #expect(page.commonPrefixes == ["a/"])
        #expect(try await store.deleteMany(["a/b"]).isEmpty)
        #expect(memory.keys.isEmpty)
    }

    @Test(arguments: [
        ("s3://bucket", "bucket", ""), ("s3://bucket/", "bucket", ""), ("s3://bucket/a/b", "bucket", "a/b/"),
        ("s3://bucket/a//", "bucket", "a/"),
    ])
    func bucketURLsAreUnderstood(text: String, bucket: String, prefix: String) throws {
        let url = try BucketURL(parsing: text)
        #expect(url.bucket == bucket)
        #expect(url.prefix == ByteString(prefix))
    }

    @Test(arguments: ["bucket", "http://x/y", "s3:/x", "s3:///prefix", "s3://a b", ""])
    func otherTextsAreRefused(text: String) {
        #expect(throws: BucketURL.Malformed.self) { try BucketURL(parsing: text) }
    }

    @Test func secretsNeverShow() {
        let credentials = Credentials(accessKeyID: "id", secretKey: Secret("hidden"), sessionToken: Secret("hidden"))
        #expect(!"\(credentials)".contains("hidden"))
        #expect(!String(reflecting: credentials).contains("hidden"))
    }
}
