import Basics
import Digests
import Emulator
import TestSupport
import Testing

/// The vectors of CSSP's authentication, and what the provider's SDKs do each in their way.
@Suite struct CSSPSignatureTests {
    static let date = "Mon, 09 Feb 2015 08:00:00 GMT"
    static let md5 = "5d41402abc4b2a76b9719d911017c592"

    struct Vector: CustomTestStringConvertible, Sendable {
        var method: String
        var target: String
        var fields: [(String, String)]
        var signature: String
        var testDescription: String { "\(method) \(target) \(signature)" }

        init(_ method: String, _ target: String, _ fields: [(String, String)] = [], signature: String) {
            (self.method, self.target, self.fields, self.signature) = (method, target, fields, signature)
        }
    }

    static let vectors: [Vector] = [
        Vector("GET", "/photos?format=json&prefix=a", signature: "qyI5HNoc3Z+XM4l1qewo9VbLdKU="),
        Vector("HEAD", "/photos/animals%2Fcat.txt", signature: "oO7nyCx3yiH3hSgnsi7EGeoMfOM="),
        Vector(
            "PUT", "/photos/animals/cat.txt",
            [
                ("ETag", md5), ("Content-Type", "text/plain"), ("X-Object-Meta-User-Data-2", "v2"),
                ("X-Object-Meta-User-Data-1", "v1"), ("X-Detect-Content-Type", "true"),
            ], signature: "hxsJ8N7MwMZ7FE+HciI14SFbjTc="),
        Vector("PUT", "/photos/%E7%8C%AB/a%20b%2Bc.txt", signature: "h1xKkVwwfj5aJyGQJ9TV/M7RmzU="),
        Vector(
            "PUT", "/photos/big", [("X-Object-Manifest", "photos/big/id")], signature: "Lv1oSlIaZDjZ9/Nc8mJGgGbIZK4="),
        Vector("DELETE", "/photos/animals/cat.txt", signature: "JrzAsGvw+waSYy1LRQuDaSHdlU0="),
        Vector("HEAD", "/photos", signature: "wsHrVmIIRAoUAdM/RRHm1dyHg4E="),
        Vector("POST", "/photos", signature: "qeKDTd+Ks7p05w7u0Ouv9oi3GZk="),
        Vector("PUT", "/photos/big/UID/00000001", [("ETag", md5)], signature: "sVG8sf6GKwQ3EYo1DfUORIOrX18="),
        Vector(
            "POST", "/photos/animals/cat.txt", [("X-Object-Meta-Mtime", "1423468800.0")],
            signature: "x/JoE0/MYZPjcU5zQzd9ad9QsHQ="),
        Vector(
            "POST", "/photos/animals/cat.txt",
            [("X-Object-Meta-Mtime", "1423468800.0"), ("Content-Type", "application/x-www-form-urlencoded")],
            signature: "f3vsZ/owYbaD7yyXmfff/Xe9TTA="),
        Vector("COPY", "/photos/animals/cat.txt", signature: "Wn3ngSrhA1vJgZa/5ET8tUxegDc="),
    ]

    private static let checker = CSSPSignature(
        credentials: EmulatorCredentials(
            accessKey: "accesskeyEXAMPLE", secretKey: "secretkeyEXAMPLE0123456789abcdef"),
        time: ManualTime(Timestamp(httpDate: date) ?? .epoch))

    private static func accepts(_ vector: Vector, id: String = "accesskeyEXAMPLE", date: String = date) -> Bool {
        var fields = vector.fields.map { Field($0.0, $0.1) } + [Field("Date", date)]
        fields.append(Field("Authorization", "CSSP \(id):\(vector.signature)"))
        let request = ServerRequest(method: vector.method, target: vector.target, fields: fields)
        return (try? checker.isSigned(request)) == true
    }

    @Test(arguments: vectors) func aSignatureOfTheProvidersIsRight(_ vector: Vector) {
        #expect(Self.accepts(vector))
    }

    @Test(arguments: vectors) func whatWasChangedAfterwardsIsRefused(_ vector: Vector) {
        #expect(!Self.accepts(vector, id: "another"))
        #expect(!Self.accepts(vector, date: "Mon, 09 Feb 2015 08:00:01 GMT"))
        let changes: [(inout Vector) -> Void] = [
            { $0.method = "PATCH" }, { $0.target = "/photos/other" }, { $0.fields.append(("X-Object-Meta-New", "1")) },
            { $0.fields.append(("Content-Type", "x/y")) }, { $0.signature = "AAAAAAAAAAAAAAAAAAAAAAAAAAA=" },
            { $0.signature = "no base64" },
        ]
        for change in changes {
            var changed = vector
            change(&changed)
            #expect(!Self.accepts(changed))
        }
    }

    @Test func aDateFarAwayIsRefused() throws {
        let time = ManualTime(try #require(Timestamp(httpDate: Self.date)))
        let checker = CSSPSignature(
            credentials: EmulatorCredentials(
                accessKey: "accesskeyEXAMPLE", secretKey: "secretkeyEXAMPLE0123456789abcdef"), time: time)
        let request = ServerRequest(
            method: "GET", target: "/photos",
            fields: [
                Field("Date", Self.date), Field("Authorization", "CSSP accesskeyEXAMPLE:qyI5HNoc3Z+XM4l1qewo9VbLdKU="),
            ])
        time.advance(by: .seconds(899))
        #expect(try checker.isSigned(request))
        time.advance(by: .seconds(2))
        #expect(throws: CSSPError.self) { try checker.isSigned(request) }
    }

    /// CSSP API, authentication: iOS signs Content-MD5, or nothing for an ETag, and loses a slash; C++ signs the path as sent.
    @Test(arguments: [
        ("PUT\n\(md5)\n\n\(date)\n/photos/a", "/photos/a", "Content-MD5"),
        ("PUT\n\n\n\(date)\n/photos/a", "/photos/a", "ETag"), ("PUT\n\n\n\(date)\n/photos/a", "/photos/a/", "X"),
        ("PUT\n\n\n\(date)\n/photos/%E7%8C%AB", "/photos/%E7%8C%AB", "X"),
    ])
    func eachSDKsReadingIsUnderstood(text: String, target: String, header: String) {
        let key = Array("secretkeyEXAMPLE0123456789abcdef".utf8)
        let signature = Base64.encode(HMAC.sha1(text, key: key))
        #expect(Self.accepts(Vector("PUT", target, [(header, Self.md5)], signature: signature)))
    }

    @Test func aRequestWithoutASignatureIsNoneOfTheseThings() throws {
        #expect(try !Self.checker.isSigned(ServerRequest(method: "GET", target: "/photos", fields: [])))
        let other = ServerRequest(method: "GET", target: "/photos", fields: [Field("Authorization", "AWS a:b")])
        #expect(throws: CSSPError.self) { try Self.checker.isSigned(other) }
    }
}
