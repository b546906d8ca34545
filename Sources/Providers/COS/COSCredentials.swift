package import Basics
package import HTTP
package import ObjectStorage

/// Where COS's users keep their credentials (cos.md section 7), asked in the order of that table after our own variables.
package struct COSCredentials: Sendable {
    private let environment: [String: String]
    private let profile: String?
    private let bucket: String
    private let metadata: String
    private let text: @Sendable (String) -> String?

    /// `profile` is a section of `~/.tencentcloud/credentials`; `metadata` is where a machine of the cloud asks about
    /// itself.
    package init(
        environment: [String: String], profile: String?, bucket: String,
        metadata: String = "http://metadata.tencentyun.com",
        text: @escaping @Sendable (String) -> String? = CredentialFiles.readText
    ) {
        (self.environment, self.profile, self.bucket) = (environment, profile, bucket)
        (self.metadata, self.text) = (metadata, text)
    }

    /// Every place of this chain; none is anonymous access.
    package func provider(engine: HTTPEngine, time: any TimeSource) -> any CredentialsProvider {
        RenewingCredentials(time: time) { () async throws(ObjectStoreError) in try await search(engine) }
    }

    private func search(_ engine: HTTPEngine) async throws(ObjectStoreError) -> Credentials? {
        if let found = find() { return found }
        if let role = commandLineTool?.role { return try await fromMachine(engine, role: role) }
        return try await CredentialService.ifThere { () async throws(ObjectStoreError) in
            try await fromMachine(engine, role: nil)
        }
    }

    /// The first pair that needs nobody to be asked.
    package func find() -> Credentials? {
        let ours = pair("PAILFS_ACCESS_KEY_ID", "PAILFS_SECRET_ACCESS_KEY", ["PAILFS_SESSION_TOKEN"])
        if let ours { return ours }
        if profile != nil { return fromSharedFile() }
        let tokens = ["TENCENTCLOUD_TOKEN", "TENCENTCLOUD_SESSION_TOKEN"]
        return pair("TENCENTCLOUD_SECRET_ID", "TENCENTCLOUD_SECRET_KEY", tokens)
            ?? pair("COS_SECRET_ID", "COS_SECRET_KEY", ["COS_TOKEN"]) ?? pair("COS_SECRETID", "COS_SECRETKEY", [])
            ?? pair("COSACCESSKEYID", "COSSECRETACCESSKEY", []) ?? fromOldTool() ?? commandLineTool?.credentials
            ?? fromPasswordFile() ?? fromSharedFile()
    }

    /// The region that a tool's file names for the bucket.
    package var region: String? { oldTool["region"] ?? commandLineTool?.region }
    /// The endpoint that a tool's file names for the bucket.
    package var endpoint: String? { oldTool["endpoint"] ?? commandLineTool?.endpoint }
    /// The account's number, which ends the names of its buckets.
    package var appID: String? { value("TENCENTCLOUD_APPID") ?? value("COS_APPID") ?? oldTool["appid"] }

    private var home: String { value("HOME") ?? "" }

    private func value(_ name: String) -> String? { environment[name].flatMap { $0.isEmpty ? nil : $0 } }

    private func pair(_ id: String, _ secret: String, _ tokens: [String]) -> Credentials? {
        guard let id = value(id), let secret = value(secret) else { return nil }
        let token = tokens.lazy.compactMap { value($0) }.first
        return Credentials(accessKeyID: id, secretKey: Secret(secret), sessionToken: token.map { Secret($0) })
    }

    // MARK: Files

    /// COSCMD's `~/.cos.conf`.
    private var oldTool: [String: String] {
        text(home + "/.cos.conf").flatMap { CredentialFiles.sections($0)["common"] }?.filter { !$0.value.isEmpty }
            ?? [:]
    }

    private func fromOldTool() -> Credentials? {
        let values = oldTool
        guard let id = values["secret_id"] ?? values["access_id"], let secret = values["secret_key"] else { return nil }
        return Credentials(
            accessKeyID: id, secretKey: Secret(secret), sessionToken: values["token"].map { Secret($0) })
    }

    private func fromSharedFile() -> Credentials? {
        for path in [home + "/.tencentcloud/credentials", "/etc/tencentcloud/credentials"] {
            let section = profile ?? value("TENCENTCLOUD_PROFILE") ?? "default"
            guard let values = text(path).flatMap({ CredentialFiles.sections($0)[section] }),
                let id = values["secret_id"], let secret = values["secret_key"]
            else { continue }
            return Credentials(accessKeyID: id, secretKey: Secret(secret))
        }
        return nil
    }

    private func fromPasswordFile() -> Credentials? {
        for path in [home + "/.passwd-cosfs", "/etc/passwd-cosfs"] {
            guard let pair = text(path).flatMap({ CredentialFiles.password($0, bucket: bucket) }) else { continue }
            return Credentials(accessKeyID: pair.id, secretKey: Secret(pair.secret))
        }
        return nil
    }

    /// coscli's `~/.cos.yaml`, of which the values of `base` and of the bucket's own entry matter.
    private var commandLineTool: CommandLineTool? {
        text(home + "/.cos.yaml").map { CommandLineTool($0, bucket: bucket) }
    }

    private struct CommandLineTool {
        var credentials: Credentials?
        var region: String?
        var endpoint: String?
        /// Set when the machine's role is to be used; empty takes whichever it has.
        var role: String?

        init(_ text: String, bucket: String) {
            var base: [String: String] = [:]
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
            let revealed = { (name: String) in base[name].map { isPlain ? $0 : COSCLISecret.reveal($0) } }
            if role == nil, let id = revealed("secretid"), let secret = revealed("secretkey") {
                credentials = Credentials(
                    accessKeyID: id, secretKey: Secret(secret),
                    sessionToken: revealed("sessiontoken").map { Secret($0) })
            }
        }
    }

    // MARK: The machine

    /// The role of a CVM; without a name whichever it has.
    private func fromMachine(_ engine: HTTPEngine, role: String?) async throws(ObjectStoreError) -> Credentials? {
        let service = CredentialService(engine: engine, name: "the machine's metadata service")
        let path = "\(metadata)/latest/meta-data/cam/security-credentials/"
        var name = role ?? ""
        if name.isEmpty {
            let names = try await service.text(.get, path).split(whereSeparator: \.isNewline)
            guard let first = names.first else { return nil }
            name = String(first)
        }
        return try service.credentials(try await service.ask(.get, path + PercentEncoding.encode(name)))
    }
}
