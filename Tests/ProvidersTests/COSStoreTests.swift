import Basics
import Digests
import HTTP
import ObjectStorage
import Providers
import Synchronization
import TestSupport
import Testing

/// What COS is asked and what is made of its answers (COS API documentation).
@Suite(.timeLimit(.minutes(5))) struct COSStoreTests {
    private static let object: [(String, String)] = [
        ("ETag", "\"\(Hex.encode(MD5.of("hello cos")))\""), ("Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT"),
        ("x-cos-hash-crc64ecma", String(CRC64ECMA.value(of: Array("hello cos".utf8)))),
    ]

    private func fixture(
        _ configure: (inout FamilyStore.Settings) -> Void = { _ in },
        answer: @escaping @Sendable (Int, LocalRequest) -> LocalAnswer
    ) throws -> FamilyFixture {
        try FamilyFixture(profile: .cos) {
            $0.bucket = "bucket-1250000000"
            $0.region = "ap-guangzhou"
            configure(&$0)
        } answer: { number, request in
            answer(number, request)
        }
    }

    private static let copied = LocalAnswer(200, body: "<CopyObjectResult><ETag>\"e\"</ETag></CopyObjectResult>")

    @Test func aCopyNamesItsSourceByHost() async throws {
        let fixture = try fixture { _, _ in Self.copied }
        _ = try await fixture.store.copy(
            CopyRequest(
                CopySource("a b/c", ifMatch: ETag("x")), to: "d", metadata: ObjectMetadata(user: ["a": "b"])))
        let request = try #require(fixture.requests.first)
        #expect(request["x-cos-copy-source"] == "bucket-1250000000.cos.ap-guangzhou.myqcloud.com/a%20b/c")
        #expect(request["x-cos-metadata-directive"] == "Replaced")
        #expect(request["x-cos-copy-source-if-match"] == "\"x\"")
        let conditional = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.copy(CopyRequest(CopySource("a"), to: "d", condition: .absent))
        }
        #expect(conditional?.kind == .notSupported)
        #expect(fixture.requests.count == 1)
    }

    @Test func aCopyOfAnotherBucketNamesItsHost() async throws {
        let fixture = try fixture { _, _ in Self.copied }
        for region in ["eu-frankfurt", nil] {
            let bucket = OtherBucket("other-1250000000", region: region, store: MemoryStore())
            _ = try await fixture.store.copy(CopyRequest(CopySource("a", in: bucket, ifMatch: ETag("x")), to: "a"))
            #expect(
                fixture.requests.last?["x-cos-copy-source"]
                    == "other-1250000000.cos.\(region ?? "ap-guangzhou").myqcloud.com/a")
        }
        #expect(fixture.requests.map(\.method) == ["PUT", "PUT"])
    }

    /// As of a bucket of another account.
    @Test func whatMayNotBeCopiedIsReadFromTheOtherBucket() async throws {
        let other = MemoryStore()
        other.setObject("a", Array("theirs".utf8), metadata: ObjectMetadata(user: ["mode": "1"]))
        let fixture = try fixture { _, request in
            request["x-cos-copy-source"] == nil
                ? LocalAnswer(200, [("ETag", "\"\(Hex.encode(MD5.of(request.body)))\"")])
                : .error(403, "AccessDenied")
        }
        let etag = try #require(other.info("a")).version.etag
        let bucket = OtherBucket("other-1250000000", region: nil, store: other)
        for _ in 0..<2 {
            _ = try await fixture.store.copy(CopyRequest(CopySource("a", in: bucket, ifMatch: etag), to: "b"))
        }
        #expect(fixture.requests.last?.body == Array("theirs".utf8))
        #expect(fixture.requests.last?["x-cos-meta-mode"] == "1")
        // The next bucket may be copied from.
        #expect(fixture.requests.map { $0["x-cos-copy-source"] != nil } == [true, false, true, false])
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.copy(CopyRequest(CopySource("a", in: bucket, ifMatch: ETag("older")), to: "b"))
        }
        #expect(error?.kind == .preconditionFailed)
    }

    @Test func theRegionOfCopiesIsAskedForOnce() async throws {
        let fixture = try fixture {
            $0.region = nil
        } answer: { _, request in
            request.method == "GET"
                ? LocalAnswer(200, [("x-cos-bucket-region", "ap-nanjing")], body: "<ListBucketResult/>") : Self.copied
        }
        for _ in 0..<2 { _ = try await fixture.store.copy(CopyRequest(CopySource("a"), to: "b")) }
        #expect(fixture.requests.map(\.method) == ["GET", "PUT", "PUT"])
        #expect(
            fixture.requests.last?["x-cos-copy-source"] == "bucket-1250000000.cos.ap-nanjing.myqcloud.com/a")
    }

    @Test func aRegionThatNobodyTellsHasToBeGiven() async throws {
        let fixture = try fixture {
            $0.region = nil
        } answer: { _, _ in
            LocalAnswer(200, body: "<ListBucketResult/>")
        }
        let unknown = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.copy(CopyRequest(CopySource("a"), to: "b"))
        }
        #expect(unknown?.message.contains("region=") == true)
    }

    @Test func aCompletedUploadCanCarryAnErrorAfterWhitespace() async throws {
        let fixture = try fixture { _, _ in
            LocalAnswer(200, body: "   \n\n<?xml version=\"1.0\"?><Error><Code>InternalError</Code></Error>")
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.completeUpload("k", UploadID("u"), parts: [], condition: .absent)
        }
        #expect(error?.kind == .serverFault)
        #expect(fixture.requests.first?["x-cos-forbid-overwrite"] == "true")
    }

    @Test func pagesGoOnAtTheMarkerAndPlusIsPlus() async throws {
        let fixture = try fixture { number, _ in
            let next = "<IsTruncated>true</IsTruncated><NextMarker>a%20+</NextMarker>"
            return LocalAnswer(
                200,
                body: "<ListBucketResult><EncodingType>url</EncodingType>\(number == 0 ? next : "")"
                    + "<Contents><Key>a%20+\(number)</Key><Size>1</Size><ETag>\"e\"</ETag>"
                    + "<StorageClass>STANDARD</StorageClass></Contents></ListBucketResult>")
        }
        let first = try await fixture.store.list(ListRequest(prefix: "a"))
        _ = try await fixture.store.list(ListRequest(prefix: "a", cursor: first.next))
        #expect(first.objects.map(\.key) == ["a +0"])
        #expect(
            fixture.requests.map(\.query)
                == ["encoding-type=url&prefix=a", "encoding-type=url&marker=a%20%2B&prefix=a"])
    }

    @Test func uploadsAreListedWithAllTheirParameters() async throws {
        let fixture = try fixture { number, _ in
            let next = "<NextKeyMarker>a%2Bb</NextKeyMarker><NextUploadIdMarker>1</NextUploadIdMarker>"
            return LocalAnswer(
                200,
                body: "<ListMultipartUploadsResult><Encoding-Type>url</Encoding-Type>"
                    + "<IsTruncated>\(number == 0 ? "TRUE" : "False")</IsTruncated>\(number == 0 ? next : "")"
                    + "<Upload><Key>a%2Bb</Key><UploadId>\(number)</UploadId></Upload></ListMultipartUploadsResult>")
        }
        let uploads = try await fixture.store.listUploads(prefix: "a")
        #expect(uploads.map(\.upload.text) == ["0", "1"])
        #expect(uploads.map(\.key) == ["a+b", "a+b"])
        #expect(
            fixture.requests.last?.query
                == "encoding-type=url&key-marker=a%2Bb&prefix=a&upload-id-marker=1&uploads=")
    }

    @Test func aCustomersKeyGoesWithEveryRequestOnTheObject() async throws {
        let fixture = try fixture {
            $0.customerKey = Secret("MDEyMzQ1Njc4OUFCQ0RFRjAxMjM0NTY3ODlBQkNERUY=")
        } answer: { _, request in
            switch request.method {
            case "GET": LocalAnswer(200, Self.object, body: "hello cos")
            case "HEAD": LocalAnswer(200, Self.object, body: "hello cos")
            default: request["x-cos-copy-source"] == nil ? LocalAnswer(200, Self.object) : Self.copied
            }
        }
        let store = fixture.store
        _ = try await store.put(PutRequest("k"), body: MemorySource(Array("hello cos".utf8)))
        _ = try await store.head("k", condition: nil)
        _ = try await store.get(GetRequest("k"), into: CollectingSink())
        _ = try await store.copy(CopyRequest(CopySource("k"), to: "l"))
        for request in fixture.requests {
            #expect(request["x-cos-server-side-encryption-customer-algorithm"] == "AES256")
            #expect(
                request["x-cos-server-side-encryption-customer-key"] == "MDEyMzQ1Njc4OUFCQ0RFRjAxMjM0NTY3ODlBQkNERUY=")
            #expect(request["x-cos-server-side-encryption-customer-key-MD5"] == "U5L61r7jcwdNvT7frmUG8g==")
        }
        #expect(
            fixture.requests.last?["x-cos-copy-source-server-side-encryption-customer-key-MD5"]
                == "U5L61r7jcwdNvT7frmUG8g==")
    }

    @Test func aCustomersKeyIsNotSentInTheClear() {
        var settings = FamilyStore.Settings(bucket: "bucket-1250000000", .cos)
        settings.customerKey = Secret("MDEyMzQ1Njc4OUFCQ0RFRjAxMjM0NTY3ODlBQkNERUY=")
        settings.endpoint = "http://cos.ap-guangzhou.myqcloud.com"
        let store = try? FamilyStore(
            settings, credentials: FixedCredentials(nil), engine: HTTPEngine(), time: ManualTime())
        #expect(store == nil)
    }

    @Test func newObjectsAreEncryptedAsTheMountSays() async throws {
        let fixture = try fixture {
            $0.encryption = "cos/kms"
            $0.encryptionKey = "key-1"
            $0.encryptionContext = "e30="
            $0.trafficLimit = 819_200
            $0.headers = [("x-cos-meta-from", "here")]
        } answer: { _, _ in
            LocalAnswer(
                200, [("ETag", "\"\(Hex.encode(MD5.of("other")))\""), ("x-cos-server-side-encryption", "cos/kms")])
        }
        _ = try await fixture.store.put(PutRequest("k"), body: MemorySource([1]))
        let request = try #require(fixture.requests.first)
        #expect(request["x-cos-server-side-encryption"] == "cos/kms")
        #expect(request["x-cos-server-side-encryption-cos-kms-key-id"] == "key-1")
        #expect(request["x-cos-server-side-encryption-context"] == "e30=")
        #expect(request["x-cos-traffic-limit"] == "819200")
        #expect(request["x-cos-meta-from"] == "here")
        #expect(request["authorization"]?.contains("x-cos-meta-from") == true)
    }

    private static let policy = """
        <AccessControlPolicy><Owner><ID>qcs::cam::uin/1:uin/1</ID></Owner><AccessControlList>
        <Grant><Grantee xsi:type="CanonicalUser"><ID>qcs::cam::uin/1:uin/1</ID></Grantee>
        <Permission>FULL_CONTROL</Permission></Grant>
        <Grant><Grantee><ID>qcs::cam::uin/2:uin/3</ID></Grantee><Permission>READ</Permission></Grant>
        </AccessControlList></AccessControlPolicy>
        """

    @Test(.rule("xattr.copied")) func grantsAreReadSetAndKept() async throws {
        let fixture = try fixture { _, request in
            switch (request.method, request.query) {
            case ("GET", "acl="): LocalAnswer(200, body: Self.policy)
            case ("HEAD", _): LocalAnswer(200, Self.object, body: "hello cos")
            case ("PUT", "acl="): LocalAnswer(200)
            default: Self.copied
            }
        }
        let access = try await fixture.store.accessControl(of: "k")
        let granted = AccessControl.Grant(.user(id: "qcs::cam::uin/2:uin/3"), "READ")
        #expect(access.canned == nil)
        #expect(access.grants.last == granted)
        try await fixture.store.setAccessControl(of: "k", to: AccessControl(grants: [granted]))
        let document = try #require(fixture.requests.last.map { String(decoding: $0.body, as: UTF8.self) })
        #expect(document.contains("<Owner><ID>qcs::cam::uin/1:uin/1</ID></Owner>"))
        #expect(document.contains("<ID>qcs::cam::uin/2:uin/3</ID></Grantee><Permission>READ</Permission>"))
        _ = try await fixture.store.updateMetadata("k", to: ObjectMetadata(), ifMatch: nil)
        #expect(fixture.requests.last?["x-cos-grant-read"] == "id=\"3\"")
        #expect(fixture.requests.last?["x-cos-grant-full-control"] == nil)
    }

    @Test func theBucketsOwnListIsToldAsDefault() async throws {
        let fixture = try fixture { _, _ in LocalAnswer(200, [("x-cos-acl", "default")], body: Self.policy) }
        #expect(try await fixture.store.accessControl(of: "k").canned == "default")
    }

    @Test func tagsAreReadAndReplaced() async throws {
        let fixture = try fixture { number, request in
            switch (number, request.method) {
            case (0, _): .error(404, "NoSuchTagSet")
            case (_, "GET"):
                LocalAnswer(
                    200, body: "<Tagging><TagSet><Tag><Key>a&amp;</Key><Value>1</Value></Tag></TagSet></Tagging>")
            default: LocalAnswer(200)
            }
        }
        #expect(try await fixture.store.tags(of: "k") == [:])
        #expect(try await fixture.store.tags(of: "k") == ["a&": "1"])
        try await fixture.store.setTags(of: "k", to: ["b": "<2>"])
        try await fixture.store.setTags(of: "k", to: [:])
        let requests = fixture.requests
        #expect(
            String(decoding: requests[2].body, as: UTF8.self)
                == "<Tagging><TagSet><Tag><Key>b</Key><Value>&lt;2&gt;</Value></Tag></TagSet></Tagging>")
        #expect(requests[2]["content-md5"] == Base64.encode(MD5.of(requests[2].body)))
        #expect(requests[3].method == "DELETE")
    }

    @Test func restoringTellsDaysAndTier() async throws {
        let fixture = try fixture { _, _ in LocalAnswer(202) }
        try await fixture.store.restore("k", RestoreRequest(days: 7, tier: "Expedited"))
        #expect(
            String(decoding: try #require(fixture.requests.first).body, as: UTF8.self)
                == "<RestoreRequest><Days>7</Days><CASJobParameters><Tier>Expedited</Tier></CASJobParameters>"
                + "</RestoreRequest>")
    }

    @Test func aPreflightIsAskedAsABrowserDoes() async throws {
        let fixture = try fixture { _, request in
            request["origin"] == "https://a.example"
                ? LocalAnswer(200, [("Access-Control-Allow-Origin", "*"), ("Server", "x")])
                : .error(403, "AccessForbidden")
        }
        let allowed = try await fixture.store.preflight(
            "k", PreflightRequest(origin: "https://a.example", method: "PUT", headers: ["content-type", "x-a"]))
        #expect(allowed.map(\.name) == ["Access-Control-Allow-Origin"])
        let request = try #require(fixture.requests.first)
        #expect(request.method == "OPTIONS")
        #expect(request["authorization"] == nil)
        #expect(request["access-control-request-headers"] == "content-type,x-a")
        let refused = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.preflight("k", PreflightRequest(origin: "https://b.example", method: "PUT"))
        }
        #expect(refused?.kind == .accessDenied)
    }

    @Test func aMoveToAnotherClassKeepsTheHeaders() async throws {
        let fixture = try fixture { _, request in
            switch request.method {
            case "HEAD": LocalAnswer(200, Self.object + [("x-cos-meta-mode", "1")], body: "hello cos")
            case "GET": .error(403, "AccessDenied")
            default: Self.copied
            }
        }
        _ = try await fixture.store.setStorageClass(of: "k", to: "STANDARD_IA", ifMatch: nil)
        #expect(fixture.requests.last?["x-cos-storage-class"] == "STANDARD_IA")
        #expect(fixture.requests.last?["x-cos-meta-mode"] == "1")
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.setStorageClass(of: "k", to: "COLDEST", ifMatch: nil)
        }
        #expect(error?.kind == .invalidRequest)
    }

    /// A HEAD's 400 does not tell that the credentials have ended; what comes after them may have ended as soon.
    @Test func credentialsThatEndTwiceInASecondAreRenewedTwice() async throws {
        let valid = Mutex("")
        let fixture = try FamilyFixture(profile: .cos, credentials: EndingCredentials(token: "token")) {
            ($0.bucket, $0.region) = ("bucket-1250000000", "ap-guangzhou")
        } answer: { _, request in
            guard request["authorization"]?.contains("q-ak=\(valid.withLock { $0 })&") == true else {
                return request.method == "HEAD" ? LocalAnswer(400) : .error(400, "ExpiredToken")
            }
            if request.method == "HEAD" { return LocalAnswer(200, Self.object) }
            let name = request.query.contains("versioning") ? "VersioningConfiguration" : "ListBucketResult"
            return LocalAnswer(200, body: "<\(name)></\(name)>")
        }
        for key in ["ID1", "ID2"] {
            valid.withLock { $0 = key }
            _ = try await fixture.store.head("k", condition: nil)
        }
    }

    /// The store may be slow, and the credentials short.
    @Test func credentialsThatEndWhileTheReasonIsAskedForAreRenewedOnceMore() async throws {
        let heads = Mutex(0)
        let fixture = try FamilyFixture(profile: .cos, credentials: EndingCredentials(token: "token")) {
            ($0.bucket, $0.region) = ("bucket-1250000000", "ap-guangzhou")
        } answer: { _, request in
            let number = heads.withLock { heads in
                if request.method == "HEAD" { heads += 1 }
                return heads
            }
            if request.method == "HEAD" { return number < 4 ? LocalAnswer(400) : LocalAnswer(200, Self.object) }
            guard request["authorization"]?.contains("q-ak=ID\(number)&") == true else {
                return .error(400, "ExpiredToken")
            }
            return LocalAnswer(200, body: "<ListBucketResult/>")
        }
        _ = try await fixture.store.head("k", condition: nil)
        #expect(heads.withLock { $0 } == 4)
    }

    /// Gateways and proxies answer so; a directory that seems to be empty would be acted on.
    @Test(arguments: [
        "<Error><Code>InternalError</Code><Message>m</Message></Error>", "<html><body>wait</body></html>", "",
    ])
    func whatIsNoListingIsNoEmptyDirectory(body: String) async throws {
        let fixture = try FamilyFixture(profile: .cos) {
            ($0.bucket, $0.region) = ("bucket-1250000000", "ap-guangzhou")
        } answer: { _, _ in
            LocalAnswer(200, body: body)
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.list(ListRequest(prefix: "d/"))
        }
        #expect([.serverFault, .malformedAnswer].contains(error?.kind))
    }

    /// Where the store cannot be asked why just now, the HEAD has not failed for good.
    @Test func aRefusalWithoutAReasonIsAskedAgain() async throws {
        let fixture = try FamilyFixture(profile: .cos, credentials: EndingCredentials(token: "token")) {
            ($0.bucket, $0.region) = ("bucket-1250000000", "ap-guangzhou")
        } answer: { _, request in
            request.method == "HEAD" ? LocalAnswer(400) : .error(503, "SlowDown")
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.head("k", condition: nil)
        }
        #expect(error?.isRetryable == true)
    }

    @Test func anExpiredSignatureIsAMatterOfTheClock() async throws {
        let fixture = try fixture { number, _ in
            let date = [("Date", "Wed, 15 Nov 2023 10:00:00 GMT")]
            return number == 0
                ? .error(403, "AccessDenied", headers: date, message: "Request has expired")
                : LocalAnswer(200, Self.object, body: "hello cos")
        }
        _ = try await fixture.store.get(GetRequest("k"), into: CollectingSink())
        #expect(fixture.requests.last?["authorization"]?.contains("q-sign-time=1700042340;") == true)
    }
}
