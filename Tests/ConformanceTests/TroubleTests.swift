import Basics
import Emulator
import Foundation
import ObjectStorage
import Providers
import TestSupport
import Testing

/// What the S3 store makes of wrong settings and of a server or network that fails.
@Suite struct TroubleTests {
    /// The machine's time, so much later.
    private struct ShiftedTime: TimeSource {
        let offset: Duration

        func now() -> Timestamp { SystemTime().now() + offset }
        func uptime() -> Duration { SystemTime().uptime() }
        func sleep(for duration: Duration) async throws(CancellationError) {
            try await SystemTime().sleep(for: duration)
        }
    }

    /// Runs `body` with an emulator that keeps a log, and a way to take the operations and statuses logged so far.
    private func withLoggedEmulator(
        _ body: (EmulatorServer, Server, _ requests: () throws -> [String]) async throws -> Void
    ) async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("requests")
        try await withEmulator(change: { $0.requestLog = path }) { emulator, server in
            try await body(emulator, server) {
                let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
                try Data().write(to: URL(fileURLWithPath: path))
                return try lines.map { line in
                    let entry = try JSONDecoder().decode(Entry.self, from: Data(line.utf8))
                    return "\(entry.operation) \(entry.status)"
                }
            }
        }
    }

    private struct Entry: Decodable {
        let operation: String
        let status: Int
    }

    @Test func aWrongSecretIsRejectedAtOnce() async throws {
        try await withLoggedEmulator { _, server, requests in
            let store = try server.store(secret: "wrong")
            #expect(await failure { try await store.list(ListRequest()) } == .credentialsRejected)
            let put = await failure { try await store.put(PutRequest("key"), body: MemorySource([1])) }
            #expect(put == .credentialsRejected)
            #expect(try requests().count == 2)
        }
    }

    @Test func aWrongRegionIsCorrectedOnceForAllRequests() async throws {
        try await withLoggedEmulator { _, server, requests in
            let store = try server.store(region: "eu-central-1")
            try await store.checkAccess()
            _ = try await store.put(PutRequest("key"), body: MemorySource([1, 2]))
            #expect(try await store.head("key", condition: nil).version.size == 2)
            #expect(try requests() == ["ListObjectsV2 400", "ListObjectsV2 200", "PutObject 200", "HeadObject 200"])
        }
    }

    @Test func aWrongRegionIsCorrectedForRequestsUnderWay() async throws {
        try await withEmulator { _, server in
            let store = try server.store(region: "eu-central-1")
            try await withThrowingTaskGroup { group in
                for number in 0..<16 {
                    group.addTask {
                        _ = try await store.put(PutRequest(ObjectKey("key \(number)")), body: MemorySource([1]))
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await store.list(ListRequest()).objects.count == 16)
        }
    }

    @Test(arguments: [Duration.seconds(7200), .seconds(-7200)])
    func aWrongClockIsCorrectedOnceForAllRequests(offset: Duration) async throws {
        try await withLoggedEmulator { _, server, requests in
            let store = try server.store(time: ShiftedTime(offset: offset))
            _ = try await store.put(PutRequest("key"), body: MemorySource([1, 2]))
            #expect(try await store.head("key", condition: nil).version.size == 2)
            let sink = CollectingSink()
            _ = try await store.get(GetRequest("key"), into: sink)
            #expect(sink.bytes == [1, 2])
            #expect(try requests() == ["PutObject 403", "PutObject 200", "HeadObject 200", "GetObject 200"])
        }
    }

    /// The answer to a HEAD names no reason.
    @Test func aHeadCorrectsRegionAndClockToo() async throws {
        try await withLoggedEmulator { _, server, requests in
            let key: ObjectKey = "key"
            _ = try await server.store().put(PutRequest(key), body: MemorySource([1, 2]))
            let elsewhere = try server.store(region: "eu-central-1")
            #expect(try await elsewhere.head(key, condition: nil).version.size == 2)
            let late = try server.store(time: ShiftedTime(offset: .seconds(7200)))
            #expect(try await late.head(key, condition: nil).version.size == 2)
            let expected = [
                "PutObject 200", "HeadObject 400", "ListObjectsV2 400", "ListObjectsV2 200", "HeadObject 200",
                "HeadObject 403", "HeadObject 200",
            ]
            #expect(try requests() == expected)
            let stranger = try server.store(secret: "wrong")
            // The listing has the reason.
            #expect(await failure { try await stranger.head(key, condition: nil) } == .credentialsRejected)
            #expect(try requests() == ["HeadObject 403", "ListObjectsV2 403"])
        }
    }

    /// Runs `body` with a store that holds "key", while requests go wrong as `fault` says.
    private func withFault(
        _ fault: String, _ body: (any ObjectStore, CollectingSink) async throws -> Void
    ) async throws {
        try await withEmulator { emulator, server in
            let store = try server.store()
            _ = try await store.put(PutRequest("key"), body: MemorySource(Promise.content(100_000)))
            emulator.setFaults([try FaultSpec(parsing: fault)])
            try await body(store, CollectingSink())
        }
    }

    @Test func anAlteredBodyIsNoticed() async throws {
        try await withFault("op=GetObject,kind=alter,count=1") { store, sink in
            #expect(await failure { try await store.get(GetRequest("key"), into: sink) } == .integrity)
            sink.restart()
            _ = try await store.get(GetRequest("key"), into: sink)
            #expect(sink.bytes == Promise.content(100_000))
        }
    }

    @Test(arguments: [nil, 10..<90_000] as [ByteRange?])
    func aBodyThatBreaksOffIsInterrupted(range: ByteRange?) async throws {
        for kind in ["cut:1000", "reset:1000"] {
            try await withFault("op=GetObject,kind=\(kind)") { store, sink in
                #expect(
                    await failure { try await store.get(GetRequest("key", range: range), into: sink) } == .interrupted)
                #expect(sink.bytes.count <= 1000)
            }
        }
    }

    @Test func anUploadThatArrivesAlteredIsRefused() async throws {
        try await withFault("op=PutObject,kind=alter") { store, sink in
            let bytes = Promise.content(2 << 20)
            #expect(await failure { try await store.put(PutRequest("new"), body: MemorySource(bytes)) } == .integrity)
            #expect(await failure { try await store.head("new", condition: nil) } == .notFound)
        }
    }

    @Test func aLostReplyIsInterrupted() async throws {
        try await withFault("op=PutObject,kind=lost-reply") { store, sink in
            let put = await failure { try await store.put(PutRequest("new"), body: MemorySource([1])) }
            #expect(put == .interrupted)
            let info = try await store.head("new", condition: nil)
            #expect(info.version.size == 1)
        }
    }

    @Test func aBusyStoreSaysHowLongToWait() async throws {
        try await withFault("kind=status:503,retry-after=7") { store, sink in
            let thrown = await #expect(throws: ObjectStoreError.self) {
                try await store.get(GetRequest("key"), into: sink)
            }
            let error = try #require(thrown)
            #expect(error.kind == .throttled)
            #expect(error.status == 503)
            #expect(error.retryAfter == .seconds(7))
            #expect(error.requestID != nil)
            #expect(error.isRetryable)
            #expect(await failure { try await store.head("key", condition: nil) } == .throttled)
        }
    }

    /// The answers of copies and completions may begin well and end as an error document.
    @Test func anErrorInASuccessIsAnError() async throws {
        try await withFault("kind=status:200") { store, sink in
            let copy = await failure { try await store.copy(CopyRequest(CopySource("key"), to: "copy")) }
            #expect(copy == .serverFault)
            #expect(await failure { try await store.delete("key", ifMatch: nil) } == .serverFault)
            #expect(await failure { try await store.deleteMany(["key", "other"]) } == .serverFault)
            #expect(await failure { try await store.createUpload(PutRequest("new")) } == .serverFault)
            #expect(await failure { try await store.abortUpload("key", UploadID("1")) } == .serverFault)
            let parts = await failure { try await store.listParts("key", UploadID("1")) }
            #expect(parts == .serverFault)
        }
    }

    /// As Ceph does, which tells a completion that it has had before of no version.
    @Test func aCompletionThatIsRepeatedAndNotToldOfIsLookedFor() async throws {
        try await withEmulator(change: { $0.tellsRepeatedCompletions = false }) { emulator, server in
            let bare = try server.store()
            let store = InterceptedStore(bare, Retrying(RetryPolicy(), time: SystemTime()))
            let upload = try await store.createUpload(PutRequest("key"))
            let part = try await store.uploadPart(
                PartRequest("key", upload, number: 1), body: MemorySource(Promise.content(100_000)))
            emulator.setFaults([try FaultSpec(parsing: "op=CompleteMultipartUpload,count=1,kind=lost-reply")])
            let answer = try await store.completeUpload("key", upload, parts: [part], condition: nil)
            #expect(try await store.head("key", condition: nil).version.etag == answer.etag)
            let thrown = await #expect(throws: ObjectStoreError.self) {
                try await bare.completeUpload("key", upload, parts: [part], condition: nil)
            }
            #expect(thrown?.isOfUntoldVersion == true)
        }
    }

    @Test func nothingListensIsUnreachable() async throws {
        let port = try #require(TakenPort())
        let store = try Server(port: port.number).store()
        #expect(await failure { try await store.checkAccess() } == .unreachable)
        withExtendedLifetime(port) {}
    }
}
