import Basics
import Digests
import HTTP
import ObjectStorage
import Providers
import TestSupport
import Testing

/// What OSS is asked and what is made of its answers (OSS API reference).
@Suite(.timeLimit(.minutes(5))) struct OSSStoreTests {
    private static let content = Array("hello oss".utf8)
    private static let object: [(String, String)] = [
        ("ETag", "\"\(Hex.encode(MD5.of(content), uppercase: true))\""), ("x-oss-object-type", "Normal"),
        ("Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT"), ("x-oss-hash-crc64ecma", "15021467531229347219"),
        ("x-oss-storage-class", "Standard"),
    ]

    @Test func aRangeIsAskedForInTheStandardWay() async throws {
        let fixture = try FamilyFixture.oss { _, _ in
            LocalAnswer(206, Self.object + [("Content-Range", "bytes 6-8/9")], body: "oss")
        }
        let sink = CollectingSink()
        let answer = try await fixture.store.get(GetRequest("k", range: 6..<20), into: sink)
        #expect(fixture.requests.first?["x-oss-range-behavior"] == "standard")
        #expect(answer.range == 6..<9)
        #expect(answer.info.storageClass == nil)
        #expect(answer.info.crc64 == 15_021_467_531_229_347_219)
    }

    @Test func theWholeObjectInsteadOfARangeReachesNobody() async throws {
        let fixture = try FamilyFixture.oss { _, _ in LocalAnswer(200, Self.object, bytes: Self.content) }
        let sink = CollectingSink()
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.get(GetRequest("k", range: 5..<2000), into: sink)
        }
        #expect(error?.kind == .malformedAnswer)
        #expect(sink.bytes.isEmpty)
    }

    @Test func bytesThatAreNotWhatTheChecksumSaysAreRefused() async throws {
        let multipart = [("ETag", "\"5B3C1A2E053D763E1B002CC607C5A0FE-2\""), Self.object[3]]
        let fixture = try FamilyFixture.oss { _, request in
            request.method == "GET" ? LocalAnswer(200, multipart, body: "hello 0ss") : LocalAnswer(200, multipart)
        }
        let got = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.get(GetRequest("k"), into: CollectingSink())
        }
        let put = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.put(PutRequest("k"), body: MemorySource(Array("hello 0ss".utf8)))
        }
        #expect([got?.kind, put?.kind] == [.integrity, .integrity])
        _ = try await fixture.store.put(PutRequest("k"), body: MemorySource(Self.content))
    }

    @Test func checksumsAreNotComparedWhenTheMountDoesNotWantThem() async throws {
        let fixture = try FamilyFixture.oss({ $0.verifiesChecksums = false }) { _, _ in
            LocalAnswer(200, [("ETag", "\"x\""), ("x-oss-hash-crc64ecma", "1")], bytes: Self.content)
        }
        _ = try await fixture.store.get(GetRequest("k"), into: CollectingSink())
    }

    @Test func aCreateOnlyPutForbidsToOverwrite() async throws {
        let fixture = try FamilyFixture.oss { number, _ in
            number == 0 ? LocalAnswer(200, Self.object) : .error(409, "FileAlreadyExists")
        }
        let request = PutRequest(
            "k", metadata: ObjectMetadata(user: ["my_name": "v", "mode": "33188"]), condition: .absent)
        _ = try await fixture.store.put(request, body: MemorySource(Self.content))
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.put(request, body: MemorySource(Self.content))
        }
        let sent = try #require(fixture.requests.first)
        #expect(sent["x-oss-forbid-overwrite"] == "true")
        #expect(sent["if-none-match"] == nil)
        #expect(sent["x-oss-meta-my--5fname"] == "v")
        #expect(sent["x-oss-meta-mode"] == "33188")
        #expect(sent["content-md5"] == Base64.encode(MD5.of(Self.content)))
        #expect(error?.kind == .preconditionFailed)
    }

    @Test func aConditionThatOSSLacksIsNoRequest() async throws {
        let fixture = try FamilyFixture.oss { _, _ in LocalAnswer(200, Self.object) }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.put(PutRequest("k", condition: .match(ETag("x"))), body: MemorySource([]))
        }
        #expect(error?.kind == .notSupported)
        #expect(fixture.requests.isEmpty)
    }

    @Test func namesOfMetadataComeBackAsTheyWere() async throws {
        let fixture = try FamilyFixture.oss { _, _ in
            LocalAnswer(
                200, Self.object + [("x-oss-meta-my--5fname", "v"), ("x-oss-meta-a--b", "w")], body: "123456789")
        }
        let info = try await fixture.store.head("k", condition: nil)
        #expect(info.metadata.user == ["my_name": "v", "a--b": "w"])
    }

    @Test(.rule("xattr.copied")) func newHeadersKeepClassEncryptionTagsAndACL() async throws {
        let fixture = try FamilyFixture.oss { _, request in
            if request.method == "HEAD" {
                return LocalAnswer(
                    200,
                    Self.object.dropLast() + [
                        ("x-oss-storage-class", "IA"), ("x-oss-server-side-encryption", "KMS"),
                        ("x-oss-server-side-encryption-key-id", "key-1"),
                    ], bytes: Self.content)
            }
            if request.query == "acl=" {
                return LocalAnswer(
                    200,
                    body: "<AccessControlPolicy><Owner><ID>1</ID></Owner><AccessControlList><Grant>public-read</Grant>"
                        + "</AccessControlList></AccessControlPolicy>")
            }
            return LocalAnswer(200, body: "<CopyObjectResult><ETag>\"E\"</ETag></CopyObjectResult>")
        }
        _ = try await fixture.store.updateMetadata("a b", to: ObjectMetadata(user: ["mode": "1"]), ifMatch: nil)
        let copy = try #require(fixture.requests.last)
        #expect(copy["x-oss-copy-source"] == "/bucket/a%20b")
        #expect(copy["x-oss-metadata-directive"] == "REPLACE")
        #expect(copy["x-oss-tagging-directive"] == "Copy")
        #expect(copy["x-oss-storage-class"] == "IA")
        #expect(copy["x-oss-server-side-encryption"] == "KMS")
        #expect(copy["x-oss-server-side-encryption-key-id"] == "key-1")
        #expect(copy["x-oss-object-acl"] == "public-read")
        #expect(copy["x-oss-copy-source-if-match"] == Self.object[0].1)
    }

    /// A server that refuses to copy, as OSS does when the source is an append object.
    private func refusingCopies(_ content: [UInt8]) throws -> FamilyFixture {
        try FamilyFixture.oss { _, request in
            let etag = ("ETag", "\"A\"")
            switch (request.method, request["x-oss-copy-source"], request["range"]) {
            case (_, _?, _): return .error(400, "OperationNotSupported")
            case ("HEAD", _, _):
                return LocalAnswer(200, [etag, ("x-oss-meta-mode", "1"), ("Content-Length", String(content.count))])
            case ("GET", _, let range?):
                let ends = range.dropFirst(6).split(separator: "-").compactMap { Int($0) }
                let bytes = Array(content[ends[0]...ends[1]])
                return LocalAnswer(
                    206, [etag, ("Content-Range", "bytes \(ends[0])-\(ends[1])/\(content.count)")], bytes: bytes)
            case ("GET", _, _):
                return LocalAnswer(
                    200,
                    body: "<AccessControlPolicy><AccessControlList><Grant>default</Grant></AccessControlList>"
                        + "</AccessControlPolicy>")
            case ("POST", _, _) where request.query == "uploads=":
                return LocalAnswer(200, body: "<R><UploadId>u</UploadId></R>")
            case ("POST", _, _): return LocalAnswer(200, body: "<R><ETag>\"M-2\"</ETag></R>")
            default: return LocalAnswer(200, [("ETag", "\"\(Hex.encode(MD5.of(request.body), uppercase: true))\"")])
            }
        }
    }

    @Test func anAppendObjectIsCopiedThroughThisMachine() async throws {
        let fixture = try refusingCopies(Self.content)
        _ = try await fixture.store.copy(CopyRequest(CopySource("a", ifMatch: ETag("A")), to: "b"))
        _ = try await fixture.store.updateMetadata("a", to: ObjectMetadata(user: ["mode": "2"]), ifMatch: nil)
        let puts = fixture.requests.filter { $0.method == "PUT" && $0["x-oss-copy-source"] == nil }
        #expect(puts.map(\.target) == ["/bucket/b", "/bucket/a"])
        #expect(puts.map(\.body) == [Self.content, Self.content])
        #expect(puts.map { $0["x-oss-meta-mode"] } == ["1", "2"])
        #expect(fixture.requests.filter { $0["range"] != nil }.allSatisfy { $0["if-match"] == "\"A\"" })
        let part = try await fixture.store.uploadPartCopy(
            PartRequest("c", UploadID("u"), number: 3), from: CopySource("a"), range: 2..<5)
        #expect(part.size == 3)
        #expect(fixture.requests.last?.body == Array(Self.content[2..<5]))
    }

    @Test func aLongAppendObjectIsCopiedInPieces() async throws {
        let content = [UInt8](repeating: 7, count: (16 << 20) + 5)
        let fixture = try refusingCopies(content)
        _ = try await fixture.store.copy(CopyRequest(CopySource("a"), to: "b"))
        let parts = fixture.requests.filter { $0.query.contains("partNumber") }
        #expect(parts.map(\.body.count) == [16 << 20, 5])
        #expect(fixture.requests.last?.query == "uploadId=u")
    }

    @Test func aListingShowsLinksAndAsksForAWholePage() async throws {
        let fixture = try FamilyFixture.oss { _, _ in
            LocalAnswer(
                200,
                body: "<ListBucketResult><EncodingType>url</EncodingType><KeyCount>2</KeyCount>"
                    + "<Contents><Key>a+b%2Bc</Key><Size>1</Size><ETag>\"E\"</ETag><Type>Symlink</Type>"
                    + "<StorageClass>Standard</StorageClass></Contents><Contents><Key>d</Key><Size>2</Size>"
                    + "<ETag>\"F\"</ETag><Type>Normal</Type><StorageClass>Archive</StorageClass></Contents>"
                    + "</ListBucketResult>")
        }
        let page = try await fixture.store.list(ListRequest(prefix: "a"))
        #expect(page.objects.map(\.key) == ["a+b+c", "d"])
        #expect(page.objects.map(\.isSymlink) == [true, false])
        #expect(page.objects.map(\.storageClass) == [nil, "Archive"])
        #expect(fixture.requests.first?.query == "encoding-type=url&list-type=2&max-keys=1000&prefix=a")
    }

    @Test func aTokenIsDecodedBeforeItIsSentBack() async throws {
        let fixture = try FamilyFixture.oss { _, _ in
            LocalAnswer(
                200,
                body: "<ListBucketResult><EncodingType>url</EncodingType><KeyCount>0</KeyCount>"
                    + "<IsTruncated>true</IsTruncated><NextContinuationToken>a%2Fb%3D</NextContinuationToken>"
                    + "</ListBucketResult>")
        }
        let page = try await fixture.store.list(ListRequest())
        #expect(page.next == ListingCursor("a/b="))
    }

    @Test func nothingIsSaidWhenEverythingIsDeleted() async throws {
        let fixture = try FamilyFixture.oss { _, _ in LocalAnswer(200) }
        #expect(try await fixture.store.deleteMany(["a", "b"]).isEmpty)
        let body = try #require(fixture.requests.first).body
        #expect(String(decoding: body, as: UTF8.self).hasPrefix("<Delete><Object><Key>a</Key>"))
    }

    @Test func linksAreWrittenAndRead() async throws {
        let fixture = try FamilyFixture.oss { _, request in
            LocalAnswer(
                200,
                request.method == "GET"
                    ? [("x-oss-symlink-target", "a%20b/%C3%BC"), ("ETag", "\"E\""), ("x-oss-meta-uid", "5")]
                    : Self.object)
        }
        _ = try await fixture.store.putSymlink(PutRequest("l", condition: .absent), target: "a b/ü")
        let link = try await fixture.store.link(at: "l")
        #expect(link.target == "a b/ü" && link.etag == ETag("E") && link.metadata.user == ["uid": "5"])
        let put = try #require(fixture.requests.first)
        #expect(put.target == "/bucket/l?symlink=")
        #expect(put["x-oss-symlink-target"] == "a%20b/%C3%BC")
        #expect(put["x-oss-forbid-overwrite"] == "true")
    }

    @Test func theReasonOfAFailedHeadIsInItsHeader() async throws {
        let document = "<Error><Code>NoSuchBucket</Code><Message>gone</Message><RequestId>R</RequestId></Error>"
        let fixture = try FamilyFixture.oss { _, _ in
            LocalAnswer(404, [("x-oss-err", Base64.encode(Array(document.utf8))), ("x-oss-request-id", "R1")])
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.head("k", condition: nil)
        }
        #expect(error?.kind == .noSuchBucket)
        #expect(error?.message == "gone")
        #expect(error?.requestID == "R1")
    }

    @Test func theSumOfThePartsIsComparedWithTheObject() async throws {
        let crc = CRC64ECMA.value(of: Array("hello oss".utf8))
        let fixture = try FamilyFixture.oss { _, request in
            if request.method == "PUT" {
                return LocalAnswer(
                    200,
                    [
                        ("ETag", "\"\(Hex.encode(MD5.of(request.body), uppercase: true))\""),
                        ("x-oss-hash-crc64ecma", String(CRC64ECMA.value(of: request.body))),
                    ])
            }
            let whole = request.target.contains("uploadId=good") ? crc : crc ^ 1
            return LocalAnswer(
                200, [("x-oss-hash-crc64ecma", String(whole))],
                body: "<CompleteMultipartUploadResult><ETag>\"U-2\"</ETag></CompleteMultipartUploadResult>")
        }
        for (id, fails) in [("good", false), ("bad", true)] {
            var parts: [UploadedPart] = []
            for (index, text) in ["hello ", "oss"].enumerated() {
                let part = PartRequest("k", UploadID(id), number: index + 1)
                parts.append(try await fixture.store.uploadPart(part, body: MemorySource(Array(text.utf8))))
            }
            let sent = parts
            let error = await fixture.error { store throws(ObjectStoreError) in
                _ = try await store.completeUpload("k", UploadID(id), parts: sent, condition: nil)
            }
            #expect(error?.kind == (fails ? .integrity : nil))
        }
    }

    @Test func partsAreListedWithTheirChecksums() async throws {
        let fixture = try FamilyFixture.oss { _, _ in
            LocalAnswer(
                200,
                body: "<ListPartsResult><IsTruncated>false</IsTruncated><NextPartNumberMarker>1</NextPartNumberMarker>"
                    + "<Part><PartNumber>1</PartNumber><ETag>\"E\"</ETag><HashCrc64ecma>17</HashCrc64ecma><Size>3</Size>"
                    + "</Part></ListPartsResult>")
        }
        let parts = try await fixture.store.listParts("k", UploadID("u"))
        #expect(parts == [UploadedPart(number: 1, etag: ETag("E"), size: 3, crc64: 17)])
    }

    @Test func restoringIsAskedAsTheClassWants() async throws {
        let fixture = try FamilyFixture.oss { number, _ in
            number == 2 ? .error(409, "RestoreAlreadyInProgress") : LocalAnswer(202)
        }
        try await fixture.store.restore("k", RestoreRequest())
        try await fixture.store.restore("k", RestoreRequest(days: 3, tier: "Bulk"))
        try await fixture.store.restore("k", RestoreRequest())
        let requests = fixture.requests
        #expect(requests[0].target == "/bucket/k?restore=")
        #expect(requests[0].body.isEmpty)
        #expect(
            String(decoding: requests[1].body, as: UTF8.self)
                == "<RestoreRequest><Days>3</Days><JobParameters><Tier>Bulk</Tier></JobParameters></RestoreRequest>")
    }

    @Test func aBucketWithVersionsHasNoCreateOnlyPuts() async throws {
        let fixture = try FamilyFixture.oss(tellsVersions: true) { _, request in
            request.query == "versioning="
                ? LocalAnswer(
                    200, body: "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>")
                : LocalAnswer(200, body: "<ListBucketResult/>")
        }
        #expect(fixture.store.capabilities.putIfAbsent)
        try await fixture.store.checkAccess()
        #expect(!fixture.store.capabilities.putIfAbsent)
    }

    /// The process that asked for the bucket's access may be another one, and a bucket of an account is not asked for.
    @Test(.rule("conflict.gap")) func anUncheckedBucketWithVersionsIsLookedAt() async throws {
        let fixture = try FamilyFixture.oss(tellsVersions: true) { _, request in
            if request.query == "versioning=" {
                return LocalAnswer(
                    200, body: "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
            }
            let isThere = request.target.contains("there")
            return LocalAnswer(
                request.method == "HEAD" && !isThere ? 404 : 200,
                [("ETag", "\"5d41402abc4b2a76b9719d911017c592\""), ("Content-Length", "0")])
        }
        func put(_ key: ObjectKey) async throws {
            var request = PutRequest(key)
            request.condition = .absent
            _ = try await fixture.store.put(request, body: MemorySource(Array("hello".utf8)))
        }
        try await put("new")
        try await put("newer")
        #expect(fixture.requests.map(\.method) == ["GET", "HEAD", "PUT", "HEAD", "PUT"])
        await #expect { try await put("there") } throws: { error in
            (error as? ObjectStoreError)?.kind == .preconditionFailed
        }
        #expect(fixture.requests.last?.method == "HEAD")
    }

    @Test func usageIsWhatTheBucketCounts() async throws {
        let fixture = try FamilyFixture.oss { _, _ in
            LocalAnswer(200, body: "<BucketStat><Storage>1600</Storage><ObjectCount>230</ObjectCount></BucketStat>")
        }
        #expect(try await fixture.store.usage() == BucketUsage(bytes: 1600, objects: 230))
    }

    @Test func aCannedListIsSetAndGrantsAreNot() async throws {
        let fixture = try FamilyFixture.oss { _, _ in LocalAnswer(200) }
        try await fixture.store.setAccessControl(of: "k", to: AccessControl(canned: "public-read"))
        #expect(fixture.requests.last?["x-oss-object-acl"] == "public-read")
        let wrong = await fixture.error { store throws(ObjectStoreError) in
            try await store.setAccessControl(of: "k", to: AccessControl(canned: "everyone"))
        }
        let grants = [AccessControl.Grant(.user(id: "1"), "READ")]
        let granted = await fixture.error { store throws(ObjectStoreError) in
            try await store.setAccessControl(of: "k", to: AccessControl(grants: grants))
        }
        #expect([wrong?.kind, granted?.kind] == [.invalidRequest, .notSupported])
        #expect(fixture.requests.count == 1)
    }

    @Test(arguments: [
        (409, "ObjectAlreadyExists", ObjectStoreError.Kind.preconditionFailed), (403, "InDebt", .quotaExceeded),
        (403, "SecurityTokenExpired", .credentialsExpired), (404, "SymlinkTargetNotExist", .notFound),
        (400, "InvalidTargetType", .notFound),
        (400, "NotSymlink", .preconditionFailed),
        (503, "TotalQpsLimitExceeded", .throttled), (400, "InvalidDigest", .integrity),
        (400, "OperationNotSupported", .notSupported), (403, "RequestTimeTooSkewed", .clockSkew),
        (403, "InvalidObjectState", .archived(restoring: false)), (409, "FileImmutable", .accessDenied),
    ])
    func codesBecomeKinds(status: Int, code: String, kind: ObjectStoreError.Kind) async throws {
        let fixture = try FamilyFixture.oss { _, _ in .error(status, code) }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.get(GetRequest("k"), into: CollectingSink())
        }
        #expect(error?.kind == kind)
    }

    @Test func settingsThatOSSDoesNotHaveAreRefused() {
        func isRefused(_ configure: (inout FamilyStore.Settings) -> Void) -> Bool {
            let fixture = try? FamilyFixture.oss(configure) { _, _ in LocalAnswer(200) }
            return fixture == nil
        }
        #expect(isRefused { $0.trafficLimit = 1 })
        #expect(isRefused { $0.customerKey = Secret(String(repeating: "k", count: 32)) })
        #expect(isRefused { $0.acl = "everyone" })
        #expect(!isRefused { $0.trafficLimit = 245_760 })
    }
}
