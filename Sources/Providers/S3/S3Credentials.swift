import Basics
package import ObjectStorage

/// Where S3's users keep their credentials, asked in botocore's order after our own variables (s3.md section 7).
package struct S3Credentials: Sendable {
    /// What was found, and where, for messages.
    package struct Found: Sendable {
        package let credentials: Credentials
        package let origin: String
    }

    let environment: [String: String]
    let profile: String?
    private let bucket: String
    /// The text of a file; nil when there is none that can be read.
    let text: @Sendable (String) -> String?

    /// `profile` is the section of the AWS files; nil takes `AWS_PROFILE` or `default`.
    package init(
        environment: [String: String], profile: String?, bucket: String,
        text: @escaping @Sendable (String) -> String? = CredentialFiles.readText
    ) {
        (self.environment, self.profile, self.bucket, self.text) = (environment, profile, bucket, text)
    }

    /// The first source that has a whole pair; nil when none has: requests are anonymous then.
    package func find() -> Found? {
        let prefixes = ["PAILFS", "AWS"]
        // A named profile is a choice; variables of the shell are only there.
        if profile == nil {
            for prefix in prefixes { if let found = fromEnvironment(prefix) { return found } }
        } else if let found = fromEnvironment("PAILFS") {
            return found
        }
        return fromAWSFiles() ?? fromPasswordFile()
    }

    /// The profile that was asked for and is in none of the files.
    var missingProfile: String? {
        guard let profile else { return nil }
        return settings(of: profile).isEmpty ? profile : nil
    }

    /// The profile that was named and gets its credentials in a way of Amazon's own tools, and the setting that says so.
    var profileOfTheTools: (name: String, setting: String)? {
        guard let name = profile ?? environment["AWS_PROFILE"], !name.isEmpty, fromAWSFiles() == nil else { return nil }
        let settings = settings(of: name)
        let known = [
            "credential_process", "role_arn", "sso_session", "sso_start_url", "web_identity_token_file",
            "login_session",
        ]
        let setting = known.first { setting in settings.contains { $0[setting] != nil } }
        return setting.map { (name, $0) }
    }

    /// What the files say of a profile, each that knows it.
    private func settings(of profile: String) -> [[String: String]] {
        [credentialsFile, configFile].compactMap { section(of: $0, named: ["profile \(profile)", profile]) }
    }

    /// The region that the environment or the profile names.
    package var region: String? {
        for name in ["AWS_REGION", "AWS_DEFAULT_REGION"] {
            if let region = environment[name], !region.isEmpty { return region }
        }
        return section(of: configFile, named: isDefault ? ["default"] : ["profile \(section)", section])?["region"]
    }

    /// The endpoint that the environment or the profile names.
    package var endpoint: String? {
        for name in ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"] {
            if let endpoint = environment[name], !endpoint.isEmpty { return endpoint }
        }
        return section(of: configFile, named: isDefault ? ["default"] : ["profile \(section)", section])?[
            "endpoint_url"]
    }

    private var section: String { profile ?? environment["AWS_PROFILE"] ?? "default" }
    private var isDefault: Bool { section == "default" }
    private var home: String? { environment["HOME"] }

    private var credentialsFile: String? {
        environment["AWS_SHARED_CREDENTIALS_FILE"] ?? home.map { $0 + "/.aws/credentials" }
    }
    private var configFile: String? { environment["AWS_CONFIG_FILE"] ?? home.map { $0 + "/.aws/config" } }

    func fromEnvironment(_ prefix: String) -> Found? {
        guard let id = environment["\(prefix)_ACCESS_KEY_ID"], !id.isEmpty,
            let secret = environment["\(prefix)_SECRET_ACCESS_KEY"], !secret.isEmpty
        else { return nil }
        let token = environment["\(prefix)_SESSION_TOKEN"].flatMap { $0.isEmpty ? nil : Secret($0) }
        return Found(
            credentials: Credentials(accessKeyID: id, secretKey: Secret(secret), sessionToken: token),
            origin: "\(prefix)_ACCESS_KEY_ID")
    }

    private func fromAWSFiles() -> Found? {
        let places = [(credentialsFile, [section]), (configFile, isDefault ? ["default"] : ["profile \(section)"])]
        for (file, names) in places {
            guard let values = self.section(of: file, named: names), let id = values["aws_access_key_id"],
                let secret = values["aws_secret_access_key"]
            else { continue }
            return Found(
                credentials: Credentials(
                    accessKeyID: id, secretKey: Secret(secret),
                    sessionToken: values["aws_session_token"].map { Secret($0) }), origin: file ?? "")
        }
        return nil
    }

    private func fromPasswordFile() -> Found? {
        for path in [home.map { $0 + "/.passwd-s3fs" }, "/etc/passwd-s3fs"].compactMap(\.self) {
            guard let pair = text(path).flatMap({ CredentialFiles.password($0, bucket: bucket) }) else { continue }
            return Found(credentials: Credentials(accessKeyID: pair.id, secretKey: Secret(pair.secret)), origin: path)
        }
        return nil
    }

    private func section(of file: String?, named names: [String]) -> [String: String]? {
        guard let file, let text = text(file) else { return nil }
        let sections = CredentialFiles.sections(text)
        return names.lazy.compactMap { sections[$0] }.first
    }
}
