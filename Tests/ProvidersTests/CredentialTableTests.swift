import Basics
import HTTP
import ObjectStorage
import Providers
import TestSupport
import Testing

/// Each way of keeping credentials, with a stand-in for every service that gives some out.
@Suite(.timeLimit(.minutes(5))) struct CredentialTableTests {
    /// Tells in the key ID with whose credentials it was asked.
    private static func answer(_ request: LocalRequest, place: String) -> LocalAnswer {
        let body = String(decoding: request.body, as: UTF8.self)
        if let action = request["X-TC-Action"] {
            return LocalAnswer(
                200,
                body:
                    "{\"Response\": {\"ExpiredTime\": 1900000000, \"Credentials\": {\"Token\": \"t\", \"TmpSecretKey\": \"s\", "
                    + "\"TmpSecretId\": \"\(action == "AssumeRole" ? byKey(request) : "ROLE-BY-WEB")\"}}}")
        }
        if body.contains("Format=JSON") {
            let key = body.split(separator: "&").first { $0.hasPrefix("AccessKeyId=") }?.dropFirst(12)
            let id = key.map { "ROLE-BY-\($0)" } ?? "ROLE-BY-WEB"
            return LocalAnswer(200, body: "{\"Credentials\": \(alibaba(id))}")
        }
        if body.contains("Action=AssumeRole") {
            let isSigned = request["Authorization"] != nil
            let id = isSigned ? byKey(request) : "ROLE-BY-WEB"
            let name = isSigned ? "AssumeRole" : "AssumeRoleWithWebIdentity"
            return LocalAnswer(
                200,
                body: "<\(name)Response><\(name)Result><Credentials><AccessKeyId>\(id)</AccessKeyId><SecretAccessKey>s"
                    + "</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2030-01-01T00:00:00Z</Expiration>"
                    + "</Credentials></\(name)Result></\(name)Response>")
        }
        return route(request, place: place)
    }

    private static func route(_ request: LocalRequest, place: String) -> LocalAnswer {
        let target = request.target
        if target.hasSuffix("/api/token") {
            return target.hasPrefix("/v1") ? LocalAnswer(403) : LocalAnswer(200, body: "T")
        }
        if target.hasSuffix("/security-credentials/") { return LocalAnswer(200, body: "role") }
        if target.contains("/meta-data/iam/") { return LocalAnswer(200, body: amazon("MACHINE")) }
        if target.contains("/meta-data/ram/") { return LocalAnswer(200, body: alibaba("MACHINE")) }
        if target.contains("/meta-data/cam/") {
            return LocalAnswer(
                200,
                body: "{\"Code\": \"Success\", \"TmpSecretId\": \"MACHINE\", \"TmpSecretKey\": \"s\", \"Token\": \"t\"}"
            )
        }
        switch target {
        case "/container": return LocalAnswer(200, body: amazon("CONTAINER"))
        case "/uri": return LocalAnswer(200, body: alibaba("URI"))
        case "/cloud-credentials":
            return request["Authorization"] == "Bearer t"
                ? LocalAnswer(200, body: "{\"CloudCredential\": \(alibaba("SSO"))}") : LocalAnswer(401)
        case "/federation/credentials?role_name=Read&account_id=1":
            guard request["x-amz-sso_bearer_token"] == "SSO-TOKEN" else { return LocalAnswer(401) }
            return LocalAnswer(
                200,
                body:
                    "{\"roleCredentials\": {\"accessKeyId\": \"SSO\", \"secretAccessKey\": \"s\", \"sessionToken\": \"t\", "
                    + "\"expiration\": 1900000000000}}")
        case "/v3/auth/tokens":
            let offered = ["One", "Two"].map {
                "{\"interface\": \"public\", \"region\": \"\($0)\", \"url\": \"\(place)/\($0.lowercased())\"}"
            }
            return LocalAnswer(
                201, [("X-Subject-Token", "TOKEN")],
                body:
                    "{\"token\": {\"catalog\": [{\"type\": \"object-store\", \"endpoints\": [\(offered.joined(separator: ", "))]}]}}"
            )
        default: return LocalAnswer(404)
        }
    }

    private static func byKey(_ request: LocalRequest) -> String {
        let text = request["Authorization"] ?? ""
        let key = text.firstRange(of: "Credential=").map { text[$0.upperBound...].prefix { $0 != "/" } } ?? "NOBODY"
        return "ROLE-BY-\(key)"
    }

    private static func amazon(_ id: String) -> String {
        "{\"Code\": \"Success\", \"AccessKeyId\": \"\(id)\", \"SecretAccessKey\": \"s\", \"Token\": \"t\", "
            + "\"Expiration\": \"2030-01-01T00:00:00Z\"}"
    }

    private static func alibaba(_ id: String) -> String {
        "{\"Code\": \"Success\", \"AccessKeyId\": \"\(id)\", \"AccessKeySecret\": \"s\", \"SecurityToken\": \"t\", "
            + "\"Expiration\": \"2030-01-01T00:00:00Z\"}"
    }

    @Test(arguments: CredentialRow.all) func everyKindIsUsedOrRefusedByName(_ row: CredentialRow) async throws {
        #expect(!row.sdk.isEmpty)
        let place = LateBinding<String>()
        let server = LocalServer { Self.answer($0, place: place() ?? "") }
        let url = "http://127.0.0.1:\(server.port)"
        place.bind { url }
        func here(_ text: String) -> String { text.replacing("SERVICE", with: url) }
        let defaults = [
            "HOME": "/h", "AWS_ENDPOINT_URL_STS": url, "AWS_ENDPOINT_URL_SSO": url,
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": url,
        ]
        // Nobody's machine is asked by a row that is not about machines.
        let isOfMachine =
            "\(row.mount)".contains("MACHINE") || row.environment.keys.contains { $0.contains("METADATA") }
        var environment = defaults.merging(row.environment.mapValues(here)) { $1 }
        if !isOfMachine {
            environment["AWS_EC2_METADATA_DISABLED"] = "true"
            environment["ALIBABA_CLOUD_ECS_METADATA_DISABLED"] = "true"
        }
        let files = row.files.mapValues(here)
        let found: CredentialRow.Outcome
        do {
            let id = try await id(row, environment, server: url) { files[$0] }
            found = id.map { .key($0) } ?? .anonymous
        } catch let error as ObjectStoreError {
            #expect([.credentialsRejected, .credentialsExpired, .invalidRequest].contains(error.kind), "\(error)")
            guard case .refused(let words) = row.mount else { throw error }
            #expect(error.message.contains(words), "\(error.message)")
            return
        }
        let wanted: CredentialRow.Outcome = if case .key(let id) = row.mount { .key(here(id)) } else { row.mount }
        #expect(found == wanted)
    }

    private func id(
        _ row: CredentialRow, _ environment: [String: String], server: String,
        text: @escaping @Sendable (String) -> String?
    ) async throws -> String? {
        var options = HTTPOptions()
        options.proxy = ""
        let (engine, time) = (HTTPEngine(options), ManualTime())
        switch row.store {
        case .s3:
            let sources = S3Credentials(environment: environment, profile: row.profile, bucket: "b", text: text)
            return try await sources.find(engine, time)?.credentials.accessKeyID
        case .oss:
            var services = OSSCredentials.Services()
            (services.metadata, services.tokens) = (server, server)
            let sources = OSSCredentials(
                environment: environment, profile: row.profile, bucket: "b", services: services, text: text)
            return try await sources.find(engine, time)?.credentials.accessKeyID
        case .cos:
            var services = COSCredentials.Services()
            (services.metadata, services.tokens) = (server, server)
            let sources = COSCredentials(
                environment: environment, profile: row.profile, bucket: "b-1", services: services, text: text)
            return try await sources.find(engine, time)?.credentials.accessKeyID
        case .kodo:
            return try KodoCredentials(environment: environment, profile: row.profile, text: text).find()?
                .credentials.accessKeyID
        case .cssp:
            return try CSSPCredentials(environment: environment, profile: row.profile).find()?.credentials.accessKeyID
        case .swift:
            let sources = SwiftCredentials(environment: environment, profile: row.profile, text: text)
            return try await sources.find()?.token(engine, time: time).storageURL
        }
    }
}
