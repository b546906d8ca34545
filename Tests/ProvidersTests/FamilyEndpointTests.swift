import ObjectStorage
import TestSupport
import Testing

@testable import Providers

/// Where the buckets of OSS and COS are (OSS, "Regions and endpoints"; COS, "Regions and Access Endpoints").
@Suite struct FamilyEndpointTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let profile: FamilyProfile
        var endpoint: String?
        var region: String?
        var bucket: String? = "bucket-125"
        var addressing: FamilyProfile.Addressing?
        let url: String

        var testDescription: String { "\(profile.name) \(endpoint ?? "-") \(bucket ?? "-")" }
    }

    static let excluding = FamilyProfile.oss(cnameExclusions: ["private.example"])
    static let rows = [
        Row(profile: .oss, region: "cn-hangzhou", url: "https://bucket-125.oss-cn-hangzhou.aliyuncs.com/k"),
        Row(
            profile: .oss, endpoint: "oss-cn-hangzhou-internal.aliyuncs.com",
            url: "https://bucket-125.oss-cn-hangzhou-internal.aliyuncs.com/k"),
        Row(
            profile: .oss, endpoint: "https://bucket-125.oss-cn-hangzhou.aliyuncs.com",
            url: "https://bucket-125.oss-cn-hangzhou.aliyuncs.com/k"),
        Row(profile: .oss, endpoint: "http://files.example.com", url: "http://files.example.com/k"),
        Row(profile: .oss, endpoint: "http://127.0.0.1:9001", url: "http://127.0.0.1:9001/bucket-125/k"),
        Row(profile: .oss, endpoint: "http://localhost:9001", url: "http://localhost:9001/bucket-125/k"),
        Row(
            profile: .oss, endpoint: "https://files.example.com", addressing: .path,
            url: "https://files.example.com/bucket-125/k"),
        Row(
            profile: excluding, endpoint: "https://oss.private.example", url: "https://bucket-125.oss.private.example/k"
        ),
        Row(
            profile: .oss(cnameExclusions: ["private.example"], path: true), endpoint: "https://oss.private.example",
            url: "https://oss.private.example/bucket-125/k"),
        Row(profile: .oss, bucket: nil, url: "https://oss-cn-hangzhou.aliyuncs.com/k"),
        Row(profile: .cos, region: "ap-nanjing", url: "https://bucket-125.cos.ap-nanjing.myqcloud.com/k"),
        Row(
            profile: .cos, endpoint: "cos.accelerate.myqcloud.com",
            url: "https://bucket-125.cos.accelerate.myqcloud.com/k"),
        Row(
            profile: .cos, endpoint: "https://bucket-125.cos.ap-nanjing.tencentcos.cn",
            url: "https://bucket-125.cos.ap-nanjing.tencentcos.cn/k"),
        Row(profile: .cos, endpoint: "https://static.example.com", url: "https://static.example.com/k"),
        Row(profile: .cos, bucket: nil, url: "https://service.cos.myqcloud.com/k"),
        Row(profile: .cos, region: "ap-nanjing", bucket: nil, url: "https://cos.ap-nanjing.myqcloud.com/k"),
    ]

    @Test(arguments: rows)
    func aBucketsRequestsGoWhereTheyBelong(row: Row) throws {
        let endpoint = try FamilyEndpoint(
            row.endpoint, bucket: row.bucket, region: row.region, addressing: row.addressing, profile: row.profile)
        #expect("\(endpoint.origin)\(endpoint.path("k"))" == row.url)
    }

    @Test(arguments: [FamilyProfile.oss, .cos].map(\.name))
    func aBucketThatIsNowhereIsAnErrorThatSaysWhatToSet(name: String) {
        let profile: FamilyProfile = name == "oss" ? .oss : .cos
        let error = #expect(throws: ObjectStoreError.self) {
            try FamilyEndpoint(nil, bucket: "bucket-125", region: nil, addressing: nil, profile: profile)
        }
        #expect(error?.message.contains("region=") == true)
    }

    @Test(arguments: [
        ("oss-cn-hangzhou.aliyuncs.com", "cn-hangzhou"),
        ("b.oss-ap-southeast-1-internal.aliyuncs.com", "ap-southeast-1"),
        ("b.cn-beijing.oss.aliyuncs.com", "cn-beijing"), ("oss-accelerate.aliyuncs.com", nil),
        ("oss-accelerate-overseas.aliyuncs.com", nil), ("files.example.com", nil),
    ])
    func hostsOfOSSTellTheirRegion(host: String, region: String?) {
        #expect(OSSEndpointRules().region(ofHost: host) == region)
    }

    @Test(arguments: [
        ("cos.ap-guangzhou.myqcloud.com", "ap-guangzhou"), ("b-1.cos.ap-beijing-1.tencentcos.cn", "ap-beijing-1"),
        ("b-1.cos-internal.ap-nanjing.tencentcos.cn", "ap-nanjing"), ("b-1.cos.accelerate.myqcloud.com", nil),
        ("service.cos.myqcloud.com", nil), ("static.example.com", nil),
    ])
    func hostsOfCOSTellTheirRegion(host: String, region: String?) {
        #expect(COSEndpointRules().region(ofHost: host) == region)
    }

    @Test(arguments: [("b", "125", "b-125"), ("b-125", "125", "b-125"), ("b-125", nil, "b-125"), ("b", nil, "b")])
    func bucketsOfCOSEndWithTheAccount(name: String, appID: String?, bucket: String) {
        #expect(COSEndpointRules.bucket(name, appID: appID) == bucket)
    }
}

@Suite struct MetadataNameCodecTests {
    @Test(arguments: [
        ("mode", "mode"), ("a_b", "a--5fb"), ("a--b", "a--b"), ("a--5fb", "a--2d-5fb"), ("a-_b", "a---5fb"),
        ("--", "--"), ("--_", "----5f"), ("A", "--41"), ("a.b", "a--2eb"), ("---41", "---2d-41"), ("--41", "--2d-41"),
    ])
    func namesAreWrittenInLettersThatStoresTake(name: String, written: String) {
        #expect(FamilyProfile.MetadataNames.noUnderscore.encode(name) == written)
        #expect(FamilyProfile.MetadataNames.noUnderscore.decode(written) == name)
        #expect(FamilyProfile.MetadataNames.any.encode(name) == name)
    }

    @Test func everyNameComesBack() {
        var generator = SeededGenerator(seed: 7)
        let pieces = ["-", "--", "5", "f", "_", "2d", "a", "A", ".", "41"]
        for _ in 0..<5000 {
            let count = Int.random(in: 0..<8, using: &generator)
            let name = (0..<count).map { _ in pieces[Int.random(in: 0..<pieces.count, using: &generator)] }.joined()
            let names = FamilyProfile.MetadataNames.noUnderscore
            #expect(names.decode(names.encode(name)) == name)
            #expect(names.encode(name).allSatisfy { $0.isLowercase || $0.isNumber || $0 == "-" })
        }
    }
}
