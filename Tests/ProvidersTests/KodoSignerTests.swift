import Basics
import Digests
import HTTP
import ObjectStorage
import TestSupport
import Testing

@testable import Providers

/// The vectors of Kodo API, security: made by the official SDK with these keys at this moment.
@Suite struct KodoSignerTests {
    private static let accessKey = "AKEXAMPLE0123456789abcdefghijklmnopqrstu"
    private static let signer = KodoSigner(
        Credentials(accessKeyID: accessKey, secretKey: Secret("SKEXAMPLE0123456789abcdefghijklmnopqrstu")))

    struct Vector: CustomTestStringConvertible, Sendable {
        let testDescription: String
        var method = HTTPMethod.post
        let target: String
        var host = "rs.qiniuapi.com"
        var headers: [(String, String)] = []
        var type = KodoSigner.form
        var body = ""
        let signature: String
    }

    private static let date = [("X-Qiniu-Date", "20231114T221320Z")]

    static let vectors = [
        Vector(
            testDescription: "stat without a date", target: "/stat/bXlidWNrZXQ6ZGlyL2EudHh0",
            signature: "uwKwW2zhS9BZntbgQls82y0c6so="),
        Vector(
            testDescription: "stat with a date", target: "/stat/bXlidWNrZXQ6ZGlyL2EudHh0", host: "127.0.0.1:18120",
            headers: date, signature: "rtmyhhxbabhXor3OnZ5gzqsXRzI="),
        Vector(
            testDescription: "list", method: .get,
            target: "/list?bucket=mybucket&marker=M&limit=10&prefix=dir%2F&delimiter=%2F", host: "127.0.0.1:18120",
            headers: date, signature: "dstjSRtQITluWsXdOwn4tPVTkzk="),
        Vector(
            testDescription: "batch", target: "/batch", headers: date, body: "op=%2Fstat%2FbXlidWNrZXQ6ZGlyL2EudHh0",
            signature: "8m3SM98fkfUj8cIf2Vs7tgVQkjg="),
        Vector(
            testDescription: "JSON and headers", target: "/x?y=1", host: "uc.qiniuapi.com",
            headers: [("x-qiniu-bbb", "bbb"), ("X-Qiniu-Aaa", "aaa")], type: "application/json",
            body: #"{"name":"test"}"#, signature: "SiIMeD1Bh95upfr5KU1IPnkHp90="),
    ]

    @Test(arguments: vectors) func managementTokensMatchTheSDKs(_ vector: Vector) {
        let headers = HTTPHeaders(vector.headers + [("Content-Type", vector.type), ("Host", vector.host)])
        let token = Self.signer.managementToken(
            vector.method, host: vector.host, target: vector.target, headers: headers, body: Array(vector.body.utf8))
        #expect(token == "Qiniu \(Self.accessKey):\(vector.signature)")
    }

    @Test func signaturesMatchTheSDKs() {
        #expect(Self.signer.sign(Array("abc".utf8)) == "\(Self.accessKey):lC9Hy1JjV3tjn7_zohANVzDtdag=")
        let short = KodoSigner(Credentials(accessKeyID: "ak", secretKey: Secret("sk")))
        #expect(short.sign(Array("hello".utf8)) == "ak:NDN8cM0rwosxhHJ6QAcI7ialr0g=")
    }

    @Test(arguments: [
        (
            #"{"scope":"mybucket:dir/a.txt","deadline":1700003600,"insertOnly":1}"#,
            "txRGgTbCYtIPihYitZG8OpoJIPU=:eyJzY29wZSI6Im15YnVja2V0OmRpci9hLnR4dCIsImRlYWRsaW5lIjoxNzAwMDAzNjAwLCJpbnNlcnRPbmx5Ijox"
                + "fQ=="
        ),
        (
            #"{"scope":"mybucket","deadline":1700003600}"#,
            "5UClW71bgu1lqxP1znljAH60VV4=:eyJzY29wZSI6Im15YnVja2V0IiwiZGVhZGxpbmUiOjE3MDAwMDM2MDB9"
        ),
    ]) func uploadTokensMatchTheSDKs(policy: String, token: String) {
        #expect(Self.signer.uploadToken(policy: Array(policy.utf8)) == "\(Self.accessKey):\(token)")
    }

    @Test(
        arguments: [
            (
                "http://dl.example.com/dir/a.txt", 1_700_003_600,
                "http://dl.example.com/dir/a.txt?e=1700003600&token=AK:TWmccV1FUF3-v84KVaBSQ5mka5E="
            ),
            (
                "http://dl.example.com/%E7%8C%AB.txt?attname=x", 1_700_000_060,
                "http://dl.example.com/%E7%8C%AB.txt?attname=x&e=1700000060&token=AK:n6rWUBVdAYH5nwMblCoSnF8ZjPQ="
            ),
        ] as [(String, Int64, String)]) func downloadsMatchTheSDKs(url: String, deadline: Int64, signed: String)
    {
        let signed = signed.replacing("AK:", with: "\(Self.accessKey):")
        #expect(Self.signer.download(url, until: Timestamp(seconds: deadline)) == signed)
    }

    @Test func entriesMatchTheSDKs() {
        #expect(KodoEntry.encode("mybucket", ObjectKey("dir/a.txt")) == "bXlidWNrZXQ6ZGlyL2EudHh0")
        #expect(KodoEntry.encode("mybucket", ObjectKey("猫/a b.txt")) == "bXlidWNrZXQ654yrL2EgYi50eHQ=")
    }

    @Test func markersHoldTheLastName() {
        #expect(KodoMarker.after("dir/a.txt") == "eyJjIjowLCJrIjoiZGlyL2EudHh0In0=")
        for name in ["a\"b", "ü/中", "back\\slash", "a/"] {
            #expect(KodoMarker.after(ByteString(name)).flatMap { KodoMarker($0) }?.k == name)
        }
        #expect(KodoMarker.after(ByteString([0xff])) == nil)
        #expect(KodoMarker("nonsense") == nil)
    }
}
