package import Basics
package import HTTP
package import ObjectStorage

/// The places where OSS's users keep their credentials (OSS, "Configure access credentials"), read after pailfs's own
/// variables: the environment, a token of the machine's orchestrator, the tools' files, a URL that returns them, the machine's
/// role.
///
/// A profile that was named, or that a file makes the current one, is used, or an error gives the remedy.
package struct OSSCredentials: Sendable {
    /// The endpoints of the provider's credential services.
    package struct Services: Sendable {
        package var metadata = "http://100.100.100.200"
        package var tokens = "https://sts.aliyuncs.com"

        package init() {}
    }

    let variables: CredentialVariables
    private(set) var services: Services
    let text: @Sendable (String) -> String?
    private let profile: String?
    private let bucket: String

    /// `profile` is one of ossutil's, of the `aliyun` tool's or of the SDKs'.
    package init(
        environment: [String: String], profile: String?, bucket: String, services: Services = Services(),
        text: @escaping @Sendable (String) -> String? = CredentialFiles.readText
    ) {
        variables = CredentialVariables(environment: environment)
        (self.profile, self.bucket) = (profile, bucket)
        (self.services, self.text) = (services, text)
        if services.tokens == Services().tokens, let region = variables["ALIBABA_CLOUD_STS_REGION"] {
            let isInside = variables["ALIBABA_CLOUD_VPC_ENDPOINT_ENABLED"]?.lowercased() == "true"
            self.services.tokens = "https://sts\(isInside ? "-vpc" : "").\(region).aliyuncs.com"
        }
    }

    /// A provider with the credentials of `find`.
    package func provider(engine: HTTPEngine, time: any TimeSource) -> any CredentialsProvider {
        RenewingCredentials(time: time) { () async throws(ObjectStoreError) in
            try await find(engine, time)?.credentials
        }
    }

    /// The first source that has credentials; nil when none has: requests are anonymous then.
    package func find(_ engine: HTTPEngine, _ time: any TimeSource) async throws(ObjectStoreError) -> FoundCredentials?
    {
        if let found = try fromVariables() { return found }
        if profile == nil, let found = try await fromIdentityToken(engine, time: time) { return found }
        if ossutil?.namesCredentials != true { try requireReadableFile() }
        if let entry {
            if entry.mode == .anonymous { return nil }
            return FoundCredentials(try await credentials(of: entry, engine, time: time), entry.origin)
        }
        if let name = profile ?? variables["OSS_PROFILE"] ?? variables["ALIBABA_CLOUD_PROFILE"] {
            throw CredentialProblem.noProfile(
                name, in: "~/.ossutilconfig, ~/.aliyun/config.json or ~/.alibabacloud/credentials")
        }
        if let found = fromPasswordFile() { return found }
        if let url = variables["ALIBABA_CLOUD_CREDENTIALS_URI"] {
            return FoundCredentials(try await fromURL(url, engine), "ALIBABA_CLOUD_CREDENTIALS_URI")
        }
        if let role = variables["ALIBABA_CLOUD_ECS_METADATA"] {
            return try await fromMachine(engine, role: role).map { FoundCredentials($0, "ALIBABA_CLOUD_ECS_METADATA") }
        }
        guard variables["ALIBABA_CLOUD_ECS_METADATA_DISABLED"]?.lowercased() != "true" else { return nil }
        let machine = try await CredentialService.ifThere { () async throws(ObjectStoreError) in
            try await fromMachine(engine, role: nil)
        }
        return machine.map { FoundCredentials($0, "the role of this machine") }
    }

    /// The region, from the environment or a tool's file.
    package var region: String? {
        variables["OSS_REGION"] ?? variables["ALIBABA_CLOUD_REGION_ID"] ?? ossutil?.region ?? entry?.region
    }

    /// The bucket's endpoint, from the environment or a tool's file.
    package var endpoint: String? { variables["OSS_ENDPOINT"] ?? ossutil?.endpoint }

    /// A pair from the environment. A named profile is deliberate: only pailfs's own variables precede it.
    private func fromVariables() throws(ObjectStoreError) -> FoundCredentials? {
        let own = try variables.pair("PAILFS_ACCESS_KEY_ID", "PAILFS_SECRET_ACCESS_KEY", ["PAILFS_SESSION_TOKEN"])
        guard own == nil, profile == nil else { return own }
        if let found = try variables.pair("OSS_ACCESS_KEY_ID", "OSS_ACCESS_KEY_SECRET", ["OSS_SESSION_TOKEN"]) {
            return found
        }
        return try variables.pair(
            "ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET", ["ALIBABA_CLOUD_SECURITY_TOKEN"])
    }

    /// For `ToolSetting`: the environment, and the profile's values in ossutil's file.
    package var toolSettings: [ToolSetting.Source] {
        [ToolSetting.Source(.variable, "", variables.environment)]
            + (ossutil.map { [ToolSetting.Source(.ossutil, $0.origin, $0.values)] } ?? [])
    }

    /// The file of certificates that the environment names.
    package var authorities: (path: String, origin: String)? {
        variables["ALIBABA_CLOUD_CA_BUNDLE"].map { ($0, "ALIBABA_CLOUD_CA_BUNDLE") }
    }

    private var passwordFiles: [String] { [home + "/.passwd-ossfs", "/etc/passwd-ossfs"] }

    /// The files that are searched for credentials, for messages.
    package var files: [String] { [ossutilFile, aliyunFile] + sharedFiles + passwordFiles }

    private func fromPasswordFile() -> FoundCredentials? {
        for path in passwordFiles {
            guard let pair = text(path).flatMap({ CredentialFiles.password($0, bucket: bucket) }) else { continue }
            return FoundCredentials(Credentials(accessKeyID: pair.id, secretKey: Secret(pair.secret)), path)
        }
        return nil
    }

    // MARK: The tools' files

    private var home: String { variables.home ?? "" }
    private var aliyunFile: String { home + "/.aliyun/config.json" }

    private var ossutilFile: String { variables["OSSUTIL_CONFIG_FILE"] ?? home + "/.ossutilconfig" }
    private var sharedFiles: [String] {
        variables["ALIBABA_CLOUD_CREDENTIALS_FILE"].map { [$0] }
            ?? [home + "/.alibabacloud/credentials.ini", home + "/.alibabacloud/credentials"]
    }

    private var ossutil: OSSToolEntry? {
        text(ossutilFile)
            .flatMap { OSSToolEntry(ossutil: $0, profile: profile ?? variables["OSS_PROFILE"], bucket: bucket) }
    }

    /// Returns the profile from the first of the tools' files that has it with credentials.
    private var entry: OSSToolEntry? {
        if let ossutil, ossutil.namesCredentials { return ossutil }
        let named = profile ?? variables["ALIBABA_CLOUD_PROFILE"]
        if let found = aliyun(named) { return found }
        let shared = sharedFiles.lazy.compactMap { text($0) }.first
        if let found = shared.flatMap({ OSSToolEntry(shared: $0, profile: named ?? "default") }) { return found }
        return profile == nil ? nil : ossutil
    }

    /// Throws when the `aliyun` tool's file cannot be parsed.
    private func requireReadableFile() throws(ObjectStoreError) {
        guard let text = text(aliyunFile), !OSSToolEntry.isReadable(aliyun: text) else { return }
        throw CredentialProblem.unusable("\(aliyunFile) is not a file of the aliyun tool; correct or remove it")
    }

    /// A profile of `~/.aliyun/config.json`; nil takes its current one.
    func aliyun(_ name: String?) -> OSSToolEntry? {
        guard variables["ALIBABA_CLOUD_CLI_PROFILE_DISABLED"]?.lowercased() != "true" else { return nil }
        return text(aliyunFile).flatMap { OSSToolEntry(aliyun: $0, profile: name) }
    }
}
