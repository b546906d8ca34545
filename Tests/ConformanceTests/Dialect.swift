import Basics
import HTTP
import ObjectStorage
import Providers

/// The dialects that pailstore speaks, and the store that speaks each.
enum Dialect: String, CaseIterable, Sendable {
    case s3

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
        case .s3:
            var settings = FamilyStore.Settings(bucket: wish.bucket, .generic)
            settings.endpoint = wish.server.endpoint
            settings.region = wish.region
            return try FamilyStore(
                settings, credentials: wish.credentials, engine: wish.server.engine, time: wish.time)
        }
    }
}
