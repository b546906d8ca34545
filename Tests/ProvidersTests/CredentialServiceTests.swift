import Basics
import HTTP
import ObjectStorage
import Providers
import Synchronization
import TestSupport
import Testing

/// Credentials of machines, containers and token services, from a stand-in of each.
@Suite(.timeLimit(.minutes(5))) struct CredentialServiceTests {
    /// A stand-in and what it was asked.
    private final class StandIn: Sendable {
        let server: LocalServer
        let engine: HTTPEngine
        private let log: Log

        private final class Log: Sendable {
            let requests = Mutex<[LocalRequest]>([])
        }

        var url: String { "http://127.0.0.1:\(server.port)" }
        var requests: [LocalRequest] { log.requests.withLock { $0 } }

        init(answer: @escaping @Sendable (LocalRequest) -> LocalAnswer) {
            let log = Log()
            self.log = log
            server = LocalServer { request in
                log.requests.withLock { $0.append(request) }
                return answer(request)
            }
            // A proxy that answers nobody: services of this machine are asked past it.
            var options = HTTPOptions()
            options.proxy = "http://127.0.0.1:1"
            engine = HTTPEngine(options)
        }
    }

    private static func json(_ pairs: [(String, String)]) -> LocalAnswer {
        LocalAnswer(200, body: "{\(pairs.map { "\"\($0.0)\": \"\($0.1)\"" }.joined(separator: ", "))}")
    }

    private static let amazon = json([
        ("Code", "Success"), ("AccessKeyId", "A"), ("SecretAccessKey", "s"), ("Token", "t"),
        ("Expiration", "2023-11-15T04:13:20Z"),
    ])
    private static let alibaba = json([
        ("Code", "Success"), ("AccessKeyId", "A"), ("AccessKeySecret", "s"), ("SecurityToken", "t"),
        ("Expiration", "2023-11-15T04:13:20Z"),
    ])
    private static let expected = Credentials(
        accessKeyID: "A", secretKey: Secret("s"), sessionToken: Secret("t"),
        expires: Timestamp(seconds: 1_700_000_000 + 6 * 3600))

    // MARK: AWS

    private func amazon(
        _ environment: [String: String], _ standIn: StandIn, files: [String: String] = [:]
    ) async throws -> Credentials? {
        let sources = S3Credentials(environment: environment, profile: nil, bucket: "b") { files[$0] }
        return try await sources.provider(engine: standIn.engine, time: ManualTime()).current()
    }

    @Test func theMachineIsAskedWithAToken() async throws {
        let standIn = StandIn { request in
            if request.target == "/latest/api/token" {
                return LocalAnswer(request.method == "PUT" ? 200 : 405, body: "TOKEN")
            }
            guard request["X-aws-ec2-metadata-token"] == "TOKEN" else { return LocalAnswer(401) }
            return request.target.hasSuffix("/my-role") ? Self.amazon : LocalAnswer(200, body: "my-role\n")
        }
        let found = try await amazon(["AWS_EC2_METADATA_SERVICE_ENDPOINT": standIn.url + "/"], standIn)
        #expect(found == Self.expected)
        #expect(standIn.requests.first?["X-aws-ec2-metadata-token-ttl-seconds"] == "21600")
        #expect(standIn.requests.last?.target == "/latest/meta-data/iam/security-credentials/my-role")
    }

    @Test func aMachineWithoutARoleIsAnonymous() async throws {
        let standIn = StandIn { $0.method == "PUT" ? LocalAnswer(200, body: "T") : LocalAnswer(404) }
        #expect(try await amazon(["AWS_EC2_METADATA_SERVICE_ENDPOINT": standIn.url], standIn) == nil)
        let disabled = ["AWS_EC2_METADATA_SERVICE_ENDPOINT": standIn.url, "AWS_EC2_METADATA_DISABLED": "true"]
        let before = standIn.requests.count
        #expect(try await amazon(disabled, standIn) == nil)
        #expect(standIn.requests.count == before)
    }

    @Test func theContainersHostIsAskedWithItsToken() async throws {
        let standIn = StandIn { $0["Authorization"] == "secret" ? Self.amazon : LocalAnswer(403) }
        let environment = [
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": standIn.url + "/v1/credentials?id=1",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/token",
        ]
        #expect(try await amazon(environment, standIn, files: ["/token": "secret\n"]) == Self.expected)
        #expect(standIn.requests.map(\.target) == ["/v1/credentials?id=1"])
    }

    @Test func aContainersTokenIsNotToldToStrangers() async throws {
        let standIn = StandIn { _ in Self.amazon }
        let environment = [
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://elsewhere.example/", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "t",
        ]
        await #expect(throws: ObjectStoreError.self) { try await amazon(environment, standIn) }
    }

    @Test func aTokenFileIsExchangedForARole() async throws {
        let document = """
            <AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">\
            <AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>A</AccessKeyId><SecretAccessKey>s</SecretAccessKey>\
            <SessionToken>t</SessionToken><Expiration>2023-11-15T04:13:20Z</Expiration></Credentials>\
            </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>
            """
        let standIn = StandIn { _ in LocalAnswer(200, body: document) }
        let environment = [
            "AWS_WEB_IDENTITY_TOKEN_FILE": "/token", "AWS_ROLE_ARN": "arn:aws:iam::1:role/r",
            "AWS_ENDPOINT_URL_STS": standIn.url, "no_proxy": "*",
        ]
        // The token service is on the network, so the proxy counts: this engine has none.
        var options = HTTPOptions()
        options.proxy = ""
        let sources = S3Credentials(environment: environment, profile: nil, bucket: "b") { ["/token": "jwt="][$0] }
        let provider = sources.provider(engine: HTTPEngine(options), time: ManualTime())
        #expect(try await provider.current() == Self.expected)
        let form = try #require(standIn.requests.first.map { String(decoding: $0.body, as: UTF8.self) })
        #expect(form.contains("Action=AssumeRoleWithWebIdentity&Version=2011-06-15"))
        #expect(form.contains("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr"))
        #expect(form.contains("WebIdentityToken=jwt%3D"))
    }

    /// The machine's role, or s3fs's password, would be somebody else's credentials.
    @Test(arguments: [
        "role_arn = arn:aws:iam::1:role/r\nsource_profile = base", "credential_process = /bin/echo", "sso_session = my",
        "role_arn = arn:aws:iam::1:role/r", "login_session = x", "aws_access_key_id = half",
        "role_arn = r\nsource_profile = default\nmfa_serial = m", "role_arn = r\nsource_profile = prod",
        "role_arn = r\ncredential_source = Nowhere", "role_arn = r\ncredential_source = Environment",
    ])
    func aNamedProfileWithoutKeysIsNotPassedOver(settings: String) async throws {
        let standIn = StandIn { _ in Self.amazon }
        let files = [
            "/h/.aws/config": "[default]\nregion = r\n[profile prod]\n\(settings)\n", "/etc/passwd-s3fs": "P:s",
        ]
        let environment = ["HOME": "/h", "AWS_EC2_METADATA_SERVICE_ENDPOINT": standIn.url]
        let named = environment.merging(["AWS_PROFILE": "prod"]) { $1 }
        let error = await #expect(throws: ObjectStoreError.self) { try await amazon(named, standIn, files: files) }
        #expect(error?.kind == .credentialsRejected)
        #expect(error?.message.contains("prod") == true)
        #expect(try await amazon(environment, standIn, files: files)?.accessKeyID == "P")
    }

    @Test func variablesGoBeforeTheMachine() async throws {
        let standIn = StandIn { _ in Self.amazon }
        let environment = [
            "AWS_ACCESS_KEY_ID": "E", "AWS_SECRET_ACCESS_KEY": "s", "AWS_EC2_METADATA_SERVICE_ENDPOINT": standIn.url,
        ]
        #expect(try await amazon(environment, standIn)?.accessKeyID == "E")
        #expect(standIn.requests.isEmpty)
    }

    @Test func credentialsThatEndAreGotAnew() async throws {
        let count = Mutex(0)
        let standIn = StandIn { _ in
            let number = count.withLock { count in
                count += 1
                return count
            }
            let end = Timestamp(seconds: 1_700_000_000 + Int64(number) * 3600).iso8601()
            return Self.json([
                ("AccessKeyId", "A\(number)"), ("SecretAccessKey", "s"), ("Token", "t"), ("Expiration", end),
            ])
        }
        let time = ManualTime()
        let sources = S3Credentials(
            environment: ["AWS_CONTAINER_CREDENTIALS_FULL_URI": standIn.url], profile: nil, bucket: "b"
        ) { _ in nil }
        let provider = sources.provider(engine: standIn.engine, time: time)
        #expect(try await provider.current()?.accessKeyID == "A1")
        #expect(try await provider.current()?.accessKeyID == "A1")
        time.advance(by: .seconds(3590))
        #expect(try await provider.current()?.accessKeyID == "A2")
        #expect(try await provider.replace(try await provider.current(), after: .named))
        #expect(try await provider.current()?.accessKeyID == "A3")
    }

    // MARK: Alibaba Cloud

    private func alibaba(
        _ environment: [String: String], _ standIn: StandIn, profile: String? = nil, files: [String: String] = [:]
    ) async throws -> Credentials? {
        var services = OSSCredentials.Services()
        (services.metadata, services.tokens) = (standIn.url, standIn.url)
        let sources = OSSCredentials(
            environment: ["HOME": "/h"].merging(environment) { $1 }, profile: profile, bucket: "b", services: services
        ) { files[$0] }
        var options = HTTPOptions()
        options.proxy = ""
        return try await sources.provider(engine: HTTPEngine(options), time: ManualTime()).current()
    }

    @Test(arguments: [true, false])
    func theRoleOfAnInstanceIsFound(insistsOnTokens: Bool) async throws {
        let standIn = StandIn { request in
            if request.method == "PUT" { return insistsOnTokens ? LocalAnswer(200, body: "T") : LocalAnswer(404) }
            if insistsOnTokens, request["X-aliyun-ecs-metadata-token"] != "T" { return LocalAnswer(403) }
            return request.target.hasSuffix("/role%201") ? Self.alibaba : LocalAnswer(200, body: "role 1")
        }
        #expect(try await alibaba([:], standIn) == Self.expected)
        #expect(try await alibaba(["ALIBABA_CLOUD_ECS_METADATA": "role 1"], standIn) == Self.expected)
    }

    @Test func aFileThatNamesTheMachinesRoleHasItAsked() async throws {
        let standIn = StandIn { request in
            request.target.hasSuffix("/r") ? Self.alibaba : LocalAnswer(404)
        }
        let text = "[Credentials]\nlanguage=EN\nmode=EcsRamRole\necsRoleName=r\n"
        #expect(try await alibaba([:], standIn, files: ["/h/.ossutilconfig": text]) == Self.expected)
    }

    @Test func aRoleIsAssumedWithASignedRequest() async throws {
        let standIn = StandIn { _ in
            LocalAnswer(
                200,
                body: "{\"RequestId\":\"R\",\"Credentials\":{\"AccessKeyId\":\"A\",\"AccessKeySecret\":\"s\","
                    + "\"SecurityToken\":\"t\",\"Expiration\":\"2023-11-15T04:13:20Z\"}}")
        }
        let text = """
            {"current":"p","profiles":[{"name":"p","mode":"RamRoleArn","access_key_id":"K","access_key_secret":"x",\
            "ram_role_arn":"acs:ram::1:role/r","region_id":"cn-hangzhou"}]}
            """
        #expect(try await alibaba([:], standIn, files: ["/h/.aliyun/config.json": text]) == Self.expected)
        let form = try #require(standIn.requests.first.map { String(decoding: $0.body, as: UTF8.self) })
        #expect(form.contains("AccessKeyId=K&Action=AssumeRole&Format=JSON&RoleArn=acs%3Aram%3A%3A1%3Arole%2Fr"))
        #expect(form.contains("Timestamp=2023-11-14T22%3A13%3A20Z"))
        #expect(form.contains("&Signature="))
    }

    @Test func anOrchestratorsTokenIsExchangedForARole() async throws {
        let standIn = StandIn { request in
            String(decoding: request.body, as: UTF8.self).contains("OIDCToken=jwt&")
                ? LocalAnswer(
                    200,
                    body: "{\"Credentials\":{\"AccessKeyId\":\"A\",\"AccessKeySecret\":\"s\",\"SecurityToken\":\"t\","
                        + "\"Expiration\":\"2023-11-15T04:13:20Z\"}}") : LocalAnswer(400)
        }
        let environment = [
            "ALIBABA_CLOUD_ROLE_ARN": "r", "ALIBABA_CLOUD_OIDC_PROVIDER_ARN": "p",
            "ALIBABA_CLOUD_OIDC_TOKEN_FILE": "/token",
        ]
        #expect(try await alibaba(environment, standIn, files: ["/token": "jwt\n"]) == Self.expected)
        let wrong = await #expect(throws: ObjectStoreError.self) {
            try await alibaba(environment, standIn, files: ["/token": "other"])
        }
        #expect(wrong?.kind == .credentialsRejected)
    }

    @Test func aURLOfCredentialsIsAsked() async throws {
        let standIn = StandIn { $0.target == "/c" ? Self.alibaba : LocalAnswer(404) }
        #expect(
            try await alibaba(["ALIBABA_CLOUD_CREDENTIALS_URI": standIn.url + "/c"], standIn) == Self.expected)
    }

    // MARK: Tencent Cloud

    @Test(arguments: [nil, "cos:\n  base:\n    mode: CvmRole\n    cvmrolename: role\n"])
    func theRoleOfACVMIsFound(file: String?) async throws {
        let standIn = StandIn { request in
            request.target.hasSuffix("/role")
                ? LocalAnswer(
                    200,
                    body: "{\"TmpSecretId\":\"A\",\"TmpSecretKey\":\"s\",\"ExpiredTime\":1700021600,\"Token\":\"t\","
                        + "\"Expiration\":\"2023-11-15T04:13:20Z\",\"Code\":\"Success\"}")
                : LocalAnswer(200, body: "role\n")
        }
        var services = COSCredentials.Services()
        services.metadata = standIn.url
        let sources = COSCredentials(
            environment: ["HOME": "/h"], profile: nil, bucket: "b-1", services: services
        ) { $0 == "/h/.cos.yaml" ? file : nil }
        let provider = sources.provider(engine: standIn.engine, time: ManualTime())
        #expect(try await provider.current() == Self.expected)
        #expect(standIn.requests.count == (file == nil ? 2 : 1))
    }

    @Test func aServiceThatRefusesSaysWhoItIs() async throws {
        let standIn = StandIn { _ in LocalAnswer(200, body: "{\"Code\":\"Failed\",\"Message\":\"no role\"}") }
        let error = await #expect(throws: ObjectStoreError.self) {
            try await amazon(["AWS_CONTAINER_CREDENTIALS_FULL_URI": standIn.url], standIn)
        }
        #expect(error?.message.contains("the container's host says Failed: no role") == true)
    }
}
