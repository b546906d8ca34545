import Basics
import Digests
import HTTP
import ObjectStorage
import Providers
import TestSupport
import Testing

/// What the store makes of answers, honest and otherwise.
@Suite(.timeLimit(.minutes(5))) struct S3StoreAnswerTests {
    private static let object = S3StoreRequestTests.object

    // MARK: GET

    @Test func aRangeIsDeliveredAndDescribed() async throws {
        let fixture = try FamilyFixture { _, request in
            LocalAnswer(206, Self.object + [("Content-Range", "bytes 1-3/5")], body: "ell")
        }
        let sink = CollectingSink()
        let answer = try await fixture.store.get(
            GetRequest("k", range: 1..<4, condition: .ifMatch(ETag(Self.object[0].1))), into: sink)
        #expect(fixture.requests.first?["range"] == "bytes=1-3")
        #expect(sink.bytes == Array("ell".utf8))
        #expect(answer.range == 1..<4)
        #expect(answer.info.version.size == 5)
        #expect(answer.info.version.modified == Timestamp(seconds: 1_700_000_000))
    }

    /// An answer with a range has no checksum of the whole; parts have their own where the object's is one of checksums.
    @Test func aChecksumOfPartsIsToldPartByPart() async throws {
        let parts = [Array("hel".utf8), Array("lo".utf8)]
        let etag = "\"5d41402abc4b2a76b9719d911017c592-2\""
        let fixture = try FamilyFixture { _, request in
            guard request.query.contains("attributes") else {
                let sums = [("x-amz-checksum-crc32", "AAAAAA==-2"), ("x-amz-checksum-type", "COMPOSITE")]
                return LocalAnswer(200, [("ETag", etag)] + sums, body: "")
            }
            let second = request["x-amz-part-number-marker"] == "1"
            let part = parts[second ? 1 : 0]
            return LocalAnswer(
                200, [],
                body: """
                    <GetObjectAttributesResponse><ETag>\(ETag(etag).text)</ETag><ObjectParts>
                    <NextPartNumberMarker>\(second ? 2 : 1)</NextPartNumberMarker><IsTruncated>\(!second)</IsTruncated>
                    <Part><PartNumber>1</PartNumber><Size>\(part.count)</Size>
                    <ChecksumCRC32>\(Base64.encode(CRC32.of(part)))</ChecksumCRC32></Part>
                    </ObjectParts></GetObjectAttributesResponse>
                    """)
        }
        let version = ObjectVersion(etag: ETag(etag), size: 5, modified: .epoch)
        let told = try await fixture.store.checksums(of: "k", version)
        #expect(told == parts.map { CheckedPart(size: Int64($0.count), .crc32(CRC32.of($0))) })
        #expect(fixture.requests.first?["x-amz-checksum-mode"] == "ENABLED")
        #expect(fixture.requests.count == 3)
    }

    struct BadGet: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let range: ByteRange?
        let answer: LocalAnswer
        let kind: ObjectStoreError.Kind
        /// What may reach the sink before it is noticed.
        var delivered = ""
    }

    static let badGets = [
        BadGet(
            testDescription: "the range ignored", range: 1..<4, answer: LocalAnswer(200, object, body: "hello"),
            kind: .malformedAnswer),
        BadGet(
            testDescription: "another range", range: 1..<4,
            answer: LocalAnswer(206, object + [("Content-Range", "bytes 0-2/5")], body: "hel"), kind: .malformedAnswer),
        BadGet(
            testDescription: "a range shorter than it says", range: 1..<4,
            answer: LocalAnswer(206, object + [("Content-Range", "bytes 1-3/5")], body: "el"), kind: .integrity,
            delivered: "el"),
        BadGet(
            testDescription: "another version", range: nil,
            answer: LocalAnswer(200, [("ETag", "\"other\"")], body: "x"),
            kind: .preconditionFailed),
        BadGet(
            testDescription: "altered bytes", range: nil, answer: LocalAnswer(200, object, body: "hallo"),
            kind: .integrity, delivered: "hallo"),
        BadGet(
            testDescription: "altered bytes against a checksum", range: nil,
            answer: LocalAnswer(
                200, [object[0], ("x-amz-checksum-crc32", "AAAAAA=="), ("x-amz-checksum-type", "FULL_OBJECT")],
                body: "hello"), kind: .integrity, delivered: "hello"),
    ]

    @Test(arguments: badGets)
    func anAnswerThatIsNotWhatWasAskedIsAnError(row: BadGet) async throws {
        let fixture = try FamilyFixture { _, _ in row.answer }
        let sink = CollectingSink()
        let error = await fixture.error { store throws(ObjectStoreError) in
            let request = GetRequest("k", range: row.range, condition: .ifMatch(ETag(Self.object[0].1)))
            _ = try await store.get(request, into: sink)
        }
        #expect(error?.kind == row.kind)
        #expect(sink.bytes == Array(row.delivered.utf8))
    }

    @Test(arguments: [
        [("x-amz-server-side-encryption", "aws:kms")], [("x-amz-server-side-encryption-customer-algorithm", "AES256")],
    ])
    func anETagOfAnEncryptedObjectIsNoDigest(headers: [(String, String)]) async throws {
        let fixture = try FamilyFixture { _, _ in LocalAnswer(200, Self.object + headers, body: "other") }
        let sink = CollectingSink()
        _ = try await fixture.store.get(GetRequest("k"), into: sink)
        #expect(sink.bytes == Array("other".utf8))
    }

    @Test func checksumsThatAreToBeIgnoredAreNotCompared() async throws {
        let sums = [("x-amz-checksum-crc32", "AAAAAA=="), ("x-amz-checksum-type", "FULL_OBJECT")]
        for headers in [Self.object, Self.object + sums] {
            let fixture = try FamilyFixture {
                $0.verifiesChecksums = false
            } answer: { _, _ in
                LocalAnswer(200, headers, body: "hallo")
            }
            let sink = CollectingSink()
            _ = try await fixture.store.get(GetRequest("k"), into: sink)
            #expect(sink.bytes == Array("hallo".utf8))
            let answer = try await fixture.store.put(PutRequest("k"), body: MemorySource(Array("hallo".utf8)))
            #expect(answer.etag == ETag(Self.object[0].1))
        }
    }

    @Test func headersBecomeMetadata() async throws {
        let headers = [
            ("Content-Type", "text/plain"), ("Content-Encoding", "aws-chunked, gzip"), ("X-Amz-Meta-Mode", "420"),
            ("x-amz-restore", "ongoing-request=\"false\", expiry-date=\"Fri, 21 Dec 2012 00:00:00 GMT\""),
            ("x-amz-version-id", "v1"), ("x-amz-storage-class", "GLACIER"),
        ]
        let fixture = try FamilyFixture { _, _ in LocalAnswer(200, Self.object + headers, body: "hello") }
        let info = try await fixture.store.head("k", condition: nil)
        #expect(info.metadata.contentType == "text/plain")
        #expect(info.metadata.contentEncoding == "gzip")
        #expect(info.metadata.user == ["mode": "420"])
        #expect(info.restore == .restored(until: Timestamp(seconds: 1_356_048_000)))
        #expect(info.version.versionID == "v1")
        #expect(info.storageClass == "GLACIER")
    }

    // MARK: PUT, COPY, COMPLETE

    @Test func aStoreThatKeepsOtherBytesIsNoticed() async throws {
        let fixture = try FamilyFixture { _, _ in LocalAnswer(200, Self.object) }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.put(PutRequest("k"), body: MemorySource([1]))
        }
        #expect(error?.kind == .integrity)
    }

    @Test(arguments: [
        ("<Error><Code>InternalError</Code><Message>m</Message></Error>", ObjectStoreError.Kind.serverFault),
        ("<Error><Code>SlowDown</Code></Error>", .throttled), ("", .interrupted), ("  \n ", .interrupted),
        ("<CopyObjectResult><ETag>", .malformedAnswer),
    ])
    func aSuccessfulStatusCanCarryAnError(body: String, kind: ObjectStoreError.Kind) async throws {
        let fixture = try FamilyFixture { _, _ in LocalAnswer(200, body: body) }
        let copied = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.copy(CopyRequest(CopySource("a"), to: "b"))
        }
        let completed = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.completeUpload("a", UploadID("u"), parts: [], condition: nil)
        }
        let part = PartRequest("a", UploadID("u"), number: 1)
        let partCopied = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.uploadPartCopy(part, from: CopySource("b"), range: 0..<1)
        }
        #expect([copied, completed, partCopied].map { $0?.kind } == [kind, kind, kind])
    }

    /// As Amazon answers for INTELLIGENT_TIERING.
    @Test func whatComesBackForGoodIsRestoredWithoutDays() async throws {
        let fixture = try FamilyFixture(profile: .aws) { _, request in
            String(decoding: request.body, as: UTF8.self).contains("<Days>")
                ? LocalAnswer(400, body: "<Error><Code>InvalidArgument</Code></Error>") : LocalAnswer(202)
        }
        try await fixture.store.restore("k", RestoreRequest())
        let error = await fixture.error { store throws(ObjectStoreError) in
            try await store.restore("k", RestoreRequest(days: 3))
        }
        #expect(error?.kind == .invalidRequest)
        #expect(fixture.requests.count == 3)
    }

    @Test(arguments: [408, 499]) func aServerThatGoesAwayIsAskedAgain(status: Int) async throws {
        let fixture = try FamilyFixture { _, _ in LocalAnswer(status) }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.put(PutRequest("k"), body: MemorySource([1]))
        }
        #expect(error?.kind == .interrupted)
        #expect(error?.isRetryable == true)
    }

    @Test func aPageIsNoAnswerToARemoval() async throws {
        let fixture = try FamilyFixture { _, _ in LocalAnswer(200, body: "\n<html>Welcome</html>") }
        let deleted = await fixture.error { store throws(ObjectStoreError) in
            try await store.delete("k", ifMatch: nil)
        }
        let aborted = await fixture.error { store throws(ObjectStoreError) in
            try await store.abortUpload("k", UploadID("u"))
        }
        #expect([deleted?.kind, aborted?.kind] == [.malformedAnswer, .malformedAnswer])
    }

    @Test func aStoreThatKnowsOneWayToListCanBeMounted() async throws {
        let fixture = try FamilyFixture { _, request in
            request.query.contains("list-type=2")
                ? LocalAnswer(501, body: "<Error><Code>NotImplemented</Code></Error>")
                : LocalAnswer(200, body: "<ListBucketResult><Name>bucket</Name></ListBucketResult>")
        }
        try await fixture.store.checkAccess()
        #expect(fixture.requests.count == 2)
    }

    /// As Ceph answers when an upload was completed before.
    @Test(arguments: ["<ETag></ETag>", "<ETag/>", "<ETag>\"\"</ETag>", ""])
    func aVersionThatIsNotToldIsNotMadeUp(etag: String) async throws {
        let fixture = try FamilyFixture { _, request in
            request.method == "HEAD"
                ? LocalAnswer(200, Self.object + [("x-amz-meta-id", "1")], body: "hello")
                : LocalAnswer(200, body: "<SomeResult><Key>k</Key>\(etag)</SomeResult>")
        }
        let completed = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.completeUpload("a", UploadID("u"), parts: [], condition: nil)
        }
        #expect(completed?.isOfUntoldVersion == true)
        let part = PartRequest("a", UploadID("u"), number: 1)
        let partCopied = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.uploadPartCopy(part, from: CopySource("b"), range: 0..<1)
        }
        #expect(partCopied?.kind == .malformedAnswer)
        func copy(_ id: String) -> CopyRequest {
            CopyRequest(CopySource("a"), to: "b", metadata: ObjectMetadata(user: ["id": id]))
        }
        #expect(try await fixture.store.copy(copy("1")).etag == ETag(Self.object[0].1))
        let another = copy("2")
        let copied = await fixture.error { store throws(ObjectStoreError) in _ = try await store.copy(another) }
        #expect(copied?.kind == .preconditionFailed)
    }

    // MARK: Listings

    private static func listing(_ content: String) -> LocalAnswer {
        LocalAnswer(200, body: "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"x\">\(content)</ListBucketResult>")
    }

    private static func entry(_ key: String) -> String {
        "<Contents><Key>\(key)</Key><LastModified>2023-11-14T22:13:20.000Z</LastModified><ETag>&quot;e&quot;</ETag>"
            + "<Size>5</Size><StorageClass>STANDARD</StorageClass></Contents>"
    }

    @Test func aPageIsReadAndItsTokenSentBack() async throws {
        let fixture = try FamilyFixture { _, _ in
            Self.listing(
                "<EncodingType>url</EncodingType><KeyCount>2</KeyCount><IsTruncated>true</IsTruncated>"
                    + "<NextContinuationToken>t/+=</NextContinuationToken>\(Self.entry("a+b%2Bc"))"
                    + "<CommonPrefixes><Prefix>d%20/</Prefix></CommonPrefixes>")
        }
        let page = try await fixture.store.list(ListRequest(prefix: "p/", delimiter: UInt8(ascii: "/"), limit: 10))
        #expect(page.objects.map(\.key) == ["a b+c"])
        #expect(page.objects.first?.version.size == 5)
        #expect(page.objects.first?.storageClass == nil)
        #expect(page.commonPrefixes == ["d /"])
        _ = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.list(ListRequest(cursor: page.next))
        }
        let queries = fixture.requests.map(\.query)
        #expect(queries[0] == "delimiter=%2F&encoding-type=url&list-type=2&max-keys=10&prefix=p%2F")
        #expect(queries[1].contains("continuation-token=t%2F%2B%3D"))
    }

    @Test func aPageOfLongKeysIsReadWhole() async throws {
        let key = String(repeating: "%E4%B8%AD", count: 330)
        let fixture = try FamilyFixture { _, _ in
            Self.listing(
                "<EncodingType>url</EncodingType><KeyCount>1000</KeyCount>"
                    + (0..<1000).map { Self.entry("\(key)\($0)") }.joined())
        }
        let page = try await fixture.store.list(ListRequest())
        #expect(page.objects.count == 1000)
    }

    @Test(arguments: [true, false])
    func aServerOfTheFirstVersionGetsItsOwnRequests(refuses: Bool) async throws {
        let fixture = try FamilyFixture { _, request in
            if request.query.contains("list-type=2"), refuses { return .error(501, "NotImplemented") }
            let start = request.query.contains("marker=b")
            return Self.listing(
                "<IsTruncated>\(!start)</IsTruncated>" + (start ? Self.entry("c") : Self.entry("a") + Self.entry("b")))
        }
        let first = try await fixture.store.list(ListRequest())
        let second = try await fixture.store.list(ListRequest(cursor: first.next))
        #expect(first.objects.map(\.key) == ["a", "b"])
        #expect(second.objects.map(\.key) == ["c"])
        #expect(second.next == nil)
    }

    @Test func aServerOfTheFirstVersionIsToldWhereToStart() async throws {
        let fixture = try FamilyFixture { _, request in
            Self.listing((request.query.contains("marker=a") ? "" : Self.entry("a")) + Self.entry("b"))
        }
        let page = try await fixture.store.list(ListRequest(startAfter: "a"))
        #expect(page.objects.map(\.key) == ["b"])
    }

    @Test func aListingThatStandsStillIsAnError() async throws {
        let fixture = try FamilyFixture { _, _ in
            Self.listing(
                "<KeyCount>0</KeyCount><IsTruncated>true</IsTruncated>"
                    + "<NextContinuationToken>t</NextContinuationToken>")
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.list(ListRequest(cursor: ListingCursor("t")))
        }
        #expect(error?.kind == .malformedAnswer)
    }

    @Test func partsAndUploadsAreReadOverPages() async throws {
        let fixture = try FamilyFixture { number, request in
            let isFirst = number % 2 == 0
            if request.query.hasPrefix("encoding-type") || request.query.contains("uploads=") {
                let next = "<NextKeyMarker>a</NextKeyMarker><NextUploadIdMarker>1</NextUploadIdMarker>"
                let upload = "<Upload><Key>a</Key><UploadId>\(number)</UploadId></Upload>"
                return LocalAnswer(
                    200, body: "<R><IsTruncated>\(isFirst)</IsTruncated>\(isFirst ? next : "")\(upload)</R>")
            }
            let part = "<Part><PartNumber>\(number + 1)</PartNumber><ETag>\"e\"</ETag><Size>7</Size></Part>"
            return LocalAnswer(200, body: "<R><IsTruncated>\(isFirst)</IsTruncated>\(part)</R>")
        }
        let parts = try await fixture.store.listParts("a", UploadID("u"))
        let uploads = try await fixture.store.listUploads(prefix: "")
        #expect(parts.map(\.number) == [1, 2])
        #expect(uploads.count == 2)
        #expect(fixture.requests[1].query.contains("part-number-marker=1"))
        #expect(fixture.requests[3].query.contains("key-marker=a"))
    }

    // MARK: Deleting

    @Test func aBatchIsVouchedForAndOddKeysGoAlone() async throws {
        let fixture = try FamilyFixture { _, request in
            request.method == "POST"
                ? LocalAnswer(
                    200,
                    body:
                        "<DeleteResult><Error><Key>&lt;b&gt;</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>"
                )
                : LocalAnswer(204)
        }
        let left = try await fixture.store.deleteMany(["a", "<b>", "c\u{1}d"])
        #expect(left.map(\.key) == ["<b>"])
        #expect(left.map(\.kind) == [.accessDenied])
        let batch = try #require(fixture.requests.first)
        #expect(batch["content-md5"] == Base64.encode(MD5.of(batch.body)))
        #expect(String(decoding: batch.body, as: UTF8.self).contains("<Key>&lt;b&gt;</Key>"))
        #expect(fixture.requests.last?.target == "/bucket/c%01d")
    }

    // MARK: Errors

    @Test(arguments: [
        (404, "NoSuchKey", ObjectStoreError.Kind.notFound), (404, "NoSuchBucket", .noSuchBucket),
        (404, "NoSuchUpload", .noSuchUpload), (403, "SignatureDoesNotMatch", .credentialsRejected),
        (403, "InvalidObjectState", .archived(restoring: false)), (409, "ConditionalRequestConflict", .conflict),
        (412, "PreconditionFailed", .preconditionFailed), (400, "EntityTooLarge", .tooLarge),
        (400, "EntityTooSmall", .partRejected), (400, "RequestTimeout", .interrupted), (503, "SlowDown", .throttled),
        (500, "InternalError", .serverFault), (403, "QuotaExceeded", .quotaExceeded),
        (507, "XMinioStorageFull", .storageFull), (400, "KeyTooLongError", .keyTooLong),
        (501, "NotImplemented", .notSupported), (400, "SomethingNew", .invalidRequest), (502, "", .serverFault),
    ])
    func codesBecomeKinds(status: Int, code: String, kind: ObjectStoreError.Kind) async throws {
        let fixture = try FamilyFixture { _, _ in
            .error(status, code, headers: [("x-amz-request-id", "R1"), ("Retry-After", "3")])
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.get(GetRequest("k"), into: CollectingSink())
        }
        #expect(error?.kind == kind)
        #expect(error?.status == status)
        #expect(error?.requestID == "R1")
        #expect(error?.retryAfter == .seconds(3))
        #expect(error?.key == "k")
    }

    @Test(arguments: [true, false])
    func anArchivedObjectIsLookedAtWhetherItIsRestored(isOngoing: Bool) async throws {
        let fixture = try FamilyFixture { _, request in
            guard request.method == "HEAD" else { return .error(403, "InvalidObjectState") }
            let restore = isOngoing ? [("x-amz-restore", "ongoing-request=\"true\"")] : []
            return LocalAnswer(200, Self.object + [("x-amz-storage-class", "GLACIER")] + restore)
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.get(GetRequest("k"), into: CollectingSink())
        }
        #expect(error?.kind == .archived(restoring: isOngoing))
        #expect(fixture.requests.map(\.method) == ["GET", "HEAD"])
    }

    /// The answer to a HEAD does not say that the credentials have ended, or that another file is there now.
    @Test(arguments: ["token", nil])
    func aRefusalWithoutAReasonIsTriedWithOtherCredentials(token: String?) async throws {
        let fixture = try FamilyFixture(credentials: EndingCredentials(token: token)) { _, request in
            request["authorization"]?.contains("ID0/") == true ? LocalAnswer(403) : LocalAnswer(200, Self.object)
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.head("k", condition: nil)
        }
        #expect(error == nil)
        #expect(fixture.requests.count == 2)
    }

    /// What the store says of keys that were replaced in their file, or of access that other keys may have.
    @Test(arguments: ["InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "ExpiredToken", "InvalidToken"])
    func refusedCredentialsAreReadAgainOnce(code: String) async throws {
        let fixture = try FamilyFixture(credentials: EndingCredentials(token: nil)) { _, request in
            request["authorization"]?.contains("ID0/") == true ? .error(403, code) : LocalAnswer(204)
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            try await store.delete("k", ifMatch: nil)
        }
        #expect(error == nil)
        #expect(fixture.requests.count == 2)
        let refusing = try FamilyFixture(credentials: EndingCredentials(token: nil)) { _, _ in .error(403, code) }
        let refused = await refusing.error { store throws(ObjectStoreError) in
            try await store.delete("k", ifMatch: nil)
        }
        #expect(refused?.status == 403)
        #expect(refusing.requests.count == 2)
    }
}
