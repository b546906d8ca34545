import ObjectStorage
import Providers
import Settings

/// Where the credentials of a request come from. Each call reads the option's file again: it may have been replaced while the
/// bucket is mounted.
extension MountRequest {
    /// The environment, or in its place the contents of the file of credentials-file.
    func credentialEnvironment() throws(ObjectStoreError) -> [String: String] {
        guard let path = settings.credentialsFile else { return environment }
        if let profile = settings.profile {
            throw ObjectStoreError(
                .invalidRequest, .checkAccess, code: "TwoSources",
                message: "credentials-file and the profile \(profile) are set; set one of them")
        }
        return try CredentialsFile(path, for: scheme, bucket: bucket ?? "").applied(to: environment)
    }

    func s3Credentials() throws(ObjectStoreError) -> S3Credentials {
        S3Credentials(
            environment: try credentialEnvironment(), profile: settings.profile, bucket: bucket ?? "",
            region: settings.region, text: credentialText)
    }

    func ossCredentials() throws(ObjectStoreError) -> OSSCredentials {
        OSSCredentials(
            environment: try credentialEnvironment(), profile: settings.profile, bucket: bucket ?? "",
            text: credentialText)
    }

    func cosCredentials() throws(ObjectStoreError) -> COSCredentials {
        COSCredentials(
            environment: try credentialEnvironment(), profile: settings.profile, bucket: bucket ?? "",
            text: credentialText)
    }

    func kodoCredentials() throws(ObjectStoreError) -> KodoCredentials {
        KodoCredentials(environment: try credentialEnvironment(), profile: settings.profile, text: credentialText)
    }

    func csspCredentials() throws(ObjectStoreError) -> CSSPCredentials {
        CSSPCredentials(environment: try credentialEnvironment(), profile: settings.profile)
    }

    func swiftCredentials() throws(ObjectStoreError) -> SwiftCredentials {
        SwiftCredentials(
            environment: try credentialEnvironment(), profile: settings.profile,
            endpoint: settings.authURL ?? settings.endpoint, region: settings.region, text: credentialText)
    }
}

extension StoreMaker {
    /// The first credentials that a source of the store has, and their source; nil when none has: requests are anonymous then.
    /// May send requests to services of this machine, and run a program that a profile names.
    func found() async throws(ObjectStoreError) -> FoundCredentials? {
        var found: FoundCredentials?
        switch request.scheme {
        case .s3: found = try await request.s3Credentials().find(engine, time)
        case .oss: found = try await request.ossCredentials().find(engine, time)
        case .cos: found = try await request.cosCredentials().find(engine, time)
        case .kodo: found = try request.kodoCredentials().find()
        case .cssp: found = try request.csspCredentials().find()
        case .swift: break
        }
        if let file = settings.credentialsFile { found?.origin += " in \(file)" }
        return found
    }

    /// The credentials for a mount's requests: searched for before the first request, before they expire, and when the store
    /// refuses them.
    func credentials() -> any CredentialsProvider {
        RenewingCredentials(time: time) { [self] () async throws(ObjectStoreError) in try await found()?.credentials }
    }
}
