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
        if request.scheme == .swift {
            return try request.swiftCredentials().find().map { Identity(keyID: nil, origin: $0.origin) }
        }
        return try await found().map { Identity(keyID: $0.credentials.accessKeyID, origin: $0.origin) }
    }
}

extension Composition {
    /// Who a mount of the request would be to its store; nil is nobody.
    static func identity(of request: MountRequest) async throws(ObjectStoreError) -> StoreMaker.Identity? {
        try await StoreMaker(request: request, engine: HTTPEngine(httpOptions(request)), time: SystemTime())
            .identity()
    }
}
