import Basics
import HTTP
import ObjectStorage
import Providers

/// The dialects that servers of tests speak, and the store that speaks each.
enum Dialect: String, CaseIterable, Sendable {
    case s3
    case oss
    case cos
    case kodo
    case cssp
    /// OpenStack's, which only a server of its own speaks.
    case swift

    /// A store as a test wants it.
    struct Wish {
        let server: Server
        let bucket: String
        let credentials: FixedCredentials
        let region: String?
        let time: any TimeSource
    }

    func makeStore(_ wish: Wish) throws -> any ObjectStore {
        switch self {
        case .s3: return try member(.generic, wish)
        case .oss: return try member(.oss, wish)
        // Copies name the host of the source's bucket, and that its region.
        case .cos: return try member(.cos, wish, region: "ap-guangzhou")
        case .cssp:
            var settings = SwiftStore.Settings(container: wish.bucket)
            settings.profile = .cssp
            settings.smallestPart = 1 << 20
            return SwiftStore(
                settings, authenticator: try authenticator(wish), engine: wish.server.engine, time: wish.time)
        case .swift:
            var settings = SwiftStore.Settings(container: wish.bucket)
            settings.temporaryURLKey = Secret(RealSwift.temporaryURLKey)
            return SwiftStore(
                settings, authenticator: try authenticator(wish), engine: wish.server.engine, time: wish.time)
        case .kodo:
            var settings = KodoStore.Settings(bucket: wish.bucket)
            settings.client.endpoint = wish.server.endpoint
            settings.client.region = wish.region
            return try KodoStore(
                settings, credentials: wish.credentials, engine: wish.server.engine, time: wish.time)
        }
    }

    /// Who vouches for requests to a Swift-shaped store.
    func authenticator(_ wish: Wish) throws -> any SwiftAuthenticator {
        let server = wish.server
        guard self == .swift else {
            let address = try CSSPCredentials(environment: [:]).address(of: wish.bucket, endpoint: server.endpoint)
            return CSSPAuthenticator(address, credentials: wish.credentials, time: wish.time)
        }
        guard let user = wish.credentials.current() else { throw CancellationError() }
        let login = TempAuthLogin(
            url: "\(server.endpoint)/auth/v1.0", user: user.accessKeyID, key: user.secretKey)
        let (engine, time) = (server.engine, wish.time)
        return TokenAuthenticator(time: time) { () async throws(ObjectStoreError) in
            try await login.token(engine, time)
        }
    }

    /// A store of the S3-shaped family.
    private func member(_ profile: FamilyProfile, _ wish: Wish, region: String? = nil) throws -> FamilyStore {
        var settings = FamilyStore.Settings(bucket: wish.bucket, profile)
        settings.endpoint = wish.server.endpoint
        settings.region = wish.region ?? region
        return try FamilyStore(settings, credentials: wish.credentials, engine: wish.server.engine, time: wish.time)
    }
}
