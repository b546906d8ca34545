package import Basics
package import HTTP
package import ObjectStorage

/// Where Swift's users keep how they sign in (swift.md section 15): our own variables, the environment that OpenStack's
/// programs read, that of auth version 1, clouds.yaml, rclone's configuration.
package struct SwiftCredentials: Sendable {
    package enum Login: Sendable {
        case tempAuth(TempAuthLogin)
        case keystone(KeystoneLogin)
        /// Nothing renews it.
        case token(SwiftToken)
    }

    /// What was found, and where, for messages.
    package struct Found: Sendable {
        package var login: Login
        package var origin: String
        /// A PEM file of certificates to trust, where the source names one.
        package var caFile: String?

        package init(login: Login, origin: String, caFile: String? = nil) {
            (self.login, self.origin, self.caFile) = (login, origin, caFile)
        }

        package func authenticator(_ engine: HTTPEngine, time: any TimeSource) -> TokenAuthenticator {
            switch login {
            case .tempAuth(let login):
                TokenAuthenticator(time: time) { () async throws(ObjectStoreError) in
                    try await login.token(engine, time)
                }
            case .keystone(let login):
                TokenAuthenticator(time: time) { () async throws(ObjectStoreError) in try await login.token(engine) }
            case .token(let token): TokenAuthenticator(fixed: token, time: time)
            }
        }
    }

    /// A source's settings by the names OpenStack's variables have after `OS_`, in lower case.
    typealias Values = [String: String]

    private let environment: [String: String]
    private let profile: String?
    private let endpoint: String?
    private let region: String?
    private let text: @Sendable (String) -> String?

    /// `profile` is a cloud of clouds.yaml or a remote of rclone's; `endpoint` the URL to log in at, and `region` the
    /// region, when not the source's. `text` gives the text of a file, nil when there is none that can be read.
    package init(
        environment: [String: String], profile: String?, endpoint: String? = nil, region: String? = nil,
        text: @escaping @Sendable (String) -> String? = CredentialFiles.readText
    ) {
        (self.environment, self.profile, self.endpoint) = (environment, profile, endpoint)
        (self.region, self.text) = (region, text)
    }

    /// The first source that says how; nil when none does. Throws when one says it by halves, with what is missing.
    package func find() throws(ObjectStoreError) -> Found? {
        if let profile {
            if let values = try cloud(profile) { return try found(values, in: "the cloud \(profile) of clouds.yaml") }
            if let values = remote(profile) { return try found(values, in: "the remote \(profile) of rclone.conf") }
            throw Self.lacking(
                "the profile \(profile) is neither a cloud of clouds.yaml nor a Swift remote of rclone.conf; check its name"
            )
        }
        if let user = value("PAILFS_ACCESS_KEY_ID"), let key = value("PAILFS_SECRET_ACCESS_KEY") {
            guard let url = endpoint ?? value("ST_AUTH") else {
                throw Self.lacking("PAILFS_ACCESS_KEY_ID is set, but the login URL is not; set auth-url")
            }
            let login = TempAuthLogin(url: url, user: user, key: Secret(key))
            return Found(login: .tempAuth(login), origin: "PAILFS_ACCESS_KEY_ID")
        }
        if let name = value("OS_CLOUD") {
            guard let values = try cloud(name) else {
                throw Self.lacking("OS_CLOUD names \(name), but no clouds.yaml has that cloud")
            }
            return try found(values, in: "the cloud \(name) of clouds.yaml")
        }
        if value("OS_AUTH_URL") != nil || value("OS_STORAGE_URL") != nil && value("OS_AUTH_TOKEN") != nil {
            return try found(openStack, in: "the OS_ variables")
        }
        if let url = endpoint ?? value("ST_AUTH"), let user = value("ST_USER"), let key = value("ST_KEY") {
            guard value("ST_AUTH_VERSION").map({ $0.hasPrefix("1") }) ?? true else {
                throw Self.lacking("ST_AUTH_VERSION is not 1; set the OS_ variables for other versions")
            }
            return Found(
                login: .tempAuth(TempAuthLogin(url: url, user: user, key: Secret(key))), origin: "ST_USER")
        }
        guard let only = try clouds()?.file.onlyCloud, let values = try cloud(only) else { return nil }
        return try found(values, in: "the cloud \(only) of clouds.yaml")
    }

    private func value(_ name: String) -> String? { environment[name].flatMap { $0.isEmpty ? nil : $0 } }

    /// The `OS_` variables; the older `OS_TENANT_` ones mean projects.
    private var openStack: Values {
        var values: Values = [:]
        for (name, value) in environment where name.hasPrefix("OS_") && !value.isEmpty {
            values[name.dropFirst(3).lowercased()] = value
        }
        for part in ["id", "name"] where values["project_\(part)"] == nil {
            values["project_\(part)"] = values["tenant_\(part)"]
        }
        return values
    }

    // MARK: Files

    private func clouds() throws(ObjectStoreError) -> (file: CloudsFile, secrets: CloudsFile?)? {
        var paths = ["clouds.yaml"]
        if let home = value("HOME") { paths.append(home + "/.config/openstack/clouds.yaml") }
        paths.append("/etc/openstack/clouds.yaml")
        if let path = value("OS_CLIENT_CONFIG_FILE") { paths = [path] }
        for path in paths {
            guard let file = try parse(path) else { continue }
            let directory = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
            return (file, try parse(directory + "secure.yaml"))
        }
        return nil
    }

    private func parse(_ path: String) throws(ObjectStoreError) -> CloudsFile? {
        guard let text = text(path) else { return nil }
        // The directory one is in may be anybody's, and the file says whom to log in with.
        if !path.contains("/"), let reason = CredentialFiles.reasonForDistrust(of: path) {
            throw Self.lacking("\(path) in this directory \(reason)")
        }
        do { return try CloudsFile(parsing: text) } catch { throw Self.lacking("\(path), \(error)") }
    }

    private func cloud(_ name: String) throws(ObjectStoreError) -> Values? {
        guard let (file, secrets) = try clouds(), let node = file.cloud(name, with: secrets) else { return nil }
        var values: Values = [:]
        for source in [node["auth"], node] {
            guard case .mapping(let members)? = source else { continue }
            for (name, member) in members { if let text = member.text { values[name] = text } }
        }
        for part in ["id", "name"] where values["project_\(part)"] == nil {
            values["project_\(part)"] = values["tenant_\(part)"]
        }
        return values
    }

    private func remote(_ name: String) -> Values? {
        let path = value("RCLONE_CONFIG") ?? value("HOME").map { $0 + "/.config/rclone/rclone.conf" }
        guard let text = path.flatMap({ text($0) }), let section = CredentialFiles.sections(text)[name],
            section["type"] == "swift"
        else { return nil }
        if section["env_auth"] == "true" { return openStack }
        let names = [
            "user": "username", "user_id": "user_id", "key": "password", "auth": "auth_url",
            "domain": "user_domain_name",
            "tenant": "project_name", "tenant_id": "project_id", "tenant_domain": "project_domain_name",
            "region": "region_name", "storage_url": "storage_url", "auth_token": "auth_token",
            "application_credential_id": "application_credential_id",
            "application_credential_name": "application_credential_name",
            "application_credential_secret": "application_credential_secret", "endpoint_type": "interface",
        ]
        var values: Values = [:]
        for (theirs, ours) in names { if let value = section[theirs], !value.isEmpty { values[ours] = value } }
        // Version 0 is told by the URL.
        let version = section["auth_version"].flatMap { Int($0) } ?? 0
        let isThird = version == 3 || version == 0 && values["auth_url"]?.contains("v3") == true
        values["identity_api_version"] = isThird ? "3" : String(max(1, version))
        return values
    }

    // MARK: What they say

    private func found(_ values: Values, in origin: String) throws(ObjectStoreError) -> Found {
        Found(login: try login(values, origin), origin: origin, caFile: values["cacert"])
    }

    private func login(_ values: Values, _ origin: String) throws(ObjectStoreError) -> Login {
        if let storage = values["storage_url"], let token = values["auth_token"] {
            return .token(SwiftToken(storageURL: storage, token: Secret(token), expires: nil))
        }
        guard let url = endpoint ?? values["auth_url"] else {
            throw Self.lacking("\(origin): the login URL (auth_url) is missing")
        }
        let version = values["identity_api_version"] ?? (values["auth_type"] == "v1password" ? "1" : "3")
        if version.hasPrefix("1") {
            guard let user = values["username"], let key = values["password"] else {
                throw Self.lacking("\(origin): a username or its password is missing")
            }
            return .tempAuth(TempAuthLogin(url: url, user: user, key: Secret(key)))
        }
        guard version.hasPrefix("3") else {
            throw Self.lacking("\(origin): version \(version) of the identity service is not supported; use 3 or 1")
        }
        var login = KeystoneLogin(url: url, method: try method(values, origin))
        login.region = region ?? values["region_name"]
        if let interface = values["interface"] ?? values["endpoint_type"] {
            login.interface = interface.hasSuffix("URL") ? String(interface.dropLast(3)) : interface
        }
        login.serviceType = values["service_type"] ?? login.serviceType
        return .keystone(login)
    }

    private func method(_ values: Values, _ origin: String) throws(ObjectStoreError) -> KeystoneLogin.Method {
        let user = KeystoneLogin.Named(
            id: values["user_id"], name: values["username"],
            domainID: values["user_domain_id"] ?? values["default_domain_id"] ?? values["domain_id"],
            domainName: values["user_domain_name"] ?? values["default_domain_name"] ?? values["domain_name"])
        let hasUser = user.id != nil || user.name != nil
        if let secret = values["application_credential_secret"].map({ Secret($0) }) {
            if let id = values["application_credential_id"] { return .applicationCredential(id: id, secret: secret) }
            guard let name = values["application_credential_name"], hasUser else {
                throw Self.lacking("\(origin): an application credential needs its id, or its name and a user")
            }
            return .namedApplicationCredential(name: name, user: user, secret: secret)
        }
        guard hasUser, let password = values["password"] else {
            throw Self.lacking("\(origin): a user (username or user_id) or its password is missing")
        }
        let project = KeystoneLogin.Named(
            id: values["project_id"], name: values["project_name"],
            domainID: values["project_domain_id"] ?? values["default_domain_id"] ?? values["user_domain_id"],
            domainName: values["project_domain_name"] ?? values["default_domain_name"] ?? values["user_domain_name"])
        let hasProject = project.id != nil || project.name != nil
        return .password(user: user, password: Secret(password), project: hasProject ? project : nil)
    }

    private static func lacking(_ reason: String) -> ObjectStoreError {
        ObjectStoreError(.invalidRequest, .checkAccess, code: "Credentials", message: reason)
    }
}
