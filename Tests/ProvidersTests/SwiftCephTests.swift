import Basics
import Digests
import ObjectStorage
import Providers
import TestSupport
import Testing

/// What the Swift store does otherwise at Ceph's gateway, which shows itself in what it says of the container.
@Suite(.timeLimit(.minutes(5))) struct SwiftCephTests {
    private static func fixture() throws -> (SwiftFixture, CephGateway) {
        let ceph = CephGateway()
        let fixture = try SwiftFixture {
            $0.smallestPart = 1
            $0.server = nil
        } answer: { _, request in
            ceph.answer(request)
        }
        return (fixture, ceph)
    }

    /// An object of so many parts.
    @discardableResult
    private static func upload(
        _ texts: [String], to key: ObjectKey, in store: SwiftStore, metadata: ObjectMetadata = ObjectMetadata()
    ) async throws(ObjectStoreError) -> ETag {
        let id = try await store.createUpload(PutRequest(key, metadata: metadata))
        var parts: [UploadedPart] = []
        for (index, text) in texts.enumerated() {
            let part = PartRequest(key, id, number: index + 1)
            parts.append(try await store.uploadPart(part, body: MemorySource(Array(text.utf8))))
        }
        return try await store.completeUpload(key, id, parts: parts, condition: nil).etag
    }

    private static func content(_ store: SwiftStore, _ key: ObjectKey, _ etag: ETag? = nil) async throws -> String {
        let sink = CollectingSink()
        _ = try await store.get(GetRequest(key, condition: etag.map { .ifMatch($0) }), into: sink)
        return String(decoding: sink.bytes, as: UTF8.self)
    }

    private static func put(
        _ text: String, _ key: ObjectKey, _ condition: WriteCondition? = nil, in store: SwiftStore
    ) async throws(ObjectStoreError) {
        _ = try await store.put(PutRequest(key, condition: condition), body: MemorySource(Array(text.utf8)))
    }

    // MARK: Large objects

    @Test func segmentsGoWithTheirObject() async throws {
        let (fixture, ceph) = try Self.fixture()
        try await Self.upload(["one", "two"], to: "a", in: fixture.store)
        try await Self.upload(["one", "two"], to: "b", in: fixture.store)
        #expect(ceph.paths.count == 6)
        try await Self.put("small", "a", in: fixture.store)
        #expect(ceph.paths.count == 4)
        #expect(try await Self.content(fixture.store, "b") == "onetwo")
        try await fixture.store.delete("b", ifMatch: nil)
        #expect(ceph.paths == ["c/a"])
    }

    @Test func segmentsGoWithTheirObjectAfterItsMetadataChanged() async throws {
        let (fixture, ceph) = try Self.fixture()
        let etag = try await Self.upload(["one", "two"], to: "a", in: fixture.store)
        let metadata = ObjectMetadata(contentType: "x/y", user: ["mode": "33024"])
        _ = try await fixture.store.updateMetadata("a", to: metadata, ifMatch: etag)
        #expect(try await fixture.store.head("a", condition: nil).metadata == metadata)
        try await fixture.store.delete("a", ifMatch: nil)
        #expect(ceph.paths.isEmpty)
    }

    @Test func segmentsOfAnotherToolStay() async throws {
        let (fixture, ceph) = try Self.fixture()
        ceph.change {
            $0["c_segments/x/1"] = CephGateway.Object(headers: [:], body: Array("one".utf8))
            $0["c/a"] = CephGateway.Object(headers: [:], body: [], segments: ["c_segments/x/1"])
        }
        #expect(try await Self.content(fixture.store, "a") == "one")
        let renamed = CopyRequest(CopySource("a"), to: "b", metadata: ObjectMetadata(contentType: "x/y"))
        _ = try await fixture.store.copy(renamed)
        try await fixture.store.delete("a", ifMatch: nil)
        #expect(try await Self.content(fixture.store, "b") == "one")
        #expect(try await fixture.store.head("b", condition: nil).metadata.contentType == "x/y")
        try await fixture.store.delete("b", ifMatch: nil)
        #expect(ceph.paths == ["c_segments/x/1"])
    }

    @Test func aCopyByAnotherToolDoesNotOwnTheSegments() async throws {
        let (fixture, ceph) = try Self.fixture()
        try await Self.upload(["one", "two"], to: "a", in: fixture.store)
        ceph.change { $0["c/copy"] = $0["c/a"] }
        try await fixture.store.delete("copy", ifMatch: nil)
        #expect(try await Self.content(fixture.store, "a") == "onetwo")
        // And the other way round: it replaces what it was copied from.
        ceph.change { $0["c/copy"] = $0["c/a"] }
        _ = try await fixture.store.copy(CopyRequest(CopySource("copy"), to: "a"))
        #expect(try await Self.content(fixture.store, "a") == "onetwo")
    }

    @Test func aCopyHasSegmentsOfItsOwn() async throws {
        let (fixture, _) = try Self.fixture()
        let etag = try await Self.upload(
            ["one", "two"], to: "a", in: fixture.store, metadata: ObjectMetadata(user: ["mode": "1"]))
        let answer = try await fixture.store.copy(CopyRequest(CopySource("a", ifMatch: etag), to: "b"))
        #expect(answer.etag == etag)
        try await fixture.store.delete("a", ifMatch: nil)
        #expect(try await Self.content(fixture.store, "b", etag) == "onetwo")
        #expect(try await fixture.store.head("b", condition: nil).metadata.user == ["mode": "1"])
    }

    @Test func aListingHasTheLengthOfTheContent() async throws {
        let (fixture, _) = try Self.fixture()
        let etag = try await Self.upload(["one", "twos"], to: "a", in: fixture.store)
        let listed = try await fixture.store.list(ListRequest(prefix: "a")).objects
        #expect(listed.map(\.version.size) == [7])
        #expect(listed.map(\.version.etag) == [etag])
        #expect(listed.map(\.version.modified) == [try await fixture.store.head("a", condition: nil).version.modified])
    }

    // MARK: Parts

    @Test func aPartIsCopiedWhereItIsASegment() async throws {
        let (fixture, _) = try Self.fixture()
        let store = fixture.store
        let etag = try await Self.upload(["one", "twos", "three"], to: "a", in: store)
        let id = try await store.createUpload(PutRequest("b"))
        let part = try await store.uploadPartCopy(
            PartRequest("b", id, number: 1), from: CopySource("a", ifMatch: etag), range: 3..<7)
        #expect(part.size == 4 && part.etag == ETag(Hex.encode(MD5.of("twos"))))
        _ = try await store.completeUpload("b", id, parts: [part], condition: nil)
        #expect(try await Self.content(store, "b") == "twos")
    }

    @Test(arguments: [0..<2, 1..<3, 0..<7, 3..<6] as [ByteRange])
    func aPartThatIsNoSegmentIsNotCopied(range: ByteRange) async throws {
        let (fixture, _) = try Self.fixture()
        let etag = try await Self.upload(["one", "twos"], to: "a", in: fixture.store)
        let id = try await fixture.store.createUpload(PutRequest("b"))
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.uploadPartCopy(
                PartRequest("b", id, number: 1), from: CopySource("a", ifMatch: etag), range: range)
        }
        #expect(error?.kind == .notSupported)
    }

    @Test func aPartOfAPlainObjectIsNotCopied() async throws {
        let (fixture, _) = try Self.fixture()
        try await Self.put("onetwo", "a", in: fixture.store)
        let id = try await fixture.store.createUpload(PutRequest("b"))
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.uploadPartCopy(
                PartRequest("b", id, number: 1), from: CopySource("a"), range: 0..<3)
        }
        #expect(error?.kind == .notSupported)
    }

    @Test func aPartThatIsNotThereIsRejected() async throws {
        let (fixture, _) = try Self.fixture()
        let id = try await fixture.store.createUpload(PutRequest("a"))
        let sent = try await fixture.store.uploadPart(PartRequest("a", id, number: 1), body: MemorySource([1]))
        let wrong = [
            UploadedPart(number: 2, etag: sent.etag, size: 1),
            UploadedPart(number: 1, etag: ETag("0123456789abcdef0123456789abcdef"), size: 1),
        ]
        for part in wrong {
            let error = await fixture.error { store throws(ObjectStoreError) in
                _ = try await store.completeUpload("a", id, parts: [part], condition: nil)
            }
            #expect(error?.kind == .partRejected)
        }
        _ = try await fixture.store.completeUpload("a", id, parts: [sent], condition: nil)
    }

    // MARK: Conditions

    @Test func aCreationDoesNotReplace() async throws {
        let (fixture, _) = try Self.fixture()
        try await Self.put("old", "a", .absent, in: fixture.store)
        let error = await fixture.error { store throws(ObjectStoreError) in
            try await Self.put("new", "a", .absent, in: store)
        }
        #expect(error?.kind == .preconditionFailed)
        #expect(try await Self.content(fixture.store, "a") == "old")
    }

    @Test(arguments: [["one", "two"], ["plain"]])
    func aReadIsOfTheVersionThatIsMeant(texts: [String]) async throws {
        let (fixture, _) = try Self.fixture()
        if texts.count > 1 {
            try await Self.upload(texts, to: "a", in: fixture.store)
        } else {
            try await Self.put(texts[0], "a", in: fixture.store)
        }
        let etag = try await fixture.store.head("a", condition: nil).version.etag
        #expect(try await Self.content(fixture.store, "a", etag) == texts.joined())
        #expect(try await fixture.store.head("a", condition: .ifMatch(etag)).version.etag == etag)
        let other = ETag("0123456789abcdef0123456789abcdef")
        let answers: [(ReadCondition, ObjectStoreError.Kind)] = [
            (.ifMatch(other), .preconditionFailed), (.ifNoneMatch(etag), .notModified),
        ]
        for (condition, kind) in answers {
            let head = await fixture.error { store throws(ObjectStoreError) in
                _ = try await store.head("a", condition: condition)
            }
            let get = await fixture.error { store throws(ObjectStoreError) in
                _ = try await store.get(GetRequest("a", condition: condition), into: CollectingSink())
            }
            #expect(head?.kind == kind)
            #expect(get?.kind == kind)
        }
    }

    @Test func aCopyIsOfTheVersionThatIsMeant() async throws {
        let (fixture, ceph) = try Self.fixture()
        try await Self.put("other", "a", in: fixture.store)
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.copy(CopyRequest(CopySource("a", ifMatch: ETag(Hex.encode(MD5.of("one")))), to: "b"))
        }
        #expect(error?.kind == .preconditionFailed)
        #expect(ceph.paths == ["c/a"])
    }

    // MARK: Metadata

    @Test func aHeaderThatIsRemovedIsGone() async throws {
        let (fixture, _) = try Self.fixture()
        var metadata = ObjectMetadata(contentType: "a/b")
        (metadata.cacheControl, metadata.contentEncoding) = ("no-store", "gzip")
        _ = try await fixture.store.put(PutRequest("a", metadata: metadata), body: MemorySource([1]))
        var changed = metadata
        changed.cacheControl = nil
        _ = try await fixture.store.updateMetadata("a", to: changed, ifMatch: nil)
        #expect(try await fixture.store.head("a", condition: nil).metadata == changed)
    }

    // MARK: Which server

    @Test func theServerIsAskedOnce() async throws {
        let (fixture, _) = try Self.fixture()
        for key in ["a", "b"] as [ObjectKey] { try await Self.put("1", key, .absent, in: fixture.store) }
        #expect(fixture.lines.filter { $0 == "HEAD /v1/AUTH_test/c" }.count == 1)
    }

    @Test func anAnswerAboutTheContainerSavesTheQuestion() async throws {
        let (fixture, _) = try Self.fixture()
        try await fixture.store.checkAccess()
        try await Self.put("1", "a", .absent, in: fixture.store)
        #expect(fixture.lines.dropFirst() == ["HEAD /v1/AUTH_test/c/a", "PUT /v1/AUTH_test/c/a"])
    }
}
