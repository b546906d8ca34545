import Basics
import Digests
import HTTP
import ObjectStorage
import TestSupport
import Testing

@testable import Providers

/// The vectors that the provider's SDKs produced (OSS API, "Signature Version 4").
@Suite struct OSSSignerTests {
    static let time = Timestamp(seconds: 1_700_000_000)

    static func credentials(_ token: String? = nil) -> Credentials {
        Credentials(
            accessKeyID: "LTAIEXAMPLEKEYID00000000", secretKey: Secret("SecretExampleKey0000000000000000"),
            sessionToken: token.map { Secret($0) })
    }

    static func request(_ method: HTTPMethod, _ key: ObjectKey?, _ query: [QueryItem] = []) -> SignedRequest {
        SignedRequest(
            method, host: "examplebucket.oss-cn-hangzhou.aliyuncs.com", path: "/ignored", bucket: "examplebucket",
            key: key, query: query, region: "cn-hangzhou", at: time)
    }

    static let put = request(.put, "dir/ex am+ple中.txt")
    static let putHeaders = [
        ("Host", "examplebucket.oss-cn-hangzhou.aliyuncs.com"), ("Content-Type", "text/plain"),
        ("Content-MD5", "M3szwC+JSTAmhDmD/ycqMA=="), ("x-oss-meta-mode", "0644"),
    ]
    static let list = request(
        .get, nil,
        [
            QueryItem("list-type", "2"), QueryItem("prefix", "dir/"), QueryItem("delimiter", "/"),
            QueryItem("encoding-type", "url"),
        ])

    struct Vector: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let request: SignedRequest
        let headers: [(String, String)]
        var token: String?
        let signature: String
    }

    static let vectorsOfV1 = [
        Vector(testDescription: "A", request: put, headers: putHeaders, signature: "UOxDldxqOZ03W+MpihNJFW6njlY="),
        Vector(
            testDescription: "B", request: put, headers: putHeaders, token: "TOKEN/abc==",
            signature: "jzBVbBfN0eucsSzu6G862ajwNuQ="),
    ]

    @Test(arguments: vectorsOfV1)
    func versionOneSignsAsTheSDKs(vector: Vector) {
        var headers = HTTPHeaders(vector.headers)
        OSSV1Signer().sign(&headers, vector.request, with: Self.credentials(vector.token))
        #expect(headers["Date"] == "Tue, 14 Nov 2023 22:13:20 GMT")
        #expect(headers["Authorization"] == "OSS LTAIEXAMPLEKEYID00000000:\(vector.signature)")
    }

    static let vectorsOfV4 = [
        Vector(
            testDescription: "C", request: put, headers: putHeaders,
            signature: "3cd32b9278ebddbe3e49fdb5c3a829963538466017e5aeb9f681474dc49fd9d9"),
        Vector(
            testDescription: "D", request: put, headers: putHeaders, token: "TOKEN/abc==",
            signature: "691f975f85a9295416abbe2c3ff21ff4a768a43d5c89f766899f77fb7a3a6bc8"),
        Vector(
            testDescription: "E", request: list,
            headers: [("Content-Type", "application/octet-stream"), ("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==")],
            signature: "be7bdbc748ecf1aad51a0a2cf77dde08739b7e7cd92812b1b0b8c3240c7e59b5"),
    ]

    @Test(arguments: vectorsOfV4)
    func versionFourSignsAsTheSDKs(vector: Vector) {
        var headers = HTTPHeaders(vector.headers)
        OSSV4Signer(additional: []).sign(&headers, vector.request, with: Self.credentials(vector.token))
        let scope = "20231114/cn-hangzhou/oss/aliyun_v4_request"
        #expect(
            headers["Authorization"]
                == "OSS4-HMAC-SHA256 Credential=LTAIEXAMPLEKEYID00000000/\(scope),Signature=\(vector.signature)")
        #expect(headers["x-oss-date"] == "20231114T221320Z")
    }

    @Test func hostAndRangeAreSignedWhereTheyAreSent() {
        var headers = HTTPHeaders(Self.putHeaders)
        OSSV4Signer().sign(&headers, Self.put, with: Self.credentials())
        #expect(headers["Authorization"]?.contains(",AdditionalHeaders=host,Signature=") == true)
        headers["Range"] = "bytes=0-9"
        OSSV4Signer().sign(&headers, Self.put, with: Self.credentials())
        #expect(headers["Authorization"]?.contains(",AdditionalHeaders=host;range,Signature=") == true)
    }

    @Test func versionFourPresignsAsTheSDKs() {
        let query = OSSV4Signer().presign(
            Self.request(.get, "dir/a b"), with: Self.credentials("TOKEN/abc=="), lifetime: .seconds(600))
        #expect(
            query.last
                == QueryItem("x-oss-signature", "eda2918f1c92028e82d6775c47f23c07db5be24f53b626716a9ef1d7e4b728e5"))
        #expect(query.contains(QueryItem("x-oss-expires", "600")))
    }

    @Test func versionOnePresignsAsTheSDKs() {
        let query = OSSV1Signer().presign(
            Self.request(.get, "dir/a b"), with: Self.credentials("TOKEN/abc=="), lifetime: .seconds(600))
        #expect(query.last == QueryItem("Signature", "8FFN/QKhKW0HIpNFlN1UkxNHD/I="))
        #expect(query.contains(QueryItem("Expires", "1700000600")))
    }

    @Test func versionOneSignsOfTheQueryOnlyWhatIsASubresource() {
        func authorization(_ query: [QueryItem]) -> String? {
            var headers = HTTPHeaders()
            OSSV1Signer().sign(&headers, Self.request(.get, nil, query), with: Self.credentials())
            return headers["Authorization"]
        }
        #expect(authorization([QueryItem("prefix", "a"), QueryItem("max-keys", "5")]) == authorization([]))
        #expect(authorization([QueryItem("uploads")]) != authorization([]))
    }
}
