import Basics
import Emulator
import TestSupport
import Testing

/// The signatures that the official SDK made at a fixed time (COS API, "Request Signature"), replayed against the verifier.
@Suite struct COSSignatureTests {
    private static let host = "examplebucket-1250000000.cos.ap-guangzhou.myqcloud.com"
    private static let window = "1699999940;1700010000"
    private static let token = "TOKEN/abc=="
    private static let now = Timestamp(seconds: 1_700_000_000)

    private static func authenticator(
        token: String? = nil, secret: String = "SecretKeyExample00000000000000000", now: Timestamp = now
    ) -> COSAuthenticator {
        COSAuthenticator(
            credentials: EmulatorCredentials(
                accessKey: "AKIDEXAMPLE0000000000000000000000000", secretKey: secret, sessionToken: token),
            time: ManualTime(now))
    }

    private static func authorization(
        headers: String, parameters: String = "", _ signature: String, window: String = window
    ) -> Field {
        Field(
            "Authorization",
            "q-sign-algorithm=sha1&q-ak=AKIDEXAMPLE0000000000000000000000000&q-sign-time=\(window)&q-key-time=\(window)"
                + "&q-header-list=\(headers)&q-url-param-list=\(parameters)&q-signature=\(signature)")
    }

    struct Vector: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let method: String
        let target: String
        let fields: [Field]
        let text: String
        var token: String?

        var request: ServerRequest { ServerRequest(method: method, target: target, fields: fields) }
    }

    static let vectors = [
        Vector(
            testDescription: "A: PUT with metadata", method: "PUT", target: "/dir/ex%20am%2Bple%E4%B8%AD.txt",
            fields: [
                Field("Host", host), Field("Content-Type", "text/plain"),
                Field("Content-MD5", "UfRZzlI9V4cclKIy1UsodQ=="), Field("Content-Length", "9"),
                Field("x-cos-meta-mode", "0644"),
                authorization(
                    headers: "content-length;content-md5;content-type;host;x-cos-meta-mode",
                    "c44e402d0f5fb9a9c2f9a55ace11eafd4f0d68e1"),
            ],
            text: "put\n/dir/ex am+ple中.txt\n\ncontent-length=9&content-md5=UfRZzlI9V4cclKIy1UsodQ%3D%3D"
                + "&content-type=text%2Fplain&host=\(host)&x-cos-meta-mode=0644\n"),
        Vector(
            testDescription: "B: listing", method: "GET",
            target: "/?prefix=dir%2F&delimiter=%2F&marker=&max-keys=1000&encoding-type=url",
            fields: [
                Field("Host", host),
                authorization(
                    headers: "host", parameters: "delimiter;encoding-type;marker;max-keys;prefix",
                    "91b57d134224a455ace942067ea0d634680a10a7"),
            ],
            text: "get\n/\ndelimiter=%2F&encoding-type=url&marker=&max-keys=1000&prefix=dir%2F\nhost=\(host)\n"),
        Vector(
            testDescription: "C: HEAD with a token", method: "HEAD", target: "/a.txt",
            fields: [
                Field("Host", host), Field("x-cos-security-token", token),
                authorization(headers: "host;x-cos-security-token", "8c59f280e92d070a868d1980e40688e1de54f932"),
            ],
            text: "head\n/a.txt\n\nhost=\(host)&x-cos-security-token=TOKEN%2Fabc%3D%3D\n", token: token),
        Vector(
            testDescription: "D: presigned GET", method: "GET",
            target: "/dir/a%20b?q-sign-algorithm=sha1&q-ak=AKIDEXAMPLE0000000000000000000000000"
                + "&q-sign-time=1699999940%3B1700000600&q-key-time=1699999940%3B1700000600&q-header-list=host"
                + "&q-url-param-list=response-content-type&q-signature=08d8eab5ad3b8ede1f84fe6b4fbce3baa448c700"
                + "&response-content-type=text/html",
            fields: [Field("Host", host)],
            text: "get\n/dir/a b\nresponse-content-type=text%2Fhtml\nhost=\(host)\n"),
    ]

    private func code(_ request: ServerRequest, _ authenticator: COSAuthenticator = authenticator()) -> String? {
        do throws(COSError) {
            return try authenticator.isSigned(request) ? nil : "not signed"
        } catch { return error.code }
    }

    @Test(arguments: vectors)
    func vectorsAreAccepted(vector: Vector) throws {
        let claim = try #require(try COSSignatureClaim(vector.request))
        let text = COSSignature.httpString(vector.request, claim, host: Self.host)
        #expect(String(decoding: text, as: UTF8.self) == vector.text)
        #expect(code(vector.request, Self.authenticator(token: vector.token)) == nil)
    }

    @Test func theStepsAreThoseOfTheDossier() {
        let key = COSSignature.signKey(secret: "SecretKeyExample00000000000000000", keyTime: Self.window)
        #expect(key == "4e37d6dc4c1dcebcd78b23aa340ef4644d61b4f4")
        let text = COSSignature.stringToSign(Array(Self.vectors[0].text.utf8), keyTime: Self.window)
        #expect(text == "sha1\n\(Self.window)\na819a05ba0a8ee48c489e9b82302142107db82fa\n")
        #expect(COSSignature.sign(text, signKey: key) == "c44e402d0f5fb9a9c2f9a55ace11eafd4f0d68e1")
    }

    @Test(arguments: vectors)
    func anythingSignedAndChangedIsRefused(vector: Vector) {
        let authenticator = Self.authenticator(token: vector.token)
        let other = ServerRequest(method: "POST", target: vector.target, fields: vector.fields)
        #expect(code(other, authenticator) == "SignatureDoesNotMatch")
        let moved = ServerRequest(
            method: vector.method, target: vector.target.replacing("/", with: "/x", maxReplacements: 1),
            fields: vector.fields)
        #expect(code(moved, authenticator) == "SignatureDoesNotMatch")
        let elsewhere = ServerRequest(
            method: vector.method, target: vector.target,
            fields: [Field("Host", "other-1250000000.cos.ap-guangzhou.myqcloud.com")] + vector.fields.dropFirst())
        #expect(code(elsewhere, authenticator) == "SignatureDoesNotMatch")
        #expect(code(vector.request, Self.authenticator(token: vector.token, secret: "x")) == "SignatureDoesNotMatch")
    }

    @Test func onlyWhatTheListsNameIsSigned() {
        let put = Self.vectors[0]
        let more = put.fields + [Field("x-cos-acl", "private"), Field("User-Agent", "any")]
        #expect(code(ServerRequest(method: "PUT", target: "\(put.target)?more=1", fields: more)) == nil)
        let changed = put.fields.map { $0.name == "x-cos-meta-mode" ? Field($0.name, "0600") : $0 }
        #expect(
            code(ServerRequest(method: "PUT", target: put.target, fields: changed)) == "SignatureDoesNotMatch")
        let listing = Self.vectors[1]
        let moved = listing.target.replacing("max-keys=1000", with: "max-keys=999")
        #expect(
            code(ServerRequest(method: "GET", target: moved, fields: listing.fields)) == "SignatureDoesNotMatch")
    }

    @Test func theHostMayBeSignedWithoutItsPort() {
        let fields = [Field("Host", "\(Self.host):9002")] + Self.vectors[1].fields.dropFirst()
        #expect(code(ServerRequest(method: "GET", target: Self.vectors[1].target, fields: fields)) == nil)
    }

    @Test func spacesOfAQueryMayBePlusSigns() throws {
        func signed(_ target: String) throws -> ServerRequest {
            let unsigned = Self.authorization(headers: "host", parameters: "prefix", "")
            let plain = ServerRequest(method: "GET", target: "/?prefix=a%20b", fields: [Field("Host", "h"), unsigned])
            let claim = try #require(try COSSignatureClaim(plain))
            let text = COSSignature.stringToSign(
                COSSignature.httpString(plain, claim, host: "h"), keyTime: Self.window)
            let key = COSSignature.signKey(secret: "SecretKeyExample00000000000000000", keyTime: Self.window)
            let signature = COSSignature.sign(text, signKey: key)
            return ServerRequest(
                method: "GET", target: target,
                fields: [
                    Field("Host", "h"), Self.authorization(headers: "host", parameters: "prefix", signature),
                ])
        }
        #expect(code(try signed("/?prefix=a+b")) == nil)
        #expect(code(try signed("/?prefix=a%2Bb")) == "SignatureDoesNotMatch")
    }

    @Test func theWindowAndTheClockAreChecked() {
        let request = Self.vectors[1].request
        func code(at seconds: Int64) -> String? {
            self.code(request, Self.authenticator(now: Timestamp(seconds: seconds)))
        }
        #expect(code(at: 1_699_999_940) == nil)
        #expect(code(at: 1_700_010_000) == nil)
        #expect(code(at: 1_699_999_939) == "AccessDenied")
        #expect(code(at: 1_700_010_001) == "AccessDenied")
        #expect(code(at: 1_699_999_040) == "AccessDenied")
        #expect(code(at: 1_699_999_039) == "RequestTimeTooSkewed")
        func dated(_ date: String) -> String? {
            let fields = Self.vectors[1].fields + [Field("Date", date)]
            return self.code(ServerRequest(method: "GET", target: Self.vectors[1].target, fields: fields))
        }
        #expect(dated("Tue, 14 Nov 2023 22:28:20 GMT") == nil)
        #expect(dated("Tue, 14 Nov 2023 22:28:21 GMT") == "RequestTimeTooSkewed")
        #expect(dated("Tue, 14 Nov 2023 21:58:19 GMT") == "RequestTimeTooSkewed")
    }

    @Test func tokensBelongToTheirKeys() {
        let (plain, temporary) = (Self.vectors[1].request, Self.vectors[2].request)
        #expect(code(plain, Self.authenticator(token: Self.token)) == "AccessDenied")
        #expect(code(temporary, Self.authenticator(token: "NEWER")) == "ExpiredToken")
        #expect(code(temporary) == "ExpiredToken")
    }

    @Test func unsignedRequestsAreTold() {
        #expect(code(ServerRequest(method: "GET", target: "/", fields: [])) == "not signed")
        #expect(code(ServerRequest(method: "GET", target: "/", fields: [Field("Authorization", "")])) == "not signed")
    }

    @Test(arguments: [
        ("sha1", "sha256", "InvalidArgument"), ("AKIDEXAMPLE", "AKIDOTHER", "InvalidAccessKeyId"),
        (";1700010000", "", "InvalidArgument"), ("q-key-time=", "q-key=", "InvalidArgument"),
        ("q-sign-time=1699999940;1700010000", "q-sign-time=1699999940;x", "InvalidArgument"),
        ("q-sign-time=1699999940;1700010000", "q-sign-time=1699999940;1699999941", "AccessDenied"),
        ("q-sign-algorithm=sha1&", "", "InvalidArgument"),
        ("q-signature=91", "q-signature=92", "SignatureDoesNotMatch"),
    ])
    func brokenSignaturesAreRefused(found: String, put: String, expected: String) {
        let fields = Self.vectors[1].fields.map { field in
            field.name == "Authorization" ? Field(field.name, field.value.replacing(found, with: put)) : field
        }
        #expect(code(ServerRequest(method: "GET", target: Self.vectors[1].target, fields: fields)) == expected)
    }
}
