import Basics
import Digests
import FoundationEssentials
import HTTP
import ObjectStorage

/// The sources of one profile in botocore's order: a role with its source, a web identity, a sign-on, keys of the credentials
/// file, a program, keys of the other file.
extension S3Credentials {
    private static let places = "~/.aws/credentials or ~/.aws/config"

    /// Returns the credentials of the named profile, or of `default`; nil if the profile has none.
    func fromProfile(_ services: AWSServices) async throws(ObjectStoreError) -> FoundCredentials? {
        let profiles = profiles
        if let chosen = chosenProfile, chosen != "default", profiles.profiles[chosen] == nil {
            throw CredentialProblem.noProfile(chosen, in: Self.places)
        }
        let chain = AWSProfileChain(sources: self, profiles: profiles, services: services)
        // A role of the profile comes before a web identity of the environment; the rest comes after it.
        if chain.hasRole(section) { return try await chain.find(section, after: []) }
        if profile == nil, let file = variables["AWS_WEB_IDENTITY_TOKEN_FILE"], let role = variables["AWS_ROLE_ARN"] {
            return try await services.webIdentity(
                file: file, role: role, session: variables["AWS_ROLE_SESSION_NAME"],
                origin: "AWS_WEB_IDENTITY_TOKEN_FILE")
        }
        return try await chain.find(section, after: [])
    }
}

/// A profile, and the profiles that it takes its credentials from.
struct AWSProfileChain: Sendable {
    let sources: S3Credentials
    let profiles: AWSProfiles
    let services: AWSServices

    /// Whether the profile is for a role that is assumed with another source's credentials.
    func hasRole(_ name: String) -> Bool {
        let values = profiles.profiles[name]
        return values?["role_arn"] != nil && values?["web_identity_token_file"] == nil
    }

    /// `former` are the profiles that use this one as their source.
    func find(_ name: String, after former: [String]) async throws(ObjectStoreError) -> FoundCredentials? {
        guard let values = profiles.profiles[name] else { return nil }
        let hasKeys = values["aws_access_key_id"] != nil || values["aws_secret_access_key"] != nil
        // A source's keys precede its role, also when a profile is its own source.
        if hasRole(name), former.isEmpty || !hasKeys { return try await assumedRole(name, values, after: former) }
        if let file = values["web_identity_token_file"] {
            guard let role = values["role_arn"] else {
                throw CredentialProblem.incomplete(
                    "the profile \(name) has web_identity_token_file without role_arn; write both")
            }
            return try await services.webIdentity(
                file: file, role: role, session: values["role_session_name"], origin: origin(name, "role_arn"))
        }
        if values["sso_account_id"] != nil || values["sso_role_name"] != nil {
            return FoundCredentials(try await signedOn(name, values), origin(name, "sso_role_name"))
        }
        if let found = try AWSProfiles.keys(
            profiles.inCredentialsFile[name], profile: name, in: sources.credentialsFile ?? "")
        {
            return found
        }
        if values["login_session"] != nil {
            throw CredentialProblem.unusable(
                "the profile \(name) has login_session, which only Amazon's tools can use; write "
                    + "credential_process = aws configure export-credentials --profile \(name) into another profile")
        }
        if let command = values["credential_process"] {
            let program = CredentialProgram(
                command: command, setting: "credential_process of the profile \(name)",
                environment: sources.variables.environment)
            return FoundCredentials(try await program.credentials(), origin(name, "credential_process"))
        }
        if let found = try AWSProfiles.keys(values, profile: name, in: sources.configFile ?? "") { return found }
        guard values["sso_session"] != nil || values["sso_start_url"] != nil else { return nil }
        throw CredentialProblem.incomplete(
            "the profile \(name) has a sign-on without sso_account_id and sso_role_name; write both")
    }

    private func origin(_ name: String, _ setting: String) -> String { "\(setting) of the profile \(name)" }

    // MARK: Roles

    private func assumedRole(
        _ name: String, _ values: AWSProfiles.Values, after former: [String]
    ) async throws(ObjectStoreError) -> FoundCredentials {
        guard values["mfa_serial"] == nil else {
            throw CredentialProblem.unusable(
                "the profile \(name) has mfa_serial, whose codes a mount cannot enter; use a role without it")
        }
        let base: Credentials
        switch (values["source_profile"], values["credential_source"]) {
        case (let source?, nil):
            guard profiles.profiles[source] != nil else {
                throw CredentialProblem.noProfile(
                    source, in: "~/.aws/credentials or ~/.aws/config, but \(name) names it")
            }
            guard !former.contains(source) else {
                throw CredentialProblem.unusable(
                    "the profiles \((former + [name, source]).joined(separator: ", ")) are each other's source; correct "
                        + "source_profile")
            }
            guard let found = try await find(source, after: former + [name]) else {
                throw CredentialProblem.unusable(
                    "the profile \(source), the source of \(name), has no credentials; write its keys")
            }
            base = found.credentials
        case (nil, let source?): base = try await credentials(of: source, for: name)
        case (nil, nil):
            throw CredentialProblem.incomplete(
                "the profile \(name) has role_arn without source_profile or credential_source; write one of them")
        case (_?, _?):
            throw CredentialProblem.unusable(
                "the profile \(name) has source_profile and credential_source; remove one of them")
        }
        let role = AWSServices.Role(
            arn: values["role_arn"] ?? "", session: values["role_session_name"], externalID: values["external_id"],
            seconds: values["duration_seconds"])
        return FoundCredentials(try await services.assume(role, with: base), origin(name, "role_arn"))
    }

    private func credentials(of source: String, for name: String) async throws(ObjectStoreError) -> Credentials {
        let found: Credentials?
        switch source.lowercased() {
        case "environment": found = try sources.fromVariables()?.credentials
        case "ec2instancemetadata": found = try await services.fromMachine()
        case "ecscontainer": found = try await services.fromContainer()?.credentials
        default:
            throw CredentialProblem.unusable(
                "the profile \(name) has credential_source = \(source); write Environment, Ec2InstanceMetadata or EcsContainer"
            )
        }
        guard let found else {
            throw CredentialProblem.unusable(
                "the profile \(name) has credential_source = \(source), which has no credentials here; correct it")
        }
        return found
    }

    // MARK: Sign-on

    /// The token file of `aws sso login`.
    private struct Token: Decodable {
        var accessToken: String
        var expiresAt: String
    }

    private struct RoleAnswer: Decodable {
        struct Keys: Decodable {
            var accessKeyId: String
            var secretAccessKey: String
            var sessionToken: String
            /// Milliseconds since 1970.
            var expiration: Int64
        }

        var roleCredentials: Keys
    }

    /// GetRoleCredentials (AWS IAM Identity Center portal API) with the token of the last `aws sso login`.
    private func signedOn(
        _ name: String, _ own: AWSProfiles.Values
    ) async throws(ObjectStoreError) -> Credentials {
        var values = own
        if let session = own["sso_session"] {
            guard let more = profiles.session(session) else {
                throw CredentialProblem.noProfile(
                    "sso-session \(session)", in: "~/.aws/config, but the profile \(name) names it")
            }
            values.merge(more) { $1 }
        }
        let needed = ["sso_account_id", "sso_role_name", "sso_start_url", "sso_region"]
        guard let account = values[needed[0]], let role = values[needed[1]], let start = values[needed[2]],
            let region = values[needed[3]]
        else {
            let missing = needed.filter { values[$0] == nil }.joined(separator: ", ")
            throw CredentialProblem.incomplete("the profile \(name) has a sign-on without \(missing); write it")
        }
        let token = try token(name, cachedAs: own["sso_session"] ?? start)
        let query = [QueryItem("role_name", role), QueryItem("account_id", account)].map(\.text).joined(separator: "&")
        let portal = sources.endpoint(of: "sso") ?? "https://portal.sso.\(region).amazonaws.com"
        let service = CredentialService(engine: services.engine, name: "the sign-on service of AWS", isLocal: false)
        let body: [UInt8]
        do throws(ObjectStoreError) {
            body = try await service.ask(
                .get, "\(portal)/federation/credentials?\(query)",
                HTTPHeaders([("x-amz-sso_bearer_token", token), ("Accept", "application/json")]))
        } catch {
            guard error.status == 401 else { throw error }
            throw Self.ended(name)
        }
        guard let keys = try? JSONDecoder().decode(RoleAnswer.self, from: Data(body)).roleCredentials else {
            throw service.unusable("has no roleCredentials")
        }
        return Credentials(
            accessKeyID: keys.accessKeyId, secretKey: Secret(keys.secretAccessKey),
            sessionToken: Secret(keys.sessionToken), expires: Timestamp(seconds: keys.expiration / 1000))
    }

    private func token(_ name: String, cachedAs key: String) throws(ObjectStoreError) -> String {
        let path = "\(sources.variables.home ?? "")/.aws/sso/cache/\(Hex.encode(SHA1.of(key))).json"
        guard let text = sources.text(path), let token = try? JSONDecoder().decode(Token.self, from: Data(text.utf8)),
            let end = Timestamp(iso8601: token.expiresAt.replacing("UTC", with: "Z")), end > services.time.now()
        else { throw Self.ended(name) }
        return token.accessToken
    }

    private static func ended(_ name: String) -> ObjectStoreError {
        ObjectStoreError(
            .credentialsExpired, .checkAccess, code: "SignOnEnded",
            message: "the sign-on of the profile \(name) is missing or has ended; run aws sso login --profile \(name)")
    }
}
