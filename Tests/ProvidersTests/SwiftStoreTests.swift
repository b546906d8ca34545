import Basics
import Digests
import HTTP
import ObjectStorage
import Providers
import TestSupport
import Testing

/// What goes over the wire to a Swift-shaped store, and what is made of its answers.
@Suite(.timeLimit(.minutes(5))) struct SwiftStoreTests {
    @Test func anETagThatIsToBeIgnoredIsNotCompared() async throws {
        let fixture = try SwiftFixture {
            $0.verifiesChecksums = false
        } answer: { _, _ in
            LocalAnswer(200, LocalAnswer.object("hello"), body: "hallo")
        }
        let sink = CollectingSink()
        _ = try await fixture.store.get(GetRequest("k"), into: sink)
        #expect(sink.bytes == Array("hallo".utf8))
        _ = try await fixture.store.put(PutRequest("k"), body: MemorySource(Array("hallo".utf8)))
    }

    @Test func keysAreEncodedOnceBelowTheAccount() async throws {
        let fixture = try SwiftFixture { _, _ in LocalAnswer(200, LocalAnswer.object(""), body: "") }
        _ = try await fixture.store.head("a b+c%41/ü?#/../x//", condition: nil)
        #expect(fixture.lines == ["HEAD /v1/AUTH_test/c/a%20b%2Bc%2541/%C3%BC%3F%23/../x//"])
        #expect(fixture.requests.first?["x-auth-token"] == "token")
    }

    @Test func aPutIsCheckedByTheServerAndByUs() async throws {
        let fixture = try SwiftFixture { _, request in
            request.path.hasSuffix("good")
                ? .stored(request) : LocalAnswer(201, [("Etag", Hex.encode(MD5.of("other")))])
        }
        let body = MemorySource(Array("hello".utf8))
        let answer = try await fixture.store.put(PutRequest("good", condition: .absent), body: body)
        #expect(answer.etag.text == Hex.encode(MD5.of("hello")))
        let request = try #require(fixture.requests.first)
        #expect(request["etag"] == answer.etag.text)
        #expect(request["if-none-match"] == "*")
        #expect(request["content-type"] == "application/octet-stream")
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.put(PutRequest("bad", condition: .absent), body: body)
        }
        #expect(error?.kind == .integrity)
    }

    @Test func aBodyThatDoesNotMatchItsETagIsRefused() async throws {
        let fixture = try SwiftFixture { _, _ in LocalAnswer(200, LocalAnswer.object("hello"), body: "hellO") }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.get(GetRequest("k"), into: CollectingSink())
        }
        #expect(error?.kind == .integrity)
    }

    @Test func timesAreThoseOfListings() async throws {
        let fixture = try SwiftFixture { _, _ in LocalAnswer(200, LocalAnswer.object("hello"), body: "hello") }
        let info = try await fixture.store.head("k", condition: nil)
        #expect(info.version.modified == Timestamp(seconds: 1_700_000_000, nanoseconds: 360_500_000))
    }

    @Test func longMetadataIsCutAndJoined() async throws {
        let long = String(repeating: "0123456789", count: 60)
        let fixture = try SwiftFixture { number, request in
            number == 0
                ? .stored(request)
                : LocalAnswer(
                    200,
                    LocalAnswer.object(
                        "",
                        [
                            ("X-Object-Meta-Xattr", String(long.prefix(256))),
                            ("X-Object-Meta-Xattr-Part-3", String(long.dropFirst(512))),
                            ("X-Object-Meta-Xattr-Part-2", String(long.dropFirst(256).prefix(256))),
                            ("X-Object-Meta-Other-Part-2", "stays"),
                        ]))
        }
        let metadata = ObjectMetadata(contentType: "a/b", user: ["xattr": long, "mode": "1"])
        _ = try await fixture.store.put(PutRequest("k", metadata: metadata, condition: .absent), body: MemorySource([]))
        let request = try #require(fixture.requests.first)
        #expect(request["x-object-meta-xattr"] == String(long.prefix(256)))
        #expect(request["x-object-meta-xattr-part-3"] == String(long.dropFirst(512)))
        let user = try await fixture.store.head("k", condition: nil).metadata.user
        #expect(user == ["xattr": long, "other-part-2": "stays"])
    }

    @Test func tooMuchMetadataIsRefusedBeforeItIsSent() async throws {
        let fixture = try SwiftFixture { _, request in .stored(request) }
        let metadata = ObjectMetadata(user: ["xattr": String(repeating: "x", count: 5000)])
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.put(PutRequest("k", metadata: metadata, condition: .absent), body: MemorySource([]))
        }
        #expect(error?.kind == .metadataTooLarge)
        #expect(fixture.requests.isEmpty)
    }

    @Test func whatTheStoreLacksIsRefusedWithoutARequest() async throws {
        let fixture = try SwiftFixture { _, request in .stored(request) }
        let put = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.put(PutRequest("k", condition: .match(ETag("a"))), body: MemorySource([]))
        }
        let copy = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.copy(CopyRequest(CopySource("a"), to: "k", condition: .absent))
        }
        let delete = await fixture.error { store throws(ObjectStoreError) in
            try await store.delete("k", ifMatch: ETag("a"))
        }
        #expect([put, copy, delete].map { $0?.kind } == [.notSupported, .notSupported, .notSupported])
        #expect(throws: ObjectStoreError.self) { try fixture.store.presign("k", lifetime: .seconds(1)) }
        #expect(fixture.requests.isEmpty)
        let capabilities = fixture.store.capabilities
        #expect(!capabilities.putIfMatch && !capabilities.copyCondition && !capabilities.deleteIfMatch)
        #expect(!capabilities.presign && capabilities.putIfAbsent)
    }

    @Test func newHeadersKeepWhatAPostWouldDrop() async throws {
        let manifest = [("X-Object-Manifest", "c/p/"), ("X-Delete-At", "1900000000"), ("Etag", "\"e\"")]
        let fixture = try SwiftFixture { _, request in
            request.method == "HEAD" ? LocalAnswer(200, manifest + [("Content-Length", "7")]) : LocalAnswer(202)
        }
        let answer = try await fixture.store.updateMetadata(
            "k", to: ObjectMetadata(contentType: "x/y", user: ["mode": "1"]), ifMatch: ETag("e"))
        #expect(answer.etag == ETag("e"))
        #expect(fixture.requests[0]["if-match"] == "\"e\"")
        let post = fixture.requests[1]
        #expect(post.method == "POST")
        #expect(post["x-object-manifest"] == "c/p/" && post["x-delete-at"] == "1900000000")
        #expect(post["content-type"] == "x/y" && post["x-object-meta-mode"] == "1")
    }

    @Test func aCopyPinsItsSourceAndReplacesHeaders() async throws {
        let fixture = try SwiftFixture { _, request in
            request.method == "HEAD" ? LocalAnswer(404) : LocalAnswer(201, [("Etag", "e")])
        }
        let metadata = ObjectMetadata(contentType: "x/y", user: ["a": "b"])
        _ = try await fixture.store.copy(
            CopyRequest(CopySource("a b/ü", ifMatch: ETag("x")), to: "d", metadata: metadata))
        let copy = try #require(fixture.requests.last)
        #expect(copy["x-copy-from"] == "/c/a%20b/%C3%BC")
        #expect(copy["if-match"] == "\"x\"")
        #expect(copy["x-fresh-metadata"] == "true")
        #expect(copy.contentLength == 0)
    }

    // MARK: Listings

    @Test func aListingTellsWhatAHeadTells() async throws {
        let listing = """
            [{"bytes": 5, "hash": "5d41402abc4b2a76b9719d911017c592", "name": "a\\u00fc", "content_type": "text/x",
              "last_modified": "2023-11-14T22:13:20.360500"},
             {"subdir": "dir/"},
             {"bytes": 0, "hash": "d41d8cd98f00b204e9800998ecf8427e", "name": "dlo", "content_type": "x/y",
              "last_modified": "2023-11-14T22:13:20.000000"},
             {"bytes": 0, "hash": "d41d8cd98f00b204e9800998ecf8427e", "name": "mark/", "content_type": "x/y",
              "last_modified": "2023-11-14T22:13:20.000000"},
             {"bytes": 10, "hash": "43c298a031c7f5d76617b41dce8477af", "name": "slo", "content_type": "x/y",
              "last_modified": "2023-11-14T22:13:20.000000", "slo_etag": "\\"ae802c1f58f394d46485b7da18c56e9b\\""}]
            """
        let fixture = try SwiftFixture { _, request in
            request.method == "GET"
                ? LocalAnswer(200, body: listing)
                : LocalAnswer(200, [("X-Object-Manifest", "s/p"), ("Etag", "\"big\""), ("Content-Length", "77")])
        }
        for _ in 0..<2 {
            let page = try await fixture.store.list(
                ListRequest(prefix: "p/", delimiter: 47, startAfter: "p/a", limit: 9))
            #expect(page.objects.map(\.key) == ["aü", "dlo", "mark/", "slo"])
            #expect(page.objects.map(\.version.size) == [5, 77, 0, 10])
            #expect(page.objects[1].version.etag == ETag("big"))
            #expect(page.objects[3].version.etag == ETag("ae802c1f58f394d46485b7da18c56e9b"))
            #expect(page.objects[0].version.modified.nanoseconds == 360_500_000)
            #expect(page.commonPrefixes == ["dir/"])
            #expect(page.next == nil)
        }
        let list = "GET /v1/AUTH_test/c?format=json&limit=9&prefix=p%2F&delimiter=%2F&marker=p%2Fa"
        // What looked empty is asked once.
        #expect(fixture.lines == [list, "HEAD /v1/AUTH_test/c/dlo", list])
    }

    @Test(arguments: [SwiftProfile.swift, .cssp])
    func aListingGoesOnFromItsLastEntry(profile: SwiftProfile) async throws {
        let fixture = try SwiftFixture(profile: profile) { _, request in
            LocalAnswer(200, body: request.query.contains("marker=d%2F") ? "[]" : "[{\"subdir\": \"d/\"}]")
        }
        let full = try await fixture.store.list(ListRequest(limit: 1))
        #expect(full.next == ListingCursor("d/"))
        let last = try await fixture.store.list(ListRequest(cursor: full.next, limit: 1))
        #expect(last.next == nil)
        let short = try await fixture.store.list(ListRequest(limit: 2))
        #expect((short.next == nil) == (profile == .swift))
    }

    @Test func aPageThatMayHaveBeenEndedEarlyIsNotTheLast() async throws {
        let names = (0..<1500).map { "n\(10_000 + $0)" }
        let fixture = try SwiftFixture { _, request in
            let marker = request.query.split(separator: "&").first { $0.hasPrefix("marker=") }?.dropFirst(7)
            let rest = names.drop { $0 <= marker ?? "" }.prefix(700)
            return LocalAnswer(200, body: "[" + rest.map { "{\"subdir\": \"\($0)\"}" }.joined(separator: ",") + "]")
        }
        var found: [ObjectKey] = []
        var request: ListRequest? = ListRequest()
        while let next = request {
            let page = try await fixture.store.list(next)
            found += page.commonPrefixes
            request = page.next.map { ListRequest(cursor: $0) }
        }
        #expect(found == names.map { ObjectKey(ByteString($0)) })
        #expect(fixture.requests.count == 3)
    }

    @Test func aServerWithSmallerPagesIsAskedForThose() async throws {
        let fixture = try SwiftFixture { _, request in
            request.query.contains("limit=10000")
                ? LocalAnswer(412, body: "Maximum limit is 5000") : LocalAnswer(200, body: "[]")
        }
        for _ in 0..<2 { _ = try await fixture.store.list(ListRequest()) }
        #expect(
            fixture.requests.map { $0.query.contains("limit=1000&") || $0.query.hasSuffix("limit=1000") }
                == [false, true, true])
    }

    // MARK: Errors

    @Test(arguments: [
        (401, ObjectStoreError.Kind.credentialsRejected), (403, .accessDenied), (404, .notFound), (408, .interrupted),
        (409, .conflict), (416, .invalidRange), (422, .integrity), (498, .throttled), (499, .interrupted),
        (503, .throttled), (500, .serverFault), (507, .storageFull), (412, .invalidRequest), (302, .wrongRegion),
    ])
    func aStatusIsWhatItMeans(status: Int, kind: ObjectStoreError.Kind) async throws {
        let fixture = try SwiftFixture { _, _ in
            LocalAnswer(
                status, [("X-Trans-Id", "tx1"), ("Retry-After", "7")], body: "<html><h1>Why</h1><p>so</p></html>")
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.get(GetRequest("k"), into: CollectingSink())
        }
        #expect(error?.kind == kind)
        #expect(error?.requestID == "tx1" && error?.retryAfter == .seconds(7))
        #expect(error?.message.contains("Why so") == true)
    }

    @Test func aFailedConditionIsNoMistakeInTheRequest() async throws {
        let fixture = try SwiftFixture { _, _ in LocalAnswer(412) }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.head("k", condition: .ifMatch(ETag("e")))
        }
        #expect(error?.kind == .preconditionFailed)
        let list = await fixture.error { store throws(ObjectStoreError) in _ = try await store.list(ListRequest()) }
        #expect(list?.kind == .invalidRequest)
    }

    @Test func aBulkRequestFailsForEachKeyApart() async throws {
        let report = """
              {"Response Status": "400 Bad Request", "Response Body": "", "Number Deleted": 1, "Number Not Found": 0,
              "Errors": [["c/b%20%C3%BC", "409 Conflict"], ["/c/c", "503 Service Unavailable"]]}
            """
        let fixture = try SwiftFixture { number, request in
            request.query.hasPrefix("bulk-delete") ? LocalAnswer(200, body: report) : .stored(request)
        }
        let keys: [ObjectKey] = ["a", "b ü", "c"]
        for key in keys { _ = try await fixture.store.put(PutRequest(key, condition: .absent), body: MemorySource([])) }
        let failures = try await fixture.store.deleteMany(keys)
        #expect(failures.map(\.key) == ["b ü", "c"])
        #expect(failures.map(\.kind) == [.conflict, .throttled])
        let request = try #require(fixture.requests.last)
        #expect(request.path == "/v1/AUTH_test")
        #expect(String(decoding: request.body, as: UTF8.self) == "c/a\nc/b%20%C3%BC\nc/c\n")
    }

    // MARK: URLs without a token

    /// A store that has heard which server it talks to.
    private func fixtureWithAKeyOfURLs() async throws -> SwiftFixture {
        let fixture = try SwiftFixture {
            $0.container = "c1"
            $0.temporaryURLKey = Secret("mykey")
        } answer: { _, _ in
            LocalAnswer(200, LocalAnswer.object(""), body: "")
        }
        _ = try await fixture.store.head("k", condition: nil)
        return fixture
    }

    /// The vector of the Swift documentation, tempurl.
    @Test func aTemporaryURLIsSignedAsTheServerDoes() async throws {
        let fixture = try await fixtureWithAKeyOfURLs()
        let url = try fixture.store.presign("dir/a.txt", lifetime: .seconds(3600))
        let query = "temp_url_sig=68c653b6382a4e50a78c35cfee3228579ac8c56b54892406de800ef6b08a9a25"
        #expect(
            url
                == "http://127.0.0.1:\(fixture.server.port)/v1/AUTH_test/c1/dir/a.txt?\(query)&temp_url_expires=1700003600"
        )
    }

    @Test func aTemporaryURLCanStoreAndNameTheFile() async throws {
        let fixture = try await fixtureWithAKeyOfURLs()
        var request = PresignRequest("dir/a.txt", lifetime: .seconds(3600), use: .put)
        let signature = "c7a8d59379db68fb57d7930c3dd9705900db4311b6d13852bc1aa42183fba95c"
        #expect(try fixture.store.presign(request).hasSuffix("?temp_url_sig=\(signature)&temp_url_expires=1700003600"))
        request.use = .get
        request.overrides = [.contentDisposition: "attachment; filename=\"b c\""]
        #expect(try fixture.store.presign(request).hasSuffix("&temp_url_expires=1700003600&filename=b%20c"))
        request.overrides[.contentType] = "text/plain"
        #expect(throws: ObjectStoreError.self) { try fixture.store.presign(request) }
        (request.overrides, request.process) = ([:], "resize")
        #expect(throws: ObjectStoreError.self) { try fixture.store.presign(request) }
    }

    @Test func figuresOfTheContainerAreTold() async throws {
        let fixture = try SwiftFixture { _, _ in
            LocalAnswer(
                204,
                [
                    ("X-Container-Object-Count", "3"), ("X-Container-Bytes-Used", "70"),
                    ("X-Container-Meta-Quota-Bytes", "100"),
                ])
        }
        #expect(try await fixture.store.usage() == BucketUsage(bytes: 70, objects: 3, quota: 100))
        #expect(fixture.lines == ["HEAD /v1/AUTH_test/c"])
    }
}
