import Basics
import HTTP
import ObjectStorage
import Providers
import Settings

extension StoreMaker {
    /// Who requests are signed as.
    struct Identity: Sendable {
        /// Public, unlike what belongs to it; nil where users log in another way.
        var keyID: String?
        /// Where it was found, for messages.
        var origin: String
    }

    /// nil when nothing has credentials: requests are anonymous then. May ask this machine's services for a role's.
    func identity() async throws(ObjectStoreError) -> Identity? {
        if let id = request.environment["PAILFS_ACCESS_KEY_ID"], !id.isEmpty {
            return Identity(keyID: id, origin: "PAILFS_ACCESS_KEY_ID")
        }
        let (environment, profile, bucket) = (request.environment, settings.profile, request.bucket ?? "")
        switch request.scheme {
        case .s3:
            let sources = S3Credentials(environment: environment, profile: profile, bucket: bucket, text: text)
            return try await identity(
                sources.provider(engine: engine, time: time), found: sources.find()?.origin ?? "a role of this machine")
        case .oss:
            let sources = OSSCredentials(environment: environment, profile: profile, bucket: bucket, text: text)
            return try await identity(
                sources.provider(engine: engine, time: time), found: "the credentials of OSS's tools, or a role")
        case .cos:
            let sources = COSCredentials(environment: environment, profile: profile, bucket: bucket, text: text)
            let isHere = sources.find() != nil
            return try await identity(
                sources.provider(engine: engine, time: time),
                found: isHere ? "the credentials of COS's tools" : "a role of this machine")
        case .kodo:
            return KodoCredentials(environment: environment, profile: profile, text: text).find().map {
                Identity(keyID: $0.credentials.accessKeyID, origin: $0.origin)
            }
        case .cssp:
            return CSSPCredentials(environment: environment).find().map {
                Identity(keyID: $0.credentials.accessKeyID, origin: $0.origin)
            }
        case .swift:
            let sources = SwiftCredentials(
                environment: environment, profile: profile, endpoint: settings.authURL ?? settings.endpoint,
                region: settings.region, text: text)
            return try sources.find().map { Identity(keyID: nil, origin: $0.origin) }
        }
    }

    private func identity(
        _ provider: any CredentialsProvider, found origin: String
    ) async throws(ObjectStoreError) -> Identity? {
        try await provider.current().map { Identity(keyID: $0.accessKeyID, origin: origin) }
    }
}

extension Composition {
    /// Who a mount of the request would be to its store; nil is nobody.
    static func identity(of request: MountRequest) async throws(ObjectStoreError) -> StoreMaker.Identity? {
        try await StoreMaker(request: request, engine: HTTPEngine(httpOptions(request.settings)), time: SystemTime())
            .identity()
    }
}
