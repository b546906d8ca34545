import Basics
import HTTP
import ObjectStorage
import TestSupport
import Testing

@testable import Providers

/// Where users of OSS and COS keep their credentials (OSS, "Configure access credentials"; documentation of coscli and COSCMD).
@Suite struct OSSCredentialsTests {
    private func find(
        _ environment: [String: String] = [:], profile: String? = nil, files: [String: String] = [:],
        bucket: String = "b-1"
    ) -> OSSCredentials {
        OSSCredentials(
            environment: ["HOME": "/h"].merging(environment) { $1 }, profile: profile, bucket: bucket
        ) { files[$0] }
    }

    /// What needs nobody to be asked.
    private func keys(_ sources: OSSCredentials) async throws -> Credentials? {
        try await sources.provider(engine: HTTPEngine(), time: ManualTime()).current()
    }

    @Test func ourVariablesComeBeforeTheProviders() async throws {
        let all = [
            "PAILFS_ACCESS_KEY_ID": "P", "PAILFS_SECRET_ACCESS_KEY": "s", "OSS_ACCESS_KEY_ID": "O",
            "OSS_ACCESS_KEY_SECRET": "s", "OSS_SESSION_TOKEN": "t", "ALIBABA_CLOUD_ACCESS_KEY_ID": "A",
            "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "s", "ALIBABA_CLOUD_SECURITY_TOKEN": "u",
        ]
        #expect(try await keys(find(all))?.accessKeyID == "P")
        let oss = try await keys(find(all.filter { !$0.key.hasPrefix("PAILFS") }))
        #expect(oss?.accessKeyID == "O")
        #expect(oss?.sessionToken?.revealed == "t")
        #expect(try await keys(find(all.filter { $0.key.hasPrefix("ALIBABA") }))?.sessionToken?.revealed == "u")
    }

    static let versionOne = """
        [Credentials]
        language=EN
        accessKeyID=V1
        accessKeySecret=s1==
        stsToken=t1
        endpoint=oss-cn-hangzhou.aliyuncs.com
        [Bucket-Endpoint]
        b-2=oss-cn-beijing.aliyuncs.com
        [Bucket-Cname]
        b-3=files.example.com
        """
    static let versionTwo = """
        [default]
        access-key-id = V2
        access_key_secret = s2
        region = cn-shanghai
        [profile work]
        AccessKeyId = W
        accessKeySecret = ws
        endpoint = oss-cn-hongkong.aliyuncs.com
        [buckets b-1]
        endpoint = https://own.example.com
        region = cn-beijing
        """

    @Test func bothVersionsOfOssutilsFileAreRead() async throws {
        let one = find(files: ["/h/.ossutilconfig": Self.versionOne])
        let expected = Credentials(accessKeyID: "V1", secretKey: Secret("s1=="), sessionToken: Secret("t1"))
        #expect(try await keys(one) == expected)
        #expect(one.endpoint == "oss-cn-hangzhou.aliyuncs.com")
        #expect(
            find(files: ["/h/.ossutilconfig": Self.versionOne], bucket: "b-2").endpoint == "oss-cn-beijing.aliyuncs.com"
        )
        #expect(find(files: ["/h/.ossutilconfig": Self.versionOne], bucket: "b-3").endpoint == "files.example.com")
        let two = find(files: ["/h/.ossutilconfig": Self.versionTwo], bucket: "other")
        #expect(try await keys(two)?.secretKey.revealed == "s2")
        #expect(two.region == "cn-shanghai")
        #expect(find(files: ["/h/.ossutilconfig": Self.versionTwo]).region == "cn-beijing")
        #expect(find(files: ["/h/.ossutilconfig": Self.versionTwo]).endpoint == "https://own.example.com")
        let work = find(profile: "work", files: ["/h/.ossutilconfig": Self.versionTwo], bucket: "other")
        #expect(try await keys(work)?.accessKeyID == "W")
        #expect(work.endpoint == "oss-cn-hongkong.aliyuncs.com")
        #expect(
            find(["OSS_ENDPOINT": "e", "OSS_REGION": "r"], files: ["/h/.ossutilconfig": Self.versionTwo]).endpoint
                == "e")
    }

    @Test func theProvidersOwnFileIsRead() async throws {
        let text = """
            {"current":"a","profiles":[{"name":"a","mode":"AK","access_key_id":"A","access_key_secret":"s","sts_token":"",\
            "region_id":"cn-hangzhou"},{"name":"b","mode":"StsToken","access_key_id":"B","access_key_secret":"s",\
            "sts_token":"t"}]}
            """
        let files = ["/h/.aliyun/config.json": text]
        #expect(try await keys(find(files: files)) == Credentials(accessKeyID: "A", secretKey: Secret("s")))
        #expect(find(files: files).region == "cn-hangzhou")
        #expect(try await keys(find(profile: "b", files: files))?.sessionToken?.revealed == "t")
    }

    @Test func ossfsPasswordsAreFoundByBucket() async throws {
        let text = "other:O:os\nb-1:B:bs\n"
        #expect(try await keys(find(files: ["/etc/passwd-ossfs": text]))?.accessKeyID == "B")
    }
}

@Suite struct COSCredentialsTests {
    private func find(
        _ environment: [String: String] = [:], profile: String? = nil, files: [String: String] = [:]
    ) -> COSCredentials {
        COSCredentials(
            environment: ["HOME": "/h"].merging(environment) { $1 }, profile: profile, bucket: "b-1250000000"
        ) { files[$0] }
    }

    private func keys(_ sources: COSCredentials) async throws -> Credentials? {
        try await sources.find(HTTPEngine(), ManualTime())?.credentials
    }

    @Test(arguments: [
        ("PAILFS_ACCESS_KEY_ID", "PAILFS_SECRET_ACCESS_KEY"), ("TENCENTCLOUD_SECRET_ID", "TENCENTCLOUD_SECRET_KEY"),
        ("COS_SECRET_ID", "COS_SECRET_KEY"), ("COS_SECRETID", "COS_SECRETKEY"),
        ("COSACCESSKEYID", "COSSECRETACCESSKEY"),
    ])
    func variablesOfEveryToolAreRead(id: String, secret: String) async throws {
        let whole = try await keys(find([id: "I", secret: "s"]))
        #expect(whole == Credentials(accessKeyID: "I", secretKey: Secret("s")))
        await #expect(throws: ObjectStoreError.self) { try await keys(find([id: "I"])) }
    }

    @Test func theOldToolsFileIsRead() async throws {
        let text =
            "[common]\nsecret_id = I\nsecret_key = s\ntoken = t\nregion = ap-nanjing\nappid = 1250000000\nendpoint =\n"
        let sources = find(files: ["/h/.cos.conf": text])
        #expect(
            try await keys(sources) == Credentials(accessKeyID: "I", secretKey: Secret("s"), sessionToken: Secret("t")))
        #expect(sources.region == "ap-nanjing")
        #expect(sources.endpoint == nil)
        #expect(sources.appID == "1250000000")
    }

    /// The secrets were hidden as coscli does, with OpenSSL's `enc -aes-128-ecb -nopad`.
    static let yaml = """
        cos:
          base:
            secretid: HIDDENID
            secretkey: HIDDENKEY
            sessiontoken: ""
            protocol: https
          buckets:
          - name: other-1
            alias: o
            region: ap-beijing
          - name: b-1250000000
            alias: b
            region: ap-nanjing
            endpoint: cos.ap-nanjing.myqcloud.com
        """

    @Test func hiddenSecretsAreRevealed() async throws {
        let text = Self.yaml.replacing(
            "HIDDENID", with: "//RA3rnxzk4u9ztnNYOAcDxKbuR9/EbRLjSExwwCPh4ySJGAO2Iqa9YN2Ly0bEPN"
        ).replacing("HIDDENKEY", with: "Bzubq5ZSnen1ahH5hQoaKTxKbuR9/EbRLjSExwwCPh7Wd/+1KG9YtDR2cPQVzf/G")
        let sources = find(files: ["/h/.cos.yaml": text])
        let expected = Credentials(
            accessKeyID: "AKIDEXAMPLE0000000000000000000000000", secretKey: Secret("SecretKeyExample00000000000000000"))
        #expect(try await keys(sources) == expected)
        #expect(sources.region == "ap-nanjing")
        #expect(sources.endpoint == "cos.ap-nanjing.myqcloud.com")
    }

    @Test func plainSecretsStayAsTheyAre() async throws {
        #expect(try await keys(find(files: ["/h/.cos.yaml": Self.yaml]))?.accessKeyID == "HIDDENID")
        let plain = Self.yaml.replacing("    protocol: https", with: "    disableencryption: \"true\"")
            .replacing("HIDDENID", with: "//RA3rnxzk4u9ztnNYOAcDxKbuR9/EbRLjSExwwCPh4ySJGAO2Iqa9YN2Ly0bEPN")
        #expect(
            try await keys(find(files: ["/h/.cos.yaml": plain]))?.accessKeyID
                == "//RA3rnxzk4u9ztnNYOAcDxKbuR9/EbRLjSExwwCPh4ySJGAO2Iqa9YN2Ly0bEPN")
    }

    @Test func passwordsAndTheSharedFileAreRead() async throws {
        #expect(
            try await keys(find(files: ["/etc/passwd-cosfs": "x:X:xs\nb-1250000000:B:bs"]))?.accessKeyID == "B")
        let text = "[default]\nsecret_id = D\nsecret_key = s\n[work]\nsecret_id = W\nsecret_key = s\n"
        let files = ["/h/.tencentcloud/credentials": text]
        #expect(try await keys(find(files: files))?.accessKeyID == "D")
        #expect(
            try await keys(find(["COS_SECRET_ID": "E", "COS_SECRET_KEY": "s"], profile: "work", files: files))?
                .accessKeyID == "W")
    }
}
