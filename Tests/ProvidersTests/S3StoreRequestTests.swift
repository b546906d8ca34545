import Basics
import Digests
import HTTP
import ObjectStorage
import Providers
import TestSupport
import Testing

/// What goes over the wire, and what the store corrects by itself.
@Suite(.timeLimit(.minutes(5))) struct S3StoreRequestTests {
    static let object: [(String, String)] = [
        ("ETag", "\"\(Hex.encode(MD5.of("hello")))\""), ("Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT"),
    ]

    @Test(arguments: [
        ("a b+c%41/ü?#&=", "/bucket/a%20b%2Bc%2541/%C3%BC%3F%23%26%3D"), ("a//b/../c/./", "/bucket/a//b/../c/./"),
        ("~-_.!*'()", "/bucket/~-_.%21%2A%27%28%29"),
    ])
    func keysAreEncodedOnceAndNothingElse(key: String, path: String) async throws {
        let fixture = try FamilyFixture { _, _ in LocalAnswer(200, Self.object, body: "hello") }
        _ = try await fixture.store.head(ObjectKey(key), condition: nil)
        #expect(fixture.requests.first?.target == path)
    }

    @Test func anAnonymousRequestIsNotSigned() async throws {
        let fixture = try FamilyFixture(anonymous: true) { _, _ in LocalAnswer(200, Self.object, body: "hello") }
        _ = try await fixture.store.head("k", condition: nil)
        #expect(fixture.requests.first?["authorization"] == nil)
        #expect(throws: ObjectStoreError.self) { try fixture.store.presign("k", lifetime: .seconds(60)) }
    }

    @Test func aSmallBodyIsSignedAndALargeOneIsNot() async throws {
        let fixture = try FamilyFixture { _, request in
            LocalAnswer(200, [("ETag", "\"\(Hex.encode(MD5.of(request.body)))\"")])
        }
        let large = [UInt8](repeating: 1, count: 1 << 20 + 1)
        _ = try await fixture.store.put(PutRequest("small"), body: MemorySource(Array("hello".utf8)))
        _ = try await fixture.store.put(PutRequest("large"), body: MemorySource(large))
        let requests = fixture.requests
        #expect(requests[0]["x-amz-content-sha256"] == Hex.encode(SHA256.of("hello")))
        #expect(requests[1]["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD")
        #expect(requests[0]["content-md5"] == Base64.encode(MD5.of("hello")))
        #expect(requests[1].body == large)
        #expect(requests[0]["x-amz-checksum-crc64nvme"] == nil)
    }

    @Test func theContextOfEncryptionGoesWithWhateverIsMade() async throws {
        let fixture = try FamilyFixture {
            ($0.encryption, $0.encryptionKey, $0.encryptionContext) = ("aws:kms", "key-1", "eyJhIjoiYiJ9")
        } answer: { _, request in
            if request.method == "POST" {
                return LocalAnswer(
                    200,
                    body: "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
            }
            let body = request["x-amz-copy-source"] == nil ? "" : "<CopyObjectResult><ETag>e</ETag></CopyObjectResult>"
            return LocalAnswer(200, [("ETag", "\"e\""), ("x-amz-server-side-encryption", "aws:kms")], body: body)
        }
        _ = try await fixture.store.put(PutRequest("k"), body: MemorySource([1]))
        _ = try await fixture.store.createUpload(PutRequest("k"))
        _ = try await fixture.store.copy(CopyRequest(CopySource("k"), to: "l"))
        #expect(fixture.requests.count == 3)
        for request in fixture.requests {
            #expect(request["x-amz-server-side-encryption"] == "aws:kms")
            #expect(request["x-amz-server-side-encryption-aws-kms-key-id"] == "key-1")
            #expect(request["x-amz-server-side-encryption-context"] == "eyJhIjoiYiJ9")
        }
    }

    @Test func googleIsAskedForWhatItStoresAsGzipAsItIs() async throws {
        let fixture = try FamilyFixture(profile: .gcs) { _, request in
            let headers = Self.object + [("Content-Encoding", "gzip")]
            guard request["range"] != nil else { return LocalAnswer(200, headers, body: "hello") }
            return LocalAnswer(206, headers + [("Content-Range", "bytes 1-3/5")], body: "ell")
        }
        let sink = CollectingSink()
        _ = try await fixture.store.get(GetRequest("k", range: 1..<4), into: sink)
        // What is told to be gzip is not unpacked: these bytes are none.
        #expect(sink.bytes == Array("ell".utf8))
        _ = try await fixture.store.head("k", condition: nil)
        for request in fixture.requests {
            #expect(request["accept-encoding"] == "gzip")
            #expect(request["authorization"]?.contains("accept-encoding") == false)
        }
    }

    @Test func theCustomersKeyGoesWithTheQuestionForPartsThatHaveChecksums() async throws {
        let key = Base64.encode([UInt8](repeating: 7, count: 32))
        let fixture = try FamilyFixture(profile: .aws) {
            ($0.customerKey, $0.addressing) = (Secret(key), .path)
        } answer: { _, _ in
            LocalAnswer(200, body: "<ListPartsResult><IsTruncated>false</IsTruncated></ListPartsResult>")
        }
        _ = try? await fixture.store.listParts("k", UploadID("u"))
        let request = try #require(fixture.requests.first)
        #expect(request["x-amz-server-side-encryption-customer-algorithm"] == "AES256")
        #expect(request["x-amz-server-side-encryption-customer-key"] == key)
    }

    @Test func anObjectWithAnotherEncryptionKeepsIt() async throws {
        let fixture = try FamilyFixture {
            ($0.encryption, $0.encryptionKey, $0.encryptionContext) = ("aws:kms", "key-1", "eyJhIjoiYiJ9")
        } answer: { _, request in
            if request.method == "HEAD" {
                return LocalAnswer(200, Self.object + [("x-amz-server-side-encryption", "AES256")])
            }
            return LocalAnswer(200, body: "<CopyObjectResult><ETag>e</ETag></CopyObjectResult>")
        }
        _ = try await fixture.store.updateMetadata("k", to: ObjectMetadata(), ifMatch: nil)
        let request = try #require(fixture.requests.last)
        #expect(request["x-amz-server-side-encryption"] == "AES256")
        #expect(request["x-amz-server-side-encryption-aws-kms-key-id"] == nil)
        #expect(request["x-amz-server-side-encryption-context"] == nil)
    }

    /// `chmod` of a file that was only listed looks at its headers first.
    @Test func aChangeOfHeadersAsksOnceWhatAHEADHasJustTold() async throws {
        let fixture = try FamilyFixture { _, request in
            if request.method == "HEAD" {
                return LocalAnswer(200, Self.object + [("x-amz-storage-class", "STANDARD_IA")])
            }
            return LocalAnswer(200, body: "<CopyObjectResult><ETag>e</ETag></CopyObjectResult>")
        }
        for _ in 0..<2 {
            let etag = try await fixture.store.head("k", condition: nil).version.etag
            _ = try await fixture.store.updateMetadata("k", to: ObjectMetadata(), ifMatch: etag)
        }
        #expect(fixture.requests.map(\.method) == ["HEAD", "PUT", "HEAD", "PUT"])
        #expect(fixture.requests.last?["x-amz-storage-class"] == "STANDARD_IA")
        #expect(fixture.requests.last?["x-amz-copy-source-if-match"] != nil)
        // Of another version, or later, it is asked again.
        _ = try? await fixture.store.updateMetadata("k", to: ObjectMetadata(), ifMatch: ETag("other"))
        #expect(fixture.requests.suffix(2).first?.method == "HEAD")
    }

    @Test(arguments: [
        (FamilyProfile.aws, "aws:kms", "e30", "not a JSON object"), (.aws, "aws:kms", "WzFd", "not a JSON object"),
        (.aws, "aws:kms", "{}", "not a JSON object"), (.aws, "AES256", "e30=", "set sse to it"),
        (.aws, "", "e30=", "set sse to it"), (.oss, "KMS", "e30=", "does not support an encryption context"),
    ])
    func aContextThatCannotBeIsRefused(profile: FamilyProfile, mode: String, context: String, words: String) {
        #expect {
            try FamilyFixture(profile: profile) {
                ($0.region, $0.encryption, $0.encryptionContext) = ("here", mode.isEmpty ? nil : mode, context)
            } answer: { _, _ in
                LocalAnswer(500)
            }
        } throws: {
            ($0 as? ObjectStoreError)?.message.contains(words) == true
        }
    }

    @Test(.rule("xattr.copied")) func headersClassAndConditionGoWithAPut() async throws {
        let fixture = try FamilyFixture {
            $0.storageClass.name = "STANDARD_IA"
        } answer: { _, _ in
            LocalAnswer(200, [("ETag", "\"\(Hex.encode(MD5.of("")))\"")])
        }
        var metadata = ObjectMetadata(contentType: "text/plain", user: ["mode": "33188"])
        metadata.cacheControl = "no-cache"
        _ = try await fixture.store.put(
            PutRequest("k", metadata: metadata, condition: .absent), body: MemorySource([]))
        _ = try await fixture.store.put(
            PutRequest("k", condition: .match(ETag("abc")), storageClass: "GLACIER"), body: MemorySource([]))
        let requests = fixture.requests
        #expect(requests[0]["content-type"] == "text/plain")
        #expect(requests[0]["cache-control"] == "no-cache")
        #expect(requests[0]["x-amz-meta-mode"] == "33188")
        #expect(requests[0]["if-none-match"] == "*")
        #expect(requests[0]["x-amz-storage-class"] == "STANDARD_IA")
        #expect(requests[1]["if-match"] == "\"abc\"")
        #expect(requests[1]["x-amz-storage-class"] == "GLACIER")
    }

    /// As Backblaze B2 does.
    @Test(.rule("conflict.gap"), arguments: [WriteCondition.absent, .match(ETag("abc"))])
    func whereConditionsAreRefusedAHeadStandsInForThem(condition: WriteCondition) async throws {
        let etag = "\"\(Hex.encode(MD5.of("")))\""
        let fixture = try FamilyFixture { _, request in
            if request["if-none-match"] != nil || request["if-match"] != nil { return .error(501, "NotImplemented") }
            guard request.method == "HEAD" else { return LocalAnswer(200, [("ETag", etag)]) }
            let isThere = condition == .absent ? request.path.hasSuffix("other") : request.path.hasSuffix("k")
            return isThere
                ? LocalAnswer(200, [("ETag", "\"abc\""), ("Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT")])
                : LocalAnswer(404)
        }
        let refused = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.put(PutRequest("other", condition: condition), body: MemorySource([]))
        }
        #expect(refused?.kind == (condition == .absent ? .preconditionFailed : .notFound))
        #expect(fixture.store.capabilities.putIfAbsent && fixture.store.capabilities.putIfMatch)
        _ = try await fixture.store.put(PutRequest("k", condition: condition), body: MemorySource([]))
        #expect(fixture.requests.map(\.method) == ["PUT", "HEAD", "PUT", "HEAD", "PUT"])
        #expect(!fixture.store.capabilities.putIfAbsent && !fixture.store.capabilities.putIfMatch)
    }

    @Test(arguments: [FamilyProfile.generic, .minio, .ceph, .r2, .gcs])
    func aStoreThatIgnoresTheConditionOfACopyIsNotToldOne(profile: FamilyProfile) async throws {
        let fixture = try FamilyFixture(profile: profile) { _, _ in
            LocalAnswer(200, body: "<CopyObjectResult><ETag>\"e\"</ETag></CopyObjectResult>")
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.copy(CopyRequest(CopySource("a"), to: "b", condition: .absent))
        }
        #expect(error?.kind == .notSupported)
        #expect(fixture.requests.isEmpty)
        #expect(FamilyProfile.aws.capabilities.copyCondition)
    }

    private static let completed = LocalAnswer(
        200, body: "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>")

    @Test(arguments: [
        (FamilyProfile.generic, false), (.minio, false), (.ceph, false), (.gcs, false), (.r2, true), (.aws, true),
    ])
    func aStoreThatIgnoresTheConditionOfACompletionIsNotToldOne(profile: FamilyProfile, isHeeded: Bool) async throws {
        let fixture = try FamilyFixture(profile: profile) {
            $0.addressing = .path
        } answer: { _, _ in
            Self.completed
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.completeUpload("a", UploadID("u"), parts: [], condition: .absent)
        }
        #expect(error?.kind == (isHeeded ? nil : .notSupported))
        #expect(fixture.requests.compactMap { $0["if-none-match"] } == (isHeeded ? ["*"] : []))
    }

    /// An object too large for one copy gets other headers by parts, and the end of the upload replaces it.
    @Test(arguments: [true, false])
    func aStoreThatIgnoresTheConditionOfACompletionIsLookedAtBeforeOne(isReplaced: Bool) async throws {
        var profile = FamilyProfile.known
        profile.capabilities.largestCopy = 3
        let fixture = try FamilyFixture(profile: profile) { number, request in
            switch request.method {
            case "HEAD":
                LocalAnswer(
                    200, number > 0 && isReplaced ? [("ETag", "\"other\""), Self.object[1]] : Self.object, body: "hello"
                )
            case "PUT": LocalAnswer(200, body: "<CopyPartResult><ETag>\"p\"</ETag></CopyPartResult>")
            case "POST" where request.query.contains("uploads"):
                LocalAnswer(
                    200,
                    body: "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
            case "POST": Self.completed
            default: LocalAnswer(204)
            }
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.updateMetadata("k", to: ObjectMetadata(user: ["mode": "1"]), ifMatch: nil)
        }
        #expect(error?.kind == (isReplaced ? .preconditionFailed : nil))
        #expect(fixture.requests.map(\.method) == ["HEAD", "POST", "PUT", "HEAD", isReplaced ? "DELETE" : "POST"])
        #expect(fixture.requests.allSatisfy { $0["if-match"] == nil })
    }

    @Test(arguments: [WriteCondition.absent, .match(ETag("abc"))])
    func aStoreThatIgnoresTheConditionOfAPutIsNotToldOne(condition: WriteCondition) async throws {
        let fixture = try FamilyFixture(profile: .gcs) { _, _ in
            LocalAnswer(200, [("ETag", "\"\(Hex.encode(MD5.of("")))\"")])
        }
        #expect(!fixture.store.capabilities.putIfAbsent && !fixture.store.capabilities.putIfMatch)
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.put(PutRequest("k", condition: condition), body: MemorySource([]))
        }
        #expect(error?.kind == .notSupported)
        #expect(fixture.requests.isEmpty)
    }

    @Test func aCopyNamesItsSourceEncodedAndItsClass() async throws {
        let fixture = try FamilyFixture { _, _ in
            LocalAnswer(200, body: "<CopyObjectResult><ETag>\"e\"</ETag></CopyObjectResult>")
        }
        _ = try await fixture.store.copy(
            CopyRequest(
                CopySource("a b+c", ifMatch: ETag("x")), to: "d", metadata: ObjectMetadata(user: ["a": "b"]),
                storageClass: "GLACIER_IR"))
        let request = try #require(fixture.requests.first)
        #expect(request["x-amz-copy-source"] == "bucket/a%20b%2Bc")
        #expect(request["x-amz-copy-source-if-match"] == "\"x\"")
        #expect(request["x-amz-metadata-directive"] == "REPLACE")
        #expect(request["x-amz-storage-class"] == "GLACIER_IR")
    }

    @Test(.rule("xattr.copied")) func newHeadersKeepTheStorageClass() async throws {
        let fixture = try FamilyFixture { _, request in
            request.method == "HEAD"
                ? LocalAnswer(200, Self.object + [("x-amz-storage-class", "ONEZONE_IA")], body: "hello")
                : LocalAnswer(200, body: "<CopyObjectResult><ETag>\"e\"</ETag></CopyObjectResult>")
        }
        _ = try await fixture.store.updateMetadata("k", to: ObjectMetadata(user: ["mode": "1"]), ifMatch: nil)
        let copy = try #require(fixture.requests.last)
        #expect(copy["x-amz-storage-class"] == "ONEZONE_IA")
        #expect(copy["x-amz-copy-source-if-match"] == Self.object[0].1)
        #expect(copy["x-amz-meta-mode"] == "1")
    }

    // MARK: Corrections

    private static func isSigned(_ request: LocalRequest, for region: String) -> Bool {
        request["authorization"]?.contains("/\(region)/s3/aws4_request") == true
    }

    @Test func aWrongRegionIsCorrectedOnceAndRemembered() async throws {
        let fixture = try FamilyFixture { _, request in
            Self.isSigned(request, for: "eu-west-1")
                ? LocalAnswer(200, Self.object, body: "hello")
                : .error(400, "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>")
        }
        _ = try await fixture.store.get(GetRequest("k"), into: CollectingSink())
        _ = try await fixture.store.get(GetRequest("k"), into: CollectingSink())
        #expect(fixture.requests.count == 3)
    }

    @Test func requestsThatMeetTheWrongRegionTogetherAreAllCorrected() async throws {
        let fixture = try FamilyFixture { _, request in
            Self.isSigned(request, for: "eu-west-1")
                ? LocalAnswer(200, Self.object, body: "hello")
                : LocalAnswer(400, [("x-amz-bucket-region", "eu-west-1")])
        }
        try await withThrowingTaskGroup { group in
            for _ in 0..<8 { group.addTask { _ = try await fixture.store.head("k", condition: nil) } }
            try await group.waitForAll()
        }
    }

    @Test func aRegionThatStaysWrongIsAnError() async throws {
        let fixture = try FamilyFixture { number, _ in
            .error(400, "AuthorizationHeaderMalformed", "<Region>region-\(number)</Region>")
        }
        #expect(
            await fixture.error { store throws(ObjectStoreError) in try await store.checkAccess() }?.kind
                == .wrongRegion)
        #expect(fixture.requests.count == 2)
    }

    @Test func aRedirectToAnotherHostIsNotFollowed() async throws {
        let stranger = LocalServer { _ in LocalAnswer(200, Self.object, body: "hello") }
        let fixture = try FamilyFixture { _, _ in
            .error(307, "TemporaryRedirect", headers: [("Location", "http://127.0.0.1:\(stranger.port)/bucket/k")])
        }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.head("k", condition: nil)
        }
        #expect(error?.kind == .wrongRegion)
        #expect(stranger.connections == 0)
    }

    /// A provider whose own hosts are this machine's.
    private struct LoopbackRules: EndpointRules {
        var everyRegion: String { "127.0.0.1" }
        func host(region: String) -> String { "127.0.0.1" }
        func region(ofHost host: String) -> String? { nil }
        func owns(_ host: String) -> Bool { host == "127.0.0.1" }
    }

    @Test(arguments: [true, false])
    func aRedirectToTheProvidersOwnHostIsFollowedWhenTheMountWantsIt(follows: Bool) async throws {
        let other = LocalServer { request in
            // Signed for the host that it goes to.
            LocalAnswer(request["authorization"] == nil ? 403 : 200, Self.object, body: "hello")
        }
        var profile = FamilyProfile.generic
        profile.endpoints = LoopbackRules()
        profile.followsRegion = false
        let fixture = try FamilyFixture(profile: profile) {
            $0.followsRedirects = follows
        } answer: { _, _ in
            .error(307, "TemporaryRedirect", headers: [("Location", "http://127.0.0.1:\(other.port)/bucket/k")])
        }
        for _ in 0..<2 {
            let error = await fixture.error { store throws(ObjectStoreError) in
                _ = try await store.head("k", condition: nil)
            }
            #expect(error?.kind == (follows ? nil : .wrongRegion))
        }
        #expect(fixture.requests.count == (follows ? 1 : 2))
        #expect(other.connections == (follows ? 1 : 0))
    }

    @Test(arguments: [true, false])
    func aWrongClockIsCorrectedOnceAndRemembered(hasDocument: Bool) async throws {
        let fixture = try FamilyFixture { _, request in
            if request["x-amz-date"]?.hasPrefix("20231115T10") == true {
                return LocalAnswer(200, Self.object, body: "hello")
            }
            let date = [("Date", "Wed, 15 Nov 2023 10:00:00 GMT")]
            return hasDocument ? .error(403, "RequestTimeTooSkewed", headers: date) : LocalAnswer(403, date)
        }
        for _ in 0..<2 { _ = try await fixture.store.head("k", condition: nil) }
        #expect(fixture.requests.count == 3)
    }

    @Test func aRefusalWithTheRightClockIsNotTriedAgain() async throws {
        let fixture = try FamilyFixture { _, _ in LocalAnswer(403, [("Date", "Tue, 14 Nov 2023 22:13:20 GMT")]) }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.head("k", condition: nil)
        }
        #expect(error?.kind == .accessDenied)
        // The other one is the listing that could have shown that there is no such object.
        #expect(fixture.requests.map(\.method) == ["HEAD", "GET"])
    }
}
