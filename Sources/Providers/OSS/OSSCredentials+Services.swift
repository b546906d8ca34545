import Basics
import Digests
import FoundationEssentials
import HTTP
import ObjectStorage

/// Temporary credentials: of the machine's role, or of one from the token service (OSS, "Configure access credentials").
extension OSSCredentials {
    /// The credentials of a profile in the tools' files. `former` are the profiles that use it as their source.
    func credentials(
        of entry: OSSToolEntry, after former: [String] = [], _ engine: HTTPEngine, time: any TimeSource
    ) async throws(ObjectStoreError) -> Credentials {
        let origin = entry.origin
        switch entry.mode {
        case .keys:
            guard let keys = entry.credentials else {
                throw CredentialProblem.incomplete("\(origin) lacks the key ID or the secret; write both")
            }
            return keys
        case .machine:
            guard let found = try await fromMachine(engine, role: entry.machineRole) else {
                throw CredentialProblem.unusable("\(origin) is for the machine's role, but the machine has no role")
            }
            return found
        case .role:
            guard let base = entry.credentials, entry.roleARN != nil else {
                throw CredentialProblem.incomplete(
                    "\(origin) is for a role, but lacks the role's name or the keys to assume it; write them")
            }
            return try await assume(entry, with: base, engine, time: time)
        case .chain(let source):
            guard entry.roleARN != nil else {
                throw CredentialProblem.incomplete("\(origin) is for a role, but lacks ram_role_arn; write it")
            }
            guard !former.contains(source), former.count < 8 else {
                throw CredentialProblem.unusable(
                    "\(origin) and its source_profile \(source) are each other's source; correct source_profile")
            }
            guard let next = aliyun(source) else {
                throw CredentialProblem.noProfile(source, in: "~/.aliyun/config.json, but \(origin) names it")
            }
            let base = try await credentials(of: next, after: former + [source], engine, time: time)
            return try await assume(entry, with: base, engine, time: time)
        case .identityToken(let file, let provider):
            guard let role = entry.roleARN, !file.isEmpty, !provider.isEmpty else {
                throw CredentialProblem.incomplete(
                    "\(origin) is for a token, but lacks the role, the provider or the token file; write them")
            }
            return try await exchange(file, role: role, provider: provider, entry, engine, time: time)
        case .program(let command): return try await fromProgram(command, of: entry)
        case .url(let url): return try await fromURL(url, engine)
        case .signOn(let signOn): return try await fromSignOn(signOn, of: entry, engine, time: time)
        case .anonymous, .other:
            var name = "Anonymous"
            if case .other(let mode) = entry.mode { name = mode }
            throw CredentialProblem.unusable(
                "\(origin) has the mode \(name), which pailfs cannot use; use another profile, or let the mode External run a program"
            )
        }
    }

    /// The metadata service of an ECS instance, with a token where it issues one.
    func fromMachine(_ engine: HTTPEngine, role: String?) async throws(ObjectStoreError) -> Credentials? {
        let service = CredentialService(engine: engine, name: "the machine's metadata service")
        var headers = HTTPHeaders()
        let ttl = HTTPHeaders([("X-aliyun-ecs-metadata-token-ttl-seconds", "180")])
        do throws(ObjectStoreError) {
            let token = try await service.text(.put, "\(services.metadata)/latest/api/token", ttl)
            headers["X-aliyun-ecs-metadata-token"] = token
        } catch {
            // Machines that do not require tokens need not issue them.
            guard error.status != nil, variables["ALIBABA_CLOUD_IMDSV1_DISABLED"]?.lowercased() != "true" else {
                throw error
            }
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

    func fromURL(_ url: String, _ engine: HTTPEngine) async throws(ObjectStoreError) -> Credentials {
        let service = CredentialService(engine: engine, name: "the URL of the credentials")
        return try service.credentials(try await service.ask(.get, url))
    }

    /// A role for an orchestrator's token (AssumeRoleWithOIDC), a request that is not signed.
    func fromIdentityToken(
        _ engine: HTTPEngine, time: any TimeSource
    ) async throws(ObjectStoreError) -> FoundCredentials? {
        guard let role = variables["ALIBABA_CLOUD_ROLE_ARN"],
            let provider = variables["ALIBABA_CLOUD_OIDC_PROVIDER_ARN"],
            let file = variables["ALIBABA_CLOUD_OIDC_TOKEN_FILE"]
        else { return nil }
        let session = variables["ALIBABA_CLOUD_ROLE_SESSION_NAME"]
        let credentials = try await exchange(
            file, role: role, provider: provider, nil, session: session, engine, time: time)
        return FoundCredentials(credentials, "ALIBABA_CLOUD_OIDC_TOKEN_FILE")
    }

    private func exchange(
        _ file: String, role: String, provider: String, _ entry: OSSToolEntry?, session: String? = nil,
        _ engine: HTTPEngine, time: any TimeSource
    ) async throws(ObjectStoreError) -> Credentials {
        guard let token = text(file) else { throw CredentialProblem.noTokenFile(file) }
        var items = Self.items("AssumeRoleWithOIDC", role, entry?.sessionName ?? session, entry, time)
        items += [
            QueryItem("OIDCProviderArn", provider), QueryItem("OIDCToken", token.trimmed),
        ]
        return try await ask(items, engine)
    }

    /// A role for a pair of keys (AssumeRole), signed as the provider's RPC services are: HMAC-SHA1 over the encoded query.
    private func assume(
        _ entry: OSSToolEntry, with credentials: Credentials, _ engine: HTTPEngine, time: any TimeSource
    ) async throws(ObjectStoreError) -> Credentials {
        var items = Self.items("AssumeRole", entry.roleARN ?? "", entry.sessionName, entry, time)
        items += [
            QueryItem("AccessKeyId", credentials.accessKeyID), QueryItem("SignatureMethod", "HMAC-SHA1"),
            QueryItem("SignatureVersion", "1.0"),
        ]
        if let id = entry.externalID { items.append(QueryItem("ExternalId", id)) }
        if let token = credentials.sessionToken { items.append(QueryItem("SecurityToken", token.revealed)) }
        let query = items.sorted().map(\.text).joined(separator: "&")
        let text = "POST&\(PercentEncoding.encode("/"))&\(PercentEncoding.encode(query))"
        let signature = HMAC.sha1(text, key: Array("\(credentials.secretKey.revealed)&".utf8))
        return try await ask(items + [QueryItem("Signature", Base64.encode(signature))], engine)
    }

    private static func items(
        _ action: String, _ role: String, _ session: String?, _ entry: OSSToolEntry?, _ time: any TimeSource
    ) -> [QueryItem] {
        var items = [
            QueryItem("Action", action), QueryItem("Version", "2015-04-01"), QueryItem("Format", "JSON"),
            QueryItem("RoleArn", role), QueryItem("RoleSessionName", session ?? "pailfs"),
            QueryItem("Timestamp", time.now().iso8601()), QueryItem("SignatureNonce", RandomID.hex()),
        ]
        if let policy = entry?.policy { items.append(QueryItem("Policy", policy)) }
        if let seconds = entry?.seconds { items.append(QueryItem("DurationSeconds", seconds)) }
        return items
    }

    private func ask(_ items: [QueryItem], _ engine: HTTPEngine) async throws(ObjectStoreError) -> Credentials {
        let service = CredentialService(engine: engine, name: "the token service of Alibaba Cloud", isLocal: false)
        let form = items.sorted().map(\.text).joined(separator: "&")
        return try service.credentials(try await service.ask(.post, "\(services.tokens)/", form: form))
    }

    // MARK: Programs and sign-ons

    /// The output of a program that `aliyun` runs: the members of a profile.
    private struct Printed: Decodable {
        var id: String?
        var secret: String?
        var token: String?
        var expiration: String?

        enum CodingKeys: String, CodingKey {
            case expiration
            case id = "access_key_id"
            case secret = "access_key_secret"
            case token = "sts_token"
        }
    }

    private func fromProgram(_ command: String, of entry: OSSToolEntry) async throws(ObjectStoreError) -> Credentials {
        let program = CredentialProgram(
            command: command, setting: "process_command of \(entry.origin)", environment: variables.environment)
        let output = try await program.output()
        guard let printed = try? JSONDecoder().decode(Printed.self, from: Data(output)),
            let id = printed.id, let secret = printed.secret
        else {
            throw CredentialProblem.unusable(
                "the process_command of \(entry.origin) does not print access_key_id and access_key_secret; correct it")
        }
        return Credentials(
            accessKeyID: id, secretKey: Secret(secret),
            sessionToken: printed.token.flatMap { $0.isEmpty ? nil : Secret($0) },
            expires: printed.expiration.flatMap { Timestamp(iso8601: $0) })
    }

    private func fromSignOn(
        _ signOn: OSSToolEntry.SignOn, of entry: OSSToolEntry, _ engine: HTTPEngine, time: any TimeSource
    ) async throws(ObjectStoreError) -> Credentials {
        guard !signOn.token.revealed.isEmpty, Timestamp(seconds: signOn.end) > time.now() else {
            throw ObjectStoreError(
                .credentialsExpired, .checkAccess, code: "SignOnEnded",
                message: "the sign-on of \(entry.origin) has ended or was never made; run aliyun configure again for it"
            )
        }
        var base = signOn.url
        if let mark = base.firstRange(of: "://"), let slash = base[mark.upperBound...].firstIndex(of: "/") {
            base = String(base[..<slash])
        }
        let service = CredentialService(engine: engine, name: "the sign-on service of Alibaba Cloud", isLocal: false)
        let headers = HTTPHeaders([
            ("Authorization", "Bearer \(signOn.token.revealed)"), ("Accept", "application/json"),
            ("Content-Type", "application/json"),
        ])
        let document = ["AccountId": signOn.account, "AccessConfigurationId": signOn.access]
        guard let body = try? JSONEncoder().encode(document) else {
            throw CredentialProblem.unusable("\(entry.origin) cannot be written as JSON; correct it")
        }
        return try service.credentials(
            try await service.ask(
                .post, "\(base)/cloud-credentials", headers, form: String(decoding: body, as: UTF8.self)))
    }
}
