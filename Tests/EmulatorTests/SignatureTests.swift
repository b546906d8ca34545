import Basics
import Digests
import Emulator
import TestSupport
import Testing

/// The published and recomputed vectors of Signature Version 4 and 2, replayed against the verifier.
@Suite struct SignatureTests {
    private static let host = "examplebucket.s3.us-east-1.amazonaws.com"
    private static let emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    private static let scope = "20231114/us-east-1/s3/aws4_request"
    private static let now = Timestamp(seconds: 1_700_000_000)

    private static func authenticator(token: String? = nil, now: Timestamp = now) -> S3Authenticator {
        S3Authenticator(
            credentials: EmulatorCredentials(
                accessKey: "AKIDEXAMPLE000000000", secretKey: "wJalrXUtnFEMIEXAMPLESECRETKEY0000000000",
                sessionToken: token), time: ManualTime(now))
    }

    private static func authorization(_ signed: String, _ signature: String) -> Field {
        Field(
            "Authorization",
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE000000000/\(scope), SignedHeaders=\(signed), Signature=\(signature)"
        )
    }

    struct Vector: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let method: String
        let target: String
        let fields: [Field]
        var token: String?
    }

    static let vectors = [
        Vector(
            testDescription: "A: ranged GET", method: "GET", target: "/dir/a%20b",
            fields: [
                Field("Host", host), Field("Range", "bytes=0-9"), Field("X-Amz-Content-SHA256", emptyHash),
                Field("X-Amz-Date", "20231114T221320Z"),
                authorization(
                    "host;range;x-amz-content-sha256;x-amz-date",
                    "946ba63cb21bea6540643fa9816e3f3d4fc88b011fc3ffb6850fbbd66c2edbaa"),
            ]),
        Vector(
            testDescription: "B: listing", method: "GET",
            target: "/?list-type=2&prefix=dir/%C3%BC&delimiter=%2F&max-keys=2&encoding-type=url",
            fields: [
                Field("Host", host), Field("x-amz-content-sha256", emptyHash), Field("x-amz-date", "20231114T221320Z"),
                authorization(
                    "host;x-amz-content-sha256;x-amz-date",
                    "8e6b203672e09233a7724d01c2d8c3bd5cf66e1651a1c941d8dcffea380dafbf"),
            ]),
        Vector(
            testDescription: "C: path-style PUT", method: "PUT",
            target: "/examplebucket/dir/ex%20am%2Bple%E4%B8%AD.txt",
            fields: [
                Field("Host", "127.0.0.1:33455"), Field("Content-Type", "text/plain"),
                Field("x-amz-content-sha256", "f2ff189a4ef686231302becc266e6c8d5eee814b868d11631f7660073fc9b613"),
                Field("x-amz-date", "20231114T221320Z"), Field("x-amz-meta-mode", "0644"),
                authorization(
                    "content-type;host;x-amz-content-sha256;x-amz-date;x-amz-meta-mode",
                    "78f6ed49666f57523a1b1b5642bb9c146d8a61f9d5dc74d36de4c3dcd7626a7a"),
            ]),
        Vector(
            testDescription: "D: virtual host, unsigned payload, token, absolute form", method: "PUT",
            target: "http://\(host)/dir/ex%20am%2Bple%E4%B8%AD.txt",
            fields: [
                Field("Host", host), Field("Content-Type", "text/plain"),
                Field("x-amz-content-sha256", "UNSIGNED-PAYLOAD"), Field("x-amz-date", "20231114T221320Z"),
                Field("x-amz-security-token", "TOKEN/abc=="),
                authorization(
                    "content-type;host;x-amz-content-sha256;x-amz-date;x-amz-security-token",
                    "c94ff5ff94da29edad183d921f47e0c309b99eed262fd96873bfb3df04e02fd5"),
            ], token: "TOKEN/abc=="),
        Vector(
            testDescription: "E: presigned GET", method: "GET", target: presigned, fields: [Field("Host", host)]),
        Vector(
            testDescription: "E: presigned GET with token", method: "GET",
            target: "/dir/a%20b?X-Amz-Algorithm=AWS4-HMAC-SHA256"
                + "&X-Amz-Credential=AKIDEXAMPLE000000000%2F20231114%2Fus-east-1%2Fs3%2Faws4_request"
                + "&X-Amz-Date=20231114T221320Z&X-Amz-Expires=600&X-Amz-SignedHeaders=host"
                + "&X-Amz-Security-Token=TOKEN%2Fabc%3D%3D"
                + "&X-Amz-Signature=dde8ba5241e09a50f8d40fefad9e91c0578f1669ee40a8e67bf35eacd6768c04",
            fields: [Field("Host", host)], token: "TOKEN/abc=="),
        Vector(
            testDescription: "H: Signature Version 2", method: "PUT", target: "/dir/a%20b",
            fields: [
                Field("Host", host), Field("Content-MD5", "tg2ZH6bb0zhjx87HDRXbrA=="),
                Field("Content-Type", "text/plain"), Field("Date", "Tue, 14 Nov 2023 22:13:20 GMT"),
                Field("x-amz-meta-mode", "0644"), Field("x-amz-security-token", "TOKEN/abc=="),
                Field("Authorization", "AWS AKIDEXAMPLE000000000:lii0WaKii7d/2zqAaEXmeZzFMMk="),
            ], token: "TOKEN/abc=="),
    ]

    private static let presigned =
        "/dir/a%20b?X-Amz-Algorithm=AWS4-HMAC-SHA256"
        + "&X-Amz-Credential=AKIDEXAMPLE000000000%2F20231114%2Fus-east-1%2Fs3%2Faws4_request"
        + "&X-Amz-Date=20231114T221320Z&X-Amz-Expires=600&X-Amz-SignedHeaders=host"
        + "&X-Amz-Signature=29019410871f380affbefb56fcba055d2c3193e2e0b62bef8fbb52b1119f964a"

    @Test(arguments: vectors)
    func vectorsAreAccepted(vector: Vector) throws {
        let request = ServerRequest(method: vector.method, target: vector.target, fields: vector.fields)
        let bucket = vector.fields.contains(Field("Host", Self.host)) ? "examplebucket" : nil
        let authorization = try Self.authenticator(token: vector.token)
            .authorize(request, region: "us-east-1", hostBucket: bucket)
        #expect(!authorization.isAnonymous)
    }

    private func code(_ request: ServerRequest, _ authenticator: S3Authenticator, region: String = "us-east-1")
        -> String?
    {
        do throws(S3Error) {
            _ = try authenticator.authorize(request, region: region, hostBucket: "examplebucket")
            return nil
        } catch { return error.code }
    }

    @Test(arguments: vectors)
    func anythingChangedIsRefused(vector: Vector) {
        let authenticator = Self.authenticator(token: vector.token)
        let target = vector.target.replacing("a", with: "b", maxReplacements: 1)
        let moved = ServerRequest(
            method: vector.method, target: target.replacing("/dir", with: "/dIr"), fields: vector.fields)
        if vector.target.contains("/dir") { #expect(code(moved, authenticator) == "SignatureDoesNotMatch") }
        let other = ServerRequest(method: "POST", target: vector.target, fields: vector.fields)
        #expect(code(other, authenticator) == "SignatureDoesNotMatch")
        let added = ServerRequest(
            method: vector.method, target: vector.target, fields: vector.fields + [Field("x-amz-acl", "public-read")])
        #expect(["AccessDenied", "SignatureDoesNotMatch"].contains(code(added, authenticator)))
    }

    @Test func timeAndRegionAndTokenAreChecked() {
        let request = ServerRequest(method: "GET", target: "/dir/a%20b", fields: Self.vectors[0].fields)
        let late = Self.authenticator(now: Self.now + .seconds(901))
        #expect(code(request, late) == "RequestTimeTooSkewed")
        #expect(code(request, Self.authenticator(now: Self.now + .seconds(899))) == nil)
        #expect(code(request, Self.authenticator(), region: "eu-west-1") == "AuthorizationHeaderMalformed")
        #expect(code(request, Self.authenticator(token: "T")) == "InvalidToken")
        let presigned = ServerRequest(method: "GET", target: Self.presigned, fields: [Field("Host", Self.host)])
        #expect(code(presigned, Self.authenticator(now: Self.now + .seconds(600))) == nil)
        #expect(code(presigned, Self.authenticator(now: Self.now + .seconds(601))) == "AccessDenied")
    }

    @Test func unsignedRequestsAreAnonymous() throws {
        let request = ServerRequest(method: "GET", target: "/", fields: [Field("Host", Self.host)])
        #expect(try Self.authenticator().authorize(request, region: nil, hostBucket: nil).isAnonymous)
    }
}

/// The chunked upload that AWS publishes, and the same with trailers.
@Suite struct ChunkedPayloadTests {
    private static let scope = "20130524/us-east-1/s3/aws4_request"
    private static let authenticator = S3Authenticator(
        credentials: EmulatorCredentials(
            accessKey: "AKIAIOSFODNN7EXAMPLE", secretKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        time: ManualTime(Timestamp(seconds: 1_369_353_600)))

    private static func request(signed: String, signature: String, hash: String, _ more: [Field]) -> ServerRequest {
        ServerRequest(
            method: "PUT", target: "/examplebucket/chunkObject.txt",
            fields: [
                Field("content-encoding", "aws-chunked"), Field("host", "s3.amazonaws.com"),
                Field("x-amz-content-sha256", hash), Field("x-amz-date", "20130524T000000Z"),
                Field("x-amz-decoded-content-length", "66560"),
                Field("x-amz-storage-class", "REDUCED_REDUNDANCY"),
                Field(
                    "authorization",
                    "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/\(scope),SignedHeaders=\(signed),"
                        + "Signature=\(signature)"),
            ] + more)
    }

    private static let plain = request(
        signed: "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;"
            + "x-amz-storage-class",
        signature: "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
        hash: "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", [Field("content-length", "66824")])

    private static let withTrailer = request(
        signed: "content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;"
            + "x-amz-storage-class;x-amz-trailer",
        signature: "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
        hash: "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", [Field("x-amz-trailer", "x-amz-checksum-crc32c")])

    private static func body(_ signatures: [String], trailers: String = "", byte: Character = "a") -> [UInt8] {
        var text = ""
        for (size, signature) in zip([65536, 1024, 0], signatures) {
            text += "\(String(size, radix: 16));chunk-signature=\(signature)\r\n"
            if size > 0 { text += String(repeating: byte, count: size) + "\r\n" }
        }
        return Array((text + trailers + "\r\n").utf8)
    }

    private static let signatures = [
        "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
        "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
        "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
    ]
    private static let trailerSignatures = [
        "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
        "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
        "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
    ]
    private static let trailers =
        "x-amz-checksum-crc32c:sOO8/Q==\r\n"
        + "x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n"

    private func read(_ request: ServerRequest, _ body: [UInt8]) async throws -> (bytes: [UInt8], trailers: [Field]) {
        let authorization = try Self.authenticator.authorize(request, region: "us-east-1", hostBucket: nil)
        let reader = PayloadReader(RequestBody(body), request, authorization.payload)
        return (try await reader.collect(limit: 1 << 20), reader.trailers)
    }

    @Test func signedChunksAreAccepted() async throws {
        let (bytes, _) = try await read(Self.plain, Self.body(Self.signatures))
        #expect(bytes == [UInt8](repeating: 0x61, count: 66560))
    }

    @Test func signedTrailersAreAccepted() async throws {
        let (bytes, trailers) = try await read(
            Self.withTrailer, Self.body(Self.trailerSignatures, trailers: Self.trailers))
        #expect(bytes.count == 66560)
        #expect(trailers == [Field("x-amz-checksum-crc32c", "sOO8/Q==")])
        #expect(Base64.encode(CRC32C.of(bytes)) == "sOO8/Q==")
    }

    @Test func changedChunksAndTrailersAreRefused() async throws {
        await #expect(throws: S3Error.self) { try await read(Self.plain, Self.body(Self.signatures, byte: "b")) }
        await #expect(throws: S3Error.self) {
            try await read(Self.plain, Self.body([Self.signatures[1], Self.signatures[0], Self.signatures[2]]))
        }
        let changed = Self.trailers.replacing("sOO8", with: "sOO9")
        await #expect(throws: S3Error.self) {
            try await read(Self.withTrailer, Self.body(Self.trailerSignatures, trailers: changed))
        }
        let cut = Array(Self.body(Self.signatures).dropLast(90))
        await #expect(throws: S3Error.self) { try await read(Self.plain, cut) }
    }

    @Test func unsignedTrailersAreTakenOff() async throws {
        let request = ServerRequest(
            method: "PUT", target: "/b/k",
            fields: [
                Field("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
                Field("x-amz-decoded-content-length", "8"), Field("x-amz-trailer", "x-amz-checksum-crc32"),
            ])
        let text = "8\r\nhello s3\r\n0\r\nx-amz-checksum-crc32:fJy43g==\r\n\r\n"
        let (bytes, trailers) = try await read(request, Array(text.utf8))
        #expect(bytes == Array("hello s3".utf8))
        #expect(trailers == [Field("x-amz-checksum-crc32", "fJy43g==")])
        for broken in ["8\r\nhello s3\r\n0\r\n", "9\r\nhello s3\r\n0\r\n\r\n", "x\r\n", "8\r\nhello s3XX0\r\n\r\n", ""]
        {
            await #expect(throws: S3Error.self) { try await read(request, Array(broken.utf8)) }
        }
    }
}
