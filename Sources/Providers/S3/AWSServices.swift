import Basics
import Digests
import HTTP
import ObjectStorage

/// The services that issue Amazon's temporary credentials: the container's host, the machine, and for a token of an
/// orchestrator the token service.
struct AWSServices: Sendable {
    let engine: HTTPEngine
    let time: any TimeSource
    let sources: S3Credentials

    var variables: CredentialVariables { sources.variables }

    func token(_ path: String) throws(ObjectStoreError) -> String {
        guard let text = sources.text(sources.expanded(path)) else { throw CredentialProblem.noTokenFile(path) }
        return text.trimmed
    }

    /// The container's host (Amazon ECS "Task IAM role", EKS "Pod Identity").
    func fromContainer() async throws(ObjectStoreError) -> FoundCredentials? {
        var headers = HTTPHeaders()
        let url: String
        let name: String
        if let path = variables["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] {
            (url, name) = ("http://169.254.170.2\(path)", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        } else if let whole = variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] {
            guard Self.mayBeTold(whole) else {
                throw ObjectStoreError(
                    .invalidRequest, .checkAccess, code: "CredentialService",
                    message: "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor a container's host: \(whole)")
            }
            (url, name) = (whole, "AWS_CONTAINER_CREDENTIALS_FULL_URI")
        } else {
            return nil
        }
        if let file = variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] {
            headers["Authorization"] = try token(file)
        } else if let token = variables["AWS_CONTAINER_AUTHORIZATION_TOKEN"] {
            headers["Authorization"] = token
        }
        let service = CredentialService(engine: engine, name: "the container's host")
        return FoundCredentials(try service.credentials(try await service.ask(.get, url, headers)), name)
    }

    /// The token must not be sent unencrypted to any other host (botocore, "Credentials").
    private static func mayBeTold(_ url: String) -> Bool {
        let host = FamilyEndpoint.host(of: url)
        return url.hasPrefix("https://") || FamilyEndpoint.isThisMachine(host)
            || ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", "[::1]"].contains(host)
    }

    /// The instance metadata service: version 2, or 1 where the request for a token is refused or its answer does not arrive (a
    /// container's network is one hop too many).
    func fromMachine() async throws(ObjectStoreError) -> Credentials? {
        guard variables["AWS_EC2_METADATA_DISABLED"]?.lowercased() != "true" else { return nil }
        let values = sources.profiles.profiles[sources.section] ?? [:]
        let mode = variables["AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"] ?? values["ec2_metadata_service_endpoint_mode"]
        let isNew =
            mode.map { $0.lowercased() == "ipv6" }
            ?? ((variables["AWS_IMDS_USE_IPV6"] ?? values["imds_use_ipv6"])?.lowercased() == "true")
        let usual = isNew ? "http://[fd00:ec2::254]" : "http://169.254.169.254"
        var base = variables["AWS_EC2_METADATA_SERVICE_ENDPOINT"] ?? values["ec2_metadata_service_endpoint"] ?? usual
        while base.hasSuffix("/") { base.removeLast() }
        let service = CredentialService(engine: engine, name: "the machine's metadata service")
        let ttl = HTTPHeaders([("X-aws-ec2-metadata-token-ttl-seconds", "21600")])
        var headers = HTTPHeaders()
        do throws(ObjectStoreError) {
            headers["X-aws-ec2-metadata-token"] = try await service.text(.put, "\(base)/latest/api/token", ttl)
        } catch {
            let isAway = [.timedOut, .interrupted].contains(error.kind)
            guard isAway || error.status.map({ [403, 404, 405].contains($0) }) ?? false else { throw error }
            let isDisabled = variables["AWS_EC2_METADATA_V1_DISABLED"] ?? values["ec2_metadata_v1_disabled"]
            guard isDisabled?.lowercased() != "true" else { throw error }
        }
        let path = "\(base)/latest/meta-data/iam/security-credentials/"
        guard let role = try await service.text(.get, path, headers).split(whereSeparator: \.isNewline).first else {
            return nil
        }
        return try service.credentials(
            try await service.ask(.get, path + PercentEncoding.encode(String(role)), headers))
    }

    // MARK: The token service

    /// AssumeRoleWithWebIdentity (AWS STS API reference), a request that is not signed.
    func webIdentity(
        file: String, role: String, session: String?, origin: String
    ) async throws(ObjectStoreError) -> FoundCredentials {
        let items = [
            QueryItem("Action", "AssumeRoleWithWebIdentity"), QueryItem("Version", "2011-06-15"),
            QueryItem("RoleArn", role), QueryItem("RoleSessionName", session ?? "pailfs"),
            QueryItem("WebIdentityToken", try token(file)),
        ]
        return FoundCredentials(try await ask(items, signedWith: nil), origin)
    }

    /// A role and a profile's settings for it.
    struct Role: Sendable {
        var arn: String
        var session: String?
        var externalID: String?
        var seconds: String?
    }

    /// AssumeRole, signed with other credentials.
    func assume(_ role: Role, with credentials: Credentials) async throws(ObjectStoreError) -> Credentials {
        var items = [
            QueryItem("Action", "AssumeRole"), QueryItem("Version", "2011-06-15"), QueryItem("RoleArn", role.arn),
            QueryItem("RoleSessionName", role.session ?? "pailfs"),
        ]
        if let id = role.externalID { items.append(QueryItem("ExternalId", id)) }
        if let seconds = role.seconds, Int(seconds) != nil { items.append(QueryItem("DurationSeconds", seconds)) }
        return try await ask(items, signedWith: credentials)
    }

    private func ask(
        _ items: [QueryItem], signedWith credentials: Credentials?
    ) async throws(ObjectStoreError) -> Credentials {
        let region = sources.serviceRegion
        let host = region.map { "sts.\($0).amazonaws.com\($0.hasPrefix("cn-") ? ".cn" : "")" } ?? "sts.amazonaws.com"
        var url = sources.endpoint(of: "sts") ?? "https://\(host)"
        while url.hasSuffix("/") { url.removeLast() }
        let form = items.map(\.text).joined(separator: "&")
        var headers = HTTPHeaders()
        if let credentials {
            let place = try FamilyEndpoint.Place(url)
            let authority = HTTPOrigin(isSecure: place.isSecure, host: place.host, port: place.port).authority
            headers["Host"] = authority
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            let request = SignedRequest(
                .post, host: authority, path: "/", bucket: nil, key: nil, payload: .sha256(SHA256.of(form)),
                region: region ?? "us-east-1", at: time.now())
            SigV4Signer(service: "sts").sign(&headers, request, with: credentials)
        }
        let service = CredentialService(engine: engine, name: "the token service of AWS", isLocal: false)
        let body = try await service.ask(.post, url + "/", headers, form: form)
        do { return try Self.assumed(body) } catch { throw service.unusable("cannot be read: \(error)") }
    }

    private static func assumed(_ body: [UInt8]) throws(XMLError) -> Credentials {
        var fields: [String: String] = [:]
        var reader = XMLReader(body)
        try reader.root { reader, _ throws(XMLError) in
            try reader.elements { reader, name throws(XMLError) in
                guard name.hasSuffix("Result") else { return }
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
}
