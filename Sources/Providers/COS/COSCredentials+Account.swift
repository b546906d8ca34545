import Basics
import Digests
import FoundationEssentials
import HTTP
import ObjectStorage

/// Credentials of the whole account's tools: tccli, the SDKs' file, a token of the container's orchestrator.
extension COSCredentials {
    /// `~/.tccli/NAME.credential`, and beside it the region of `NAME.configure`.
    struct AccountTool: Decodable, Sendable {
        var id: String?
        var secret: String?
        var token: String?
        /// Absent for keys; `sso`, `oauth` or `cvm-role` for other credentials.
        var type: String?
        /// Seconds since 1970.
        var end: Int64?
        var role: String?
        var session: String?

        enum CodingKeys: String, CodingKey {
            case token, type
            case id = "secretId"
            case secret = "secretKey"
            case end = "expiresAt"
            case role = "role-arn"
            case session = "role-session-name"
        }
    }

    private struct AccountSettings: Decodable {
        struct System: Decodable { var region: String? }
        var system: System?
        var region: String?
        enum CodingKeys: String, CodingKey {
            case region
            case system = "_sys_param"
        }
    }

    private var accountProfile: String { profile ?? variables["TCCLI_PROFILE"] ?? "default" }

    var sharedFiles: [String] { ["\(home)/.tencentcloud/credentials", "/etc/tencentcloud/credentials"] }

    var accountFile: String { "\(home)/.tccli/\(accountProfile).credential" }

    /// The region that tccli's profile has.
    var accountRegion: String? {
        let settings = text("\(home)/.tccli/\(accountProfile).configure")
            .flatMap { try? JSONDecoder().decode(AccountSettings.self, from: Data($0.utf8)) }
        let region = settings?.system?.region ?? settings?.region
        return Self.stated(region)
    }

    /// tccli writes "None" for a value that its user has not given.
    private static func stated(_ text: String?) -> String? {
        text.flatMap { $0.isEmpty || $0 == "None" ? nil : $0 }
    }

    /// tccli's profile, then the SDKs' section.
    func fromAccountFiles(
        _ engine: HTTPEngine, _ time: any TimeSource
    ) async throws(ObjectStoreError) -> FoundCredentials? {
        if let found = try await fromAccountTool(engine, time) { return found }
        let section = profile ?? variables["TENCENTCLOUD_PROFILE"] ?? "default"
        for path in sharedFiles {
            guard let values = text(path).flatMap({ CredentialFiles.sections($0)[section] }) else { continue }
            guard let id = values["secret_id"], let secret = values["secret_key"], !id.isEmpty, !secret.isEmpty else {
                throw CredentialProblem.incomplete(
                    "the section \(section) of \(path) has only one of secret_id and secret_key; write both")
            }
            let keys = Credentials(accessKeyID: id, secretKey: Secret(secret))
            guard let role = values["role_arn"], !role.isEmpty else { return FoundCredentials(keys, path) }
            return FoundCredentials(try await assume(role, session: nil, with: keys, engine, time), path)
        }
        guard let name = profile ?? variables["TENCENTCLOUD_PROFILE"] ?? variables["TCCLI_PROFILE"] else { return nil }
        throw CredentialProblem.noProfile(name, in: "~/.tccli or ~/.tencentcloud/credentials")
    }

    private func fromAccountTool(
        _ engine: HTTPEngine, _ time: any TimeSource
    ) async throws(ObjectStoreError) -> FoundCredentials? {
        let path = accountFile
        guard let text = text(path) else { return nil }
        guard let tool = try? JSONDecoder().decode(AccountTool.self, from: Data(text.utf8)) else {
            throw CredentialProblem.unusable("\(path) is not a file of tccli; correct or remove it")
        }
        if tool.type == "cvm-role" {
            guard let found = try await fromMachine(engine, role: nil) else {
                throw CredentialProblem.unusable("\(path) is for the machine's role, but the machine has no role")
            }
            return FoundCredentials(found, path)
        }
        let (id, secret) = (Self.stated(tool.id), Self.stated(tool.secret))
        guard let id, let secret else {
            guard id != nil || secret != nil || tool.type != nil else { return nil }
            throw CredentialProblem.incomplete("\(path) lacks secretId or secretKey; run tccli configure")
        }
        let end = tool.end.map { Timestamp(seconds: $0) }
        // Only tccli itself can exchange a sign-on for new credentials.
        if let type = tool.type, let end, end <= time.now() {
            throw ObjectStoreError(
                .credentialsExpired, .checkAccess, code: "SignOnEnded",
                message:
                    "the credentials of the kind \(type) in \(path) have ended; run any command of tccli to renew them")
        }
        let keys = Credentials(
            accessKeyID: id, secretKey: Secret(secret), sessionToken: Self.stated(tool.token).map { Secret($0) },
            expires: end)
        guard let role = Self.stated(tool.role) else { return FoundCredentials(keys, path) }
        return FoundCredentials(
            try await assume(role, session: Self.stated(tool.session), with: keys, engine, time), path)
    }

    // MARK: The token service

    /// AssumeRoleWithWebIdentity for a pod of TKE, which is not signed.
    func fromIdentityToken(
        _ engine: HTTPEngine, _ time: any TimeSource
    ) async throws(ObjectStoreError) -> FoundCredentials? {
        guard profile == nil, let file = variables["TKE_WEB_IDENTITY_TOKEN_FILE"], let role = variables["TKE_ROLE_ARN"],
            let provider = variables["TKE_PROVIDER_ID"], let region = variables["TKE_REGION"]
        else { return nil }
        guard let token = text(file) else { throw CredentialProblem.noTokenFile(file) }
        let parameters = [
            "ProviderId": provider, "WebIdentityToken": token.trimmed, "RoleArn": role, "RoleSessionName": "pailfs",
        ]
        let found = try await ask(
            "AssumeRoleWithWebIdentity", parameters, region: region, with: nil, engine, time)
        return FoundCredentials(found, "TKE_WEB_IDENTITY_TOKEN_FILE")
    }

    private func assume(
        _ role: String, session: String?, with keys: Credentials, _ engine: HTTPEngine, _ time: any TimeSource
    ) async throws(ObjectStoreError) -> Credentials {
        try await ask(
            "AssumeRole", ["RoleArn": role, "RoleSessionName": session ?? "pailfs"], region: "ap-guangzhou", with: keys,
            engine, time)
    }

    /// A request of Tencent Cloud's API, version 3 of the signature (TC3-HMAC-SHA256).
    private func ask(
        _ action: String, _ parameters: [String: String], region: String, with keys: Credentials?,
        _ engine: HTTPEngine, _ time: any TimeSource
    ) async throws(ObjectStoreError) -> Credentials {
        guard let body = try? JSONEncoder().encode(parameters) else {
            throw CredentialProblem.unusable("the role cannot be written as JSON; correct its name")
        }
        let text = String(decoding: body, as: UTF8.self)
        let place = try FamilyEndpoint.Place(services.tokens)
        let host = HTTPOrigin(isSecure: place.isSecure, host: place.host, port: place.port).authority
        let now = time.now()
        var headers = HTTPHeaders([
            ("Content-Type", "application/json; charset=utf-8"), ("Host", host), ("X-TC-Action", action),
            ("X-TC-Version", "2018-08-13"), ("X-TC-Timestamp", "\(now.seconds)"), ("X-TC-Region", region),
        ])
        if let keys {
            if let token = keys.sessionToken { headers["X-TC-Token"] = token.revealed }
            headers["Authorization"] = Self.authorization(text, host: host, now, keys)
        } else {
            headers["Authorization"] = "SKIP"
        }
        let service = CredentialService(engine: engine, name: "the token service of Tencent Cloud", isLocal: false)
        return try service.credentials(try await service.ask(.post, "\(services.tokens)/", headers, form: text))
    }

    private static func authorization(_ body: String, host: String, _ now: Timestamp, _ keys: Credentials) -> String {
        let day = String(now.iso8601().prefix(10))
        let signed = "content-type;host"
        let request =
            "POST\n/\n\ncontent-type:application/json; charset=utf-8\nhost:\(host)\n\n\(signed)\n"
            + Hex.encode(SHA256.of(body))
        let scope = "\(day)/sts/tc3_request"
        let text = "TC3-HMAC-SHA256\n\(now.seconds)\n\(scope)\n\(Hex.encode(SHA256.of(request)))"
        let dayKey = HMAC.sha256(day, key: Array("TC3\(keys.secretKey.revealed)".utf8))
        let key = HMAC.sha256("tc3_request", key: HMAC.sha256("sts", key: dayKey))
        return "TC3-HMAC-SHA256 Credential=\(keys.accessKeyID)/\(scope), SignedHeaders=\(signed), "
            + "Signature=\(Hex.encode(HMAC.sha256(text, key: key)))"
    }
}
