import Basics
import Digests
import Emulator
import TestSupport
import Testing

/// The vectors of Signature Version 4 of OSS, which both official SDKs produce, replayed against the verifier.
@Suite struct OSSSignatureTests {
    private static let now = Timestamp(seconds: 1_700_000_000)
    private static let bucket = "examplebucket"
    private static let accessKey = "LTAIEXAMPLEKEYID00000000"
    private static let scope = "20231114/cn-hangzhou/oss/aliyun_v4_request"
    private static let key: ByteString = "dir/ex am+ple\u{4e2d}.txt"
    private static let target = "/examplebucket/dir/ex%20am%2Bple%E4%B8%AD.txt"

    private static func authenticator(
        token: String? = nil, now: Timestamp = now, secret: String = "SecretExampleKey0000000000000000"
    ) -> OSSAuthenticator {
        OSSAuthenticator(
            credentials: EmulatorCredentials(accessKey: accessKey, secretKey: secret, sessionToken: token),
            time: ManualTime(now))
    }

    struct Vector: CustomTestStringConvertible, Sendable {
        let testDescription: String
        var method = "PUT"
        var target = OSSSignatureTests.target
        var key = OSSSignatureTests.key
        var fields: [Field] = []
        var token: String?
    }

    private static let put = [
        Field("Content-MD5", "M3szwC+JSTAmhDmD/ycqMA=="), Field("Content-Type", "text/plain"),
        Field("x-oss-meta-mode", "0644"), Field("Date", "Tue, 14 Nov 2023 22:13:20 GMT"),
    ]
    private static let dated = [
        Field("x-oss-content-sha256", "UNSIGNED-PAYLOAD"), Field("x-oss-date", "20231114T221320Z"),
    ]
    private static let token = Field("x-oss-security-token", "TOKEN/abc==")

    private static func version1(_ signature: String) -> Field {
        Field("Authorization", "OSS \(accessKey):\(signature)")
    }

    private static func version4(_ signature: String, separator: String = ",") -> Field {
        Field("Authorization", "OSS4-HMAC-SHA256 Credential=\(accessKey)/\(scope)\(separator)Signature=\(signature)")
    }

    private static let presigned4 =
        "/dir/a%20b?x-oss-signature-version=OSS4-HMAC-SHA256&x-oss-date=20231114T221320Z&x-oss-expires=600"
        + "&x-oss-credential=LTAIEXAMPLEKEYID00000000%2F20231114%2Fcn-hangzhou%2Foss%2Faliyun_v4_request"
        + "&x-oss-security-token=TOKEN%2Fabc%3D%3D"
        + "&x-oss-signature=eda2918f1c92028e82d6775c47f23c07db5be24f53b626716a9ef1d7e4b728e5"
    private static let presigned1 =
        "/dir/a%20b?OSSAccessKeyId=LTAIEXAMPLEKEYID00000000&Expires=1700000600&security-token=TOKEN%2Fabc%3D%3D"
        + "&Signature=8FFN%2FQKhKW0HIpNFlN1UkxNHD%2FI%3D"

    static let vectors = [
        Vector(testDescription: "A: version 1", fields: put + [version1("UOxDldxqOZ03W+MpihNJFW6njlY=")]),
        Vector(
            testDescription: "B: version 1 with a token",
            fields: put + [token, version1("jzBVbBfN0eucsSzu6G862ajwNuQ=")],
            token: "TOKEN/abc=="),
        Vector(
            testDescription: "version 1 with a token in the header that is not signed",
            fields: put + [Field("security-token", "TOKEN/abc=="), version1("UOxDldxqOZ03W+MpihNJFW6njlY=")],
            token: "TOKEN/abc=="),
        Vector(
            testDescription: "C: version 4",
            fields: put + dated + [version4("3cd32b9278ebddbe3e49fdb5c3a829963538466017e5aeb9f681474dc49fd9d9")]),
        Vector(
            testDescription: "C: version 4 with a space between attributes",
            fields: put + dated + [
                version4("3cd32b9278ebddbe3e49fdb5c3a829963538466017e5aeb9f681474dc49fd9d9", separator: ", ")
            ]),
        Vector(
            testDescription: "D: version 4 with a token",
            fields: put + dated + [
                token, version4("691f975f85a9295416abbe2c3ff21ff4a768a43d5c89f766899f77fb7a3a6bc8"),
            ], token: "TOKEN/abc=="),
        Vector(
            testDescription: "E: version 4 listing", method: "GET",
            target: "/examplebucket/?list-type=2&delimiter=%2F&prefix=dir/&encoding-type=url", key: "",
            fields: dated + [
                Field("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg=="), Field("Content-Type", "application/octet-stream"),
                version4("be7bdbc748ecf1aad51a0a2cf77dde08739b7e7cd92812b1b0b8c3240c7e59b5"),
            ]),
        Vector(
            testDescription: "F: version 4 URL", method: "GET", target: presigned4, key: "dir/a b", token: "TOKEN/abc=="
        ),
        Vector(
            testDescription: "G: version 1 URL", method: "GET", target: presigned1, key: "dir/a b", token: "TOKEN/abc=="
        ),
    ]

    private static func request(_ vector: Vector, method: String? = nil, more: [Field] = []) -> ServerRequest {
        ServerRequest(method: method ?? vector.method, target: vector.target, fields: vector.fields + more)
    }

    @Test(arguments: vectors)
    func vectorsAreAccepted(vector: Vector) throws {
        let isSigned = try Self.authenticator(token: vector.token).isSigned(
            Self.request(vector), bucket: Self.bucket, key: vector.key, region: "cn-hangzhou")
        #expect(isSigned)
    }

    /// The refusal of a request, nil when it is accepted.
    private func refusal(
        _ request: ServerRequest, _ authenticator: OSSAuthenticator, bucket: String = bucket, key: ByteString = key,
        region: String = "cn-hangzhou"
    ) -> OSSError? {
        do throws(OSSError) {
            _ = try authenticator.isSigned(request, bucket: bucket, key: key, region: region)
            return nil
        } catch { return error }
    }

    @Test(arguments: vectors)
    func anythingChangedIsRefused(vector: Vector) {
        let authenticator = Self.authenticator(token: vector.token)
        let request = Self.request(vector)
        func code(_ request: ServerRequest, bucket: String = Self.bucket, key: ByteString = vector.key) -> String? {
            refusal(request, authenticator, bucket: bucket, key: key)?.code
        }
        #expect(code(request, bucket: "another") == "SignatureDoesNotMatch")
        #expect(code(request, key: vector.key + "x") == "SignatureDoesNotMatch")
        #expect(code(Self.request(vector, method: "POST")) == "SignatureDoesNotMatch")
        let added = Self.request(vector, more: [Field("x-oss-object-acl", "public-read")])
        #expect(code(added) == "SignatureDoesNotMatch")
        let other = Self.authenticator(token: vector.token, secret: "another")
        let refused = refusal(request, other, key: vector.key)
        #expect(refused?.status == 403 && refused?.code == "SignatureDoesNotMatch")
        #expect(refused?.headers == [Field("x-oss-ec", "0002-00000040")])
    }

    @Test(arguments: vectors)
    func tokensAreWantedAsTheyAre(vector: Vector) {
        let request = Self.request(vector)
        let wanted = refusal(request, Self.authenticator(token: "other"), key: vector.key)
        #expect(wanted?.code == (vector.token == nil ? "InvalidAccessKeyId" : "InvalidSecurityToken"))
        let unwanted = refusal(request, Self.authenticator(), key: vector.key)
        #expect(unwanted?.code == (vector.token == nil ? nil : "InvalidSecurityToken"))
    }

    @Test(arguments: vectors.filter { !$0.target.contains("xpires=") })
    func clocksMayDifferByAQuarterOfAnHour(vector: Vector) {
        let request = Self.request(vector)
        for (seconds, code) in [(-901, "RequestTimeTooSkewed"), (-900, nil), (900, nil), (901, "RequestTimeTooSkewed")]
        {
            let authenticator = Self.authenticator(token: vector.token, now: Self.now + .seconds(seconds))
            #expect(refusal(request, authenticator, key: vector.key)?.code == code)
        }
    }

    @Test(arguments: vectors.filter { $0.target.contains("xpires=") })
    func presignedRequestsExpire(vector: Vector) {
        let request = Self.request(vector)
        for (seconds, code) in [(0, nil), (600, nil), (601, "AccessDenied")] {
            let authenticator = Self.authenticator(token: vector.token, now: Self.now + .seconds(seconds))
            #expect(refusal(request, authenticator, key: vector.key)?.code == code)
        }
    }

    @Test func theRegionIsChecked() {
        let header = refusal(Self.request(Self.vectors[3]), Self.authenticator(), region: "cn-beijing")
        #expect(header?.code == "InvalidArgument" && header?.headers == [Field("x-oss-ec", "0002-00000228")])
        let query = refusal(
            Self.request(Self.vectors[7]), Self.authenticator(token: "TOKEN/abc=="), key: "dir/a b",
            region: "cn-beijing")
        #expect(query?.code == "InvalidArgument" && query?.headers == [Field("x-oss-ec", "0002-00000226")])
    }

    @Test(arguments: [
        "OSS4-HMAC-SHA256 Credential=\(accessKey)/20231114/cn-hangzhou/s3/aws4_request,Signature=00",
        "OSS4-HMAC-SHA256 Credential=\(accessKey)/20231113/cn-hangzhou/oss/aliyun_v4_request,Signature=00",
        "OSS4-HMAC-SHA256 Credential=\(accessKey)", "OSS4-HMAC-SHA256", "OSS2 AccessKeyId:x,Signature:y", "OSS x",
        "Basic",
    ])
    func malformedHeadersAreRefused(header: String) {
        let request = ServerRequest(
            method: "GET", target: Self.target, fields: Self.dated + [Field("Authorization", header)])
        #expect(refusal(request, Self.authenticator())?.code == "InvalidArgument")
    }

    @Test func unsignedRequestsAreTold() throws {
        let request = ServerRequest(method: "GET", target: Self.target, fields: [Field("Host", "localhost")])
        let isSigned = try Self.authenticator().isSigned(request, bucket: Self.bucket, key: Self.key, region: nil)
        #expect(!isSigned)
    }
}
