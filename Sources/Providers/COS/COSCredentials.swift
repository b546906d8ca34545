package import Basics
package import HTTP
package import ObjectStorage

/// The places where COS's users keep their credentials (documentation of coscli and COSCMD), read after pailfs's own
/// variables.
///
/// A profile that was named, or a file with credentials of another kind than keys, is used, or an error gives the remedy.
package struct COSCredentials: Sendable {
    /// The endpoints of the provider's credential services.
    package struct Services: Sendable {
        /// The metadata service of a machine in the cloud.
        package var metadata = "http://metadata.tencentyun.com"
        package var tokens = "https://sts.tencentcloudapi.com"

        package init() {}
    }

    let variables: CredentialVariables
    let profile: String?
    private let bucket: String
    let services: Services
    let text: @Sendable (String) -> String?

    /// `profile` is one of tccli's, or a section of `~/.tencentcloud/credentials`.
    package init(
        environment: [String: String], profile: String?, bucket: String, services: Services = Services(),
        text: @escaping @Sendable (String) -> String? = CredentialFiles.readText
    ) {
        variables = CredentialVariables(environment: environment)
        (self.profile, self.bucket) = (profile, bucket)
        (self.services, self.text) = (services, text)
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
        if profile == nil, oldTool["anonymous"]?.lowercased() == "true" { return nil }
        if let found = try fromOldTools() { return found }
        if profile == nil, let role = commandLineTool?.role {
            return try await fromMachine(engine, role: role).map { FoundCredentials($0, "cvmrolename of ~/.cos.yaml") }
        }
        if let found = try await fromAccountFiles(engine, time) { return found }
        if let found = try await fromIdentityToken(engine, time) { return found }
        let machine = try await CredentialService.ifThere { () async throws(ObjectStoreError) in
            try await fromMachine(engine, role: nil)
        }
        return machine.map { FoundCredentials($0, "the role of this machine") }
    }

    private func fromVariables() throws(ObjectStoreError) -> FoundCredentials? {
        let own = try variables.pair("PAILFS_ACCESS_KEY_ID", "PAILFS_SECRET_ACCESS_KEY", ["PAILFS_SESSION_TOKEN"])
        guard own == nil, profile == nil else { return own }
        let names = [
            (
                "TENCENTCLOUD_SECRET_ID", "TENCENTCLOUD_SECRET_KEY",
                ["TENCENTCLOUD_TOKEN", "TENCENTCLOUD_SESSION_TOKEN"]
            ),
            ("COS_SECRET_ID", "COS_SECRET_KEY", ["COS_TOKEN"]), ("COS_SECRETID", "COS_SECRETKEY", []),
            ("COSACCESSKEYID", "COSSECRETACCESSKEY", []),
        ]
        for (id, secret, tokens) in names {
            if let found = try variables.pair(id, secret, tokens) { return found }
        }
        return nil
    }

    /// Tools for COS alone, whose files have no profiles.
    private func fromOldTools() throws(ObjectStoreError) -> FoundCredentials? {
        guard profile == nil else { return nil }
        if let found = try fromOldTool() { return found }
        if let keys = commandLineTool?.credentials { return FoundCredentials(keys, "~/.cos.yaml") }
        if commandLineTool?.isHalf == true {
            throw CredentialProblem.incomplete("~/.cos.yaml has only one of secretid and secretkey; write both")
        }
        return commandLineTool?.role == nil ? fromPasswordFile() : nil
    }

    /// The bucket's region, from the environment or a tool's file.
    package var region: String? {
        oldTool["region"] ?? commandLineTool?.region ?? variables["TENCENTCLOUD_REGION"] ?? accountRegion
    }
    /// The bucket's endpoint, from a tool's file.
    package var endpoint: String? { oldTool["endpoint"] ?? commandLineTool?.endpoint }
    /// The account's number, a suffix of its buckets' names.
    package var appID: String? {
        variables["TENCENTCLOUD_APPID"] ?? variables["COS_APPID"] ?? oldTool["appid"]
    }

    /// For `ToolSetting`: the environment, and the contents of the files of coscmd and coscli.
    package var toolSettings: [ToolSetting.Source] {
        var sources = [ToolSetting.Source(.variable, "", variables.environment)]
        guard profile == nil else { return sources }
        sources.append(ToolSetting.Source(.coscmd, "~/.cos.conf", oldTool))
        if let tool = commandLineTool { sources.append(ToolSetting.Source(.coscli, "~/.cos.yaml", tool.base)) }
        return sources
    }

    var home: String { variables.home ?? "" }

    // MARK: Files

    /// COSCMD's `~/.cos.conf`.
    private var oldTool: [String: String] {
        text(home + "/.cos.conf").flatMap { CredentialFiles.sections($0)["common"] }?.filter { !$0.value.isEmpty }
            ?? [:]
    }

    private func fromOldTool() throws(ObjectStoreError) -> FoundCredentials? {
        let values = oldTool
        let (id, secret) = (values["secret_id"] ?? values["access_id"], values["secret_key"])
        guard let id, let secret else {
            guard id != nil || secret != nil else { return nil }
            throw CredentialProblem.incomplete("~/.cos.conf has only one of secret_id and secret_key; write both")
        }
        return FoundCredentials(
            Credentials(accessKeyID: id, secretKey: Secret(secret), sessionToken: values["token"].map { Secret($0) }),
            "~/.cos.conf")
    }

    private var passwordFiles: [String] { [home + "/.passwd-cosfs", "/etc/passwd-cosfs"] }

    /// The files that are searched for credentials, for messages.
    package var files: [String] {
        let ofTools = profile == nil ? [home + "/.cos.conf", home + "/.cos.yaml"] + passwordFiles : []
        return ofTools + [accountFile] + sharedFiles
    }

    private func fromPasswordFile() -> FoundCredentials? {
        for path in passwordFiles {
            guard let pair = text(path).flatMap({ CredentialFiles.password($0, bucket: bucket) }) else { continue }
            return FoundCredentials(Credentials(accessKeyID: pair.id, secretKey: Secret(pair.secret)), path)
        }
        return nil
    }

    /// coscli's `~/.cos.yaml`: only the values of `base` and of the bucket's own entry are used.
    private var commandLineTool: CommandLineTool? {
        text(home + "/.cos.yaml").map { CommandLineTool($0, bucket: bucket) }
    }

    private struct CommandLineTool {
        var credentials: Credentials?
        /// Only one of the two keys is set.
        var isHalf = false
        var region: String?
        var endpoint: String?
        /// The machine's role to use; empty: the one it has.
        var role: String?
        /// The file's values for all buckets.
        private(set) var base: [String: String] = [:]

        init(_ text: String, bucket: String) {
            var buckets: [[String: String]] = []
            var isInBuckets = false
            for line in text.split(whereSeparator: \.isNewline) {
                var rest = line.trimmed[...]
                guard !rest.isEmpty, !rest.hasPrefix("#") else { continue }
                if rest.hasPrefix("- ") {
                    buckets.append([:])
                    rest = rest.dropFirst(2)
                }
                guard let colon = rest.firstIndex(of: ":") else { continue }
                let name = rest[..<colon].trimmed.lowercased()
                var value = rest[rest.index(after: colon)...].trimmed
                if value.count >= 2, let quote = value.first, quote == "\"" || quote == "'", value.last == quote {
                    value = String(value.dropFirst().dropLast())
                }
                if value.isEmpty, name == "base" || name == "buckets" {
                    isInBuckets = name == "buckets"
                } else if !value.isEmpty {
                    if isInBuckets, !buckets.isEmpty { buckets[buckets.count - 1][name] = value }
                    if !isInBuckets { base[name] = value }
                }
            }
            let own = buckets.first { $0["name"] == bucket || $0["alias"] == bucket }
            (region, endpoint) = (own?["region"], own?["endpoint"])
            if base["mode"]?.lowercased() == "cvmrole" { role = base["cvmrolename"] ?? "" }
            let isPlain = base["disableencryption"]?.lowercased() == "true"
            isHalf = (base["secretid"] == nil) != (base["secretkey"] == nil)
            let revealed = { [base] (name: String) in base[name].map { isPlain ? $0 : COSCLISecret.reveal($0) } }
            if role == nil, let id = revealed("secretid"), let secret = revealed("secretkey") {
                credentials = Credentials(
                    accessKeyID: id, secretKey: Secret(secret),
                    sessionToken: revealed("sessiontoken").map { Secret($0) })
            }
        }
    }

    // MARK: The machine

    /// The credentials of a CVM's role; without a name, of the one it has.
    func fromMachine(_ engine: HTTPEngine, role: String?) async throws(ObjectStoreError) -> Credentials? {
        let service = CredentialService(engine: engine, name: "the machine's metadata service")
        let path = "\(services.metadata)/latest/meta-data/cam/security-credentials/"
        var name = role ?? ""
        if name.isEmpty {
            let names = try await service.text(.get, path).split(whereSeparator: \.isNewline)
            guard let first = names.first else { return nil }
            name = String(first)
        }
        return try service.credentials(try await service.ask(.get, path + PercentEncoding.encode(name)))
    }
}
