import ObjectStorage
import Providers
import TestSupport
import Testing

/// How the region of a bucket at OSS is found, and what is said where it is another one.
@Suite(.timeLimit(.minutes(5))) struct OSSRegionTests {
    @Test func theRegionIsAskedForBeforeTheFirstSignature() async throws {
        let fixture = try FamilyFixture.oss({ $0.region = nil }) { _, request in
            request.query == "location="
                ? LocalAnswer(200, body: "<LocationConstraint>oss-cn-shanghai</LocationConstraint>")
                : LocalAnswer(
                    200, [("ETag", "\"E\""), ("Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT")], body: "content")
        }
        for _ in 0..<2 { _ = try await fixture.store.head("k", condition: nil) }
        let requests = fixture.requests
        #expect(requests.count == 3)
        #expect(requests[0]["authorization"]?.hasPrefix("OSS ID:") == true)
        #expect(requests[2]["authorization"]?.contains("/cn-shanghai/oss/aliyun_v4_request") == true)
    }

    /// Accounts and buckets that are newer than 2025 may not be asked with signatures of version 1.
    @Test func whoMayNotAskForTheRegionIsToldToGiveIt() async throws {
        let fixture = try FamilyFixture.oss({ $0.region = nil }) { _, _ in
            .error(403, "AccessDenied", message: "Signature version 1 is forbidden.")
        }
        let error = await fixture.error { store throws(ObjectStoreError) in try await store.checkAccess() }
        #expect(error?.message.contains("set region=") == true)
    }

    @Test func anotherEndpointIsNamedAndNotFollowed() async throws {
        let fixture = try FamilyFixture.oss { _, _ in
            .error(
                403, "AccessDenied", "<Endpoint>oss-cn-beijing.aliyuncs.com</Endpoint>",
                message: "The bucket you are attempting to access must be addressed using the specified endpoint.")
        }
        let error = await fixture.error { store throws(ObjectStoreError) in try await store.checkAccess() }
        #expect(error?.kind == .wrongRegion)
        #expect(error?.message.contains("endpoint=oss-cn-beijing.aliyuncs.com") == true)
        #expect(fixture.requests.count == 1)
    }

    @Test func everyBucketOfTheAccountIsListedOverPages() async throws {
        let fixture = try FamilyFixture.oss { number, _ in
            let more = number == 0 ? "<IsTruncated>true</IsTruncated><NextMarker>b</NextMarker>" : ""
            return LocalAnswer(
                200,
                body: "<ListAllMyBucketsResult><Owner><ID>1</ID></Owner>\(more)<Buckets><Bucket>"
                    + "<CreationDate>2023-11-14T22:13:20.000Z</CreationDate><Location>oss-cn-hangzhou</Location>"
                    + "<ExtranetEndpoint>oss-cn-hangzhou.aliyuncs.com</ExtranetEndpoint><Name>b\(number)</Name></Bucket>"
                    + "</Buckets></ListAllMyBucketsResult>")
        }
        let entries = try await fixture.directory().buckets()
        #expect(entries.map(\.name) == ["b0", "b1"])
        #expect(entries.first?.region == "cn-hangzhou")
        // This endpoint is not the provider's, so its buckets are behind it as well.
        #expect(entries.first?.endpoint == nil)
        #expect(fixture.requests.map(\.target) == ["/?max-keys=1000", "/?marker=b&max-keys=1000"])
        #expect(fixture.requests.first?["authorization"]?.contains("/cn-hangzhou/oss/aliyun_v4_request") == true)
    }

    @Test func bucketsAreListedWhereNothingTellsTheRegion() async throws {
        let fixture = try FamilyFixture.oss({ $0.region = nil }) { _, _ in
            LocalAnswer(200, body: "<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>")
        }
        #expect(try await fixture.directory().buckets().isEmpty)
        #expect(fixture.requests.map { $0["authorization"]?.hasPrefix("OSS ID:") } == [true])
    }

    @Test func aSignatureForAnotherRegionIsToldAsThat() async throws {
        let fixture = try FamilyFixture.oss { _, _ in
            .error(400, "InvalidArgument", message: "Invalid signing region in Authorization header.")
        }
        let error = await fixture.error { store throws(ObjectStoreError) in try await store.checkAccess() }
        #expect(error?.kind == .wrongRegion)
    }
}

extension FamilyFixture {
    /// A bucket of OSS in the region `cn-hangzhou`.
    static func oss(
        tellsVersions: Bool = false, _ configure: (inout FamilyStore.Settings) -> Void = { _ in },
        answer: @escaping @Sendable (Int, LocalRequest) -> LocalAnswer
    ) throws -> FamilyFixture {
        try FamilyFixture(profile: .oss, tellsVersions: tellsVersions) {
            $0.region = "cn-hangzhou"
            configure(&$0)
        } answer: { number, request in
            answer(number, request)
        }
    }
}
