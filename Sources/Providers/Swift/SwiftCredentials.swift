package import Basics
package import HTTP
package import ObjectStorage

/// The places where Swift's users keep their logins (documentation of python-openstackclient): pailfs's own variables, the
/// environment of OpenStack's programs, that of auth version 1, clouds.yaml, rclone's configuration.
package struct SwiftCredentials: Sendable {
    package enum Login: Sendable {
        case tempAuth(TempAuthLogin)
        case keystone(KeystoneLogin)
        /// A token that cannot be renewed.
        case token(SwiftToken)
    }

    /// A login, and its source for messages.
    package struct Found: Sendable {
        package var login: Login
        package var origin: String
        /// A PEM file of certificates to trust, where the source names one.
        package var caFile: String?
        /// The certificate that this machine presents to servers which ask for one.
        package var clientCertificate: ClientCertificate?
        /// The source's values, for `ToolSetting`.
        package var values: [String: String]

        package init(
            login: Login, origin: String, caFile: String? = nil, clientCertificate: ClientCertificate? = nil,
            values: [String: String] = [:]
        ) {
            (self.login, self.origin, self.caFile) = (login, origin, caFile)
            (self.clientCertificate, self.values) = (clientCertificate, values)
        }

        /// Returns the token, after a login if necessary.
        package func token(_ engine: HTTPEngine, time: any TimeSource) async throws(ObjectStoreError) -> SwiftToken {
            switch login {
            case .tempAuth(let login): try await login.token(engine, time)
            case .keystone(let login): try await login.token(engine)
            case .token(let token): token
            }
        }
    }

    /// A source's settings by the names of OpenStack's variables without `OS_`, in lower case.
    typealias Values = [String: String]

    private let environment: [String: String]
    private let profile: String?
    private let endpoint: String?
    private let region: String?
    private let text: @Sendable (String) -> String?

    /// `profile` is a cloud of clouds.yaml or a remote of rclone's; `endpoint`, the login URL, and `region` replace the
    /// source's. `text` returns the text of a file, nil when it cannot be read.
    package init(
        environment: [String: String], profile: String?, endpoint: String? = nil, region: String? = nil,
        text: @escaping @Sendable (String) -> String? = CredentialFiles.readText
    ) {
        (self.environment, self.profile, self.endpoint) = (environment, profile, endpoint)
        (self.region, self.text) = (region, text)
    }

    /// The first source with a login; nil when none has one. Throws when a source is incomplete, with what is missing.
    package func find() throws(ObjectStoreError) -> Found? {
        if let profile {
            if let values = try cloud(profile) { return try found(values, in: "the cloud \(profile) of clouds.yaml") }
            if let values = remote(profile) { return try found(values, in: "the remote \(profile) of rclone.conf") }
            throw Self.lacking(
                "the profile \(profile) is neither a cloud of clouds.yaml nor a Swift remote of rclone.conf; check its name"
            )
        }
        let variables = CredentialVariables(environment: environment)
        if let own = try variables.pair("PAILFS_ACCESS_KEY_ID", "PAILFS_SECRET_ACCESS_KEY") {
            let (user, key) = (own.credentials.accessKeyID, own.credentials.secretKey)
            try own.credentials.requireUsable()
            guard let url = endpoint ?? value("ST_AUTH") else {
                throw Self.lacking("PAILFS_ACCESS_KEY_ID is set, but the login URL is not; set auth-url")
            }
            let login = TempAuthLogin(url: url, user: user, key: key)
            return Found(login: .tempAuth(login), origin: "PAILFS_ACCESS_KEY_ID")
        }
        if let name = value("OS_CLOUD") {
            guard let values = try cloud(name) else {
                throw Self.lacking("OS_CLOUD names \(name), but no clouds.yaml has that cloud")
            }
            return try found(values, in: "the cloud \(name) of clouds.yaml")
        }
        if value("OS_AUTH_URL") != nil || value("OS_STORAGE_URL") != nil && value("OS_AUTH_TOKEN") != nil {
            return try found(openStack, in: Self.variables)
        }
        if let url = endpoint ?? value("ST_AUTH"), let pair = try variables.pair("ST_USER", "ST_KEY") {
            try pair.credentials.requireUsable()
            guard value("ST_AUTH_VERSION").map({ $0.hasPrefix("1") }) ?? true else {
                throw Self.lacking("ST_AUTH_VERSION is not 1; set the OS_ variables for other versions")
            }
            return Found(
                login: .tempAuth(
                    TempAuthLogin(url: url, user: pair.credentials.accessKeyID, key: pair.credentials.secretKey)),
                origin: "ST_USER")
        }
        guard let only = try clouds()?.file.onlyCloud, let values = try cloud(only) else { return nil }
        return try found(values, in: "the cloud \(only) of clouds.yaml")
    }

    /// The file of certificates, from the variables or the cloud.
    package var authorities: (path: String, origin: String)? {
        if profile == nil, let path = value("OS_CACERT") { return (path, "OS_CACERT") }
        guard let found = try? find(), let path = found.caFile else { return nil }
        return (path, "cacert of \(found.origin)")
    }

    /// The certificate of this machine, from the variables or the cloud.
    package var clientCertificate: ClientCertificate? {
        guard let found = try? find() else { return nil }
        if profile == nil, let path = value("OS_CERT") {
            return ClientCertificate(file: path, keyFile: value("OS_KEY"))
        }
        return found.clientCertificate
    }

    /// For `ToolSetting`: the environment, and the cloud's values.
    package var toolSettings: [ToolSetting.Source] {
        let variables = ToolSetting.Source(.variable, "", environment)
        guard let found = try? find(), profile != nil || found.origin != Self.variables else { return [variables] }
        return [variables, ToolSetting.Source(.cloud, found.origin, found.values)]
    }

    private static let variables = "the OS_ variables"

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

    /// The directories that openstacksdk searches, first the working directory.
    private var directories: [String] {
        var directories = [""]
        if let own = value("XDG_CONFIG_HOME"), own.hasPrefix("/") { directories.append(own + "/openstack/") }
        if let home = value("HOME") { directories.append(home + "/.config/openstack/") }
        return directories + ["/etc/xdg/openstack/", "/etc/openstack/"]
    }

    private func places(_ name: String) -> [String] {
        directories.flatMap { place in ["yaml", "yml", "json"].map { "\(place)\(name).\($0)" } }
    }

    /// The files that are searched for logins, for messages.
    package var files: [String] { value("OS_CLIENT_CONFIG_FILE").map { [$0] } ?? places("clouds") }

    /// The first existing file of clouds, with the secrets beside it.
    private func clouds() throws(ObjectStoreError) -> (file: CloudsFile, secrets: CloudsFile?)? {
        let named = value("OS_CLIENT_CONFIG_FILE")
        if let named, text(named) == nil {
            throw Self.lacking("OS_CLIENT_CONFIG_FILE names \(named), which cannot be read; correct it")
        }
        for path in named.map({ [$0] }) ?? places("clouds") {
            guard let file = try parse(path) else { continue }
            let directory = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
            let beside = ["yaml", "yml", "json"].map { "\(directory)secure.\($0)" }
            return (file, try first(of: value("OS_CLIENT_SECURE_FILE").map { [$0] } ?? beside + places("secure")))
        }
        return nil
    }

    private func first(of paths: [String]) throws(ObjectStoreError) -> CloudsFile? {
        for path in paths { if let file = try parse(path) { return file } }
        return nil
    }

    private func parse(_ path: String) throws(ObjectStoreError) -> CloudsFile? {
        guard let text = text(path) else { return nil }
        // The working directory may belong to any user, and the file determines the login server.
        if !path.contains("/"), let reason = CredentialFiles.reasonForDistrust(of: path) {
            throw Self.lacking("\(path) in this directory \(reason)")
        }
        do { return try CloudsFile(parsing: text) } catch { throw Self.lacking("\(path), \(error)") }
    }

    private func cloud(_ name: String) throws(ObjectStoreError) -> Values? {
        guard let (file, secrets) = try clouds(), var node = file.cloud(name, with: secrets) else { return nil }
        if let vendor = node["profile"]?.text ?? node["cloud"]?.text {
            let base = try first(of: value("OS_CLIENT_VENDOR_FILE").map { [$0] } ?? places("clouds-public"))?.vendor(
                vendor)
            if let base { node = base.merged(with: node) }
            guard node["auth"]?["auth_url"]?.text ?? node["auth_url"]?.text != nil else {
                throw Self.lacking(
                    "the cloud \(name) leaves its auth_url to the vendor profile \(vendor); write auth_url into its auth"
                )
            }
        }
        if let chosen = try region(of: node, name) { node = node.merged(with: chosen) }
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

    /// The values of the wanted region in a list of regions, or of the first.
    private func region(of cloud: CloudsFile.Node, _ name: String) throws(ObjectStoreError) -> CloudsFile.Node? {
        let regions = (cloud["regions"]?.items ?? []) + (cloud["region_name"]?.items ?? [])
        let names = regions.compactMap { $0.text ?? $0["name"]?.text }
        guard let first = names.first else { return nil }
        let wanted = region ?? value("OS_REGION_NAME") ?? cloud["region_name"]?.text ?? first
        guard let index = names.firstIndex(of: wanted) else {
            // The mount's option precedes the file.
            if region != nil { return nil }
            throw Self.lacking(
                "the cloud \(name) has no region \(wanted), only \(names.joined(separator: ", ")); set one of them")
        }
        let values = regions[index]["values"] ?? .mapping([:])
        return values.merged(with: .mapping(["region_name": .scalar(wanted)]))
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
        // Version 0: the URL shows the version.
        let version = section["auth_version"].flatMap { Int($0) } ?? 0
        let isThird = version == 3 || version == 0 && values["auth_url"]?.contains("v3") == true
        values["identity_api_version"] = isThird ? "3" : String(max(1, version))
        return values
    }

    // MARK: What they say

    private func found(_ values: Values, in origin: String) throws(ObjectStoreError) -> Found {
        let certificate = values["cert"].map { ClientCertificate(file: $0, keyFile: values["key"]) }
        return Found(
            login: try login(values, origin), origin: origin, caFile: values["cacert"],
            clientCertificate: certificate, values: values)
    }

    private func login(_ values: Values, _ origin: String) throws(ObjectStoreError) -> Login {
        if let storage = values["storage_url"], let token = values["auth_token"] {
            return .token(SwiftToken(storageURL: storage, token: Secret(token), expires: nil))
        }
        guard let url = endpoint ?? values["auth_url"] else {
            throw Self.lacking("\(origin): the login URL (auth_url) is missing")
        }
        let version =
            values["identity_api_version"] ?? values["auth_version"]
            ?? (values["auth_type"] == "v1password" ? "1" : "3")
        if version.hasPrefix("1") {
            guard let user = values["username"], let key = values["password"] else {
                throw Self.lacking("\(origin): a username or its password is missing")
            }
            try Credentials(accessKeyID: user, secretKey: Secret(key)).requireUsable()
            return .tempAuth(
                TempAuthLogin(url: url, user: user, key: Secret(key), storageURL: values["storage_url"]))
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
        // swiftclient also accepts a storage URL here, in place of the catalog's.
        login.storageURL =
            values["object_store_endpoint_override"] ?? values["object_store_endpoint"] ?? values["storage_url"]
        return .keystone(login)
    }

    private func method(_ values: Values, _ origin: String) throws(ObjectStoreError) -> KeystoneLogin.Method {
        let type = values["auth_type"] ?? values["auth_plugin"] ?? "password"
        guard ["password", "v3password", "v3applicationcredential", "token", "v3token"].contains(type) else {
            throw Self.lacking(
                "\(origin): the auth_type \(type) is not supported; use password, v3applicationcredential or token")
        }
        let user = KeystoneLogin.Named(
            id: values["user_id"], name: values["username"],
            domainID: values["user_domain_id"] ?? values["default_domain_id"] ?? values["domain_id"]
                ?? values["default_domain"],
            domainName: values["user_domain_name"] ?? values["default_domain_name"] ?? values["domain_name"])
        let hasUser = user.id != nil || user.name != nil
        if let secret = values["application_credential_secret"].map({ Secret($0) }) {
            if let id = values["application_credential_id"] { return .applicationCredential(id: id, secret: secret) }
            guard let name = values["application_credential_name"], hasUser else {
                throw Self.lacking("\(origin): an application credential needs its id, or its name and a user")
            }
            return .namedApplicationCredential(name: name, user: user, secret: secret)
        }
        let project = KeystoneLogin.Named(
            id: values["project_id"], name: values["project_name"],
            domainID: values["project_domain_id"] ?? values["default_domain_id"] ?? values["user_domain_id"]
                ?? values["default_domain"],
            domainName: values["project_domain_name"] ?? values["default_domain_name"] ?? values["user_domain_name"])
        let scope = project.id != nil || project.name != nil ? project : nil
        if type.hasSuffix("token") {
            guard let token = values["token"] ?? values["auth_token"] else {
                throw Self.lacking("\(origin): the token of the auth_type \(type) is missing")
            }
            return .token(Secret(token), project: scope)
        }
        guard hasUser, let password = values["password"] else {
            throw Self.lacking("\(origin): a user (username or user_id) or its password is missing")
        }
        return .password(user: user, password: Secret(password), project: scope)
    }

    private static func lacking(_ reason: String) -> ObjectStoreError {
        ObjectStoreError(.invalidRequest, .checkAccess, code: "Credentials", message: reason)
    }
}
