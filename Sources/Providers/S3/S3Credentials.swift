package import Basics
package import HTTP
package import ObjectStorage

/// The places where S3's users keep their credentials, in botocore's order, after pailfs's own variables (botocore,
/// "Credentials").
///
/// A source that was chosen, or that has credentials of another kind than keys, is used, or an error gives the remedy. pailfs
/// does not take the next source instead: its credentials may belong to another account.
package struct S3Credentials: Sendable {
    let variables: CredentialVariables
    /// nil takes `AWS_PROFILE`, or `default`.
    let profile: String?
    private let bucket: String
    private let statedRegion: String?
    /// The text of a file; nil when it cannot be read.
    let text: @Sendable (String) -> String?

    /// `profile` is the section of the AWS files; nil takes `AWS_PROFILE` or `default`. `region` is that of the mount, for
    /// credential services without a region of their own.
    package init(
        environment: [String: String], profile: String?, bucket: String, region: String? = nil,
        text: @escaping @Sendable (String) -> String? = CredentialFiles.readText
    ) {
        variables = CredentialVariables(environment: environment)
        (self.profile, self.bucket, self.text) = (profile, bucket, text)
        statedRegion = region
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
        if let found = try variables.pair(
            "PAILFS_ACCESS_KEY_ID", "PAILFS_SECRET_ACCESS_KEY", ["PAILFS_SESSION_TOKEN"])
        {
            return found
        }
        // A named profile is deliberate; the shell's variables may be set by chance.
        if profile == nil, let found = try fromVariables() { return found }
        let services = AWSServices(engine: engine, time: time, sources: self)
        if let found = try await fromProfile(services) { return found }
        if chosenProfile == nil, let found = fromPasswordFile() { return found }
        if let found = try await services.fromContainer() { return found }
        let machine = try await CredentialService.ifThere { () async throws(ObjectStoreError) in
            try await services.fromMachine()
        }
        return machine.map { FoundCredentials($0, "the role of this machine") }
    }

    func fromVariables() throws(ObjectStoreError) -> FoundCredentials? {
        try variables.pair(
            "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", ["AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"])
    }

    /// The region, from the environment or the profile.
    package var region: String? {
        variables["AWS_REGION"] ?? variables["AWS_DEFAULT_REGION"]
            ?? profiles.profiles[section]?["region"].flatMap { $0.isEmpty ? nil : $0 }
    }

    /// The region of a service that issues credentials.
    var serviceRegion: String? { region ?? statedRegion }

    /// The endpoint, from the environment or the profile.
    package var endpoint: String? { endpoint(of: "s3") ?? specialEndpoint }

    /// Amazon's own hosts for FIPS, IPv6 or acceleration, where the environment or the profile asks for them.
    private var specialEndpoint: String? {
        let values = profiles.profiles[section] ?? [:]
        func isSet(_ texts: String?...) -> Bool { texts.lazy.compactMap(\.self).first?.lowercased() == "true" }
        let fips = isSet(variables["AWS_USE_FIPS_ENDPOINT"], values["use_fips_endpoint"])
        let dual = isSet(
            variables["AWS_USE_DUALSTACK_ENDPOINT"], values["s3.use_dualstack_endpoint"],
            values["use_dualstack_endpoint"])
        // The account's own requests, and buckets whose name does not fit in front of the host, use other hosts.
        if isSet(values["s3.use_accelerate_endpoint"]), !bucket.isEmpty, !bucket.contains(".") {
            return "https://s3-accelerate\(dual ? ".dualstack" : "").amazonaws.com"
        }
        guard fips || dual else { return nil }
        let region = serviceRegion ?? "us-east-1"
        return "https://s3\(fips ? "-fips" : "")\(dual ? ".dualstack" : "").\(region).amazonaws.com"
            + (region.hasPrefix("cn-") ? ".cn" : "")
    }

    /// The endpoint of any service, by its name in a `services` section.
    func endpoint(of service: String) -> String? {
        guard variables["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"]?.lowercased() != "true" else { return nil }
        let own = variables["AWS_ENDPOINT_URL_\(service.uppercased())"]
        return own ?? variables["AWS_ENDPOINT_URL"] ?? profiles.endpoint(of: service, profile: section)
    }

    /// The file of certificates, from the environment or the profile.
    package var authorities: (path: String, origin: String)? {
        if let path = variables["AWS_CA_BUNDLE"] { return (expanded(path), "AWS_CA_BUNDLE") }
        let named = profiles.profiles[section]?["ca_bundle"].flatMap { $0.isEmpty ? nil : $0 }
        return named.map { (expanded($0), "ca_bundle of the profile \(section)") }
    }

    /// The profile's addressing of buckets; nil where it sets none.
    package var addressing: FamilyProfile.Addressing? {
        switch profiles.profiles[section]?["s3.addressing_style"]?.lowercased() {
        case "path": .path
        case "virtual": .virtualHost
        default: nil
        }
    }

    /// For `ToolSetting`: the environment, and the profile's values.
    package var toolSettings: [ToolSetting.Source] {
        [
            ToolSetting.Source(.variable, "", variables.environment),
            ToolSetting.Source(.awsProfile, "the profile \(section)", profiles.profiles[section] ?? [:]),
        ]
    }

    // MARK: Files

    /// The profile that the user named.
    var chosenProfile: String? { profile ?? variables["AWS_PROFILE"] ?? variables["AWS_DEFAULT_PROFILE"] }

    var section: String { chosenProfile ?? "default" }

    var credentialsFile: String? {
        (variables["AWS_SHARED_CREDENTIALS_FILE"] ?? variables.home.map { $0 + "/.aws/credentials" }).map(expanded)
    }

    var configFile: String? {
        (variables["AWS_CONFIG_FILE"] ?? variables.home.map { $0 + "/.aws/config" }).map(expanded)
    }

    var profiles: AWSProfiles {
        AWSProfiles(config: configFile.flatMap { text($0) }, credentials: credentialsFile.flatMap { text($0) })
    }

    /// Expands `~/` in a path, as a shell does.
    func expanded(_ path: String) -> String {
        guard path.hasPrefix("~/"), let home = variables.home else { return path }
        return home + path.dropFirst()
    }

    private var passwordFiles: [String] {
        [variables.home.map { $0 + "/.passwd-s3fs" }, "/etc/passwd-s3fs"].compactMap(\.self)
    }

    /// The files that are searched for credentials, for messages.
    package var files: [String] {
        [credentialsFile, configFile].compactMap(\.self) + (chosenProfile == nil ? passwordFiles : [])
    }

    private func fromPasswordFile() -> FoundCredentials? {
        for path in passwordFiles {
            guard let pair = text(path).flatMap({ CredentialFiles.password($0, bucket: bucket) }) else { continue }
            return FoundCredentials(Credentials(accessKeyID: pair.id, secretKey: Secret(pair.secret)), path)
        }
        return nil
    }
}
