import Basics
import Digests
import HTTP
import ObjectStorage
import Testing

@testable import Providers

/// Requests and signatures that the AWS SDK for Python produced for these inputs.
@Suite struct SigV4SignerTests {
    static let time = Timestamp(seconds: 1_700_000_000)
    static let host = "examplebucket.s3.us-east-1.amazonaws.com"
    static let credentials = Credentials(
        accessKeyID: "AKIDEXAMPLE000000000", secretKey: Secret("wJalrXUtnFEMIEXAMPLESECRETKEY0000000000"))

    struct Vector: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let method: HTTPMethod
        let path: String
        var query: [QueryItem] = []
        let headers: [(String, String)]
        let payload: SignedRequest.Payload
        var token: String?
        let signature: String
    }

    static let vectors = [
        Vector(
            testDescription: "ranged get", method: .get, path: "/dir/a%20b",
            headers: [("Host", host), ("Range", "bytes=0-9")], payload: .empty,
            signature: "946ba63cb21bea6540643fa9816e3f3d4fc88b011fc3ffb6850fbbd66c2edbaa"),
        Vector(
            testDescription: "listing", method: .get, path: "/",
            query: [
                QueryItem("list-type", "2"), QueryItem("prefix", "dir/ü"), QueryItem("delimiter", "/"),
                QueryItem("max-keys", "2"), QueryItem("encoding-type", "url"),
            ], headers: [("Host", host)], payload: .empty,
            signature: "8e6b203672e09233a7724d01c2d8c3bd5cf66e1651a1c941d8dcffea380dafbf"),
        Vector(
            testDescription: "put in path style with a signed body", method: .put,
            path: "/examplebucket/dir/ex%20am%2Bple%E4%B8%AD.txt",
            headers: [
                ("Host", "127.0.0.1:33455"), ("Content-Type", "text/plain"), ("x-amz-meta-mode", "0644"),
            ], payload: .sha256(SHA256.of("hello s3")),
            signature: "78f6ed49666f57523a1b1b5642bb9c146d8a61f9d5dc74d36de4c3dcd7626a7a"),
        Vector(
            testDescription: "put of an unsigned body with a session token", method: .put,
            path: "/dir/ex%20am%2Bple%E4%B8%AD.txt", headers: [("Host", host), ("Content-Type", "text/plain")],
            payload: .unsigned, token: "TOKEN/abc==",
            signature: "c94ff5ff94da29edad183d921f47e0c309b99eed262fd96873bfb3df04e02fd5"),
    ]

    @Test(arguments: vectors)
    func headersAreSignedAsTheSDKSignsThem(vector: Vector) throws {
        var credentials = Self.credentials
        credentials.sessionToken = vector.token.map { Secret($0) }
        var headers = HTTPHeaders(vector.headers)
        let request = SignedRequest(
            vector.method, host: Self.host, path: vector.path, bucket: nil, key: nil, query: vector.query,
            payload: vector.payload, region: "us-east-1", at: Self.time)
        SigV4Signer().sign(&headers, request, with: credentials)
        #expect(headers["Authorization"]?.hasSuffix("Signature=\(vector.signature)") == true)
    }

    @Test(arguments: [
        (nil as String?, "29019410871f380affbefb56fcba055d2c3193e2e0b62bef8fbb52b1119f964a"),
        ("TOKEN/abc==", "dde8ba5241e09a50f8d40fefad9e91c0578f1669ee40a8e67bf35eacd6768c04"),
    ])
    func urlsArePresignedAsTheSDKDoes(token: String?, signature: String) {
        var credentials = Self.credentials
        credentials.sessionToken = token.map { Secret($0) }
        let request = SignedRequest(
            .get, host: Self.host, path: "/dir/a%20b", bucket: nil, key: nil, region: "us-east-1", at: Self.time)
        let query = SigV4Signer().presign(request, with: credentials, lifetime: .seconds(600))
        #expect(query.last == QueryItem("X-Amz-Signature", signature))
    }
}
