package import Basics
package import HTTP
package import ObjectStorage

/// Where OSS's users keep their credentials (oss.md section 7), asked after our own variables: the environment, a token
/// of the machine's orchestrator, the tools' files, a URL that tells them, the machine's role.
package struct OSSCredentials: Sendable {
    /// Where the provider's services are asked.
    package struct Services: Sendable {
        package var metadata = "http://100.100.100.200"
        package var tokens = "https://sts.aliyuncs.com"

        package init() {}
    }

    let environment: [String: String]
    let services: Services
    let text: @Sendable (String) -> String?
    private let profile: String?
    private let bucket: String

    /// `profile` is one of ossutil's or of the `aliyun` tool's.
    package init(
        environment: [String: String], profile: String?, bucket: String, services: Services = Services(),
        text: @escaping @Sendable (String) -> String? = CredentialFiles.readText
    ) {
        (self.environment, self.profile, self.bucket) = (environment, profile, bucket)
        (self.services, self.text) = (services, text)
    }

    /// Every place of this chain; none is anonymous access.
    package func provider(engine: HTTPEngine, time: any TimeSource) -> any CredentialsProvider {
        RenewingCredentials(time: time) { () async throws(ObjectStoreError) in try await search(engine, time) }
    }

    private func search(_ engine: HTTPEngine, _ time: any TimeSource) async throws(ObjectStoreError) -> Credentials? {
        if let found = fromEnvironment() { return found }
        if profile == nil, let found = try await fromIdentityToken(engine, time: time) { return found }
        if let entry, let found = try await credentials(of: entry, engine, time: time) { return found }
        if let found = fromPasswordFile() { return found }
        if let url = value("ALIBABA_CLOUD_CREDENTIALS_URI") {
            let service = CredentialService(engine: engine, name: "ALIBABA_CLOUD_CREDENTIALS_URI")
            return try service.credentials(try await service.ask(.get, url))
        }
        if let role = value("ALIBABA_CLOUD_ECS_METADATA") { return try await fromMachine(engine, role: role) }
        guard value("ALIBABA_CLOUD_ECS_METADATA_DISABLED")?.lowercased() != "true" else { return nil }
        return try await CredentialService.ifThere { () async throws(ObjectStoreError) in
            try await fromMachine(engine, role: nil)
        }
    }

    /// The region that the environment or a tool's file names.
    package var region: String? { value("OSS_REGION") ?? value("ALIBABA_CLOUD_REGION_ID") ?? entry?.region }

    /// The endpoint that the environment or a tool's file names for the bucket.
    package var endpoint: String? { value("OSS_ENDPOINT") ?? entry?.endpoint }

    func value(_ name: String) -> String? { environment[name].flatMap { $0.isEmpty ? nil : $0 } }

    /// A pair that the environment has. A named profile is a choice, which only our own variables go before.
    func fromEnvironment() -> Credentials? {
        func pair(_ id: String, _ secret: String, _ token: String) -> Credentials? {
            guard let id = value(id), let secret = value(secret) else { return nil }
            return Credentials(
                accessKeyID: id, secretKey: Secret(secret), sessionToken: value(token).map { Secret($0) })
        }
        let ours = pair("PAILFS_ACCESS_KEY_ID", "PAILFS_SECRET_ACCESS_KEY", "PAILFS_SESSION_TOKEN")
        guard profile == nil else { return ours }
        return ours ?? pair("OSS_ACCESS_KEY_ID", "OSS_ACCESS_KEY_SECRET", "OSS_SESSION_TOKEN")
            ?? pair(
                "ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET", "ALIBABA_CLOUD_SECURITY_TOKEN")
    }

    private func fromPasswordFile() -> Credentials? {
        for path in [(value("HOME") ?? "") + "/.passwd-ossfs", "/etc/passwd-ossfs"] {
            guard let pair = text(path).flatMap({ CredentialFiles.password($0, bucket: bucket) }) else { continue }
            return Credentials(accessKeyID: pair.id, secretKey: Secret(pair.secret))
        }
        return nil
    }

    /// What the first of the tools' files says that has the profile.
    private var entry: OSSToolEntry? {
        let home = value("HOME") ?? ""
        let ossutil = text(value("OSSUTIL_CONFIG_FILE") ?? home + "/.ossutilconfig")
            .flatMap { OSSToolEntry(ossutil: $0, profile: profile ?? value("OSS_PROFILE"), bucket: bucket) }
        if let ossutil { return ossutil }
        let named = profile ?? value("ALIBABA_CLOUD_PROFILE")
        return text(home + "/.aliyun/config.json").flatMap { OSSToolEntry(aliyun: $0, profile: named) }
    }
}
