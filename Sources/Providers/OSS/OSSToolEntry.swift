import Basics
import FoundationEssentials
import ObjectStorage

/// A profile in a file of the provider's own tools (OSS, "Configure access credentials").
struct OSSToolEntry: Sendable, Hashable {
    /// How the profile gets its credentials.
    enum Mode: Sendable, Hashable {
        /// The pair itself, with its token if there is one.
        case keys
        /// The pair signs a request to the token service for the role's credentials.
        case role
        /// Another profile's credentials sign that request.
        case chain(source: String)
        /// The machine's role.
        case machine
        /// An orchestrator's token file is exchanged for the role's credentials.
        case identityToken(file: String, provider: String)
        /// A program prints the credentials.
        case program(String)
        /// A URL returns the credentials.
        case url(String)
        /// A sign-on, whose token is in the file.
        case signOn(SignOn)
        /// Requests are not signed.
        case anonymous
        /// A mode that pailfs does not support, by its name in the file.
        case other(String)
    }

    struct SignOn: Sendable, Hashable {
        var url: String
        var account: String
        var access: String
        var token: Secret
        /// Seconds since 1970.
        var end: Int64
    }

    /// The profile and its file, for messages.
    var origin: String
    var mode = Mode.keys
    var credentials: Credentials?
    /// Only one of the two keys is set.
    private(set) var isHalf = false
    var roleARN: String?
    var sessionName: String?
    var externalID: String?
    var policy: String?
    /// How long the role's credentials last, in seconds.
    var seconds: String?
    /// The machine's role; nil takes the one it has.
    var machineRole: String?
    var region: String?
    var endpoint: String?
    /// All values of ossutil's file, by names without `-` and `_`.
    private(set) var values: [String: String] = [:]

    /// `~/.ossutilconfig` of either version; nil when it has no values for the profile.
    init?(ossutil text: String, profile: String?, bucket: String) {
        var sections: [String: [String: String]] = [:]
        for (name, values) in CredentialFiles.sections(text) {
            let pairs = values.filter { !$0.value.isEmpty }.map { (Self.plain($0.key), $0.value) }
            sections[name.lowercased()] = Dictionary(pairs) { $1 }
        }
        let name = profile.map { $0 == "default" ? "default" : "profile \($0.lowercased())" }
        guard let values = name.map({ sections[$0] }) ?? sections["credentials"] ?? sections["default"] else {
            return nil
        }
        origin = "the profile \(profile ?? "default") of ossutil"
        // Version 1 has proxies and timeouts in a section of their own.
        self.values = (sections["default"] ?? [:]).merging(values) { $1 }
        fill(
            id: values["accesskeyid"] ?? values["accesskey"], secret: values["accesskeysecret"],
            token: values["ststoken"] ?? values["securitytoken"])
        roleARN = values["ramrolearn"] ?? values["rolearn"]
        sessionName = values["rolesessionname"]
        machineRole = values["ecsrolename"]
        switch values["mode"]?.lowercased() {
        case nil, "ak", "ststoken": break
        case "ramrolearn": mode = .role
        case "ecsramrole": mode = .machine
        case "anonymous": mode = .anonymous
        default: mode = .other(values["mode"] ?? "")
        }
        // Values of single buckets: version 1 has endpoints and CNAMEs in a section each.
        let own = sections["buckets \(bucket)"]
        let key = Self.plain(bucket)
        endpoint =
            sections["bucket-cname"]?[key] ?? sections["bucket-endpoint"]?[key] ?? own?["endpoint"]
            ?? values["endpoint"]
        region = own?["region"] ?? values["region"]
    }

    /// `~/.aliyun/config.json`; nil when it has no such profile.
    init?(aliyun text: String, profile: String?) {
        guard let file = try? JSONDecoder().decode(File.self, from: Data(text.utf8)) else { return nil }
        let wanted = profile ?? file.current ?? "default"
        guard let entry = file.profiles.first(where: { $0.name == wanted }) else { return nil }
        origin = "the profile \(wanted) of aliyun"
        fill(id: entry.id, secret: entry.secret, token: entry.token)
        (roleARN, machineRole) = (Self.stated(entry.roleARN), Self.stated(entry.machineRole))
        (sessionName, externalID) = (Self.stated(entry.sessionName), Self.stated(entry.externalID))
        policy = Self.stated(entry.policy)
        seconds = entry.seconds.flatMap { $0 > 0 ? "\($0)" : nil }
        mode = entry.way
        region = Self.stated(entry.region)
    }

    /// `~/.alibabacloud/credentials` of the SDKs; nil when it has no such section.
    init?(shared text: String, profile: String) {
        guard let section = CredentialFiles.sections(text)[profile] else { return nil }
        // For the SDKs the rest of a line is a comment.
        let values = section.mapValues { $0.prefix { $0 != "#" }.trimmed }
        origin = "the profile \(profile) of Alibaba Cloud's SDKs"
        fill(id: values["access_key_id"], secret: values["access_key_secret"], token: values["security_token"])
        roleARN = Self.stated(values["role_arn"])
        sessionName = Self.stated(values["role_session_name"])
        policy = Self.stated(values["policy"])
        machineRole = Self.stated(values["role_name"])
        switch values["type"] {
        case nil, "access_key", "sts": break
        case "ram_role_arn": mode = .role
        case "ecs_ram_role": mode = .machine
        case "oidc_role_arn":
            mode = .identityToken(
                file: values["oidc_token_file_path"] ?? "", provider: values["oidc_provider_arn"] ?? "")
        case let type?: mode = .other(type)
        }
    }

    /// Whether it names, validly or not, a source of credentials.
    var namesCredentials: Bool { mode != .keys || credentials != nil || isHalf }

    /// Whether a text is a file of the `aliyun` tool.
    static func isReadable(aliyun text: String) -> Bool {
        (try? JSONDecoder().decode(File.self, from: Data(text.utf8))) != nil
    }

    private struct File: Decodable {
        var current: String?
        var profiles: [Profile]
    }

    private struct Profile: Decodable {
        var name: String
        var mode: String?
        var id: String?
        var secret: String?
        var token: String?
        var roleARN: String?
        var sessionName: String?
        var externalID: String?
        var policy: String?
        var seconds: Int?
        var machineRole: String?
        var region: String?
        var source: String?
        var command: String?
        var url: String?
        var tokenFile: String?
        var provider: String?
        var signOnURL: String?
        var account: String?
        var access: String?
        var signOnToken: String?
        var signOnEnd: Int64?

        enum CodingKeys: String, CodingKey {
            case name, mode, policy
            case id = "access_key_id"
            case secret = "access_key_secret"
            case token = "sts_token"
            case roleARN = "ram_role_arn"
            case sessionName = "ram_session_name"
            case externalID = "external_id"
            case seconds = "expired_seconds"
            case machineRole = "ram_role_name"
            case region = "region_id"
            case source = "source_profile"
            case command = "process_command"
            case url = "credentials_uri"
            case tokenFile = "oidc_token_file"
            case provider = "oidc_provider_arn"
            case signOnURL = "cloud_sso_sign_in_url"
            case account = "cloud_sso_account_id"
            case access = "cloud_sso_access_config"
            case signOnToken = "access_token"
            case signOnEnd = "cloud_sso_access_token_expire"
        }

        /// The modes of the tool; it writes none for keys.
        var way: Mode {
            switch mode {
            case nil, "", "AK", "StsToken": .keys
            case "RamRoleArn": .role
            case "EcsRamRole": .machine
            case "ChainableRamRoleArn": .chain(source: source ?? "")
            case "OIDC": .identityToken(file: tokenFile ?? "", provider: provider ?? "")
            case "External": .program(command ?? "")
            case "CredentialsURI": .url(url ?? "")
            case "CloudSSO":
                .signOn(
                    SignOn(
                        url: signOnURL ?? "", account: account ?? "", access: access ?? "",
                        token: Secret(signOnToken ?? ""), end: signOnEnd ?? 0))
            case let name?: .other(name)
            }
        }
    }

    private mutating func fill(id: String?, secret: String?, token: String?) {
        guard let id = Self.stated(id), let secret = Self.stated(secret) else {
            isHalf = Self.stated(id) != nil || Self.stated(secret) != nil
            return
        }
        credentials = Credentials(
            accessKeyID: id, secretKey: Secret(secret), sessionToken: Self.stated(token).map { Secret($0) })
    }

    private static func stated(_ text: String?) -> String? { text.flatMap { $0.isEmpty ? nil : $0 } }

    /// The comparable form of a name, which may be written `access-key-id`, `access_key_id` or `accessKeyID`.
    private static func plain(_ name: String) -> String { name.lowercased().filter { $0 != "-" && $0 != "_" } }
}
