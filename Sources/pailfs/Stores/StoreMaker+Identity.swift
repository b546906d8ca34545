import Basics
import HTTP
import ObjectStorage
import Providers
import Settings

extension StoreMaker {
    /// The identity with which requests are signed.
    struct Identity: Sendable {
        /// The key ID, which is not secret; nil where users log in another way.
        var keyID: String?
        /// The source of the credentials, for messages.
        var origin: String
    }

    /// nil when no source has credentials: requests are anonymous then. May send requests to this machine's services for a role's
    /// credentials.
    func identity() async throws(ObjectStoreError) -> Identity? {
        if request.scheme == .swift {
            return try request.swiftCredentials().find().map { Identity(keyID: nil, origin: $0.origin) }
        }
        return try await found().map { Identity(keyID: $0.credentials.accessKeyID, origin: $0.origin) }
    }
}

extension Composition {
    /// The identity that a mount of the request would have at its store; nil if anonymous.
    static func identity(of request: MountRequest) async throws(ObjectStoreError) -> StoreMaker.Identity? {
        try await StoreMaker(request: request, engine: HTTPEngine(httpOptions(request)), time: SystemTime())
            .identity()
    }
}
