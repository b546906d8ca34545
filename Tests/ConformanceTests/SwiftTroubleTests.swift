import Basics
import Emulator
import ObjectStorage
import Providers
import TestSupport
import Testing

/// What the Swift-shaped store makes of a server or network that fails.
@Suite(.timeLimit(.minutes(5))) struct SwiftTroubleTests {
    private struct ShiftedTime: TimeSource {
        let offset: Duration

        func now() -> Timestamp { SystemTime().now() + offset }
        func uptime() -> Duration { SystemTime().uptime() }
        func sleep(for duration: Duration) async throws(CancellationError) {
            try await SystemTime().sleep(for: duration)
        }
    }

    private static let bytes = Promise.content(100_000)

    /// Runs `body` with a store that holds "key", while requests go wrong as `fault` says; `isRetried` tries again
    /// as a mount does.
    private func withFault(
        _ fault: String, isRetried: Bool = false,
        _ body: (any ObjectStore, CollectingSink) async throws -> Void
    ) async throws {
        try await withEmulator(.cssp) { emulator, server in
            var store = try server.store()
            _ = try await store.put(PutRequest("key"), body: MemorySource(Self.bytes))
            emulator.setFaults([try FaultSpec(parsing: fault)])
            if isRetried { store = InterceptedStore(store, Retrying(RetryPolicy(), time: SystemTime())) }
            try await body(store, CollectingSink())
        }
    }

    @Test(arguments: [Duration.seconds(7200), .seconds(-7200)])
    func aWrongClockIsCorrected(offset: Duration) async throws {
        try await withEmulator(.cssp) { _, server in
            let store = try server.store(time: ShiftedTime(offset: offset))
            _ = try await store.put(PutRequest("key"), body: MemorySource([1, 2]))
            #expect(try await store.head("key", condition: nil).version.size == 2)
        }
    }

    @Test func anAlteredBodyIsNoticed() async throws {
        try await withFault("op=getObject,kind=alter,count=1") { store, sink in
            #expect(await failure { try await store.get(GetRequest("key"), into: sink) } == .integrity)
            sink.restart()
            _ = try await store.get(GetRequest("key"), into: sink)
            #expect(sink.bytes == Self.bytes)
        }
    }

    @Test(arguments: [nil, 10..<90_000] as [ByteRange?])
    func aBodyThatBreaksOffIsInterrupted(range: ByteRange?) async throws {
        for kind in ["cut:1000", "reset:1000"] {
            try await withFault("op=getObject,kind=\(kind)") { store, sink in
                #expect(
                    await failure { try await store.get(GetRequest("key", range: range), into: sink) } == .interrupted)
            }
        }
    }

    @Test func anUploadThatArrivesAlteredIsRefused() async throws {
        try await withFault("op=putObject,kind=alter") { store, _ in
            let put = await failure { try await store.put(PutRequest("new"), body: MemorySource(Self.bytes)) }
            #expect(put == .integrity)
            #expect(await failure { try await store.head("new", condition: nil) } == .notFound)
        }
    }

    @Test func aBusyStoreSaysHowLongToWait() async throws {
        try await withFault("kind=status:503,retry-after=7") { store, sink in
            let error = await #expect(throws: ObjectStoreError.self) {
                try await store.get(GetRequest("key"), into: sink)
            }
            #expect(error?.kind == .throttled && error?.retryAfter == .seconds(7) && error?.requestID != nil)
        }
    }

    @Test func aCreationWhoseAnswerWasLostIsOurs() async throws {
        try await withFault("op=putObject,kind=lost-reply,count=1", isRetried: true) { store, sink in
            let put = PutRequest("new", metadata: ObjectMetadata(user: ["id": "1"]), condition: .absent)
            let answer = try await store.put(put, body: MemorySource(Self.bytes))
            #expect(try await store.head("new", condition: nil).version.etag == answer.etag)
            let other = await failure { try await store.put(put, body: MemorySource([1])) }
            #expect(other == .preconditionFailed)
        }
    }

    /// The manifest is there, and the second try meets it.
    @Test func aCompletionWhoseAnswerWasLostIsOurs() async throws {
        try await withFault("op=putObject,key=large,kind=lost-reply,count=1", isRetried: true) { store, sink in
            let key: ObjectKey = "large"
            let upload = try await store.createUpload(PutRequest(key))
            let half = Promise.content(1 << 20)
            var parts: [UploadedPart] = []
            for number in 1...2 {
                parts.append(
                    try await store.uploadPart(PartRequest(key, upload, number: number), body: MemorySource(half)))
            }
            _ = try await store.completeUpload(key, upload, parts: parts, condition: .absent)
            _ = try await store.get(GetRequest(key), into: sink)
            #expect(sink.bytes == half + half)
            #expect(await failure { try await store.delete(key, ifMatch: nil) } == nil)
            #expect(try await store.list(ListRequest()).objects.map(\.key).contains("key"))
        }
    }

    @Test func aListingThatLagsHoldsTheManifestBack() async throws {
        // The listing fails as long as the fault lasts; nothing is published before it shows every segment.
        try await withFault("op=listObjects,kind=status:500,count=3", isRetried: true) { store, sink in
            let key: ObjectKey = "large"
            let upload = try await store.createUpload(PutRequest(key))
            let part = try await store.uploadPart(PartRequest(key, upload, number: 1), body: MemorySource([1, 2, 3]))
            _ = try await store.completeUpload(key, upload, parts: [part], condition: nil)
            _ = try await store.get(GetRequest(key), into: sink)
            #expect(sink.bytes == [1, 2, 3])
        }
    }

    @Test func aDeletionThatIsAnsweredByAPageIsNone() async throws {
        try await withFault("op=deleteObject,kind=status:200,count=1") { store, sink in
            #expect(await failure { try await store.delete("key", ifMatch: nil) } == .serverFault)
            #expect(await failure { try await store.delete("key", ifMatch: nil) } == nil)
        }
    }
}
