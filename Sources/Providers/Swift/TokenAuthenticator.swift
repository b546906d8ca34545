package import Basics
package import HTTP
package import ObjectStorage

/// A token and its storage URL: the result of a login.
package struct SwiftToken: Sendable {
    package var storageURL: String
    package var token: Secret
    /// nil if it does not expire.
    package var expires: Timestamp?

    package init(storageURL: String, token: Secret, expires: Timestamp?) {
        (self.storageURL, self.token, self.expires) = (storageURL, token, expires)
    }
}

/// Authenticates with a token from a login, which is made before the token is needed, again before it expires, and when it is
/// refused (OpenStack Object Storage API, authentication). One login at a time for all callers; each login returns the storage
/// URL again.
package struct TokenAuthenticator: SwiftAuthenticator {
    package typealias Login = @Sendable () async throws(ObjectStoreError) -> SwiftToken

    private static let header = "X-Auth-Token"
    private let session: RenewingCredentials

    package init(time: any TimeSource, login: @escaping Login) {
        session = RenewingCredentials(margin: .seconds(120), time: time) { () async throws(ObjectStoreError) in
            Self.credentials(try await login())
        }
    }

    /// A given token, which cannot be renewed.
    package init(fixed token: SwiftToken, time: any TimeSource) {
        session = RenewingCredentials(margin: .zero, time: time) { () in Self.credentials(token) }
    }

    private static func credentials(_ token: SwiftToken) -> Credentials {
        Credentials(accessKeyID: token.storageURL, secretKey: token.token, expires: token.expires)
    }

    package func authorize(_ head: inout SwiftRequestHead) async throws(ObjectStoreError) -> StorageAddress {
        guard let current = try await session.current() else {
            throw ObjectStoreError(
                .credentialsRejected, .checkAccess, code: "NoToken", message: "the login returned no token")
        }
        guard let address = StorageAddress(current.accessKeyID) else {
            throw ObjectStoreError(
                .malformedAnswer, .checkAccess, code: "StorageURL",
                message: "the login returned the storage URL \(current.accessKeyID), which is not a URL")
        }
        head.headers[Self.header] = current.secretKey.revealed
        return address
    }

    package func learn(
        from response: HTTPResponse, to head: SwiftRequestHead
    ) async throws(ObjectStoreError) -> Bool {
        guard let current = try await session.current() else { return false }
        // Another refused request has logged in since.
        if current.secretKey.revealed != head.headers[Self.header] { return true }
        // A token has the rights that its user had at the login.
        guard response.status == 401 else { return (try? await session.replace(current, after: .unexplained)) ?? false }
        return try await session.replace(current, after: .named)
    }
}
