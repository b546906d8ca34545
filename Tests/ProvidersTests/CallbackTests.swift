import Basics
import Digests
import Foundation
import HTTP
import ObjectStorage
import Providers
import TestSupport
import Testing

/// Requests that a store sends to an application's server for each upload (OSS API, "Callback"; Kodo API, upload policy).
@Suite(.timeLimit(.minutes(5))) struct CallbackTests {
    private static let content = Array("hello".utf8)
    private static let etag = ("ETag", "\"\(Hex.encode(MD5.of(content), uppercase: true))\"")
    private static let failure =
        "<Error><Code>CallbackFailed</Code><Message>Error status : 502.</Message><RequestId>1</RequestId></Error>"
    private static let callback = UploadPolicy.Callback(
        url: "https://app.example/stored", body: "key=$(key)&user=$(x:user)", type: "application/json",
        variables: ["x:user": "jane"])

    private static func decoded(_ text: String?) throws -> [String: String] {
        let bytes = try #require(text.flatMap { Base64.decode($0) })
        return try JSONDecoder().decode([String: String].self, from: Data(bytes))
    }

    // MARK: OSS

    private func oss(_ answer: @escaping @Sendable (LocalRequest) -> LocalAnswer) throws -> FamilyFixture {
        try FamilyFixture.oss {
            $0.callback = Self.callback
        } answer: { _, request in
            answer(request)
        }
    }

    @Test func ossGetsTheCallbackWithTheRequestThatMakesAFile() async throws {
        let fixture = try oss { request in
            if request.query == "uploads=" {
                return LocalAnswer(
                    200,
                    body: "<InitiateMultipartUploadResult><UploadId>U</UploadId></InitiateMultipartUploadResult>")
            }
            return LocalAnswer(200, [Self.etag], body: request.method == "POST" ? "{\"a\":\"b\"}" : "")
        }
        let put = try await fixture.store.put(PutRequest("k"), body: MemorySource(Self.content))
        let upload = try await fixture.store.createUpload(PutRequest("k"))
        let part = try await fixture.store.uploadPart(
            PartRequest("k", upload, number: 1), body: MemorySource(Self.content))
        let completed = try await fixture.store.completeUpload("k", upload, parts: [part], condition: nil)
        _ = try? await fixture.store.put(PutRequest("directory/"), body: MemorySource([]))
        #expect(put.callback?.isFailure == false)
        #expect(completed.callback == CallbackResult(isFailure: false, "{\"a\":\"b\"}"))
        #expect(completed.etag == put.etag)
        let requests = fixture.requests
        #expect(requests.map { $0["x-oss-callback"] != nil } == [true, false, false, true, false])
        for request in [requests[0], requests[3]] {
            #expect(
                try Self.decoded(request["x-oss-callback"]) == [
                    "callbackUrl": "https://app.example/stored", "callbackBody": "key=$(key)&user=$(x:user)",
                    "callbackBodyType": "application/json",
                ])
            #expect(try Self.decoded(request["x-oss-callback-var"]) == ["x:user": "jane"])
        }
    }

    @Test(.rule("close.callback"), arguments: [true, false]) func aFailedCallbackOfOSSIsAStoredFile(
        namesTheVersion: Bool
    ) async throws {
        let fixture = try oss { request in
            if request.method == "HEAD" {
                return LocalAnswer(
                    200, [Self.etag, ("Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT")], bytes: Self.content)
            }
            return LocalAnswer(
                203, [("x-oss-request-id", "R")] + (namesTheVersion ? [Self.etag] : []), body: Self.failure)
        }
        let answer = try await fixture.store.put(PutRequest("k"), body: MemorySource(Self.content))
        #expect(answer.etag == ETag(Self.etag.1))
        #expect(answer.callback == CallbackResult(isFailure: true, "CallbackFailed: Error status : 502. (request R)"))
        #expect(fixture.requests.map(\.method) == (namesTheVersion ? ["PUT"] : ["PUT", "HEAD"]))
    }

    /// Without a callback the same answer is an error.
    @Test func thisAnswerIsForCallbacksOnly() async throws {
        let fixture = try FamilyFixture.oss { _, _ in LocalAnswer(203, [Self.etag], body: Self.failure) }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.put(PutRequest("k"), body: MemorySource(Self.content))
        }
        #expect(error?.code == "CallbackFailed")
    }

    // MARK: Kodo

    private static let hash = "Fqr0xh3cxeii2r7eDztILNmuqUNN"

    private func kodo(
        _ answer: @escaping @Sendable (LocalRequest) -> LocalAnswer
    ) throws -> KodoFixture {
        try KodoFixture { settings, _ in
            settings.uploadPolicy.callback = Self.callback
            settings.uploadPolicy.typeLimit = "image/*"
        } answer: { _, request in
            if request.path == "/v4/query" { return nil }
            if request.path.hasPrefix("/stat/") {
                return .kodo("{\"hash\":\"\(Self.hash)\",\"fsize\":5,\"putTime\":17000000000000000}")
            }
            return answer(request)
        }
    }

    /// The policy in the token of a request, and the request's body.
    private func policy(of request: LocalRequest) throws -> (policy: [String: Any], body: String) {
        let body = String(decoding: request.body, as: UTF8.self)
        let inForm = body.components(separatedBy: "name=\"token\"\r\n\r\n").dropFirst().first?.prefix { $0 != "\r\n" }
        let token = try #require(inForm.map(String.init) ?? request["authorization"])
        let bytes = try #require(token.split(separator: ":").last.flatMap { Base64.decode($0, alphabet: .urlSafe) })
        return (try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any]), body)
    }

    @Test func kodoGetsTheCallbackInTheTokenAndTheVariablesWithTheFile() async throws {
        let fixture = try kodo { request in
            request.path.hasSuffix("/uploads") ? .kodo("{\"uploadId\":\"U\"}") : .kodo("{\"answered\":true}")
        }
        let put = try await fixture.store.put(PutRequest("k"), body: MemorySource(Self.content))
        let form = try policy(of: try #require(fixture.requests.first { $0.path == "/" }))
        #expect(form.body.contains("name=\"x:user\"\r\n\r\njane\r\n"))
        let upload = try await fixture.store.createUpload(PutRequest("k"))
        let part = UploadedPart(number: 1, etag: ETag(Self.hash), size: 5)
        let completed = try await fixture.store.completeUpload("k", upload, parts: [part], condition: nil)
        let completion = try policy(of: try #require(fixture.requests.last { $0.path.hasSuffix("/U") }))
        #expect(completion.body.contains("\"customVars\":{\"x:user\":\"jane\"}"))
        for (policy, answer) in [(form.policy, put), (completion.policy, completed)] {
            #expect(policy["callbackUrl"] as? String == "https://app.example/stored")
            #expect(policy["callbackBody"] as? String == "key=$(key)&user=$(x:user)")
            #expect(policy["callbackBodyType"] as? String == "application/json")
            #expect(policy["mimeLimit"] as? String == "image/*")
            #expect(answer.etag == ETag(Self.hash))
            #expect(answer.callback == CallbackResult(isFailure: false, "{\"answered\":true}"))
        }
    }

    @Test(.rule("close.callback")) func aFailedCallbackOfKodoIsAStoredFile() async throws {
        let fixture = try kodo { _ in .refusal(579, "callback failed") }
        let answer = try await fixture.store.put(PutRequest("k"), body: MemorySource(Self.content))
        #expect(answer.etag == ETag(Self.hash))
        #expect(answer.callback == CallbackResult(isFailure: true, "callback failed (request REQUEST)"))
        #expect(fixture.paths.filter { $0 == "/" }.count == 1, "one upload")
    }

    /// A second upload would send a second request to the application's server.
    @Test func aFailedCallbackIsNoReasonToUploadAgainWhileNothingCanBeRead() async throws {
        let fixture = try KodoFixture { settings, _ in
            settings.uploadPolicy.callback = Self.callback
        } answer: { _, request in
            if request.path == "/v4/query" { return nil }
            return request.path == "/" ? .refusal(579, "callback failed") : .refusal(503, "busy")
        }
        let answer = try await fixture.store.put(PutRequest("k"), body: MemorySource(Self.content))
        #expect(answer.etag == ETag(Self.hash) && answer.callback?.isFailure == true)
    }
}
