import Basics
import HTTP
import ObjectStorage
import Testing

@testable import Providers

/// The vectors that the provider's SDK produced (COS API, "Request Signature").
@Suite struct COSSignerTests {
    static let host = "examplebucket-1250000000.cos.ap-guangzhou.myqcloud.com"

    static func credentials(_ token: String? = nil) -> Credentials {
        Credentials(
            accessKeyID: "AKIDEXAMPLE0000000000000000000000000", secretKey: Secret("SecretKeyExample00000000000000000"),
            sessionToken: token.map { Secret($0) })
    }

    static func request(_ method: HTTPMethod, _ path: String, _ query: [QueryItem] = []) -> SignedRequest {
        SignedRequest(
            method, host: host, path: path, bucket: "examplebucket-1250000000", key: nil, query: query,
            region: "ap-guangzhou", at: Timestamp(seconds: 1_700_000_000))
    }

    struct Vector: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let request: SignedRequest
        var headers: [(String, String)] = []
        var token: String?
        let headerList: String
        var parameterList = ""
        let signature: String
    }

    static let vectors = [
        Vector(
            testDescription: "A", request: request(.put, "/dir/ex%20am%2Bple%E4%B8%AD.txt"),
            headers: [
                ("Content-Type", "text/plain"), ("Content-MD5", "UfRZzlI9V4cclKIy1UsodQ=="), ("Content-Length", "9"),
                ("x-cos-meta-mode", "0644"), ("User-Agent", "not signed"),
            ], headerList: "content-length;content-md5;content-type;host;x-cos-meta-mode",
            signature: "c44e402d0f5fb9a9c2f9a55ace11eafd4f0d68e1"),
        Vector(
            testDescription: "B",
            request: request(
                .get, "/",
                [
                    QueryItem("prefix", "dir/"), QueryItem("delimiter", "/"), QueryItem("marker"),
                    QueryItem("max-keys", "1000"), QueryItem("encoding-type", "url"),
                ]), headerList: "host", parameterList: "delimiter;encoding-type;marker;max-keys;prefix",
            signature: "91b57d134224a455ace942067ea0d634680a10a7"),
        Vector(
            testDescription: "C", request: request(.head, "/a.txt"), token: "TOKEN/abc==",
            headerList: "host;x-cos-security-token", signature: "8c59f280e92d070a868d1980e40688e1de54f932"),
    ]

    @Test(arguments: vectors)
    func headersAreSignedAsTheSDKSignsThem(vector: Vector) {
        var headers = HTTPHeaders([("Host", Self.host)] + vector.headers)
        COSSigner(window: .seconds(10_000)).sign(&headers, vector.request, with: Self.credentials(vector.token))
        let keyTime = "1699999940;1700010000"
        #expect(
            headers["Authorization"]
                == "q-sign-algorithm=sha1&q-ak=AKIDEXAMPLE0000000000000000000000000&q-sign-time=\(keyTime)"
                + "&q-key-time=\(keyTime)&q-header-list=\(vector.headerList)"
                + "&q-url-param-list=\(vector.parameterList)&q-signature=\(vector.signature)")
    }

    @Test func urlsArePresignedAsTheSDKDoes() {
        let request = Self.request(.get, "/dir/a%20b", [QueryItem("response-content-type", "text/html")])
        let query = COSSigner().presign(request, with: Self.credentials("t/="), lifetime: .seconds(600))
        #expect(query.contains(QueryItem("q-signature", "08d8eab5ad3b8ede1f84fe6b4fbce3baa448c700")))
        #expect(query.map(\.text).contains("q-sign-time=1699999940%3B1700000600"))
        #expect(query.contains(QueryItem("q-url-param-list", "response-content-type")))
        #expect(query.last?.text == "x-cos-security-token=t%2F%3D")
    }

    @Test func keysThatAreNoTextAreSignedAsBytes() {
        func authorization(_ path: String) -> String? {
            var headers = HTTPHeaders([("Host", Self.host)])
            COSSigner().sign(&headers, Self.request(.get, path), with: Self.credentials())
            return headers["Authorization"]
        }
        #expect(authorization("/%FF") != authorization("/%FE"))
    }
}
