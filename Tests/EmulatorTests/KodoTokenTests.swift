import Basics
import Digests
import TestSupport
import Testing

@testable import Emulator

/// The vectors of Kodo API, security: made by the official SDK with these keys at this moment.
@Suite struct KodoTokenTests {
    private static let accessKey = "AKEXAMPLE0123456789abcdefghijklmnopqrstu"
    private static let moment = Timestamp(seconds: 1_700_000_000)
    private static let form = "application/x-www-form-urlencoded"

    private static func authenticator(at time: Timestamp = moment) -> KodoAuthenticator {
        let keys = EmulatorCredentials(accessKey: accessKey, secretKey: "SKEXAMPLE0123456789abcdefghijklmnopqrstu")
        return KodoAuthenticator(credentials: keys, time: ManualTime(time))
    }

    struct Vector: CustomTestStringConvertible, Sendable {
        let testDescription: String
        var method = "POST"
        var target: String
        var host = "rs.qiniuapi.com"
        var type = KodoTokenTests.form
        var headers: [Field] = []
        var body = ""
        var scheme = "Qiniu"
        let signature: String

        var request: ServerRequest {
            let signed = "\(scheme) \(KodoTokenTests.accessKey):\(signature)"
            return ServerRequest(
                method: method, target: target,
                fields: [Field("Host", host), Field("Content-Type", type), Field("Authorization", signed)] + headers)
        }
    }

    private static let date = Field("X-Qiniu-Date", "20231114T221320Z")

    static let management = [
        Vector(
            testDescription: "stat without a date", target: "/stat/bXlidWNrZXQ6ZGlyL2EudHh0",
            signature: "uwKwW2zhS9BZntbgQls82y0c6so="),
        Vector(
            testDescription: "stat with a date", target: "/stat/bXlidWNrZXQ6ZGlyL2EudHh0", host: "127.0.0.1:18120",
            headers: [date], signature: "rtmyhhxbabhXor3OnZ5gzqsXRzI="),
        Vector(
            testDescription: "list", method: "GET",
            target: "/list?bucket=mybucket&marker=M&limit=10&prefix=dir%2F&delimiter=%2F", host: "127.0.0.1:18120",
            headers: [date], signature: "dstjSRtQITluWsXdOwn4tPVTkzk="),
        Vector(
            testDescription: "batch", target: "/batch", headers: [date],
            body: "op=%2Fstat%2FbXlidWNrZXQ6ZGlyL2EudHh0", signature: "8m3SM98fkfUj8cIf2Vs7tgVQkjg="),
        Vector(
            testDescription: "JSON and headers", target: "/x?y=1", host: "uc.qiniuapi.com", type: "application/json",
            headers: [Field("X-Qiniu-Bbb", "bbb"), Field("x-qiniu-aaa", "aaa")], body: #"{"name":"test"}"#,
            signature: "SiIMeD1Bh95upfr5KU1IPnkHp90="),
        Vector(
            testDescription: "QBox", target: "/stat/bXlidWNrZXQ6ZGlyL2EudHh0", scheme: "QBox",
            signature: "e4kvQlaNM9oPhQ3yEauFM4sPo38="),
        Vector(
            testDescription: "QBox with a form", target: "/batch", body: "op=/stat/x", scheme: "QBox",
            signature: "bCjQoByMD2EysMe4kUnG3bdIBHU="),
    ]

    @Test(arguments: management) func aManagementTokenIsAccepted(_ vector: Vector) throws {
        try Self.authenticator().authorizeManagement(vector.request, body: Array(vector.body.utf8))
    }

    @Test(arguments: management) func anotherTargetIsRefused(_ vector: Vector) {
        var vector = vector
        vector.target += vector.target.contains("?") ? "&x" : "?x"
        #expect(throws: KodoError.badToken) {
            try Self.authenticator().authorizeManagement(vector.request, body: Array(vector.body.utf8))
        }
    }

    @Test(arguments: management.filter { !$0.body.isEmpty }) func anotherBodyIsRefused(_ vector: Vector) {
        #expect(throws: KodoError.badToken) {
            try Self.authenticator().authorizeManagement(vector.request, body: Array(vector.body.utf8) + [32])
        }
    }

    @Test(arguments: [-901, 901] as [Int64]) func aClockFarOffIsRefused(seconds: Int64) throws {
        let dated = Self.management[1].request
        let off = Self.authenticator(at: Self.moment + .seconds(seconds))
        #expect(throws: KodoError.skewed) { try off.authorizeManagement(dated, body: []) }
        try Self.authenticator(at: Self.moment + .seconds(seconds - seconds.signum()))
            .authorizeManagement(dated, body: [])
        try off.authorizeManagement(Self.management[0].request, body: [])
    }

    @Test func uploadTokensTellTheirPolicy() throws {
        let token =
            "\(Self.accessKey):txRGgTbCYtIPihYitZG8OpoJIPU=:eyJzY29wZSI6Im15YnVja2V0OmRpci9hLnR4dCIsImRlYWRsaW5lIjoxNzAwMDAz"
            + "NjAwLCJpbnNlcnRPbmx5IjoxfQ=="
        let policy = try Self.authenticator().policy(ofUploadToken: token)
        #expect(policy.scope == "mybucket:dir/a.txt" && policy.deadline == 1_700_003_600 && policy.insertOnly == 1)
        #expect(policy.bucket == "mybucket" && policy.scopedKey == "dir/a.txt")
        try Self.authenticator(at: Timestamp(seconds: 1_700_003_600)).checkDeadline(policy)
        #expect(throws: KodoError.tokenExpired) {
            try Self.authenticator(at: Timestamp(seconds: 1_700_003_601)).checkDeadline(policy)
        }
        for wrong in [token.replacing("eyJ", with: "eyK"), token.replacing("txR", with: "txS"), "a:b", "", "::"] {
            #expect(throws: KodoError.badToken) { try Self.authenticator().policy(ofUploadToken: wrong) }
        }
    }

    static let downloads = [
        "/dir/a.txt?e=1700003600&token=AK:TWmccV1FUF3-v84KVaBSQ5mka5E=",
        "/%E7%8C%AB.txt?attname=x&e=1700000060&token=AK:n6rWUBVdAYH5nwMblCoSnF8ZjPQ=",
    ]

    @Test(arguments: downloads) func aDownloadTokenIsAcceptedForItsURLAndTime(_ target: String) throws {
        func request(_ target: String, host: String = "dl.example.com") -> ServerRequest {
            let target = target.replacing("AK:", with: "\(Self.accessKey):")
            return ServerRequest(method: "GET", target: target, fields: [Field("Host", host)])
        }
        let authenticator = Self.authenticator()
        try authenticator.authorizeDownload(request(target))
        try authenticator.authorizeDownload(request(target + "&ignored=1"))
        #expect(throws: KodoError.badToken) { try authenticator.authorizeDownload(request(target, host: "other")) }
        #expect(throws: KodoError.badToken) {
            try authenticator.authorizeDownload(request(target.replacing(".txt", with: ".tx")))
        }
        #expect(throws: KodoError.downloadTokenMissing) {
            try authenticator.authorizeDownload(request(String(target.prefix { $0 != "&" })))
        }
        #expect(throws: KodoError.tokenExpired) {
            try Self.authenticator(at: Self.moment + .seconds(3601)).authorizeDownload(request(target))
        }
    }

    @Test func entriesAreSplitAtTheFirstColon() {
        #expect(KodoEntry(encoded: "bXlidWNrZXQ6ZGlyL2EudHh0") == KodoEntry(bucket: "mybucket", key: "dir/a.txt"))
        #expect(KodoEntry(encoded: "bXlidWNrZXQ654yrL2EgYi50eHQ=") == KodoEntry(bucket: "mybucket", key: "猫/a b.txt"))
        #expect(KodoEntry(plain: Array("b:a:c".utf8)) == KodoEntry(bucket: "b", key: "a:c"))
        #expect(KodoEntry(encoded: "bXl!") == nil)
    }
}
