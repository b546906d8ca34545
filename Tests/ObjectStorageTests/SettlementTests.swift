import Basics
import ObjectStorage
import TestSupport
import Testing

/// A write whose first answer was lost, tried again.
@Suite(.timeLimit(.minutes(5))) struct SettlementTests {
    private let time = ManualTime()
    private let memory: MemoryStore = {
        var capabilities = Capabilities()
        capabilities.deleteIfMatch = true
        return MemoryStore(capabilities: capabilities)
    }()

    private var store: InterceptedStore<Retrying> { InterceptedStore(memory, Retrying(RetryPolicy(), time: time)) }

    /// The first answer to `operation` gets lost after the act.
    private func loseFirstAnswer(_ operation: ObjectStoreError.Operation) {
        memory.faultAfter = { [weak memory] asked, key in
            asked == operation && memory?.count(operation) == 1
                ? ObjectStoreError(.interrupted, asked, key: key, message: "lost") : nil
        }
    }

    private func retried<Answer: Sendable>(
        _ call: @escaping @Sendable () async throws(ObjectStoreError) -> Answer
    ) async throws -> Answer {
        async let answer = call()
        await time.waitForSleepers(1)
        time.advance(by: .seconds(1))
        return try await answer
    }

    @Test func aPutThatHappenedUnseenIsOurs() async throws {
        loseFirstAnswer(.put)
        let store = store
        let request = PutRequest("k", metadata: ObjectMetadata(user: ["pailfs-commit": "1"]), condition: .absent)
        let answer = try await retried { () async throws(ObjectStoreError) in
            try await store.put(request, body: MemorySource([1, 2, 3]))
        }
        #expect(answer.etag == memory.info("k")?.version.etag)
        #expect(memory.count(.put) == 2)
        #expect(memory.count(.head) == 1)
    }

    @Test func aQuestionThatGetsNoAnswerIsPutAgain() async throws {
        let memory = memory
        loseFirstAnswer(.put)
        memory.fault = { [weak memory] asked, key in
            asked == .head && memory?.count(.head) == 1
                ? ObjectStoreError(.serverFault, asked, key: key, status: 503, message: "later") : nil
        }
        let store = store
        let request = PutRequest("k", metadata: ObjectMetadata(user: ["pailfs-commit": "1"]), condition: .absent)
        async let answer = store.put(request, body: MemorySource([1, 2, 3]))
        for _ in 0..<2 {
            await time.waitForSleepers(1)
            time.advance(by: .seconds(1))
        }
        #expect(try await answer.etag == memory.info("k")?.version.etag)
        #expect(memory.count(.put) == 2)
        #expect(memory.count(.head) == 2)
    }

    @Test func silenceIsNoRefusal() async throws {
        let memory = memory
        loseFirstAnswer(.put)
        memory.fault = { asked, key in
            asked == .head ? ObjectStoreError(.serverFault, asked, key: key, status: 503, message: "later") : nil
        }
        var policy = RetryPolicy()
        policy.deadline = .seconds(1)
        let store = InterceptedStore(memory, Retrying(policy, time: time))
        let request = PutRequest("k", metadata: ObjectMetadata(user: ["pailfs-commit": "1"]), condition: .absent)
        let answer = Task { () async throws(ObjectStoreError) in
            try await store.put(request, body: MemorySource([1, 2, 3]))
        }
        // One before the second try, and one before the last question: the questions have no deadline of their own.
        for _ in 0..<2 {
            await time.waitForSleepers(1)
            time.advance(by: .seconds(1))
        }
        let error = await #expect(throws: ObjectStoreError.self) { try await answer.value }
        #expect(error?.kind == .serverFault)
        #expect(memory.count(.put) == 2)
    }

    @Test(arguments: [([1, 2, 4], ["id": "ours"]), ([1, 2, 3], ["id": "theirs"])] as [([UInt8], [String: String])])
    func somebodyElsesObjectIsAConflict(content: [UInt8], headers: [String: String]) async throws {
        let memory = memory
        memory.fault = { [weak memory] operation, key in
            guard operation == .put, memory?.count(.put) == 1 else { return nil }
            memory?.setObject("k", content, metadata: ObjectMetadata(user: headers))
            return ObjectStoreError(.interrupted, operation, key: key, message: "never arrived")
        }
        let store = store
        let request = PutRequest("k", metadata: ObjectMetadata(user: ["id": "ours"]), condition: .absent)
        let error = await #expect(throws: ObjectStoreError.self) {
            try await retried { () async throws(ObjectStoreError) in
                try await store.put(request, body: MemorySource([1, 2, 3]))
            }
        }
        #expect(error?.kind == .preconditionFailed)
    }

    @Test func aRefusalWithoutDoubtCostsNoQuestion() async throws {
        memory.setObject("k", [1])
        let error = await #expect(throws: ObjectStoreError.self) {
            try await store.put(PutRequest("k", condition: .absent), body: MemorySource([1]))
        }
        #expect(error?.kind == .preconditionFailed)
        #expect(memory.count(.head) == 0)
    }

    @Test func aDeleteThatHappenedUnseenIsDone() async throws {
        memory.setObject("k", [1])
        let etag = try #require(memory.info("k")?.version.etag)
        loseFirstAnswer(.delete)
        let store = store
        try await retried { () async throws(ObjectStoreError) in try await store.delete("k", ifMatch: etag) }
        #expect(memory.keys.isEmpty)
        #expect(memory.count(.delete) == 2)
    }

    /// Replacing its headers gives an object made of parts another ETag.
    @Test(arguments: [true, false])
    func headersThatWereReplacedUnseenAreOurs(areOurs: Bool) async throws {
        memory.setObject("k", [1])
        let etag = try #require(memory.info("k")?.version.etag)
        let wanted = ObjectMetadata(user: ["mode": "33188"])
        let memory = memory
        memory.fault = { [weak memory] operation, key in
            guard operation == .updateMetadata, memory?.count(.updateMetadata) == 1 else { return nil }
            memory?.setObject("k", [1, 2], metadata: areOurs ? wanted : ObjectMetadata(user: ["mode": "33152"]))
            return ObjectStoreError(.interrupted, operation, key: key, message: "lost")
        }
        let store = store
        do {
            let answer = try await retried { () async throws(ObjectStoreError) in
                try await store.updateMetadata("k", to: wanted, ifMatch: etag)
            }
            #expect(areOurs)
            #expect(answer.etag == memory.info("k")?.version.etag)
        } catch {
            #expect(!areOurs)
            #expect((error as? ObjectStoreError)?.kind == .preconditionFailed)
        }
    }

    /// A HEAD would be about the object that the link leads to.
    @Test func aLinkThatWasMadeUnseenIsOurs() async throws {
        let memory = memory
        loseFirstAnswer(.putSymlink)
        memory.fault = { [weak memory] asked, key in
            asked == .putSymlink && memory?.count(asked) == 2
                ? ObjectStoreError(.preconditionFailed, asked, key: key, status: 409, message: "exists") : nil
        }
        let store = store
        let answer = try await retried { () async throws(ObjectStoreError) in
            try await store.putSymlink(PutRequest("l", condition: .absent), target: "t")
        }
        #expect(answer.etag == memory.info("l")?.version.etag)
        #expect(memory.count(.symlinkTarget) == 1)
        #expect(memory.count(.head) == 0)
    }

    @Test func anUploadThatCompletedUnseenIsOurs() async throws {
        loseFirstAnswer(.completeUpload)
        let upload = try await store.createUpload(PutRequest("k"))
        let part = try await store.uploadPart(PartRequest("k", upload, number: 1), body: MemorySource([1, 2, 3]))
        let store = store
        let answer = try await retried { () async throws(ObjectStoreError) in
            try await store.completeUpload("k", upload, parts: [part], condition: nil)
        }
        #expect(answer.etag == memory.info("k")?.version.etag)
        #expect(memory.content("k") == [1, 2, 3])
    }

    /// As Ceph answers a completion that it has carried out before: again and again.
    @Test func anUploadWhoseVersionIsNotToldIsLookedFor() async throws {
        memory.faultAfter = { operation, key in
            guard operation == .completeUpload else { return nil }
            return ObjectStoreError(
                .interrupted, operation, key: key, code: ObjectStoreError.untoldVersion, message: "done")
        }
        let upload = try await store.createUpload(PutRequest("k"))
        let part = try await store.uploadPart(PartRequest("k", upload, number: 1), body: MemorySource([1, 2, 3]))
        let answer = try await store.completeUpload("k", upload, parts: [part], condition: nil)
        #expect(answer.etag == memory.info("k")?.version.etag)
        #expect(memory.count(.completeUpload) == 1)
    }
}
