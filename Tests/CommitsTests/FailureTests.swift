import Basics
import Commits
import ObjectStorage
import Staging
import Synchronization
import TestSupport
import Testing

private let part = 64 << 10

@Suite("A commit that meets trouble")
struct FailureTests {
    @Test("is a conflict when somebody else's object is there", arguments: [10, 3 * part])
    func conflict(size: Int) async throws {
        for (canCheck, isHeeded) in [(true, true), (true, false), (false, true)] {
            let capabilities = Rig.capabilities { ($0.putIfAbsent, $0.completionCondition) = (canCheck, isHeeded) }
            try await conflict(Rig(MemoryStore(capabilities: capabilities)), size)
        }
    }

    private func conflict(_ rig: Rig, _ size: Int) async throws {
        let content = Rig.bytes(size)
        try rig.stream(content)
        rig.store.setObject("file", [1])
        await #expect(performing: { try await rig.land(if: .absent) }, throws: { Self.isConflict($0) })
        #expect(rig.store.content("file") == [1])
        #expect(rig.store.uploadsInProgress.isEmpty)
        try await rig.land("file.conflict")
        #expect(rig.store.content("file.conflict") == content)
    }

    /// A commit that was given up for newer bytes may be carried out all the same, after they were staged over its base.
    @Test("goes on over what an older try of ours has made of its base", arguments: [100, 4 * part])
    func olderTry(_ size: Int) async throws {
        let rig = try Rig(base: "file", content: Rig.bytes(size))
        let base = try #require(rig.store.info("file")).version.etag
        try rig.write([1], at: 10)
        var content = Rig.bytes(size)
        content[10] = 2
        rig.commit.replaces(["older"])
        rig.store.setObject("file", content, metadata: ObjectMetadata(user: [CommitOptions.commitHeader: "older-1"]))
        content[10] = 1
        try await rig.land(if: .match(base))
        #expect(rig.store.content("file") == content)
    }

    @Test("is a conflict when the base is gone that bytes are needed of", arguments: [100, 4 * part])
    func lostBase(size: Int) async throws {
        let rig = try Rig(base: "file", content: Rig.bytes(size))
        let base = try #require(rig.store.info("file")).version.etag
        try rig.write([1], at: 5)
        rig.store.setObject("file", Rig.bytes(size, seed: 2))
        await #expect(performing: { try await rig.land(if: .match(base)) }, throws: { Self.isConflict($0) })
        #expect(rig.store.content("file") == Rig.bytes(size, seed: 2))
    }

    /// What was read before may be what was damaged.
    @Test("reads all of a base anew of which damaged bytes have come")
    func damagedBase() async throws {
        let rig = try Rig(
            MemoryStore(capabilities: Rig.capabilities { $0.partCopy = false }), base: "file",
            content: Rig.bytes(4 * part))
        let base = try #require(rig.store.info("file")).version.etag
        try rig.write([1], at: 5)
        // The written byte divides the first part. A read under way at the last one's failure is repeated at once.
        let firstReads = 5
        let reads = Mutex(0)
        rig.store.fault = { operation, _ in
            guard operation == .get else { return nil }
            let number = reads.withLock { reads in
                reads += 1
                return reads
            }
            return number == firstReads ? Rig.error(.integrity, .get) : nil
        }
        await #expect(throws: CommitError.self) { try await rig.land(if: .match(base)) }
        var content = Rig.bytes(4 * part)
        #expect(rig.store.content("file") == content)
        rig.store.fault = nil
        try await rig.land(if: .match(base))
        content[5] = 1
        #expect(rig.store.content("file") == content)
        let read = rig.store.requests(.get).dropFirst(firstReads).reduce(0) { $0 + ($1.range?.length ?? 0) }
        #expect(read >= Int64(4 * part - 1), "\(rig.store.requests(.get).map(\.range))")
    }

    @Test("takes its own object for its own when the answer is lost", arguments: [10, 3 * part])
    func lostReply(size: Int) async throws {
        for kind in [ObjectStoreError.Kind.interrupted, .timedOut, .preconditionFailed, .noSuchUpload] {
            let rig = try Rig()
            let content = Rig.bytes(size)
            try rig.stream(content)
            rig.store.faultAfter = { operation, _ in
                operation == .put || operation == .completeUpload ? Rig.error(kind, operation) : nil
            }
            let version = try await rig.land(if: .absent)
            #expect(version == rig.store.info("file")?.version)
            #expect(rig.store.count(.head) == 1)
            #expect(rig.store.content("file") == content)
            #expect(rig.store.uploadsInProgress.isEmpty)
        }
    }

    @Test("finds out at the next try what a try came to whose end could not be learned", arguments: [10, 3 * part])
    func doubt(size: Int) async throws {
        let rig = try Rig(base: "file", content: Rig.bytes(size))
        let base = try #require(rig.store.info("file")).version.etag
        var content = Rig.bytes(size)
        content[3] ^= 255
        try rig.write([content[3]], at: 3)
        rig.store.faultAfter = { operation, _ in
            operation == .put || operation == .completeUpload ? Rig.error(.interrupted, operation) : nil
        }
        rig.store.fault = { operation, _ in operation == .head ? Rig.error(.unreachable, operation) : nil }
        await #expect(throws: CommitError.self) { try await rig.land(if: .match(base)) }
        #expect(rig.store.content("file") == content)
        (rig.store.fault, rig.store.faultAfter) = (nil, nil)
        // More is written: the object that landed is what the rest is taken from, and what the condition means.
        content[size - 1] ^= 255
        try rig.write([content[size - 1]], at: size - 1)
        try await rig.land(if: .match(base))
        #expect(rig.store.content("file") == content)
    }

    @Test("does not take a late try of its own for the bytes written since")
    func lateComplete() async throws {
        let rig = try Rig()
        var content = Rig.bytes(3 * part)
        try rig.stream(content)
        rig.store.fault = { operation, _ in operation == .completeUpload ? Rig.error(.interrupted, operation) : nil }
        await #expect(throws: CommitError.self) { try await rig.land(if: .absent) }
        rig.store.fault = nil
        let upload = try #require(rig.store.uploadsInProgress.first)
        let parts = try await rig.store.listParts(upload.key, upload.upload)
        // The store still works on that complete, and is done when the next commit has sent what is new.
        let tail = Rig.bytes(part, seed: 2)
        content += tail
        try rig.staged.write(tail.span.bytes, at: Int64(3 * part))
        let gate = rig.store.hold(.uploadPart, beforeReply: true)
        async let version = rig.land(if: .absent)
        await gate.waitForArrivals()
        _ = try? await rig.store.completeUpload(upload.key, upload.upload, parts: parts, condition: .absent)
        gate.open()
        #expect(try await version.size == Int64(content.count))
        #expect(rig.store.content("file") == content)
        #expect(rig.store.uploadsInProgress.isEmpty)
    }

    @Test("sends all parts again when the store has others than it told")
    func rejectedParts() async throws {
        let rig = try Rig()
        let content = Rig.bytes(3 * part + 1)
        let rejections = Mutex(1)
        rig.store.fault = { operation, _ in
            guard operation == .completeUpload, rejections.withLock({ left in left > 0 }) else { return nil }
            rejections.withLock { $0 -= 1 }
            return Rig.error(.partRejected, operation)
        }
        try rig.stream(content)
        try await rig.land()
        #expect(rig.store.content("file") == content)
        #expect(rig.store.count(.createUpload) == 2)
        #expect(rig.store.uploadsInProgress.isEmpty)
    }

    /// As Amazon S3 answers when the key changed after the upload was begun: that upload fails for ever, the next one works.
    @Test("begins a new upload when the store completes the one it had under no condition")
    func overtakenUpload() async throws {
        let rig = try Rig()
        let content = Rig.bytes(3 * part + 1)
        rig.store.fault = { [weak store = rig.store] operation, _ in
            operation == .completeUpload && store?.count(.createUpload) == 1 ? Rig.error(.conflict, operation) : nil
        }
        try rig.stream(content)
        try await rig.land(if: .absent)
        #expect(rig.store.content("file") == content)
        #expect(rig.store.count(.createUpload) == 2)
        #expect(rig.store.requests(.completeUpload).last?.writeCondition == .absent)
        #expect(rig.store.uploadsInProgress.isEmpty)
    }

    @Test("keeps the parts that arrived for the next try")
    func partsAreKept() async throws {
        let rig = try Rig()
        let content = Rig.bytes(6 * part)
        rig.store.fault = { operation, _ in operation == .completeUpload ? Rig.error(.throttled, operation) : nil }
        try rig.stream(content)
        await #expect(throws: CommitError.store(Rig.error(.throttled, .completeUpload))) { try await rig.land() }
        rig.store.fault = nil
        try await rig.land()
        #expect(rig.store.content("file") == content)
        #expect(rig.store.count(.uploadPart) == 6)
        #expect(rig.store.count(.createUpload) == 1)
    }

    @Test("sends what could not be sent behind the writer")
    func backgroundFailures() async throws {
        let rig = try Rig()
        let content = Rig.bytes(6 * part)
        rig.store.fault = { operation, _ in
            operation == .uploadPart || operation == .createUpload ? Rig.error(.unreachable, operation) : nil
        }
        try rig.stream(content)
        rig.store.fault = { operation, _ in operation == .uploadPart ? Rig.error(.unreachable, operation) : nil }
        try rig.write([1], at: 6 * part)
        await #expect(throws: CommitError.self) { try await rig.land() }
        rig.store.fault = nil
        try await rig.land()
        #expect(rig.store.content("file") == content + [1])
        #expect(rig.store.uploadsInProgress.isEmpty)
    }

    @Test("begins a new upload when the store lost the one it had")
    func lostUpload() async throws {
        let rig = try Rig()
        let content = Rig.bytes(3 * part + 1)
        try rig.stream(content)
        try await rig.waitFor(.uploadPart, 3)
        let upload = try #require(rig.store.uploadsInProgress.first)
        try await rig.store.abortUpload(upload.key, upload.upload)
        try await rig.land()
        #expect(rig.store.content("file") == content)
        #expect(rig.store.count(.createUpload) == 2)
    }

    /// As Ceph answers: a completion of what is gone fails like one of a server in trouble, for ever.
    @Test("asks for the parts of an upload that the store cannot complete, and begins a new one when it is gone")
    func uploadGoneUnsaid() async throws {
        let rig = try Rig()
        let content = Rig.bytes(3 * part + 1)
        rig.store.fault = { [weak store = rig.store] operation, _ in
            operation == .completeUpload && store?.uploadsInProgress.isEmpty == true
                ? Rig.error(.serverFault, operation) : nil
        }
        try rig.stream(content)
        let gate = rig.store.hold(.completeUpload)
        async let version = rig.land(if: .absent)
        await gate.waitForArrivals()
        let upload = try #require(rig.store.uploadsInProgress.first)
        try await rig.store.abortUpload(upload.key, upload.upload)
        gate.open()
        #expect(try await version.size == Int64(content.count))
        #expect(rig.store.content("file") == content)
        #expect(rig.store.count(.createUpload) == 2)
        #expect(rig.store.count(.listParts) == 1)
        #expect(rig.store.uploadsInProgress.isEmpty)
    }

    @Test("can be cancelled at any point and called again", arguments: [10, 3 * part])
    func cancellation(size: Int) async throws {
        let operations: [ObjectStoreError.Operation] =
            size < part ? [.put] : [.createUpload, .uploadPart, .completeUpload]
        for operation in operations {
            for beforeReply in [false, true] {
                let rig = try Rig()
                let content = Rig.bytes(size)
                try rig.staged.write(content.span.bytes, at: 0)
                let gate = rig.store.hold(operation, beforeReply: beforeReply)
                let task = Task { try await rig.land(if: .absent) }
                await gate.waitForArrivals()
                task.cancel()
                await #expect(throws: CommitError.cancelled) { try await task.value }
                gate.open()
                try await rig.land(if: .absent)
                #expect(rig.store.content("file") == content)
                #expect(rig.store.uploadsInProgress.isEmpty)
            }
        }
    }

    private static func isConflict(_ error: any Error) -> Bool {
        switch error as? CommitError {
        case .conflict, .baseGone: true
        default: false
        }
    }
}
