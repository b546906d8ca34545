import ObjectStorage
import TestSupport
import Testing

@testable import Providers

@Suite struct S3EndpointTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let endpoint: String?
        var bucket = "bucket"
        var addressing: FamilyProfile.Addressing?
        var profile = FamilyProfile.generic
        let url: String

        var testDescription: String { "\(endpoint ?? "-") \(bucket)" }
    }

    static let rows = [
        Row(endpoint: nil, profile: .aws, url: "https://bucket.s3.eu-west-1.amazonaws.com/k%20/x"),
        Row(
            endpoint: nil, bucket: "my.bucket", profile: .aws,
            url: "https://s3.eu-west-1.amazonaws.com/my.bucket/k%20/x"),
        Row(
            endpoint: nil, bucket: "Old_Bucket", profile: .aws,
            url: "https://s3.eu-west-1.amazonaws.com/Old_Bucket/k%20/x"),
        Row(endpoint: "http://127.0.0.1:9000", url: "http://127.0.0.1:9000/bucket/k%20/x"),
        Row(
            endpoint: "http://127.0.0.1:9000", profile: .aws, url: "http://127.0.0.1:9000/bucket/k%20/x"),
        Row(endpoint: "http://[::1]:9000/", url: "http://[::1]:9000/bucket/k%20/x"),
        Row(endpoint: "store.example", url: "https://store.example/bucket/k%20/x"),
        Row(endpoint: "https://store.example:443", url: "https://store.example/bucket/k%20/x"),
        Row(
            endpoint: "https://store.example/base path/", url: "https://store.example/base%20path/bucket/k%20/x"),
        Row(endpoint: "https://store.example/bucket/", url: "https://store.example/bucket/k%20/x"),
        Row(endpoint: "http://127.0.0.1:9000/base/bucket", url: "http://127.0.0.1:9000/base/bucket/k%20/x"),
        Row(endpoint: "https://store.example/mybucket", url: "https://store.example/mybucket/bucket/k%20/x"),
        Row(
            endpoint: "https://s3.eu-west-1.amazonaws.com/bucket", profile: .aws,
            url: "https://s3.eu-west-1.amazonaws.com/bucket/k%20/x"),
        Row(
            endpoint: "https://store.example", addressing: .virtualHost, url: "https://bucket.store.example/k%20/x"),
    ]

    @Test(arguments: rows)
    func aBucketsRequestsGoWhereTheyBelong(row: Row) throws {
        let endpoint = try FamilyEndpoint(
            row.endpoint, bucket: row.bucket, region: "eu-west-1", addressing: row.addressing, profile: row.profile)
        #expect("\(endpoint.origin)\(endpoint.path("k /x"))" == row.url)
    }

    @Test(arguments: ["ftp://x", "http://", "http://host:port", "http://user@host", "https://host:70000", "a b"])
    func whatIsNoEndpointIsRefused(text: String) {
        #expect(throws: ObjectStoreError.self) {
            try FamilyEndpoint(text, bucket: "bucket", region: "r", addressing: nil, profile: .generic)
        }
    }

    @Test(arguments: [
        ("s3.eu-west-1.amazonaws.com", "eu-west-1"), ("s3-eu-west-1.amazonaws.com", "eu-west-1"),
        ("s3.dualstack.us-west-2.amazonaws.com", "us-west-2"), ("s3.amazonaws.com", nil),
        ("bucket.s3.ap-south-1.amazonaws.com", "ap-south-1"), ("s3.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("store.example", nil), ("s3-accelerate.amazonaws.com", nil),
        ("bucket.vpce-0a1-b2c.s3.us-east-1.vpce.amazonaws.com", "us-east-1"),
        ("s3-fips.dualstack.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
    ])
    func amazonsHostsTellTheirRegion(host: String, region: String?) {
        #expect(S3EndpointRules().region(ofHost: host) == region)
    }

    @Test(arguments: [
        (
            "https://bucket.vpce-0a1-us-east-1a.s3.us-east-1.vpce.amazonaws.com",
            "https://bucket.vpce-0a1-us-east-1a.s3.eu-west-1.vpce.amazonaws.com"
        ),
        (
            "s3-fips.dualstack.us-east-1.amazonaws.com:443/us-east-1",
            "s3-fips.dualstack.eu-west-1.amazonaws.com:443/us-east-1"
        ),
        ("s3-us-east-1.amazonaws.com", "s3-eu-west-1.amazonaws.com"), ("store.example", "store.example"),
    ])
    func anEndpointOfAnotherRegionKeepsTheRestOfItsName(endpoint: String, moved: String) {
        #expect(FamilyEndpoint.moved(endpoint, from: "us-east-1", to: "eu-west-1") == moved)
    }

    @Test(arguments: [
        ("s3.eu-west-1.amazonaws.com", "aws"), ("x.r2.cloudflarestorage.com", "r2"),
        ("storage.googleapis.com", "gcs"), ("minio.example", "generic"), ("evilamazonaws.com", "generic"),
        ("s3.fr-par.scw.cloud", "scaleway"), ("bucket.s3.nl-ams.scw.cloud", "scaleway"), ("evilscw.cloud", "generic"),
    ])
    func theHostChoosesTheProfile(host: String, name: String) {
        #expect(FamilyProfile.s3(endpoint: host).name == name)
    }

    @Test func scalewayIsNotSentMorePartsThanItTakes() {
        #expect(FamilyProfile.s3(endpoint: "https://s3.pl-waw.scw.cloud").capabilities.mostParts == 1000)
        #expect(FamilyProfile.generic.capabilities.mostParts == 10_000)
    }
}
