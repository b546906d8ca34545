import ObjectStorage

/// The profiles of Amazon's two files, merged as botocore does (botocore, "Credentials").
struct AWSProfiles: Sendable {
    typealias Values = [String: String]

    /// The values of each profile from both files; those of the credentials file come last and win.
    private(set) var profiles: [String: Values] = [:]
    /// The values of the credentials file alone: its keys precede a program, and that precedes keys of the other file.
    private(set) var inCredentialsFile: [String: Values] = [:]
    private var sessions: [String: Values] = [:]
    private var services: [String: Values] = [:]

    /// nil for a file that does not exist.
    init(config: String?, credentials: String?) {
        let sections = config.map { CredentialFiles.sections($0) } ?? [:]
        for (title, values) in sections {
            if title == "default" {
                // `[profile default]` precedes `[default]`.
                if sections["profile default"] == nil { profiles[title] = values }
            } else if let name = Self.name(title, after: "profile") {
                profiles[name] = values
            } else if let name = Self.name(title, after: "sso-session") {
                sessions[name] = values
            } else if let name = Self.name(title, after: "services") {
                services[name] = values
            }
        }
        inCredentialsFile = credentials.map { CredentialFiles.sections($0) } ?? [:]
        for (name, values) in inCredentialsFile { profiles[name, default: [:]].merge(values) { $1 } }
    }

    /// The endpoint of a service in a profile or, first, in the `services` section that the profile names.
    func endpoint(of service: String, profile: String) -> String? {
        guard let values = profiles[profile], values["ignore_configured_endpoint_urls"]?.lowercased() != "true" else {
            return nil
        }
        let own = values["services"].flatMap { services[$0]?["\(service).endpoint_url"] }
        return Self.stated(own) ?? Self.stated(values["endpoint_url"])
    }

    func session(_ name: String) -> Values? { sessions[name] }

    /// A whole pair of keys. Throws when one is there without the other.
    static func keys(
        _ values: Values?, profile: String, in origin: String
    ) throws(ObjectStoreError) -> FoundCredentials? {
        guard let values else { return nil }
        let (id, secret) = (stated(values["aws_access_key_id"]), stated(values["aws_secret_access_key"]))
        guard let id, let secret else {
            guard id != nil || secret != nil else { return nil }
            throw CredentialProblem.incomplete(
                "the profile \(profile) has only one of aws_access_key_id and aws_secret_access_key; write both")
        }
        let token = stated(values["aws_session_token"]) ?? stated(values["aws_security_token"])
        return FoundCredentials(
            Credentials(accessKeyID: id, secretKey: Secret(secret), sessionToken: token.map { Secret($0) }), origin)
    }

    private static func stated(_ text: String?) -> String? { text.flatMap { $0.isEmpty ? nil : $0 } }

    /// `work` of `profile work` and of `profile "work"`.
    private static func name(_ title: String, after kind: String) -> String? {
        guard title.hasPrefix(kind + " ") else { return nil }
        let name = title.dropFirst(kind.count + 1)
        guard let quote = name.first, quote == "\"" || quote == "'", name.last == quote, name.count >= 2 else {
            return String(name)
        }
        return String(name.dropFirst().dropLast())
    }
}
