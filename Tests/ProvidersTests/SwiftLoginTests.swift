import Basics
import Foundation
import HTTP
import ObjectStorage
import Providers
import Synchronization
import TestSupport
import Testing

/// Tokens: how they are got, from whom, and when anew.
@Suite(.timeLimit(.minutes(5))) struct SwiftLoginTests {
    /// A stand-in for the identity service and the store behind it: each login ends the token before.
    private final class Cloud: Sendable {
        struct State {
            var logins: [LocalRequest] = []
            var token = ""
            var life = Duration.seconds(3600)
        }

        final class Record: Sendable {
            let state = Mutex(State())
            let port = Mutex(0)
        }

        let record = Record()
        let time = ManualTime()
        private let server: LocalServer

        var port: Int { server.port }
        var logins: Int { record.state.withLock { $0.logins.count } }

        init() {
            server = LocalServer { [record, time] request in
                guard request.path.hasSuffix("/auth/tokens") || request.path == "/auth/v1.0" else {
                    return Self.serve(request, record)
                }
                let (token, life) = record.state.withLock { state in
                    state.logins.append(request)
                    state.token = "token-\(state.logins.count)"
                    return (state.token, state.life)
                }
                let port = record.port.withLock { $0 }
                return request.path == "/auth/v1.0"
                    ? Self.tempAuth(request, token, life, port)
                    : Self.keystone(request, token, time.now() + life, port)
            }
            record.port.withLock { [server] in $0 = server.port }
        }

        private static func serve(_ request: LocalRequest, _ record: Record) -> LocalAnswer {
            let isGood = record.state.withLock { request["x-auth-token"] == $0.token }
            return isGood
                ? LocalAnswer(200, LocalAnswer.object("hello"), body: "hello")
                : LocalAnswer(401, [("Www-Authenticate", "Swift realm=\"unknown\"")])
        }

        private static func tempAuth(
            _ request: LocalRequest, _ token: String, _ life: Duration, _ port: Int
        ) -> LocalAnswer {
            guard request["x-auth-user"] == "test:tester", request["x-auth-key"] == "testing" else {
                return LocalAnswer(401)
            }
            return LocalAnswer(
                200,
                [
                    ("X-Storage-Url", "http://127.0.0.1:\(port)/v1/AUTH_test"), ("X-Auth-Token", token),
                    ("X-Auth-Token-Expires", "\(life.components.seconds)"),
                ])
        }

        private static func keystone(
            _ request: LocalRequest, _ token: String, _ expires: Timestamp, _ port: Int
        ) -> LocalAnswer {
            guard String(decoding: request.body, as: UTF8.self).contains("\"s3cret\"") else {
                return LocalAnswer(401, body: "{\"error\":{\"code\":401,\"title\":\"Unauthorized\"}}")
            }
            let endpoints = ["One", "Two"].map { region in
                """
                {"interface":"public","region":"\(region)","region_id":"\(region)",
                 "url":"http://127.0.0.1:\(port)/swift/\(region)/v1/AUTH_p"},
                {"interface":"internal","region":"\(region)","region_id":"\(region)",
                 "url":"http://127.0.0.1:\(port)/inside/v1/AUTH_p"}
                """
            }
            let body = """
                {"token":{"expires_at":"\(expires.iso8601(fraction: 6))","catalog":[
                 {"type":"identity","name":"keystone","endpoints":[]},
                 {"type":"object-store","name":"swift","endpoints":[\(endpoints.joined(separator: ","))]}]}}
                """
            return LocalAnswer(201, [("X-Subject-Token", token)], body: body)
        }

        func store(_ login: SwiftCredentials.Login) -> SwiftStore {
            let engine = SwiftFixture.engine()
            let found = SwiftCredentials.Found(login: login, origin: "test")
            let authenticator = TokenAuthenticator(time: time) { [time] () async throws(ObjectStoreError) in
                try await found.token(engine, time: time)
            }
            return SwiftStore(
                SwiftStore.Settings(container: "c"), authenticator: authenticator, engine: engine, time: time)
        }

        var password: KeystoneLogin {
            let user = KeystoneLogin.Named(name: "demo", domainName: "Default")
            let project = KeystoneLogin.Named(name: "demo", domainID: "default")
            return KeystoneLogin(
                url: "http://127.0.0.1:\(port)/identity/",
                method: .password(user: user, password: Secret("s3cret"), project: project))
        }

        var tempAuth: TempAuthLogin {
            TempAuthLogin(url: "http://127.0.0.1:\(port)/auth/v1.0", user: "test:tester", key: Secret("testing"))
        }
    }

    private static func object(_ text: [UInt8]) throws -> NSDictionary {
        try #require(try JSONSerialization.jsonObject(with: Data(text)) as? NSDictionary)
    }

    /// The document in the OpenStack Identity API 3.
    @Test func aPasswordIsSentForAProject() async throws {
        let cloud = Cloud()
        _ = try await cloud.store(.keystone(cloud.password)).head("k", condition: nil)
        let login = try #require(cloud.record.state.withLock { $0.logins.first })
        #expect(login.target == "/identity/v3/auth/tokens")
        let expected = """
            {"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"demo","domain":{"name":"Default"},
             "password":"s3cret"}}},"scope":{"project":{"name":"demo","domain":{"id":"default"}}}}}
            """
        #expect(try Self.object(login.body) == Self.object(Array(expected.utf8)))
    }

    @Test func anApplicationCredentialIsSentWithoutAScope() async throws {
        let cloud = Cloud()
        var login = cloud.password
        login.method = .applicationCredential(id: "abc", secret: Secret("s3cret"))
        _ = try await cloud.store(.keystone(login)).head("k", condition: nil)
        let expected = """
            {"auth":{"identity":{"methods":["application_credential"],
             "application_credential":{"id":"abc","secret":"s3cret"}}}}
            """
        let sent = try #require(cloud.record.state.withLock { $0.logins.first })
        #expect(try Self.object(sent.body) == Self.object(Array(expected.utf8)))
    }

    @Test func theCatalogTellsWhereTheStoreIs() async throws {
        let cloud = Cloud()
        var login = cloud.password
        let engine = SwiftFixture.engine()
        let base = "http://127.0.0.1:\(cloud.port)"
        #expect(try await login.token(engine).storageURL == base + "/swift/One/v1/AUTH_p")
        login.region = "Two"
        #expect(try await login.token(engine).storageURL == base + "/swift/Two/v1/AUTH_p")
        login.interface = "internal"
        #expect(try await login.token(engine).storageURL == base + "/inside/v1/AUTH_p")
        login.region = "Three"
        let error = await #expect(throws: ObjectStoreError.self) { try await login.token(engine) }
        #expect(error?.kind == .wrongRegion)
        #expect(error?.message.contains("One, Two") == true)
    }

    @Test(arguments: [true, false]) func aTokenIsUsedUntilItsEndIsNear(isKeystone: Bool) async throws {
        let cloud = Cloud()
        let store = cloud.store(isKeystone ? .keystone(cloud.password) : .tempAuth(cloud.tempAuth))
        for _ in 0..<3 { _ = try await store.head("k", condition: nil) }
        #expect(cloud.logins == 1)
        cloud.time.advance(by: .seconds(3400))
        _ = try await store.head("k", condition: nil)
        #expect(cloud.logins == 1)
        cloud.time.advance(by: .seconds(100))
        for _ in 0..<3 { _ = try await store.head("k", condition: nil) }
        #expect(cloud.logins == 2)
    }

    @Test(arguments: [true, false]) func aRefusedTokenIsReplacedOnce(isKeystone: Bool) async throws {
        let cloud = Cloud()
        let store = cloud.store(isKeystone ? .keystone(cloud.password) : .tempAuth(cloud.tempAuth))
        _ = try await store.head("k", condition: nil)
        cloud.record.state.withLock { $0.token = "revoked" }
        let sink = CollectingSink()
        _ = try await store.get(GetRequest("k"), into: sink)
        #expect(sink.bytes == Array("hello".utf8))
        #expect(cloud.logins == 2)
    }

    @Test func requestsThatNeedATokenTogetherLogInOnce() async throws {
        let cloud = Cloud()
        let store = cloud.store(.keystone(cloud.password))
        try await withThrowingTaskGroup { group in
            for _ in 0..<8 { group.addTask { _ = try await store.head("k", condition: nil) } }
            try await group.waitForAll()
        }
        #expect(cloud.logins == 1)
    }

    @Test func aWrongPasswordIsRejectedWithThePlace() async throws {
        let cloud = Cloud()
        var keystone = cloud.password
        keystone.method = .applicationCredential(id: "abc", secret: Secret("wrong"))
        var tempAuth = cloud.tempAuth
        tempAuth.key = Secret("wrong")
        for login in [SwiftCredentials.Login.keystone(keystone), .tempAuth(tempAuth)] {
            let store = cloud.store(login)
            let error = await #expect(throws: ObjectStoreError.self) { try await store.head("k", condition: nil) }
            #expect(error?.kind == .credentialsRejected)
            #expect(error?.message.contains("the login at http://127.0.0.1:\(cloud.port)") == true)
        }
    }

    @Test func aReadyTokenIsNotRenewed() async throws {
        let cloud = Cloud()
        let url = "http://127.0.0.1:\(cloud.port)/v1/AUTH_test"
        let store = cloud.store(.token(SwiftToken(storageURL: url, token: Secret("old"), expires: nil)))
        let error = await #expect(throws: ObjectStoreError.self) { try await store.head("k", condition: nil) }
        #expect(error?.kind == .credentialsRejected)
        #expect(cloud.logins == 0)
    }

    // MARK: CSSP

    private static func cssp(
        _ answer: @escaping @Sendable (Int, LocalRequest) -> LocalAnswer
    ) throws -> SwiftFixture {
        let credentials = Credentials(accessKeyID: "ID", secretKey: Secret("SECRET"))
        return try SwiftFixture(
            profile: .cssp,
            authenticator: { address, time in
                CSSPAuthenticator(address, credentials: FixedCredentials(credentials), time: time)
            }, answer: answer)
    }

    @Test func aWrongClockIsCorrectedOnceAndRemembered() async throws {
        let fixture = try Self.cssp { _, request in
            request["date"] == "Wed, 15 Nov 2023 10:00:00 GMT"
                ? LocalAnswer(200, LocalAnswer.object(""), body: "")
                : LocalAnswer(401, [("Date", "Wed, 15 Nov 2023 10:00:00 GMT")])
        }
        for _ in 0..<2 { _ = try await fixture.store.head("k", condition: nil) }
        #expect(fixture.requests.count == 3)
        #expect(fixture.requests[1]["authorization"]?.hasPrefix("CSSP ID:") == true)
    }

    @Test func aRefusalWithTheRightClockIsFinal() async throws {
        let fixture = try Self.cssp { _, _ in LocalAnswer(401, [("Date", "Tue, 14 Nov 2023 22:13:20 GMT")]) }
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.head("k", condition: nil)
        }
        #expect(error?.kind == .credentialsRejected)
        #expect(fixture.requests.count == 1)
    }

    @Test func creationLooksFirst() async throws {
        let fixture = try Self.cssp { _, request in
            request.method == "HEAD"
                ? LocalAnswer(request.path.hasSuffix("new") ? 404 : 200, LocalAnswer.object("")) : .stored(request)
        }
        _ = try await fixture.store.put(PutRequest("new", condition: .absent), body: MemorySource([]))
        let error = await fixture.error { store throws(ObjectStoreError) in
            _ = try await store.put(PutRequest("old", condition: .absent), body: MemorySource([]))
        }
        #expect(error?.kind == .preconditionFailed)
        #expect(fixture.requests.map(\.method) == ["HEAD", "PUT", "HEAD"])
    }
}
