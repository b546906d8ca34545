import Basics
import Digests
import ObjectStorage
import Synchronization
import TestSupport
import Testing

@Suite struct MemoryStoreTests {
    static func small() -> Capabilities {
        var capabilities = Capabilities()
        capabilities.listPage = 2
        capabilities.smallestPart = 4
        return capabilities
    }

    let time = ManualTime()
    let store: MemoryStore

    init() { store = MemoryStore(capabilities: Self.small(), time: time, deliverySize: 3) }

    func put(_ key: String, _ text: String = "x") async throws {
        _ = try await store.put(PutRequest(ObjectKey(key)), body: MemorySource(Array(text.utf8)))
    }

    func everything(_ request: ListRequest) async throws -> [String] {
        var request = request
        var found: [String] = []
        repeat {
            let page = try await store.list(request)
            #expect(page.objects.count + page.commonPrefixes.count <= 2)
            found += (page.objects.map(\.key) + page.commonPrefixes).sorted().map(\.description)
            request.cursor = page.next
        } while request.cursor != nil
        return found
    }

    @Test func listingIsInByteOrderPageByPage() async throws {
        for key in ["b", "a", "Z", "a/1", "a.txt"] { try await put(key) }
        #expect(try await everything(ListRequest()) == ["Z", "a", "a.txt", "a/1", "b"])
        #expect(store.count(.list) == 3)
        #expect(try await everything(ListRequest(startAfter: "a.txt")) == ["a/1", "b"])
    }

    @Test func listingStopsAtDelimiter() async throws {
        for key in ["d/", "d/1", "d/2", "d/e/1", "d/e/2", "d/f/1", "d/z", "x"] { try await put(key) }
        let request = ListRequest(prefix: "d/", delimiter: UInt8(ascii: "/"))
        #expect(try await everything(request) == ["d/", "d/1", "d/2", "d/e/", "d/f/", "d/z"])
        #expect(try await everything(ListRequest(delimiter: UInt8(ascii: "/"))) == ["d/", "x"])
        let after = ListRequest(prefix: "d/", delimiter: UInt8(ascii: "/"), startAfter: "d/e/1")
        #expect(try await everything(after) == ["d/f/", "d/z"])
    }

    @Test func rangesAreCutToTheEnd() async throws {
        try await put("k", "0123456789")
        let sink = CollectingSink()
        let answer = try await store.get(GetRequest("k", range: 4..<99), into: sink)
        #expect(sink.bytes == Array("456789".utf8))
        #expect(answer.range == 4..<10)
        let error = try #require(
            await error { () throws(ObjectStoreError) in
                _ = try await store.get(GetRequest("k", range: 10..<11), into: sink)
            })
        #expect(error.kind == .invalidRange)
    }

    @Test func conditionsDecide() async throws {
        try await put("k", "one")
        let etag = try await store.head("k", condition: nil).version.etag
        #expect(etag.text == Hex.encode(MD5.of("one")))
        let kinds = [
            await error { () throws(ObjectStoreError) in _ = try await store.head("k", condition: .ifMatch(ETag("no")))
            },
            await error { () throws(ObjectStoreError) in _ = try await store.head("k", condition: .ifNoneMatch(etag)) },
            await error { () throws(ObjectStoreError) in
                _ = try await store.put(PutRequest("k", condition: .absent), body: MemorySource([]))
            },
            await error { () throws(ObjectStoreError) in
                _ = try await store.put(PutRequest("k", condition: .match(ETag("no"))), body: MemorySource([]))
            },
            await error { () throws(ObjectStoreError) in
                _ = try await store.put(PutRequest("none", condition: .match(etag)), body: MemorySource([]))
            },
            await error { () throws(ObjectStoreError) in
                _ = try await store.copy(CopyRequest(CopySource("k", ifMatch: ETag("no")), to: "l"))
            },
            await error { () throws(ObjectStoreError) in try await store.delete("k", ifMatch: etag) },
        ].map { $0?.kind }
        #expect(
            kinds == [
                .preconditionFailed, .notModified, .preconditionFailed, .preconditionFailed, .notFound,
                .preconditionFailed, .notSupported,
            ])
        #expect(store.content("k") == Array("one".utf8))
        #expect(store.count(.delete) == 0)
    }

    @Test func partsBecomeAnObjectWithACompoundETag() async throws {
        try await put("old", "0123456789")
        let upload = try await store.createUpload(PutRequest("k", metadata: ObjectMetadata(contentType: "a/b")))
        let first = try await store.uploadPart(
            PartRequest("k", upload, number: 1), body: MemorySource(Array("abcd".utf8)))
        let second = try await store.uploadPartCopy(
            PartRequest("k", upload, number: 3), from: CopySource("old"), range: 2..<5)
        #expect(try await store.listParts("k", upload) == [first, second])
        #expect(store.uploadsInProgress.map(\.upload) == [upload])
        let answer = try await store.completeUpload("k", upload, parts: [first, second], condition: .absent)
        #expect(answer.etag.text == Hex.encode(MD5.of(MD5.of("abcd") + MD5.of("234"))) + "-2")
        #expect(store.content("k") == Array("abcd234".utf8))
        #expect(store.info("k")?.metadata.contentType == "a/b")
        let again = await error { () throws(ObjectStoreError) in
            _ = try await store.completeUpload("k", upload, parts: [first, second], condition: nil)
        }
        #expect(again?.kind == .noSuchUpload)
        try await store.abortUpload("k", upload)
    }

    @Test func aSmallPartIsRejectedUnlessItIsTheLast() async throws {
        let upload = try await store.createUpload(PutRequest("k"))
        var parts: [UploadedPart] = []
        for number in 1...2 {
            parts.append(
                try await store.uploadPart(PartRequest("k", upload, number: number), body: MemorySource([1, 2])))
        }
        let small = await error { () throws(ObjectStoreError) in
            _ = try await store.completeUpload("k", upload, parts: parts, condition: nil)
        }
        #expect(small?.kind == .partRejected)
        _ = try await store.completeUpload("k", upload, parts: [parts[1]], condition: nil)
    }

    @Test func metadataChangesKeepTheContent() async throws {
        try await put("k", "one")
        time.advance(by: .seconds(5))
        let before = try await store.head("k", condition: nil).version
        let answer = try await store.updateMetadata(
            "k", to: ObjectMetadata(user: ["mode": "420"]), ifMatch: before.etag)
        let after = try await store.head("k", condition: nil)
        #expect(after.metadata.user == ["mode": "420"])
        #expect(answer.modified == after.version.modified)
        #expect(after.version.modified - before.modified == .seconds(5))
        #expect(store.content("k") == Array("one".utf8))
    }

    @Test func aBatchDeleteNamesTheKeysThatRemain() async throws {
        for key in ["a", "b", "c"] { try await put(key) }
        store.fault = { operation, key in
            guard operation == .deleteMany, key == "b" else { return nil }
            return ObjectStoreError(.accessDenied, .deleteMany, key: key, message: "no")
        }
        let remaining = try await store.deleteMany(["a", "b", "c", "none"])
        #expect(remaining.map(\.key) == ["b"])
        #expect(store.requests(.deleteMany).map(\.keys) == [["a", "b", "c", "none"]])
        #expect(store.keys == ["b"])
    }

    @Test func aFaultBeforeDoesNothingAndOneAfterHasDoneIt() async throws {
        let lost = ObjectStoreError(.interrupted, .put, message: "reply lost")
        store.fault = { operation, _ in operation == .put ? lost : nil }
        let before = await error { () throws(ObjectStoreError) in
            _ = try await store.put(PutRequest("k"), body: MemorySource([1]))
        }
        #expect(before == lost)
        #expect(store.keys.isEmpty)
        store.fault = nil
        store.faultAfter = { operation, _ in operation == .put ? lost : nil }
        let after = await error { () throws(ObjectStoreError) in
            _ = try await store.put(PutRequest("k"), body: MemorySource([1]))
        }
        #expect(after == lost)
        #expect(store.content("k") == [1])
        #expect(store.count(.put) == 2)
    }

    @Test func damagedBodiesAreNoticedAsFarAsAClientCan() async throws {
        try await put("k", "0123456789")
        func kind(_ range: ByteRange?) async -> ObjectStoreError.Kind? {
            await error { () throws(ObjectStoreError) in
                _ = try await store.get(GetRequest("k", range: range), into: CollectingSink())
            }?.kind
        }
        store.alterBody = { _, bytes in Array(bytes.dropLast()) }
        #expect(await kind(nil) == .integrity)
        #expect(await kind(0..<4) == .integrity)
        store.alterBody = { _, bytes in bytes.map { $0 ^ 1 } }
        #expect(await kind(nil) == .integrity)
        #expect(await kind(0..<4) == nil)
    }

    @Test func aHeldRequestWaitsForItsGate() async throws {
        let gate = store.hold(.put)
        async let done: Void = put("k")
        await gate.waitForArrivals()
        #expect(store.keys.isEmpty)
        gate.open()
        try await done
        #expect(store.keys == ["k"])
        #expect(store.mostInFlight(.put) == 1)
    }

    @Test func aBodyCanBeHeldInTheMiddle() async throws {
        try await put("k", "0123456789")
        let (gate, sink) = (Gate(), CollectingSink())
        store.beforeDelivery = { _, offset in if offset == 3 { await gate.pass() } }
        async let answer = store.get(GetRequest("k"), into: sink)
        await gate.waitForArrivals()
        #expect(sink.bytes == Array("012".utf8))
        gate.open()
        #expect(try await answer.range == 0..<10)
    }

    @Test func aCancelledRequestSaysSo() async throws {
        let gate = store.hold(.head)
        let store = store
        let task = Task { () -> ObjectStoreError? in
            await error { () throws(ObjectStoreError) in _ = try await store.head("k", condition: nil) }
        }
        await gate.waitForArrivals()
        task.cancel()
        #expect(await task.value?.kind == .cancelled)
    }

    @Test func limitsAreKept() async throws {
        let long = await error { () throws(ObjectStoreError) in
            _ = try await store.put(
                PutRequest(ObjectKey(String(repeating: "k", count: 1025))), body: MemorySource([]))
        }
        #expect(long?.kind == .keyTooLong)
        let heavy = await error { () throws(ObjectStoreError) in
            let metadata = ObjectMetadata(user: ["a": String(repeating: "v", count: 2048)])
            _ = try await store.put(PutRequest("k", metadata: metadata), body: MemorySource([]))
        }
        #expect(heavy?.kind == .metadataTooLarge)
    }
}

private func error(_ act: () async throws(ObjectStoreError) -> Void) async -> ObjectStoreError? {
    do {
        try await act()
        return nil
    } catch { return error }
}
