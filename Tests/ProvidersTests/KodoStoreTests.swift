import Basics
import Digests
import HTTP
import ObjectStorage
import Synchronization
import TestSupport
import Testing

@testable import Providers

/// What the store does with answers that pailstore does not give.
@Suite struct KodoStoreTests {
    private static let stat = "{\"fsize\":5,\"hash\":\"Fqr0xh3cxeii2r7eDztILNmuqUNN\",\"putTime\":17000000001234567}"
    private static let hello = Array("hello".utf8)

    /// What we send is well-formed.
    @Test(arguments: ["invalid multipart boundary", "unexpected EOF"])
    func aFormThatWasDamagedOnItsWayIsSentAgain(message: String) async throws {
        let fixture = try KodoFixture { _, request in request.path == "/v4/query" ? nil : .refusal(400, message) }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.put(PutRequest("a"), body: MemorySource(Self.hello))
        }
        #expect(error?.kind == .integrity && error?.isRetryable == true)
    }

    @Test func anErrorInASuccessIsAnError() async throws {
        let fixture = try KodoFixture { _, request in
            request.path == "/v4/query" ? nil : .refusal(200, "internal error")
        }
        for error in [
            await fixture.error { store throws(ObjectStoreError) in try await store.delete("a", ifMatch: nil) },
            await fixture.error { store throws(ObjectStoreError) in _ = try await store.deleteMany(["a", "b"]) },
            await fixture.error { store throws(ObjectStoreError) in _ = try await store.head("a", condition: nil) },
            await fixture.error { store throws(ObjectStoreError) in try await store.abortUpload("a", UploadID("1")) },
        ] {
            #expect(error?.kind == .serverFault)
            #expect(error?.message == "internal error")
        }
    }

    // MARK: Hosts

    @Test func hostsAreAskedForOnceAndAgainWhenTheyAreOld() async throws {
        let fixture = try KodoFixture { _, request in
            request.path == "/v4/query" ? nil : .kodo(Self.stat)
        }
        for _ in 0..<3 { _ = try await fixture.store.head(ObjectKey("a"), condition: nil) }
        #expect(fixture.requests.first?.target == "/v4/query?ak=ID&bucket=bucket")
        #expect(fixture.paths.filter { $0 == "/v4/query" }.count == 1)
        fixture.time.advance(by: .seconds(3601))
        let info = try await fixture.store.head(ObjectKey("a"), condition: nil)
        #expect(fixture.paths.filter { $0 == "/v4/query" }.count == 2)
        #expect(info.version.modified == Timestamp(seconds: 1_700_000_000))
        #expect(info.version.size == 5)
    }

    @Test func oldHostsServeWhileNobodyTellsNewOnes() async throws {
        let fixture = try KodoFixture { number, request in
            guard request.path == "/v4/query" else { return .kodo(Self.stat) }
            return number == 0 ? nil : .refusal(599, "down")
        }
        _ = try await fixture.store.head(ObjectKey("a"), condition: nil)
        fixture.time.advance(by: .seconds(3601))
        _ = try await fixture.store.head(ObjectKey("a"), condition: nil)
        #expect(fixture.paths.filter { $0.hasPrefix("/stat/") }.count == 2)
    }

    @Test func aHostThatIsNotThereIsPassedOver() async throws {
        let fixture = try KodoFixture { _, request in
            guard request.path == "/v4/query", let host = request["host"] else { return .kodo(Self.stat) }
            let pair = "{\"domains\":[\"127.0.0.1:1\",\"\(host)\"]}"
            return .kodo("{\"hosts\":[{\"ttl\":60,\"up\":\(pair),\"io\":\(pair),\"rs\":\(pair),\"rsf\":\(pair)}]}")
        }
        for _ in 0..<2 {
            #expect(try await fixture.store.head(ObjectKey("a"), condition: nil).version.size == 5)
        }
    }

    @Test func anUploadGoesWhereTheRefusalOfAWrongRegionPoints() async throws {
        let fixture = try KodoFixture { _, request in
            let host = request["host"] ?? ""
            // The other name of the same server stands for the wrong region's.
            if request.path == "/v4/query" { return .regions(host, up: host.replacing("127.0.0.1", with: "localhost")) }
            if host.hasPrefix("localhost") {
                return .refusal(
                    400, "incorrect region, please use \(host.replacing("localhost", with: "127.0.0.1"))")
            }
            return .kodo("{\"hash\":\"Fqr0xh3cxeii2r7eDztILNmuqUNN\",\"key\":\"a\"}")
        }
        for _ in 0..<2 {
            _ = try await fixture.store.put(PutRequest(ObjectKey("a")), body: MemorySource(Self.hello))
        }
        #expect(fixture.requests.filter { $0.path == "/" && $0["host"]?.hasPrefix("localhost") == true }.count == 1)
    }

    @Test(arguments: [(612, "no such entry"), (631, "no such bucket")])
    func aBucketThatIsNotThereIsNamedSo(status: Int, message: String) async throws {
        let fixture = try KodoFixture { _, _ in .refusal(status, message) }
        let error = await fixture.error { store throws(ObjectStoreError) in try await store.checkAccess() }
        #expect(error?.kind == .noSuchBucket && error?.requestID == "REQUEST")
    }

    @Test(arguments: ["", "http://", "a b", "host:99999", "http://user@host"]) func anEndpointMustBeAHost(text: String)
    {
        let error = #expect(throws: ObjectStoreError.self) {
            try KodoFixture { settings, _ in
                settings.client.endpoint = text
            } answer: { _, _ in
                nil
            }
        }
        #expect(error?.kind == .invalidRequest)
    }

    // MARK: Where objects are read

    private static func body(_ request: LocalRequest) -> LocalAnswer {
        LocalAnswer(200, [("ETag", "\"Fqr0xh3cxeii2r7eDztILNmuqUNN\"")], bytes: hello)
    }

    @Test func objectsAreReadFromTheDomainThatIsGiven() async throws {
        let fixture = try KodoFixture { settings, port in
            settings.client.domain = "http://localhost:\(port)/"
        } answer: { _, request in
            Self.body(request)
        }
        let sink = CollectingSink()
        _ = try await fixture.store.get(GetRequest(ObjectKey("dir/a b")), into: sink)
        #expect(sink.bytes == Self.hello)
        let request = try #require(fixture.requests.last)
        #expect(request.path == "/dir/a%20b" && request["host"] == "localhost:\(fixture.server.port)")
        let url = "http://localhost:\(fixture.server.port)/dir/a%20b"
        let signed = KodoSigner(Credentials(accessKeyID: "ID", secretKey: Secret("SECRET"))).download(
            url, until: fixture.time.now() + .seconds(3600))
        #expect("http://localhost:\(fixture.server.port)\(request.target)" == signed)
    }

    @Test func withoutADomainAPrivateCloudIsReadByPath() async throws {
        let fixture = try KodoFixture { _, request in request.path == "/v4/query" ? nil : Self.body(request) }
        _ = try await fixture.store.get(GetRequest(ObjectKey("a")), into: CollectingSink())
        #expect(fixture.paths.last == "/getfile/ID/bucket/a")
        #expect(try fixture.store.presign(ObjectKey("a"), lifetime: .seconds(1)).contains("/getfile/ID/bucket/a?e="))
    }

    @Test func whatIsReadIsComparedWithItsHash() async throws {
        let fixture = try KodoFixture { _, request in
            guard request.path != "/v4/query" else { return nil }
            return LocalAnswer(200, [("ETag", "\"Fqr0xh3cxeii2r7eDztILNmuqUNN\"")], body: "hellO")
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.get(GetRequest(ObjectKey("a")), into: CollectingSink())
        }
        #expect(error?.kind == .integrity)
    }

    @Test func anotherVersionNeverReachesTheSink() async throws {
        let fixture = try KodoFixture { _, request in request.path == "/v4/query" ? nil : Self.body(request) }
        let sink = CollectingSink()
        let error = await fixture.error { store throws(ObjectStoreError) in
            let request = GetRequest(ObjectKey("a"), condition: .ifMatch(ETag("Fother")))
            _ = try await store.get(request, into: sink)
        }
        #expect(error?.kind == .preconditionFailed && sink.bytes.isEmpty)
    }

    @Test func theHashOfACompressedAnswerLosesItsSuffix() async throws {
        let fixture = try KodoFixture { _, request in
            guard request.path != "/v4/query" else { return nil }
            return LocalAnswer(200, [("ETag", "\"Fqr0xh3cxeii2r7eDztILNmuqUNN.gz\"")], bytes: Self.hello)
        }
        let answer = try await fixture.store.get(GetRequest(ObjectKey("a")), into: CollectingSink())
        #expect(answer.info.version.etag == ETag("Fqr0xh3cxeii2r7eDztILNmuqUNN"))
        #expect(fixture.requests.last?["accept-encoding"] == "identity")
    }

    // MARK: Clocks and credentials

    @Test func theServersClockIsLearnedOnce() async throws {
        let served = Mutex(0)
        let fixture = try KodoFixture { _, request in
            guard request.path != "/v4/query" else { return nil }
            let number = served.withLock { count in
                count += 1
                return count
            }
            let date = ("Date", "Wed, 15 Nov 2023 22:13:20 GMT")
            return number == 1 ? .refusal(403, "request time too skewed", headers: [date]) : .kodo(Self.stat)
        }
        for _ in 0..<2 { _ = try await fixture.store.head(ObjectKey("a"), condition: nil) }
        #expect(
            fixture.requests.compactMap { $0["x-qiniu-date"] } == [
                "20231114T221320Z", "20231115T221320Z", "20231115T221320Z",
            ])
    }

    @Test(arguments: [
        (401, "bad token", ObjectStoreError.Kind.credentialsRejected), (401, "token out of date", .credentialsExpired),
        (403, "denied", .accessDenied), (419, "frozen", .accessDenied), (573, "too many", .throttled),
        (599, "oops", .serverFault), (612, "no such file", .notFound), (631, "no such bucket", .noSuchBucket),
        (503, "busy", .throttled), (405, "method", .notSupported), (614, "exists", .preconditionFailed),
        (608, "modified", .preconditionFailed), (509, "quota", .quotaExceeded), (400, "what", .invalidRequest),
    ]) func refusalsAreUnderstood(status: Int, message: String, kind: ObjectStoreError.Kind) async throws {
        let fixture = try KodoFixture { _, request in
            request.path == "/v4/query" ? nil : .refusal(status, message)
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.head(ObjectKey("a"), condition: nil)
        }
        #expect(error?.kind == kind && error?.message == message && error?.requestID == "REQUEST")
        #expect(error?.status == status)
    }

    @Test func whoHasNoKeysIsToldWhichToSet() async throws {
        var settings = KodoStore.Settings(bucket: "bucket")
        settings.client.endpoint = "http://127.0.0.1:1"
        let store = try KodoStore(
            settings, credentials: FixedCredentials(nil), engine: HTTPEngine(), time: ManualTime())
        let error = await #expect(throws: ObjectStoreError.self) { try await store.checkAccess() }
        #expect(error?.kind == .accessDenied && error?.message.contains("QINIU_ACCESS_KEY") == true)
    }

    // MARK: Uploads

    @Test func aFormCarriesTokenSumAndMetadata() async throws {
        let fixture = try KodoFixture { _, request in
            request.path == "/v4/query" ? nil : .kodo("{\"hash\":\"Fqr0xh3cxeii2r7eDztILNmuqUNN\",\"key\":\"a\"}")
        }
        let metadata = ObjectMetadata(contentType: "text/a", user: ["k": "v w"])
        _ = try await fixture.store.put(PutRequest(ObjectKey("a"), metadata: metadata), body: MemorySource(Self.hello))
        let request = try #require(fixture.requests.last)
        let body = String(decoding: request.body, as: UTF8.self)
        #expect(request.contentLength == request.body.count)
        for line in [
            "name=\"key\"\r\n\r\na\r\n", "name=\"crc32\"\r\n\r\n907060870\r\n",
            "name=\"x-qn-meta-k\"\r\n\r\nv w\r\n", "Content-Type: text/a\r\n\r\nhello\r\n--",
            "name=\"token\"\r\n\r\nID:",
        ] { #expect(body.contains(line), "\(line)") }
    }

    @Test func otherBytesThanWereSentAreNoticed() async throws {
        let fixture = try KodoFixture { _, request in
            request.path == "/v4/query" ? nil : .kodo("{\"hash\":\"Fto5o-5ea0sNMlW_75VgGJCv2AcJ\",\"key\":\"a\"}")
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.put(PutRequest(ObjectKey("a")), body: MemorySource(Self.hello))
        }
        #expect(error?.kind == .integrity)
    }

    @Test func aHashThatIsToBeIgnoredIsNotCompared() async throws {
        let fixture = try KodoFixture { settings, _ in
            settings.verifiesChecksums = false
        } answer: { _, request in
            request.path == "/v4/query" ? nil : .kodo("{\"hash\":\"Fto5o-5ea0sNMlW_75VgGJCv2AcJ\",\"key\":\"a\"}")
        }
        let answer = try await fixture.store.put(PutRequest("a"), body: MemorySource(Self.hello))
        #expect(answer.etag == ETag("Fto5o-5ea0sNMlW_75VgGJCv2AcJ"))
    }

    @Test func keysThatKodoRefusesAreRefusedBefore() async throws {
        let fixture = try KodoFixture { _, _ in nil }
        let long = ObjectKey(String(repeating: "k", count: 751))
        let raw = ObjectKey(ByteString([0xff, 0xfe]))
        for (key, kind) in [(long, ObjectStoreError.Kind.keyTooLong), (raw, .invalidRequest)] {
            let put = await fixture.error { store throws(ObjectStoreError) in
                _ = try await store.put(PutRequest(key), body: MemorySource([]))
            }
            #expect(put?.kind == kind)
            let head = await fixture.error { store throws(ObjectStoreError) in
                _ = try await store.head(key, condition: nil)
            }
            #expect(head?.kind == .notFound)
        }
        #expect(fixture.requests.isEmpty)
    }

    // MARK: Listings

    @Test func aMarkerThatIsRefusedIsDoneWithout() async throws {
        let fixture = try KodoFixture { _, request in
            guard request.path != "/v4/query" else { return nil }
            func item(_ key: String) -> String { "{\"key\":\"\(key)\",\"hash\":\"h\",\"fsize\":1}" }
            if request.query.contains("marker=second") { return .kodo("{\"items\":[\(item("c")),\(item("d"))]}") }
            if request.query.contains("marker=") { return .refusal(640, "invalid list marker") }
            return .kodo("{\"marker\":\"second\",\"items\":[\(item("a")),{},\(item("b"))]}")
        }
        let page = try await fixture.store.list(ListRequest(startAfter: "b"))
        #expect(page.objects.map(\.key) == [ObjectKey("c"), ObjectKey("d")])
        #expect(page.next == nil)
    }

    @Test func aListingThatStandsStillIsAnError() async throws {
        let fixture = try KodoFixture { _, request in
            request.path == "/v4/query" ? nil : .kodo("{\"marker\":\"same\",\"items\":[]}")
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            let page = try await store.list(ListRequest())
            _ = try await store.list(ListRequest(cursor: page.next))
        }
        #expect(error?.kind == .malformedAnswer)
    }
}
