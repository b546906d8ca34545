import Basics
import Digests
import HTTP
import ObjectStorage

/// Credentials that end: of the machine's role, or of one that the token service gives out (oss.md section 7).
extension OSSCredentials {
    func credentials(
        of entry: OSSToolEntry, _ engine: HTTPEngine, time: any TimeSource
    ) async throws(ObjectStoreError) -> Credentials? {
        switch entry.mode {
        case .keys: return entry.credentials
        case .machine: return try await fromMachine(engine, role: entry.machineRole)
        case .role:
            guard let base = entry.credentials, let role = entry.roleARN else {
                throw ObjectStoreError(
                    .credentialsRejected, .checkAccess, code: "NoRole",
                    message: "the profile is for a role, but lacks the role's name or the keys to assume it")
            }
            return try await assume(role, with: base, engine, time: time)
        }
    }

    /// The metadata service of an ECS instance, with a token where it gives one out.
    func fromMachine(_ engine: HTTPEngine, role: String?) async throws(ObjectStoreError) -> Credentials? {
        let service = CredentialService(engine: engine, name: "the machine's metadata service")
        var headers = HTTPHeaders()
        let ttl = HTTPHeaders([("X-aliyun-ecs-metadata-token-ttl-seconds", "180")])
        do throws(ObjectStoreError) {
            let token = try await service.text(.put, "\(services.metadata)/latest/api/token", ttl)
            headers["X-aliyun-ecs-metadata-token"] = token
        } catch {
            // Machines that do not insist on tokens need not have them.
            guard error.status != nil else { throw error }
        }
        let path = "\(services.metadata)/latest/meta-data/ram/security-credentials/"
        var name = role ?? ""
        if name.isEmpty {
            let names = try await service.text(.get, path, headers).split(whereSeparator: \.isNewline)
            guard let first = names.first else { return nil }
            name = String(first)
        }
        return try service.credentials(
            try await service.ask(.get, path + PercentEncoding.encode(name), headers))
    }

    /// A role for the token of an orchestrator (AssumeRoleWithOIDC), which is not signed.
    func fromIdentityToken(_ engine: HTTPEngine, time: any TimeSource) async throws(ObjectStoreError) -> Credentials? {
        guard let role = value("ALIBABA_CLOUD_ROLE_ARN"), let provider = value("ALIBABA_CLOUD_OIDC_PROVIDER_ARN"),
            let file = value("ALIBABA_CLOUD_OIDC_TOKEN_FILE")
        else { return nil }
        guard let token = text(file) else {
            throw ObjectStoreError(
                .credentialsRejected, .checkAccess, code: "NoTokenFile",
                message: "the token file \(file) cannot be read")
        }
        var items = Self.items("AssumeRoleWithOIDC", role, time)
        items += [
            QueryItem("OIDCProviderArn", provider), QueryItem("OIDCToken", token.trimmed),
        ]
        return try await ask(items, engine)
    }

    /// A role for a pair of keys (AssumeRole), signed as the provider's RPC services are: HMAC-SHA1 over the encoded query.
    private func assume(
        _ role: String, with credentials: Credentials, _ engine: HTTPEngine, time: any TimeSource
    ) async throws(ObjectStoreError) -> Credentials {
        var items = Self.items("AssumeRole", role, time)
        items += [
            QueryItem("AccessKeyId", credentials.accessKeyID), QueryItem("SignatureMethod", "HMAC-SHA1"),
            QueryItem("SignatureVersion", "1.0"),
        ]
        if let token = credentials.sessionToken { items.append(QueryItem("SecurityToken", token.revealed)) }
        let query = items.sorted().map(\.text).joined(separator: "&")
        let text = "POST&\(PercentEncoding.encode("/"))&\(PercentEncoding.encode(query))"
        let signature = HMAC.sha1(text, key: Array("\(credentials.secretKey.revealed)&".utf8))
        return try await ask(items + [QueryItem("Signature", Base64.encode(signature))], engine)
    }

    private static func items(_ action: String, _ role: String, _ time: any TimeSource) -> [QueryItem] {
        [
            QueryItem("Action", action), QueryItem("Version", "2015-04-01"), QueryItem("Format", "JSON"),
            QueryItem("RoleArn", role), QueryItem("RoleSessionName", "pailfs"),
            QueryItem("Timestamp", time.now().iso8601()), QueryItem("SignatureNonce", RandomID.hex()),
        ]
    }

    private func ask(_ items: [QueryItem], _ engine: HTTPEngine) async throws(ObjectStoreError) -> Credentials {
        let service = CredentialService(engine: engine, name: "the token service of Alibaba Cloud", isLocal: false)
        let form = items.sorted().map(\.text).joined(separator: "&")
        return try service.credentials(try await service.ask(.post, "\(services.tokens)/", form: form))
    }
}
