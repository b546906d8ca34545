package import Basics
import Digests
package import HTTP
package import ObjectStorage

/// Credentials that end: a token file's role (EKS), the container's (ECS), the machine's (EC2).
extension S3Credentials {
    /// Every place of this chain, in botocore's order; none is anonymous access.
    package func provider(engine: HTTPEngine, time: any TimeSource) -> any CredentialsProvider {
        RenewingCredentials(time: time) { () async throws(ObjectStoreError) in try await search(engine) }
    }

    private func search(_ engine: HTTPEngine) async throws(ObjectStoreError) -> Credentials? {
        let stated = profile == nil ? ["PAILFS", "AWS"] : ["PAILFS"]
        if let found = stated.lazy.compactMap({ fromEnvironment($0) }).first { return found.credentials }
        if profile == nil, let found = try await fromWebIdentity(engine) { return found }
        // And not by what is found elsewhere, which may be somebody else's.
        if let (name, setting) = profileOfTheTools {
            throw ObjectStoreError(
                .credentialsRejected, .checkAccess, code: "NoKeysInProfile",
                message:
                    "the profile \(name) has no keys but \(setting), which only Amazon's tools can use; mount without the option "
                    + "profile, with the variables that \"aws configure export-credentials --profile \(name) --format env\" prints"
            )
        }
        if let found = find() { return found.credentials }
        if let name = missingProfile {
            throw ObjectStoreError(
                .credentialsRejected, .checkAccess, code: "NoProfile",
                message: "the profile \(name) is neither in ~/.aws/credentials nor in ~/.aws/config; check its name")
        }
        if let found = try await fromContainer(engine) { return found }
        return try await CredentialService.ifThere { () async throws(ObjectStoreError) in
            try await fromMachine(engine)
        }
    }

    private func value(_ name: String) -> String? { environment[name].flatMap { $0.isEmpty ? nil : $0 } }

    private func token(_ path: String) throws(ObjectStoreError) -> String {
        guard let text = text(path) else {
            throw ObjectStoreError(
                .credentialsRejected, .checkAccess, code: "NoTokenFile",
                message: "the token file \(path) cannot be read")
        }
        return text.trimmed
    }

    /// AssumeRoleWithWebIdentity (AWS STS API reference), which is not signed.
    private func fromWebIdentity(_ engine: HTTPEngine) async throws(ObjectStoreError) -> Credentials? {
        guard let file = value("AWS_WEB_IDENTITY_TOKEN_FILE"), let role = value("AWS_ROLE_ARN") else { return nil }
        let form = [
            QueryItem("Action", "AssumeRoleWithWebIdentity"), QueryItem("Version", "2011-06-15"),
            QueryItem("RoleArn", role), QueryItem("RoleSessionName", value("AWS_ROLE_SESSION_NAME") ?? "pailfs"),
            QueryItem("WebIdentityToken", try token(file)),
        ]
        let host = region.map { "sts.\($0).amazonaws.com\($0.hasPrefix("cn-") ? ".cn" : "")" } ?? "sts.amazonaws.com"
        let service = CredentialService(engine: engine, name: "the token service of AWS", isLocal: false)
        let body = try await service.ask(
            .post, value("AWS_ENDPOINT_URL_STS") ?? "https://\(host)/",
            form: form.map(\.text).joined(separator: "&"))
        do { return try Self.assumed(body) } catch { throw service.unusable("cannot be read: \(error)") }
    }

    private static func assumed(_ body: [UInt8]) throws(XMLError) -> Credentials {
        var fields: [String: String] = [:]
        var reader = XMLReader(body)
        try reader.root { reader, _ throws(XMLError) in
            try reader.elements { reader, name throws(XMLError) in
                guard name == "AssumeRoleWithWebIdentityResult" else { return }
                try reader.elements { reader, name throws(XMLError) in
                    guard name == "Credentials" else { return }
                    try reader.elements { reader, name throws(XMLError) in fields[name] = try reader.text() }
                }
            }
        }
        guard let id = fields["AccessKeyId"], let secret = fields["SecretAccessKey"] else {
            throw XMLError(offset: body.count, reason: "no pair of keys")
        }
        return Credentials(
            accessKeyID: id, secretKey: Secret(secret), sessionToken: fields["SessionToken"].map { Secret($0) },
            expires: fields["Expiration"].flatMap { Timestamp(iso8601: $0) })
    }

    /// The container's host (Amazon ECS "Task IAM role", EKS "Pod Identity").
    private func fromContainer(_ engine: HTTPEngine) async throws(ObjectStoreError) -> Credentials? {
        var headers = HTTPHeaders()
        let url: String
        if let path = value("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
            url = "http://169.254.170.2\(path)"
        } else if let whole = value("AWS_CONTAINER_CREDENTIALS_FULL_URI") {
            guard Self.mayBeTold(whole) else {
                throw ObjectStoreError(
                    .invalidRequest, .checkAccess, code: "CredentialService",
                    message: "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor a container's host: \(whole)")
            }
            url = whole
        } else {
            return nil
        }
        if let file = value("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
            headers["Authorization"] = try token(file)
        } else if let token = value("AWS_CONTAINER_AUTHORIZATION_TOKEN") {
            headers["Authorization"] = token
        }
        let service = CredentialService(engine: engine, name: "the container's host")
        return try service.credentials(try await service.ask(.get, url, headers))
    }

    /// A token must not go to any host in the clear (s3.md section 7).
    private static func mayBeTold(_ url: String) -> Bool {
        let host = FamilyEndpoint.host(of: url)
        return url.hasPrefix("https://") || FamilyEndpoint.isThisMachine(host)
            || ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", "[::1]"].contains(host)
    }

    /// The instance metadata service, version 2.
    private func fromMachine(_ engine: HTTPEngine) async throws(ObjectStoreError) -> Credentials? {
        guard value("AWS_EC2_METADATA_DISABLED")?.lowercased() != "true" else { return nil }
        var base = value("AWS_EC2_METADATA_SERVICE_ENDPOINT") ?? "http://169.254.169.254"
        while base.hasSuffix("/") { base.removeLast() }
        let service = CredentialService(engine: engine, name: "the machine's metadata service")
        let ttl = HTTPHeaders([("X-aws-ec2-metadata-token-ttl-seconds", "21600")])
        let token = try await service.text(.put, "\(base)/latest/api/token", ttl)
        let headers = HTTPHeaders([("X-aws-ec2-metadata-token", token)])
        let path = "\(base)/latest/meta-data/iam/security-credentials/"
        guard let role = try await service.text(.get, path, headers).split(whereSeparator: \.isNewline).first else {
            return nil
        }
        return try service.credentials(
            try await service.ask(.get, path + PercentEncoding.encode(String(role)), headers))
    }
}
