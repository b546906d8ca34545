import Basics
import Digests
import HTTP
import ObjectStorage
import Providers
import TestSupport
import Testing

/// The vectors of the CSSP API, authentication: output of the provider's own SDK, and of its rule.
@Suite struct CSSPSignerTests {
    struct Vector: CustomTestStringConvertible, Sendable {
        var method: HTTPMethod
        var headers: [(String, String)] = []
        var resource: String
        var signature: String
        var testDescription: String { "\(method.rawValue) \(resource) \(signature)" }

        init(_ method: HTTPMethod, _ resource: String, _ headers: [(String, String)] = [], _ signature: String) {
            (self.method, self.headers, self.resource, self.signature) = (method, headers, resource, signature)
        }
    }

    static let md5 = "5d41402abc4b2a76b9719d911017c592"
    static let vectors: [Vector] = [
        Vector(.get, "/photos", "qyI5HNoc3Z+XM4l1qewo9VbLdKU="),
        Vector(.head, "/photos/animals/cat.txt", "oO7nyCx3yiH3hSgnsi7EGeoMfOM="),
        Vector(
            .put, "/photos/animals/cat.txt",
            [
                ("ETag", md5), ("Content-Type", "text/plain"), ("X-Object-Meta-User-Data-2", "v2"),
                ("X-Object-Meta-User-Data-1", "v1"), ("X-Detect-Content-Type", "true"),
            ], "hxsJ8N7MwMZ7FE+HciI14SFbjTc="),
        Vector(.put, "/photos/猫/a b+c.txt", "h1xKkVwwfj5aJyGQJ9TV/M7RmzU="),
        Vector(
            .put, "/photos/big", [("X-Object-Manifest", "photos/big/id/")], "Lv1oSlIaZDjZ9/Nc8mJGgGbIZK4="),
        Vector(.delete, "/photos/animals/cat.txt", "JrzAsGvw+waSYy1LRQuDaSHdlU0="),
        Vector(.head, "/photos", "wsHrVmIIRAoUAdM/RRHm1dyHg4E="),
        Vector(.post, "/photos", [("X-Container-Meta-A", "b")], "qeKDTd+Ks7p05w7u0Ouv9oi3GZk="),
        Vector(.put, "/photos/big/UID/00000001", [("ETag", md5)], "sVG8sf6GKwQ3EYo1DfUORIOrX18="),
        Vector(
            .post, "/photos/animals/cat.txt", [("X-Object-Meta-Mtime", "1423468800.0")],
            "x/JoE0/MYZPjcU5zQzd9ad9QsHQ="),
        Vector(
            .post, "/photos/animals/cat.txt",
            [("X-Object-Meta-Mtime", "1423468800.0"), ("Content-Type", "application/x-www-form-urlencoded")],
            "f3vsZ/owYbaD7yyXmfff/Xe9TTA="),
    ]

    static let secret = "secretkeyEXAMPLE0123456789abcdef"
    static let date = "Mon, 09 Feb 2015 08:00:00 GMT"

    private static func sign(
        _ vector: Vector, secret: String = secret, _ change: (inout HTTPHeaders) -> Void = { _ in }
    ) -> String? {
        var headers = HTTPHeaders(vector.headers + [("Date", date)])
        change(&headers)
        let credentials = Credentials(accessKeyID: "accesskeyEXAMPLE", secretKey: Secret(secret))
        CSSPSigner().sign(&headers, vector.method, resource: ByteString(vector.resource), with: credentials)
        return headers["Authorization"]
    }

    @Test(arguments: vectors) func signsAsTheProviderDoes(_ vector: Vector) {
        #expect(Self.sign(vector) == "CSSP accesskeyEXAMPLE:\(vector.signature)")
    }

    @Test(arguments: vectors) func everyLineCounts(_ vector: Vector) {
        let original = Self.sign(vector)
        var other = vector
        other.resource += "/"
        #expect(Self.sign(other) != original)
        other = vector
        other.method = vector.method == .get ? .head : .get
        #expect(Self.sign(other) != original)
        #expect(Self.sign(vector, secret: "other") != original)
        #expect(Self.sign(vector) { $0["Date"] = "Mon, 09 Feb 2015 08:00:01 GMT" } != original)
        #expect(Self.sign(vector) { $0["ETag"] = "00000000000000000000000000000000" } != original)
        #expect(Self.sign(vector) { $0["Content-Type"] = "a/b" } != original)
        #expect(Self.sign(vector) { $0["X-Object-Meta-New"] = "1" } != original)
        // What no line holds does not.
        #expect(Self.sign(vector) { $0["Range"] = "bytes=0-1" } == original)
    }
}

extension CSSPSignerTests.Vector {
    fileprivate init(_ method: HTTPMethod, _ resource: String, _ signature: String) {
        self.init(method, resource, [], signature)
    }
}
